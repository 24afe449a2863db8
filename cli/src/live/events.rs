//! `watermaster events`: who came, went and was refused at a controller, and why.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use clap::Args;
use hyper::StatusCode;
use protocol::backoff::Backoff;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wire::client::{Client, ClientError};

use super::{Target, answer, block_on, failed, fetch, list, text};
use crate::failure::{Failure, note, print};

/// Seconds that the controller waits for an event.
const WAIT: u64 = 3;

/// Show what happened at a controller: who came, went and was refused, and why
///
/// It keeps the latest 4096. Times are of its machine, in UTC.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster events --follow")]
pub(crate) struct Events {
    #[command(flatten)]
    target: Target,

    /// Go on with what happens from now on, until interrupted; where the connection is lost, standard error has a line,
    /// and it is tried again, unless the controller refuses your certificate or what it may ask for (401, 403), or you
    /// can't trust its own; of several controllers only if all refuse
    #[arg(long, short)]
    follow: bool,

    /// So many of the latest
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    most: usize,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// An answer; or why the connection is lost.
///
/// # Errors
/// A controller that answers and refuses, and would again.
async fn ask(client: &mut Client, path: &str) -> Result<Result<Value, String>, Failure> {
    let answered = match answer(client.get(path)).await {
        Ok(answered) => answered,
        Err(late) => return Ok(Err(late.into_text())),
    };
    match answered {
        Ok(body) => serde_json::from_slice(&body).map(Ok).map_err(Failure::failed),
        // One that ends, or leads no more, refuses so; and one that has much to do.
        Err(ClientError::Refused { status, .. })
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS =>
        {
            Ok(Err(format!("the controller refuses ({status})")))
        }
        Err(error @ ClientError::Refused { .. }) => Err(failed(error)),
        Err(error) if error.is_final() => Err(failed(error)),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Those of all events that a controller keeps that come after the `last` that was seen: all of them where it isn't
/// among them, as those of another controller, or of one that began anew.
fn unseen<'a>(events: &'a [Value], last: &Value) -> &'a [Value] {
    let seen = events.iter().rposition(|event| event == last);
    seen.map_or(events, |at| &events[at + 1..])
}

impl Events {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        block_on(async {
            let mut client = self.target.connect().await?;
            let path = format!("/v1/events?most={}", self.most);
            let mut last = Value::Null;
            self.show(list(&fetch(&mut client, &path).await?, "events"), &mut last)?;
            if !self.follow {
                return Ok(());
            }
            loop {
                let after = last["number"].as_u64().unwrap_or(0);
                let path = format!("/v1/events?after={after}&wait={WAIT}");
                match ask(&mut client, &path).await? {
                    Ok(answer) => self.show(list(&answer, "events"), &mut last)?,
                    Err(why) => {
                        note(&format!("{why}; trying again, events may be missing"));
                        let answer;
                        (client, answer) = self.come_back().await?;
                        self.show(unseen(list(&answer, "events"), &last), &mut last)?;
                    }
                }
            }
        })
    }

    /// Another connection, and all events that the controller there keeps.
    async fn come_back(&self) -> Result<(Client, Value), Failure> {
        let mut backoff = Backoff::default();
        loop {
            let chance = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or(0);
            tokio::time::sleep(Duration::from_nanos(backoff.wait(chance).as_nanos())).await;
            match self.target.reach().await {
                Ok(Ok(mut client)) => {
                    if let Ok(answer) = ask(&mut client, "/v1/events").await? {
                        return Ok((client, answer));
                    }
                }
                Ok(Err(error)) if error.is_final() => return Err(failed(error)),
                Ok(Err(_)) | Err(Failure::Failed(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Prints events; the `last` of all.
    fn show(&self, events: &[Value], last: &mut Value) -> Result<(), Failure> {
        let lines: Vec<String> = events.iter().map(|event| self.line(event)).collect();
        print(&lines.concat())?;
        if let Some(event) = events.last() {
            last.clone_from(event);
        }
        Ok(())
    }

    fn line(&self, event: &Value) -> String {
        if self.json {
            return format!("{event}\n");
        }
        let fields = event["fields"].as_object().into_iter().flatten();
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
        let at = event["at_ms"].as_i64().unwrap_or_default();
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).ok();
        let at = at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| "-".to_owned());
        format!(
            "{at} {:5} {}  {}\n",
            text(event, "level"),
            text(event, "message"),
            fields.join(" ")
        )
    }
}
