//! `watermaster explain`: why a flow has its rate.

use clap::Args;
use serde_json::Value;

use super::{Target, escaped, list, pretty, rate, text};
use crate::failure::{Failure, print};

/// Show why a flow, or each flow of a job, has its rate
///
/// Which link limits it, who else is on that link, which rule decided and since when; what is
/// intended, what is enforced, and what is measured.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster explain wordcount/job_17\n  \
                  watermaster explain wordcount/job_17/3 --json")]
pub(crate) struct Explain {
    /// APPLICATION/JOB, or APPLICATION/JOB/FLOW
    what: String,

    #[command(flatten)]
    target: Target,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let Some(parts) = parts(&self.what) else {
            let what = "write APPLICATION/JOB or APPLICATION/JOB/FLOW; \
                        `watermaster top` shows what there is";
            return Err(Failure::misused(what));
        };
        let path: Vec<String> = parts.iter().map(|part| escaped(part)).collect();
        let found = self.target.get(&format!("/v1/explain/{}", path.join("/")))?;
        if self.json {
            return print(&pretty(&found)?);
        }
        if parts.len() == 3 {
            return print(&flow(&found));
        }
        let mut out = format!(
            "{}/{}: {} bytes declared, {} flows\n",
            text(&found, "application"),
            text(&found, "job"),
            found["declared_bytes"],
            list(&found, "flows").len()
        );
        for each in list(&found, "flows") {
            out += "\n";
            out += &flow(each);
        }
        print(&out)
    }
}

/// Application, job, and flow if the last part is a number: names of jobs may have slashes.
fn parts(what: &str) -> Option<Vec<&str>> {
    let (application, rest) = what.split_once('/')?;
    let flow = rest.rsplit_once('/').filter(|(_, flow)| flow.parse::<u64>().is_ok());
    let parts = match flow {
        Some((job, flow)) => vec![application, job, flow],
        None => vec![application, rest],
    };
    parts.iter().all(|part| !part.is_empty()).then_some(parts)
}

fn flow(explanation: &Value) -> String {
    let flow = &explanation["flow"];
    let connection = &flow["connection"];
    let mut out = format!(
        "flow {}/{}/{}  {} -> {}\n",
        text(flow, "application"),
        text(flow, "job"),
        flow["flow"],
        text(connection, "source"),
        text(connection, "destination")
    );
    let limit = |key: &str| match flow[key].as_u64() {
        Some(bps) => super::rate_of(bps),
        None => "no limit".to_owned(),
    };
    let enforced = match flow["failed"].as_str() {
        Some(_) => format!("not enforced ({} stands)", limit("enforced_bps")),
        None => format!("enforced {}", limit("enforced_bps")),
    };
    out += &format!(
        "  intended {}, {enforced}, measured {}\n",
        limit("intended_bps"),
        rate(flow, "measured_bps")
    );
    out += &format!("  why:  {}\n", text(explanation, "why"));
    out += &format!("  by:   {}\n", text(explanation, "by"));
    let path: Vec<&str> = list(explanation, "path").iter().filter_map(Value::as_str).collect();
    out += &format!("  path: {}\n", path.join(", "));
    if let Some(said) = flow["contradicted"].as_str() {
        out += &format!("  contradicted: {said}\n");
    }
    let bottleneck = &explanation["bottleneck"];
    if !bottleneck.is_null() {
        out += &format!(
            "  bottleneck: {} of {}, limits of {} on it, measured {}\n",
            text(bottleneck, "link"),
            rate(bottleneck, "capacity_bps"),
            rate(bottleneck, "limited_bps"),
            rate(bottleneck, "measured_bps")
        );
        for rival in list(bottleneck, "rivals") {
            out += &format!(
                "    beside {}/{}/{}: intended {}, measured {}\n",
                text(rival, "application"),
                text(rival, "job"),
                rival["flow"],
                rival["intended_bps"].as_u64().map_or("no limit".to_owned(), super::rate_of),
                rate(rival, "measured_bps")
            );
        }
        if let Some(more @ 1..) = bottleneck["more"].as_u64() {
            out += &format!("    and {more} more\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_may_have_slashes() {
        assert_eq!(parts("app/job"), Some(vec!["app", "job"]));
        assert_eq!(parts("app/job/3"), Some(vec!["app", "job", "3"]));
        assert_eq!(parts("app/a/b"), Some(vec!["app", "a/b"]));
        assert_eq!(parts("app/a/b/3"), Some(vec!["app", "a/b", "3"]));
        for none in ["app", "app/", "/job", "app//3"] {
            assert_eq!(parts(none), None, "{none}");
        }
    }
}
