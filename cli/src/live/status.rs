//! `watermaster status`: the state of a controller and all it knows.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::Value;

use super::{Target, limits, list, pretty, rate, table, text};
use crate::failure::{Failure, print};

/// Show the state of a controller and all it knows
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster status --json | jq .problems")]
pub(crate) struct Status {
    #[command(flatten)]
    target: Target,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let status = self.target.get("/v1/status")?;
        print(&if self.json { pretty(&status)? } else { page(&status) })
    }
}

/// The status for people.
pub(super) fn page(status: &Value) -> String {
    let mut out = format!(
        "controller {}  epoch {}  policy {}  by {}  recorder {}\n",
        text(status, "version"),
        status["epoch"],
        text(status, "policy"),
        text(status, "enforcement"),
        text(status, "recorder"),
    );
    if let Some(leader) = status["leader"].as_object().map(|_| &status["leader"]) {
        let since = Duration::from_secs(leader["since_s"].as_u64().unwrap_or_default());
        let since = (UNIX_EPOCH + since).elapsed().unwrap_or_default().as_secs();
        let (name, address) = (text(leader, "name"), text(leader, "address"));
        out += &format!("leader {name}  at {address}  for {since} s\n");
    }
    for problem in list(status, "problems") {
        out += &format!("problem: {}\n", problem.as_str().unwrap_or_default());
    }
    let orders = status["orders"].as_array().into_iter().flatten();
    let orders = orders.filter_map(|act| serde_json::from_value(act.clone()).ok());
    out += &table(
        &["order", "of", "by", "since", "reason"],
        orders.map(|act| super::order::row(&act)),
    );
    let number = |value: &Value| value.as_u64().unwrap_or_default().to_string();
    let yes = |value: &Value, yes: &str, no: &str| {
        if value.as_bool() == Some(true) { yes.to_owned() } else { no.to_owned() }
    };
    out += &table(
        &["switch", "datapath", "connection", "tables", "entries", "meters"],
        list(status, "switches").iter().map(|switch| {
            // Without a number of OpenFlow it is not expected to connect (`SwitchStatus::is_missing`).
            let datapath = switch["datapath_id"].as_u64();
            // Of tables nothing is known until it has connected.
            let (connection, tables) = match switch["connected"].as_bool() {
                _ if datapath.is_none() => ("-".to_owned(), "-".to_owned()),
                Some(true) => ("up".to_owned(), yes(&switch["settled"], "settled", "changing")),
                _ => ("not connected".to_owned(), "-".to_owned()),
            };
            vec![
                text(switch, "name").to_owned(),
                datapath.map_or("-".to_owned(), |id| format!("{id:#x}")),
                connection,
                tables,
                number(&switch["entries"]),
                number(&switch["meters"]),
            ]
        }),
    );
    out += &table(
        &["agent", "hosts", "paced", "unseen", "unconfirmed", "pods"],
        list(status, "agents").iter().map(|agent| {
            let hosts: Vec<&str> = list(agent, "hosts").iter().filter_map(Value::as_str).collect();
            vec![
                text(agent, "identity").to_owned(),
                hosts.join(" "),
                number(&agent["paced"]),
                number(&agent["unseen"]),
                number(&agent["unconfirmed"]),
                number(&agent["pods"]),
            ]
        }),
    );
    out += &table(
        &["former agent", "hosts", "gone for", "holds"],
        list(status, "former_agents").iter().map(|agent| former(status, agent)),
    );
    out += &table(
        &["application", "connection", "jobs", "flows", "refused", "contradicted"],
        list(status, "applications").iter().map(|application| {
            vec![
                text(application, "name").to_owned(),
                yes(&application["connected"], "up", "gone"),
                number(&application["jobs"]),
                number(&application["flows"]),
                number(&application["refused"]),
                number(&application["contradicted"]),
            ]
        }),
    );
    out += &table(
        &["link", "capacity", "flows", "limited", "enforced", "measured", "state"],
        list(status, "links").iter().map(|link| {
            vec![
                format!("{} -> {}", text(link, "from"), text(link, "to")),
                rate(link, "capacity_bps"),
                number(&link["flows"]),
                limits(link, "limited_bps"),
                limits(link, "enforced_bps"),
                rate(link, "measured_bps"),
                yes(&link["up"], "up", "down"),
            ]
        }),
    );
    out
}

/// An agent that is gone, in a table.
fn former(status: &Value, agent: &Value) -> Vec<String> {
    let hosts: Vec<&str> = list(agent, "hosts").iter().filter_map(Value::as_str).collect();
    let seconds = |from: &Value, to: &Value| {
        let [from, to] = [from, to].map(|at| at.as_u64().unwrap_or_default());
        to.saturating_sub(from).div_ceil(1_000_000_000)
    };
    let now = &status["now_ns"];
    let holds = match (agent["may_stand"].as_u64(), agent["left"].as_bool()) {
        (Some(limits @ 1..), _) => {
            format!("{limits} limits may stand for {} s", seconds(now, &agent["until_ns"]))
        }
        (_, Some(true)) => "nothing: it left in order".to_owned(),
        _ => "nothing: no lease of its lasts".to_owned(),
    };
    vec![
        text(agent, "identity").to_owned(),
        hosts.join(" "),
        format!("{} s", seconds(&agent["since_ns"], now)),
        holds,
    ]
}

#[cfg(test)]
mod tests {
    use control::{AgentStatus, ApplicationStatus, FormerAgentStatus, LinkStatus, SwitchStatus};
    use protocol::operator::{Act, Order};
    use serde_json::json;
    use units::{Rate, Time};

    use super::*;

    /// Fields are read by their names: one that is called otherwise in the types compiles, and shows nothing.
    #[test]
    fn what_is_shown_is_read_by_the_names_that_the_types_have() {
        let second = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let status = control::Status {
            epoch: 11,
            now_ns: second(30),
            policy: "smsf".to_owned(),
            enforcement: "meters",
            switches: vec![SwitchStatus {
                name: "leaf".to_owned(),
                datapath_id: Some(0x21),
                connected: true,
                settled: true,
                entries: 31,
                meters: 32,
            }],
            agents: vec![AgentStatus {
                identity: "here".to_owned(),
                hosts: vec!["h1".to_owned()],
                paced: 41,
                unseen: 42,
                unconfirmed: 43,
                ..AgentStatus::default()
            }],
            former_agents: vec![FormerAgentStatus {
                identity: "gone".to_owned(),
                hosts: vec!["h2".to_owned()],
                since_ns: second(28),
                left: false,
                may_stand: 51,
                until_ns: Some(second(36)),
            }],
            applications: vec![ApplicationStatus {
                name: "mr".to_owned(),
                connected: true,
                jobs: 71,
                flows: 72,
                refused: 73,
                contradicted: 74,
                ..ApplicationStatus::default()
            }],
            links: vec![LinkStatus {
                from: "a".to_owned(),
                to: "b".to_owned(),
                capacity_bps: Rate::from_bps(601),
                up: true,
                flows: 61,
                limited_bps: Rate::from_bps(602),
                enforced_bps: Rate::from_bps(603),
                measured_bps: Some(Rate::from_bps(604)),
                ..LinkStatus::default()
            }],
            orders: vec![Act {
                at_s: 0,
                by: "me".to_owned(),
                order: Order::Freeze { reason: Some("storage".to_owned()) },
            }],
            problems: vec!["a problem".to_owned()],
            ..control::Status::default()
        };
        let shown = page(&serde_json::to_value(status).unwrap());
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = shown.lines().map(words).collect();
        for wanted in [
            "controller - epoch 11 policy smsf by meters recorder -",
            "problem: a problem",
            "freeze everything me",
            "leaf 0x21 up settled 31 32",
            "here h1 41 42 43",
            "gone h2 2 s 51 limits may stand for 6 s",
            "mr up 71 72 73 74",
            "a -> b 601 bit/s 61 602 bit/s 603 bit/s 604 bit/s up",
        ] {
            assert!(lines.iter().any(|line| line.starts_with(wanted)), "{wanted}: {shown}");
        }
        // What the daemon adds has types of its own.
        let described: Value = serde_json::from_str(controller::http::OPENAPI).unwrap();
        let schemas = &described["components"]["schemas"];
        for (of, name) in [
            ("ControllerStatus", "version"),
            ("ControllerStatus", "recorder"),
            ("ControllerStatus", "leader"),
            ("Leader", "name"),
            ("Leader", "address"),
            ("Leader", "since_s"),
        ] {
            assert!(schemas[of]["properties"][name].is_object(), "{of} has no {name}");
        }
    }

    #[test]
    fn agents_that_are_gone_are_told_with_what_they_may_hold() {
        let agent = |left: bool, may_stand: u64| {
            let agent = json!({ "identity": "a", "hosts": ["h"], "since_ns": 1_000_000_000, "left": left,
                                "may_stand": may_stand, "until_ns": 9_000_000_000_u64 });
            page(&json!({ "now_ns": 3_000_000_000_u64, "former_agents": [agent] }))
        };
        let lost = agent(false, 2);
        assert!(lost.contains("2 s") && lost.contains("2 limits may stand for 6 s"), "{lost}");
        assert!(agent(true, 0).contains("nothing: it left in order"));
        assert!(agent(false, 0).contains("nothing: no lease of its lasts"));
        assert!(!page(&json!({})).contains("former agent"));
    }

    #[test]
    fn pods_that_agents_told_of_are_counted() {
        let agent = json!({ "identity": "a", "hosts": ["h"], "paced": 1, "unseen": 2, "unconfirmed": 3, "pods": 4 });
        let page = page(&json!({ "agents": [agent] }));
        let cells = page.lines().last().unwrap().split_whitespace();
        assert_eq!(cells.collect::<Vec<_>>(), ["a", "h", "1", "2", "3", "4"]);
    }

    /// No limit is no rate of zero: nothing is blocked.
    #[test]
    fn links_without_limits_have_none() {
        let shown = |limited: u64| {
            let link = json!({ "from": "a", "to": "b", "capacity_bps": 1_000_000, "flows": 0, "up": true,
                               "limited_bps": limited, "enforced_bps": limited, "measured_bps": 0 });
            let page = page(&json!({ "links": [link] }));
            let cells = page.lines().last().unwrap().split_whitespace().skip(5);
            cells.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(0), "0 - - 0 bit/s up");
        assert_eq!(shown(5), "0 5 bit/s 5 bit/s 0 bit/s up");
    }

    #[test]
    fn tables_change_at_switches_that_are_connected_alone() {
        let switch = |connected: bool, settled: bool| {
            let switch = json!({ "name": "s", "datapath_id": 7, "connected": connected, "settled": settled,
                                 "entries": 0, "meters": 0 });
            page(&json!({ "switches": [switch] }))
        };
        let absent = switch(false, false);
        assert!(absent.contains("not connected") && !absent.contains("changing"), "{absent}");
        assert!(switch(true, false).contains("changing"));
        assert!(switch(true, true).contains("settled"));
    }
}
