//! `watermaster events`: who came, went and was refused at a controller, and why.

use clap::Args;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Target, block_on, fetch, list, text};
use crate::failure::{Failure, print};

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

    /// Go on with what happens from now on, until interrupted
    #[arg(long, short)]
    follow: bool,

    /// So many of the latest
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    most: usize,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        block_on(async {
            let mut client = self.target.connect().await?;
            let path = format!("/v1/events?most={}", self.most);
            let mut after = self.show(&fetch(&mut client, &path).await?)?.unwrap_or(0);
            if !self.follow {
                return Ok(());
            }
            loop {
                let path = format!("/v1/events?after={after}&wait={WAIT}");
                let answer = fetch(&mut client, &path).await?;
                after = self.show(&answer)?.unwrap_or(after);
            }
        })
    }

    /// Prints events; the number of the last.
    fn show(&self, answer: &Value) -> Result<Option<u64>, Failure> {
        let events = list(answer, "events");
        let lines: Vec<String> = events.iter().map(|event| self.line(event)).collect();
        print(&lines.concat())?;
        Ok(events.last().and_then(|event| event["number"].as_u64()))
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
