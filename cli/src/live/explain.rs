//! `watermaster explain`: why a flow has its rate.

use clap::Args;
use control::harmless;
use hyper::StatusCode;
use serde_json::{Value, json};
use units::Span;
use wire::client::ClientError;

use super::{
    Target, answer, block_on, escaped, failed, fetch, list, plain, pretty, rate, table, text,
};
use crate::failure::{Failure, print};

/// Show why a flow, or each flow of a job, has its rate; or how an application stands
///
/// Which link limits it, who else is on that link, which rule decided and since when; what is
/// intended, what is enforced, and what is measured. Of an application: its jobs, how much was refused of it and why
/// lately, and which orders of operators are about it.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster explain wordcount\n  \
                  watermaster explain wordcount/job_17\n  \
                  watermaster explain wordcount/job_17/3 --json")]
pub(crate) struct Explain {
    /// APPLICATION, APPLICATION/JOB, or APPLICATION/JOB/FLOW; a / within a name may be written as %2F
    what: String,

    #[command(flatten)]
    target: Target,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let is_application = !self.what.is_empty() && !self.what.contains('/');
        let found = if is_application { self.application()? } else { self.find()? };
        if self.json {
            return print(&pretty(&found)?);
        }
        if is_application {
            return print(&application(&found));
        }
        if found["flows"].is_null() {
            return print(&flow(&found));
        }
        print(&job(&found))
    }
}

fn application(found: &Value) -> String {
    let of = &found["application"];
    let mut out = match of["connected"].as_bool() {
        Some(true) => format!("{}: connected", text(of, "name")),
        Some(false) => format!("{}: not connected; what it declared ends soon", text(of, "name")),
        None if of["tenant"] == true => {
            format!("{}: a tenant of the configuration that declares nothing now", text(of, "name"))
        }
        // An order may be about one that isn't there.
        None => format!("{}: has declared nothing", text(of, "name")),
    };
    let declared = ["jobs", "flows", "refused", "contradicted"].map(|key| (key, count(&of[key])));
    for (what, number) in declared {
        out += &match (what, number) {
            (_, 0) => continue,
            ("refused", number) => format!("; declarations refused: {number}"),
            ("contradicted", number) => {
                format!("; flows that carried more than declared: {number}")
            }
            (what, number) => format!("; {what}: {number}"),
        };
    }
    out += "\n";
    for refusal in list(of, "refusals") {
        let [at, now] = [&refusal["at_ns"], &found["now_ns"]].map(|at| at.as_u64().unwrap_or(0));
        let ago = now.saturating_sub(at) / 1_000_000_000;
        out += &format!("refused {ago} s ago: {}\n", harmless(text(refusal, "reason")));
    }
    let orders = list(found, "orders").iter();
    let orders = orders.filter_map(|act| serde_json::from_value(act.clone()).ok());
    out += &table(
        &["order", "of", "by", "since", "reason"],
        orders.map(|act| super::order::row(&act)),
    );
    out + &table(
        &["job", "flows", "with a limit", "measured", "asks for"],
        list(found, "jobs").iter().map(|job| {
            vec![
                text(job, "job").to_owned(),
                count(&job["flows"]).to_string(),
                count(&job["limited"]).to_string(),
                rate(job, "measured_bps"),
                terms(&job["terms"]).trim_start_matches("asks for: ").trim_end().to_owned(),
            ]
        }),
    )
}

fn job(found: &Value) -> String {
    let (application, name) = (text(found, "application"), text(found, "job"));
    let (flows, more) = (list(found, "flows"), count(&found["more"]));
    let mut out = format!(
        "{application}/{name}: {} bytes declared, flows: {}\n",
        found["declared_bytes"],
        flows.len() + more
    );
    out += &terms(&found["terms"]);
    out += &in_vain(&found["terms"], flows);
    let cut = match more {
        0 => String::new(),
        more => format!(
            "{} flows are shown, {more} are left out; name one of those: watermaster explain \
             {application}/{name}/FLOW\n",
            flows.len()
        ),
    };
    // Who reads the beginning of so many lines must know as well as who reads the end.
    out += &cut;
    for each in flows {
        out += "\n";
        out += &flow(each);
    }
    if cut.is_empty() { out } else { out + "\n" + &cut }
}

fn count(number: &Value) -> usize {
    number.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

impl Explain {
    /// What the status and the list of jobs say of an application.
    fn application(&self) -> Result<Value, Failure> {
        let name = plain(&self.what);
        block_on(async {
            let mut client = self.target.connect().await?;
            let status = fetch(&mut client, "/v1/status").await?;
            let jobs = format!("/v1/applications/{}/jobs", escaped(&name));
            let jobs = fetch(&mut client, &jobs).await?;
            let is_about = |act: &&Value| {
                let order = &act["order"];
                order["application"] == *name || order["type"] == "freeze"
            };
            let orders: Vec<&Value> = list(&status, "orders").iter().filter(is_about).collect();
            let known = list(&status, "applications").iter().find(|of| of["name"] == *name);
            let is_tenant = list(&status, "tenants").iter().any(|of| *of == *name);
            let is_ordered = orders.iter().any(|act| act["order"]["application"] == *name);
            if known.is_none() && !is_tenant && !is_ordered {
                return Err(Failure::failed(format_args!(
                    "application: {name:?} has declared nothing; `watermaster status` shows who has"
                )));
            }
            let known =
                known.cloned().unwrap_or_else(|| json!({ "name": name, "tenant": is_tenant }));
            let now = &status["now_ns"];
            Ok(json!({ "application": known, "orders": orders, "jobs": jobs, "now_ns": now }))
        })
    }

    /// The first that is known: a flow, or, as names may have a `/` themselves, the job of this name.
    fn find(&self) -> Result<Value, Failure> {
        let misused = || {
            Failure::misused(format_args!(
                "\"{}\" is neither APPLICATION nor APPLICATION/JOB nor APPLICATION/JOB/FLOW; `watermaster top` shows what \
                 there is",
                self.what
            ))
        };
        let (application, name) = self.what.split_once('/').unwrap_or_default();
        if application.is_empty() || name.is_empty() {
            return Err(misused());
        }
        let flows = name.rmatch_indices('/').map(|(at, _)| vec![&name[..at], &name[at + 1..]]);
        let readings =
            flows.chain([vec![name]]).filter(|parts| parts.iter().all(|part| !part.is_empty()));
        let readings: Vec<_> = readings.collect();
        if readings.is_empty() {
            return Err(misused());
        }
        block_on(async {
            let mut client = self.target.connect().await?;
            for parts in readings {
                let names = parts.into_iter().map(plain);
                let parts: Vec<String> =
                    std::iter::once(application.to_owned()).chain(names).collect();
                let parts: Vec<String> = parts.iter().map(|part| escaped(part)).collect();
                let path = format!("/v1/explain/{}", parts.join("/"));
                match answer(client.get(&path)).await? {
                    Ok(found) => return serde_json::from_slice(&found).map_err(Failure::failed),
                    Err(ClientError::Refused { status: StatusCode::NOT_FOUND, .. }) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            Err(Failure::failed(unknown(application, name)))
        })
    }
}

/// That there is neither such a flow of an application, where the name can be one's, nor such a job.
fn unknown(application: &str, name: &str) -> String {
    let ended = "is not known, or has ended";
    let jobs = format!("`watermaster explain {application}` shows its jobs");
    match name.rsplit_once('/') {
        Some((job, flow)) if !job.is_empty() && !flow.is_empty() => format!(
            "flow: \"{flow}\" of job \"{job}\" {ended}, nor is there a job \"{name}\" of {application}; {jobs}, and \
             `watermaster explain {application}/{job}` the flows of one"
        ),
        _ => format!("job: \"{name}\" of {application} {ended}; {jobs}"),
    }
}

/// What a job asks for.
fn terms(terms: &Value) -> String {
    let objective = terms["objective"].as_str().map(|name| format!("objective {name}"));
    let deadline = terms["deadline_ms"].as_u64();
    let deadline = deadline.map(|ms| format!("deadline {}", Span::from_millis(ms)));
    let weight = terms["weight"].as_u64().filter(|weight| *weight > 1);
    let weight = weight.map(|weight| format!("weight {weight}"));
    let all: Vec<String> = [objective, deadline, weight].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("asks for: {}\n", all.join(", ")) }
}

/// What a job asks for that none of its flows is given.
fn in_vain(terms: &Value, flows: &[Value]) -> String {
    let aim = |flow: &Value| flow["objective"]["aim"].as_str().unwrap_or_default().to_owned();
    let (objective, deadline) = (&terms["objective"], &terms["deadline_ms"]);
    let is_under = |flow: &Value| flow["objective"]["name"] == *objective;
    let is_due = |flow: &Value| aim(flow).starts_with("deadline");
    let mut all = Vec::new();
    if !objective.is_null() && !flows.iter().any(is_under) {
        all.push("objective");
    }
    if !deadline.is_null() && !flows.iter().any(is_due) {
        all.push("deadline");
    }
    if flows.is_empty() || all.is_empty() {
        return String::new();
    }
    format!("no flow here is given: {}; see the objectives of the configuration\n", all.join(", "))
}

fn flow(explanation: &Value) -> String {
    let flow = &explanation["flow"];
    let connection = &flow["connection"];
    let mut out = format!(
        "flow {}/{}/{}  {} -> {}\n",
        text(flow, "application"),
        text(flow, "job"),
        text(flow, "flow"),
        text(connection, "source"),
        text(connection, "destination")
    );
    let carriers = list(flow, "carriers");
    if *carriers != [connection.clone()] {
        for carrier in carriers {
            out += &format!(
                "  over {} -> {}\n",
                text(carrier, "source"),
                text(carrier, "destination")
            );
        }
        if let Some(more) = flow["more_carriers"].as_u64().filter(|more| *more > 0) {
            out += &format!("  and {more} more\n");
        }
    }
    let pods = ["source_pod", "destination_pod"].map(|key| flow[key].as_str());
    if pods.iter().any(Option::is_some) {
        let [source, destination] = pods.map(|pod| pod.unwrap_or("-"));
        out += &format!("  pods: {source} -> {destination}\n");
    }
    let limit = |key: &str| match flow[key].as_u64() {
        Some(bps) => super::rate_of(bps),
        None => "no limit".to_owned(),
    };
    let enforced = match flow["failed"].as_str() {
        Some(why) => match flow["enforced_bps"].as_u64() {
            Some(bps) => format!("{} stands (failed: {why})", super::rate_of(bps)),
            None => format!("no rate stands (failed: {why})"),
        },
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
    let objective = &explanation["objective"];
    if !objective.is_null() {
        let late = if objective["late"] == true { ", late: a weight of 1" } else { "" };
        out += &format!(
            "  objective: {}, {}{late}, served by {}\n",
            text(objective, "name"),
            text(objective, "aim"),
            text(objective, "policy")
        );
        for link in list(objective, "shared") {
            out += &format!("    {}:\n", text(link, "link"));
            for part in list(link, "parts") {
                let yields = if part["yields"] == true { ", yields" } else { "" };
                out += &format!(
                    "      {} ({}): given {}, wants {}{yields}\n",
                    text(part, "objective"),
                    text(part, "aim"),
                    rate(part, "given_bps"),
                    rate(part, "wants_bps")
                );
            }
        }
    }
    if let Some(said) = flow["contradicted"].as_str() {
        out += &format!("  contradicted: {said}\n");
    }
    let bottleneck = &explanation["bottleneck"];
    if !bottleneck.is_null() {
        let limits = match bottleneck["limited_bps"].as_u64() {
            None | Some(0) => "no limit".to_owned(),
            Some(sum) => format!("limits of {}", super::rate_of(sum)),
        };
        out += &format!(
            "  bottleneck: {} of {}, {limits} on it, measured {}\n",
            text(bottleneck, "link"),
            rate(bottleneck, "capacity_bps"),
            rate(bottleneck, "measured_bps")
        );
        for rival in list(bottleneck, "rivals") {
            let flow = text(rival, "flow");
            let name = match (text(rival, "application"), text(rival, "job")) {
                ("", _) => format!("{flow}, which nobody declared"),
                (application, job) => format!("{application}/{job}/{flow}"),
            };
            out += &format!(
                "    beside {name}: intended {}, measured {}\n",
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
    use control::{
        Bottleneck, FlowExplanation, FlowStatus, ObjectivePart, ObjectiveStatus, Rival, SharedLink,
    };
    use units::{Rate, Time};

    use super::*;

    /// Fields are read by their names, so the answer is of the type that the controller answers with.
    #[test]
    fn all_that_is_known_of_a_flow_is_told() {
        let status = super::super::unheld();
        let carrier =
            protocol::Connection { source: "10.0.0.1:3".parse().unwrap(), ..status.connection };
        let parts = vec![ObjectivePart {
            objective: "fast".to_owned(),
            aim: "deadline 5 s".to_owned(),
            given_bps: Rate::from_mbps(12),
            wants_bps: Rate::from_mbps(20),
            yields: true,
        }];
        let explanation = FlowExplanation {
            flow: FlowStatus {
                carriers: vec![carrier],
                more_carriers: 1,
                source_pod: Some("default/mapper-0".to_owned()),
                contradicted: Some("more was delivered".to_owned()),
                ..status
            },
            declared_ns: Time::ZERO,
            since_ns: Time::ZERO,
            why: "it is small".to_owned(),
            by: "agent h1".to_owned(),
            path: vec!["h1 -> s1".to_owned(), "s1 -> h2".to_owned()],
            bottleneck: Some(Bottleneck {
                link: "h1 -> s1".to_owned(),
                capacity_bps: Rate::from_mbps(1_000),
                limited_bps: Rate::from_mbps(18),
                measured_bps: Some(Rate::from_mbps(6)),
                rivals: vec![Rival {
                    application: "mr".to_owned(),
                    job: "sort".to_owned(),
                    flow: "2".to_owned(),
                    intended_bps: Some(Rate::from_mbps(8)),
                    measured_bps: Some(Rate::from_mbps(1)),
                }],
                more: 3,
            }),
            objective: Some(ObjectiveStatus {
                name: "fast".to_owned(),
                aim: "deadline 5 s".to_owned(),
                late: true,
                policy: "smsf",
                shared: vec![SharedLink { link: "h1 -> s1".to_owned(), parts }],
            }),
        };
        assert_eq!(
            flow(&json!(explanation)),
            "flow mr/sort/1  10.0.0.1:1 -> 10.0.0.2:2
  over 10.0.0.1:3 -> 10.0.0.2:2
  and 1 more
  pods: default/mapper-0 -> -
  intended 12.0 Mbit/s, no rate stands (failed: no room), measured 5.00 Mbit/s
  why:  it is small
  by:   agent h1
  path: h1 -> s1, s1 -> h2
  objective: fast, deadline 5 s, late: a weight of 1, served by smsf
    h1 -> s1:
      fast (deadline 5 s): given 12.0 Mbit/s, wants 20.0 Mbit/s, yields
  contradicted: more was delivered
  bottleneck: h1 -> s1 of 1.00 Gbit/s, limits of 18.0 Mbit/s on it, measured 6.00 Mbit/s
    beside mr/sort/2: intended 8.00 Mbit/s, measured 1.00 Mbit/s
    and 3 more
"
        );
    }

    #[test]
    fn what_stands_is_told_with_why_it_is_not_what_was_wanted() {
        let told = |enforced: Option<u64>, failed: Option<&str>| {
            let status = FlowStatus {
                enforced_bps: enforced.map(Rate::from_mbps),
                failed: failed.map(str::to_owned),
                ..super::super::unheld()
            };
            let said = flow(&json!({ "flow": status }));
            let line = said.lines().find(|line| line.contains("intended")).unwrap();
            line.split(", ").nth(1).unwrap().to_owned()
        };
        assert_eq!(told(Some(12), None), "enforced 12.0 Mbit/s");
        assert_eq!(told(None, None), "enforced no limit");
        assert_eq!(told(Some(9), Some("no room")), "9.00 Mbit/s stands (failed: no room)");
        assert_eq!(told(None, Some("no room")), "no rate stands (failed: no room)");
    }

    #[test]
    fn what_was_refused_is_told_with_its_reasons() {
        let refusals = json!([
            { "at_ns": 1_000_000_000, "reason": "job: \u{1b}[2Jx" }, { "at_ns": 4_000_000_000_u64, "reason": "flow: y" }
        ]);
        let of = json!({ "name": "a", "connected": true, "refused": 7, "refusals": refusals });
        let said = application(&json!({ "application": of, "now_ns": 5_000_000_000_u64 }));
        assert_eq!(
            said,
            "a: connected; declarations refused: 7\nrefused 4 s ago: job:  [2Jx\nrefused 1 s ago: flow: y\n"
        );
    }

    #[test]
    fn flows_that_are_left_out_are_told_of_at_both_ends() {
        let found = |more| json!({ "application": "a", "job": "j", "declared_bytes": 1, "flows": [{}, {}], "more": more });
        let cut =
            "2 flows are shown, 3 are left out; name one of those: watermaster explain a/j/FLOW\n";
        let said = job(&found(3));
        assert!(said.starts_with(&format!("a/j: 1 bytes declared, flows: 5\n{cut}")), "{said}");
        assert!(said.ends_with(cut), "{said}");
        let whole = job(&found(0));
        assert!(whole.contains("flows: 2\n") && !whole.contains("left out"), "{whole}");
    }

    #[test]
    fn connections_that_are_left_out_are_counted() {
        let ends = json!({ "source": "10.0.0.1:1", "destination": "10.0.0.2:2" });
        let said =
            |more| flow(&json!({ "flow": { "carriers": [ends.clone()], "more_carriers": more } }));
        assert!(said(3).contains("  over 10.0.0.1:1 -> 10.0.0.2:2\n  and 3 more\n"), "{}", said(3));
        assert!(!said(0).contains("more\n"), "{}", said(0));
    }

    #[test]
    fn pods_are_told_where_an_agent_knows_one() {
        let said = |source: Option<&str>, destination: Option<&str>| {
            flow(&json!({ "flow": { "source_pod": source, "destination_pod": destination } }))
        };
        let both = said(Some("default/mapper-0"), Some("default/reducer-0"));
        assert!(both.contains("  pods: default/mapper-0 -> default/reducer-0\n"), "{both}");
        let one = said(None, Some("default/reducer-0"));
        assert!(one.contains("  pods: - -> default/reducer-0\n"), "{one}");
        assert!(!said(None, None).contains("pods:"));
    }

    #[test]
    fn a_link_without_limits_blocks_nobody() {
        let link = |limited: u64| {
            let bottleneck = json!({ "link": "a -> b", "capacity_bps": 9, "limited_bps": limited });
            flow(&json!({ "flow": {}, "bottleneck": bottleneck }))
        };
        assert!(link(0).contains("a -> b of 9 bit/s, no limit on it, measured"), "{}", link(0));
        assert!(link(5).contains("a -> b of 9 bit/s, limits of 5 bit/s on it"), "{}", link(5));
    }

    /// Whoever mistypes an objective sees it here.
    #[test]
    fn what_counts_for_nothing_is_told() {
        let said = |asked: Value, objective: Value| {
            let flows = [json!({ "objective": objective })];
            job(
                &json!({ "application": "a", "job": "j", "declared_bytes": 1, "flows": flows, "terms": asked }),
            )
        };
        let asked = json!({ "objective": "x", "deadline_ms": 5, "weight": 1 });
        for (objective, told) in [
            (Value::Null, Some("objective, deadline")),
            (json!({ "name": "y", "aim": "deadline 5 s" }), Some("objective")),
            (json!({ "name": "x", "aim": "weight 3" }), Some("deadline")),
            (json!({ "name": "x", "aim": "deadline 5 ms" }), None),
        ] {
            let said = said(asked.clone(), objective);
            let line = told.map(|told| format!("no flow here is given: {told}; see"));
            assert_eq!(said.contains("is given:"), told.is_some(), "{said}");
            assert!(line.is_none_or(|line| said.contains(&line)), "{said}");
        }
    }
}
