//! `watermaster replay`: a recording once more.

use std::path::PathBuf;

use clap::Args;
use control::Output;

use crate::failure::{Failure, print};

/// Put a recording into the controller's machine again
///
/// Prints what was decided when, and whether it is what was decided then. Exit code 1 where not.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster replay \
                  /var/lib/watermaster/records/epoch-000003.000.record --quiet")]
pub(crate) struct Replay {
    /// The first part of a recording
    file: PathBuf,

    /// Leave out what was decided
    #[arg(long)]
    quiet: bool,

    /// Print JSON objects, one on a line; the last one is the summary
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let mut written = Ok(());
        let replayed = controller::replay::replay(&self.file, |now, output| {
            if !self.quiet && written.is_ok() {
                written = print(&line(now.as_secs_f64(), output, self.json));
            }
        })
        .map_err(Failure::misused)?;
        written?;
        if self.json {
            let line = serde_json::to_string(&replayed).map_err(Failure::failed)?;
            print(&(line + "\n"))?;
        } else {
            print(&format!(
                "epoch {}: {} inputs ({} refused) and {} outputs in {:.3} s, digest {}{}\n",
                replayed.epoch,
                replayed.inputs,
                replayed.refused,
                replayed.outputs,
                replayed.lasted_ns as f64 / 1e9,
                replayed.digest,
                if replayed.cut { "; the recording ends within a frame" } else { "" },
            ))?;
        }
        match (replayed.differs_after, replayed.digests) {
            (Some(count), _) => Err(Failure::failed(format_args!(
                "it differs from what was decided then, within the first {count} outputs; this \
                 program is {}, {} recorded",
                env!("CARGO_PKG_VERSION"),
                replayed.version
            ))),
            (None, 0) => Err(Failure::failed("the recording has no digest to compare with")),
            (None, count) => {
                if !self.json {
                    print(&format!("equal to what was decided then ({count} digests)\n"))?;
                }
                Ok(())
            }
        }
    }
}

fn line(at_s: f64, output: &Output, json: bool) -> String {
    let (kind, peer, what) = match output {
        Output::Switch(peer, bytes) => {
            let hex: String = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
            ("switch", peer, format!("\"{hex}\""))
        }
        Output::Agent(peer, commands) => {
            ("agent", peer, serde_json::to_string(commands).unwrap_or_default())
        }
        Output::CloseSwitch(peer, why) => ("close switch", peer, format!("\"{why}\"")),
        Output::CloseAgent(peer, why) => ("close agent", peer, format!("\"{why}\"")),
    };
    if json {
        format!("{{\"at_s\":{at_s},\"to\":\"{kind}\",\"peer\":{},\"what\":{what}}}\n", peer.0)
    } else {
        format!("{at_s:>12.6}  {kind} {}  {what}\n", peer.0)
    }
}
