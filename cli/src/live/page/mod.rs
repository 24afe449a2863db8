//! The page in a browser: of a controller that runs (`watermaster page`), of a scenario's result and of a
//! recording.

pub(crate) mod recording;
pub(crate) mod scenario;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::page::serve::{Connect, Server};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{Target, block_on};
use crate::failure::{Failure, note, print};

/// Show a controller in a browser: network, applications, decisions
///
/// Serves the page on 127.0.0.1 until it is interrupted, and asks the controller with your rights. It only
/// asks. The address that it prints has a key in it: who knows it sees what you may see.
#[derive(Args)]
#[command(after_help = "Examples:\n  watermaster page --open\n  \
                  watermaster page --controller https://10.0.0.1:7443 --ca ca.crt \\\n    \
                  --certificate operator-me.crt --key operator-me.key")]
pub(crate) struct Page {
    #[command(flatten)]
    target: Target,

    /// The port at 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

impl Page {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        block_on(async {
            // What is wrong with address or certificates is said here, not in the browser.
            self.target.connect().await?;
            let target = self.target.clone();
            let connect: Connect = Box::new(move || {
                let target = target.clone();
                Box::pin(async move { target.connect().await.map_err(Failure::into_text) })
            });
            serve(self.port, ::page::LIVE.to_owned(), Some(connect), self.open).await
        })
    }
}

/// Serves a page until SIGINT or SIGTERM.
pub(crate) async fn serve(
    port: u16,
    page: String,
    controller: Option<Connect>,
    open: bool,
) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let server = Server::bind(port, page, controller).await.map_err(|error| {
        Failure::failed(format_args!(
            "can't serve at 127.0.0.1:{port}: {error}; choose another --port"
        ))
    })?;
    let url = server.url();
    print(&format!("{url}\n"))?;
    note("Ctrl-C ends it");
    let way = open.then(|| Way::to(&url)).transpose()?;
    if let Some(way) = &way {
        browse(&way.0);
    }
    tokio::select! {
        () = server.run() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// A file that leads to an address, readable by its owner alone: a command line can be read by every user of
/// the machine. Removed when dropped.
struct Way(PathBuf);

impl Way {
    fn to(url: &str) -> Result<Self, Failure> {
        let folder =
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = folder.join(format!("watermaster-page-{}.html", std::process::id()));
        let text = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={url}\">\
             <title>Watermaster</title>\n"
        );
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let wrote = file.and_then(|mut file| file.write_all(text.as_bytes()));
        wrote.map_err(|error| {
            let path = path.display();
            Failure::failed(format_args!(
                "can't write {path}: {error}; leave --open out and open the address"
            ))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens a file in the browser; where that can't be, says what to open.
pub(crate) fn browse(file: &Path) {
    let mut command = Command::new("xdg-open");
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        note(&format!("no browser opens ({error}); open {}", file.display()));
    }
}
