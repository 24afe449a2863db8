//! `watermaster recordings`: what a controller has recorded, and what of it is kept.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::Value;
use wire::client::ClientError;

use super::{Plain, Target, answer, block_on, failed, table};
use crate::failure::{Failure, print};

/// Show what a controller has recorded, or keep a recording
///
/// Old records are removed to make room for new ones. What is pinned stays until it is unpinned: of the recording
/// that runs what there is until then. It is in the folder `pinned` of the recorder's.
#[derive(Args)]
#[command(
    after_help = "Example:\n  watermaster recordings list\n  watermaster recordings pin epoch-000003"
)]
pub(crate) struct Recordings {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show what is recorded
    List(Plain),
    /// Keep what there is of a recording
    Pin(One),
    /// Let a recording go
    Unpin(One),
}

#[derive(Args)]
struct One {
    /// Its name, such as epoch-000003
    recording: String,

    #[command(flatten)]
    plain: Plain,
}

impl Recordings {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let (method, name, plain) = match self.what {
            What::List(plain) => (Method::GET, None, plain),
            What::Pin(One { recording, plain }) => (Method::PUT, Some(recording), plain),
            What::Unpin(One { recording, plain }) => (Method::DELETE, Some(recording), plain),
        };
        let path = match name {
            Some(name) if model::is_name(&name) && !name.contains(['/', '?', '#', '%']) => {
                format!("/v1/recordings/{name}/pin")
            }
            Some(_) => {
                let remedy = "RECORDING: is no recording's name; write one like epoch-000003";
                return Err(Failure::misused(remedy));
            }
            None => "/v1/recordings".to_owned(),
        };
        let said = block_on(ask(&plain.target, method, &path))?;
        if plain.json {
            let text = serde_json::to_string_pretty(&said).map_err(Failure::failed)?;
            print(&(text + "\n"))?;
        } else {
            print(&page(&said))?;
        }
        match said["warning"].as_str() {
            Some(warning) => Err(Failure::failed(warning)),
            None => Ok(()),
        }
    }
}

async fn ask(target: &Target, method: Method, path: &str) -> Result<Value, Failure> {
    let mut client = target.connect().await?;
    let (status, said) = answer(client.ask(method, path, Vec::new())).await?.map_err(failed)?;
    if !status.is_success() {
        let said = String::from_utf8_lossy(&said).into_owned();
        return Err(failed(ClientError::Refused { status, said }));
    }
    serde_json::from_slice(&said).map_err(Failure::failed)
}

fn page(said: &Value) -> String {
    let all = said["recordings"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return "nothing is recorded\n".to_owned();
    }
    let rows = all.iter().map(|one| {
        let kept = if one["pinned"] == true { "pinned" } else { "-" };
        let name = one["name"].as_str().unwrap_or("?").to_owned();
        vec![name, one["files"].to_string(), one["bytes"].to_string(), kept.to_owned()]
    });
    table(&["recording", "files", "bytes", "kept"], rows).trim_start().to_owned()
}
