//! `watermaster order`: what an operator does to a controller that runs.

use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Subcommand};
use hyper::Method;
use protocol::operator::{Act, MOST_LASTS, Order as Given, Orders};
use units::{Rate, Span};

use super::{Plain, Target, answer, block_on, failed, plain, table};
use crate::failure::{Failure, print};

/// Order something of a controller, or show the orders that stand
///
/// What begins something (block, freeze, drain, limit) stands until another order ends it, or its time is over, also over
/// restarts of the
/// controller. Each order is written to its audit log: who, what, when, answer.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster order freeze --reason \"storage is slow\"\n  \
                  watermaster order cancel wordcount/job_17\n  \
                  watermaster order limit wordcount \"50 Mbit/s\" --for \"10 min\"\n  watermaster order thaw")]
pub(crate) struct Order {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the orders that stand
    List(Plain),
    /// End a job and lift its limits; its application may declare it again
    Cancel {
        /// APPLICATION/JOB; the job may have a / in its name, or %2F for it as `explain` takes it
        job: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// End all that an application has declared; it may declare again
    Evict {
        /// The application
        application: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// End all that an application has declared, and refuse what it declares from now on
    Block {
        /// The application, known or not
        application: String,
        #[command(flatten)]
        why: Why,
    },
    /// Let an application declare again
    Unblock {
        /// The application
        application: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// Lift all limits now: everything is plain TCP until `thaw`
    Freeze(Why),
    /// Put in force again what the policy decides
    Thaw(Plain),
    /// Lift all limits of what a host sends and receives; the policy doesn't count on it
    Drain {
        /// The host, by its name in the topology
        host: String,
        #[command(flatten)]
        why: Why,
    },
    /// Hold each connection of an application, or of one job of it, to a rate, whatever the policy decides
    ///
    /// The application or job must have declared something, or the application be a `[[tenant]]`: a name that nobody bears
    /// is refused.
    Limit {
        /// APPLICATION or APPLICATION/JOB; a / within a job's name may be written as %2F
        of: String,
        /// Most that each of its connections sends, such as "50 Mbit/s"
        #[arg(value_parser = rate)]
        rate: Rate,
        /// End it after this time, whole seconds from 1 s to 720 h, such as "10 min"
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        lasts: Option<u64>,
        #[command(flatten)]
        why: Why,
    },
    /// Hold them to what the policy decides again
    Unlimit {
        /// APPLICATION or APPLICATION/JOB, as it was limited
        of: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// Govern a host like any other again
    Undrain {
        /// The host
        host: String,
        #[command(flatten)]
        plain: Plain,
    },
}

#[derive(Args)]
struct Why {
    /// Why: shown with the order, and told to who is refused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    plain: Plain,
}

impl Order {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let (order, plain) = match self.what {
            What::List(plain) => (None, plain),
            What::Cancel { job, plain } => {
                let Some((application, job)) = job.split_once('/') else {
                    return Err(Failure::misused(format_args!(
                        "\"{job}\" names no job; write APPLICATION/JOB"
                    )));
                };
                let (application, job) = (application.to_owned(), super::plain(job));
                (Some(Given::Cancel { application, job }), plain)
            }
            What::Evict { application, plain } => (Some(Given::Evict { application }), plain),
            What::Block { application, why: Why { reason, plain } } => {
                (Some(Given::Block { application, reason }), plain)
            }
            What::Unblock { application, plain } => (Some(Given::Unblock { application }), plain),
            What::Freeze(Why { reason, plain }) => (Some(Given::Freeze { reason }), plain),
            What::Thaw(plain) => (Some(Given::Thaw {}), plain),
            What::Drain { host, why: Why { reason, plain } } => {
                (Some(Given::Drain { host, reason }), plain)
            }
            What::Undrain { host, plain } => (Some(Given::Undrain { host }), plain),
            What::Limit { of, rate, lasts, why: Why { reason, plain } } => {
                let (application, job) = parts(&of);
                let order =
                    Given::Limit { application, job, rate_bps: rate, lasts_s: lasts, reason };
                (Some(order), plain)
            }
            What::Unlimit { of, plain } => {
                let (application, job) = parts(&of);
                (Some(Given::Unlimit { application, job }), plain)
            }
        };
        let orders = block_on(ask(&plain.target, order.as_ref()))?;
        if plain.json {
            let text = serde_json::to_string_pretty(&orders).map_err(Failure::failed)?;
            print(&(text + "\n"))?;
        } else {
            print(&page(&orders, order.is_some()))?;
        }
        match orders.warning {
            Some(warning) => Err(Failure::failed(warning)),
            None => Ok(()),
        }
    }
}

/// A rate, as people write it.
fn rate(text: &str) -> Result<Rate, String> {
    text.parse::<Rate>().map_err(|error| format!("{error}, such as \"50 Mbit/s\""))
}

/// Whole seconds that a limit may last.
fn seconds(text: &str) -> Result<u64, String> {
    let given: Span = text.parse().map_err(|error| format!("{error}, such as \"10 min\""))?;
    let seconds = given.as_nanos() / 1_000_000_000;
    if Span::from_secs(seconds) != given || !(1..=MOST_LASTS).contains(&seconds) {
        let most = MOST_LASTS / 3_600;
        return Err(format!("write whole seconds from 1 s to {most} h, such as \"10 min\""));
    }
    Ok(seconds)
}

/// Seconds for people: the two largest of days, hours, minutes and seconds that there are.
fn time(seconds: u64) -> String {
    let parts = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = parts.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(3);
    let (unit, name) = parts[first];
    let more = parts.get(first + 1).map(|(part, name)| (seconds % unit / part, name));
    match more {
        Some((number @ 1.., part)) => format!("{} {name} {number} {part}", seconds / unit),
        _ => format!("{} {name}", seconds / unit),
    }
}

/// An application, and its job where one is named.
fn parts(of: &str) -> (String, Option<String>) {
    match of.split_once('/') {
        Some((application, job)) => (application.to_owned(), Some(plain(job))),
        None => (of.to_owned(), None),
    }
}

async fn ask(target: &Target, order: Option<&Given>) -> Result<Orders, Failure> {
    let (method, body) = match order {
        Some(order) => (Method::POST, serde_json::to_vec(order).map_err(Failure::failed)?),
        None => (Method::GET, Vec::new()),
    };
    let mut client = target.connect().await?;
    let asked = answer(client.ask(method, "/v1/orders", body)).await?;
    let (status, said) = asked.map_err(failed)?;
    if !status.is_success() {
        let said = String::from_utf8_lossy(&said).into_owned();
        return Err(failed(wire::client::ClientError::Refused { status, said }));
    }
    serde_json::from_slice(&said).map_err(Failure::failed)
}

fn page(orders: &Orders, is_done: bool) -> String {
    let done = if is_done { "done\n" } else { "" };
    if orders.standing.is_empty() {
        return format!("{done}no order stands\n");
    }
    let rows = orders.standing.iter().map(row);
    let table = table(&["order", "of", "by", "since", "reason"], rows);
    format!("{done}{}", table.trim_start())
}

/// A standing order in a table.
pub(super) fn row(act: &Act) -> Vec<String> {
    let of = |application: &String, job: &Option<String>| match job {
        Some(job) => format!("{application}/{job}"),
        None => application.clone(),
    };
    let (what, of) = match &act.order {
        Given::Cancel { application, job } => ("cancel", format!("{application}/{job}")),
        Given::Evict { application } => ("evict", application.clone()),
        Given::Block { application, .. } => ("block", application.clone()),
        Given::Unblock { application } => ("unblock", application.clone()),
        Given::Freeze { .. } => ("freeze", "everything".to_owned()),
        Given::Thaw {} => ("thaw", "everything".to_owned()),
        Given::Drain { host, .. } => ("drain", host.clone()),
        Given::Undrain { host } => ("undrain", host.clone()),
        Given::Limit { application, job, rate_bps, lasts_s, .. } => {
            let rate = super::rate_of(rate_bps.as_bps());
            let lasts = lasts_s.map(|lasts| format!(" for {}", time(lasts)));
            ("limit", format!("{}: {rate}{}", of(application, job), lasts.unwrap_or_default()))
        }
        Given::Unlimit { application, job } => ("unlimit", of(application, job)),
    };
    let reason = act.order.reason().unwrap_or("-").to_owned();
    let ago = UNIX_EPOCH + Duration::from_secs(act.at_s);
    let ago = ago.elapsed().unwrap_or_default().as_secs();
    vec![what.to_owned(), of, act.by.clone(), format!("{} ago", time(ago)), reason]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_lasts_whole_seconds_of_a_month_at_most() {
        let good = [("1 s", 1), ("10 min", 600), ("720 h", MOST_LASTS)];
        for (text, wanted) in good {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["0 s", "500 ms", "1.5 s", "721 h", "10"] {
            let why = seconds(text).expect_err(text);
            assert!(why.contains("such as \"10 min\""), "{text}: {why}");
        }
        assert!(seconds("1 ms").is_err_and(|why| why.contains("from 1 s to 720 h")));
    }

    #[test]
    fn times_are_for_people() {
        let shown = [0, 59, 60, 3_599, 7_200, 100_000, MOST_LASTS].map(time);
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min 59 s", "2 h", "1 d 3 h", "30 d"]);
    }
}
