//! `watermaster policies`.

use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Error};
use experiment::scenario::{Override, Scenario};
use policy::{Descriptor, DirectiveKind, NAMES, POLICIES, Parameter};
use serde_json::{Value, json};

use crate::failure::{Failure, print};

/// List the policies, or show one: its source, what it needs, and its parameters
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster policies smsf")]
pub(crate) struct Policies {
    /// The policy to show
    #[arg(value_parser = PossibleValuesParser::new(NAMES), hide_possible_values = true)]
    name: Option<String>,

    /// Print JSON instead
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print docs/policies.md
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

impl Policies {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let chosen =
            self.name.as_deref().map(policy::find).transpose().map_err(Failure::misused)?;
        let text = match chosen {
            _ if self.markdown => markdown(),
            Some(policy) if self.json => pretty(&in_json(policy))?,
            None if self.json => pretty(&POLICIES.iter().copied().map(in_json).collect::<Value>())?,
            Some(policy) => shown(policy),
            None => list(),
        };
        print(&text)
    }
}

/// A policy's label on a command line: any text, which shells complete by the names of policies.
#[derive(Clone)]
pub(crate) struct Label;

impl TypedValueParser for Label {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMES.into_iter().map(PossibleValue::new)))
    }
}

/// What adds those of the policies `asked` for that a scenario doesn't list, with their default parameters.
pub(crate) fn listed(asked: &[String]) -> impl Iterator<Item = Override> {
    let known = asked.iter().filter(|name| policy::find(name).is_ok());
    known.map(|name| Override::member("--policy", "policy", name))
}

/// The labels of the policies `asked` for, in the order of the scenario; of all, if none is.
pub(crate) fn chosen(scenario: &Scenario, asked: &[String]) -> Result<Vec<String>, Failure> {
    let all: Vec<&str> = scenario.labels().collect();
    if let Some(label) = asked.iter().find(|label| !all.contains(&label.as_str())) {
        return Err(Failure::misused(format_args!(
            "--policy {label}: {} has no such policy, and none is called so; use one of {}, or of watermaster policies",
            scenario.name,
            all.join(", ")
        )));
    }
    let is_chosen = |label: &&str| asked.is_empty() || asked.iter().any(|p| p == label);
    Ok(all.into_iter().filter(is_chosen).map(str::to_owned).collect())
}

fn pretty(value: &Value) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n")
}

fn list() -> String {
    let mut text = format!("{:<15} {:<7} what it does\n", "policy", "live");
    for policy in POLICIES {
        let _ = writeln!(text, "{:<15} {:<7} {}", policy.name, briefly(policy, ""), policy.summary);
    }
    text + "\nwatermaster policies NAME shows one with its parameters.\n"
}

fn shown(policy: &Descriptor) -> String {
    let mut text = format!("{}: {}\n\n", policy.name, policy.summary);
    let _ = writeln!(text, "source   {}", policy.source);
    let _ = writeln!(text, "needs    {}", needs(policy));
    let _ = writeln!(text, "decides  {}", decides(policy));
    let _ = writeln!(text, "live     {}", live(policy));
    for parameter in policy.parameters {
        let _ = writeln!(text, "\n{}", parameter.name);
        let _ = writeln!(text, "    {}", parameter.meaning);
        let _ = writeln!(text, "    range    {}", parameter.kind);
        let _ = writeln!(text, "    default  {}", default(parameter));
    }
    let _ = write!(text, "\nIn a scenario:\n\n[[policy]]\n{}", example(policy));
    text + "\nIn the configuration of a controller it is [policy].\n"
}

fn needs(policy: &Descriptor) -> String {
    joined(policy.needs.iter(), "flows that applications announce")
}

fn decides(policy: &Descriptor) -> String {
    joined(policy.directives.iter(), "nothing")
}

/// Whether it is enforced in a live network: under the controller, or by `watermaster gather`.
fn briefly(policy: &Descriptor, otherwise: &'static str) -> &'static str {
    match policy.is_live() {
        true => "yes",
        false if policy.says(DirectiveKind::Gather) => "gather",
        false => otherwise,
    }
}

fn live(policy: &Descriptor) -> String {
    match policy.why_not_live() {
        Some(_) if policy.says(DirectiveKind::Gather) => {
            "watermaster gather, without a controller".to_owned()
        }
        Some(why) => format!("no: {why}"),
        None => {
            let all = policy.directives.iter().filter_map(|kind| kind.live_actuator());
            // Told and prepared windows have the same one.
            let actuators: std::collections::BTreeSet<_> = all.collect();
            joined(actuators.iter(), "yes: there is nothing to enforce")
        }
    }
}

fn joined(parts: impl Iterator<Item: ToString>, nothing: &str) -> String {
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    if parts.is_empty() { nothing.to_owned() } else { parts.join("; ") }
}

fn default(parameter: &Parameter) -> String {
    let Some(value) = &parameter.default else {
        return match parameter.needed_without {
            None => parameter.otherwise.to_owned(),
            Some(other) => format!("{}; needed without {other}", parameter.otherwise),
        };
    };
    match parameter.published {
        None => value.to_string(),
        Some(section) => format!("{value} (published: {section})"),
    }
}

/// Objectives as `docs/objectives.md` explains them.
const OBJECTIVES: &str = "\
    objective = [\n    \
    { name = \"stream\", applications = [\"storm-*\"], policy = { name = \"app-aware-fast\" }, latency = \"100 ms\" },\n    \
    { name = \"sort\", policy = { name = \"srb\" }, weight = 3 },\n    \
    { name = \"backup\", background = true },\n]\n";

/// The policy with its parameters as they are by default, as TOML.
fn example(policy: &Descriptor) -> String {
    let mut text = format!("name = \"{}\"\n", policy.name);
    for Parameter { name, default, needed_without, kind, .. } in policy.parameters {
        let value = match default {
            Some(value) => value.clone(),
            None if needed_without.is_some() => kind.example(),
            None => continue,
        };
        let _ = writeln!(text, "{name} = {value}");
    }
    if policy == policy::ARBITER {
        text += OBJECTIVES;
    }
    text
}

fn in_json(policy: &Descriptor) -> Value {
    json!({
        "name": policy.name,
        "summary": policy.summary,
        "source": policy.source,
        "needs": policy.needs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "decides": policy.directives.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "live": policy.is_live(),
        "parameters": policy.parameters.iter().map(parameter_in_json).collect::<Vec<_>>(),
        "example": example(policy),
    })
}

fn parameter_in_json(parameter: &Parameter) -> Value {
    let bounds = parameter.kind.bounds();
    json!({
        "name": parameter.name,
        "meaning": parameter.meaning,
        "range": parameter.kind.to_string(),
        "least": bounds.as_ref().map(|(least, _)| value_in_json(least)),
        "most": bounds.as_ref().map(|(_, most)| value_in_json(most)),
        "default": parameter.default.as_ref().map(value_in_json),
        "otherwise": parameter.default.is_none().then_some(parameter.otherwise),
        "needed_without": parameter.needed_without,
        "published": parameter.published,
    })
}

/// A value shows as TOML, and what TOML there is of single values and lists is JSON too.
fn value_in_json(value: &policy::Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or(Value::Null)
}

/// The page `docs/policies.md`.
fn markdown() -> String {
    let mut text = String::from(
        "# Policies\n\n\
         For users. What each policy does and needs, and its parameters; `watermaster policies NAME` shows one. A policy stands in a\n\
         scenario as `[[policy]]` ([scenarios.md](scenarios.md)), and with the same keys in a controller's configuration as\n\
         `[policy]` ([configuration.md](configuration.md#controller)).\n\n\
         *Live* says what enforces it outside a simulation; `gather` is `watermaster gather`, which needs no controller. Where a\n\
         default is the source's own, its section stands beside it.\n\n\
         | policy | what it does | live |\n\
         |---|---|---|\n",
    );
    for policy in POLICIES {
        let Descriptor { name, summary, .. } = policy;
        let live = briefly(policy, "no");
        let _ = writeln!(text, "| [`{name}`](#{name}) | {summary} | {live} |");
    }
    for policy in POLICIES {
        let _ = writeln!(text, "\n## {}\n\n{}.\n", policy.name, capital(policy.summary));
        let _ = writeln!(text, "- Source: {}", policy.source);
        let _ = writeln!(text, "- Needs: {}", needs(policy));
        let _ = writeln!(text, "- Decides: {}", decides(policy));
        let _ = writeln!(text, "- Live: {}", live(policy));
        if *policy == policy::ARBITER {
            text += "- Objectives: [objectives.md](objectives.md)\n";
        }
        if policy.parameters.is_empty() {
            continue;
        }
        text += "\n| parameter | default | range | what it sets |\n|---|---|---|---|\n";
        for parameter in policy.parameters {
            let Parameter { name, kind, meaning, .. } = parameter;
            let _ = writeln!(text, "| `{name}` | {} | {kind} | {meaning} |", default(parameter));
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_policies_is_what_the_command_prints() {
        let page = include_str!("../../docs/policies.md");
        assert_eq!(page, markdown(), "watermaster policies --markdown > docs/policies.md");
    }

    #[test]
    fn every_example_reads_as_the_policy_with_its_defaults() {
        for policy in POLICIES {
            let text = example(policy);
            let document = document::Document::read("example", &text, &[]).unwrap();
            let mut fields = document::fields::Value::root(&document).fields().unwrap();
            let segment = model::MSS;
            let (found, read) = document::policies::read(&mut fields, segment).unwrap();
            fields.done().unwrap();
            assert_eq!(found, *policy);
            for parameter in policy.parameters {
                if let Some(default) = &parameter.default {
                    assert_eq!(read.get(parameter.name), Some(default), "{}", policy.name);
                }
            }
        }
    }
}
