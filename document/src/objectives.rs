//! Objectives of the policy `arbiter`: `[[policy.objective]]`.

use policy::{Aim, Descriptor, Objective, Parameters, Share};
use units::Span;

use crate::DocumentError;
use crate::fields::{Fields, Once, Value};

type Read<T> = Result<T, DocumentError>;

/// Most patterns of an objective, and octets of one.
const MOST: usize = 1_000;
const LONGEST: usize = 256;

/// The list `objective`, whose policies `read_policy` reads.
pub(crate) fn read(
    fields: &mut Fields<'_>,
    read_policy: impl Fn(&mut Fields<'_>) -> Read<(&'static Descriptor, Parameters)>,
) -> Read<Vec<Objective>> {
    let list = fields.need("objective", "[{ name = \"storm\", latency = \"50 ms\" }]")?;
    let mut names = Once::default();
    let mut objectives = Vec::new();
    for value in list.list(Objective::MOST)? {
        let mut fields = value.fields()?;
        let named = fields.need("name", "\"storm\"")?;
        let name = names.take(named.label()?, &named)?;
        let applications = fields.tables("applications", MOST)?;
        let applications = applications.iter().map(pattern).collect::<Read<Vec<_>>>()?;
        let (policy, parameters) =
            fields.or("policy", (policy::PLAIN, Parameters::default()), |v| {
                let mut fields = v.fields()?;
                let read = read_policy(&mut fields)?;
                fields.done()?;
                Ok(read)
            })?;
        let aim = aim(&mut fields)?;
        let applications = if applications.is_empty() { vec![name.clone()] } else { applications };
        let objective = Objective { name, applications, policy, parameters, aim };
        if let Err(error) = objective.check() {
            let place = error.parameter().and_then(|name| fields.get(name));
            return Err(place.map_or_else(|| fields.error(&error), |place| place.error(&error)));
        }
        fields.done()?;
        objectives.push(objective);
    }
    Ok(objectives)
}

fn pattern(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    if text.is_empty() || text.len() > LONGEST {
        return Err(value.error(format_args!("must have 1 to {LONGEST} octets; write \"storm-*\"")));
    }
    Ok(text.to_owned())
}

fn aim(fields: &mut Fields<'_>) -> Read<Aim> {
    let weight = fields.optional("weight", |v| v.integer(1..=Aim::MOST))?;
    let latency = fields.optional("latency", Value::quantity::<Span>)?;
    let deadline = fields.optional("deadline", Value::quantity::<Span>)?;
    let background = fields.or("background", false, Value::flag)?;
    let most = fields.optional("most", Value::share)?;
    let given = [weight.is_some(), latency.is_some(), deadline.is_some(), background];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(fields.error("give only one of weight, latency, deadline and background"));
    }
    let share = most.unwrap_or(Share::literal(800_000));
    Ok(match (latency, deadline) {
        (Some(target), _) => Aim::Latency { target, most: share },
        (_, Some(within)) => Aim::Deadline { within, most: share },
        _ if most.is_some() => {
            return Err(fields.error("has no need that goes first; remove most"));
        }
        _ if background => Aim::Background,
        _ => Aim::Weight(weight.unwrap_or(1)),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;
    use crate::{Document, policies};

    fn read(text: &str) -> Read<Vec<Objective>> {
        let document = Document::read("f", text, &[])?;
        let mut fields = Value::root(&document).fields()?;
        let (policy, parameters) = policies::read(&mut fields, model::MSS)?;
        fields.done()?;
        assert_eq!(policy.name, "arbiter");
        Ok(parameters.objectives().to_vec())
    }

    #[test]
    fn objectives_say_who_yields() {
        let all = read(
            "name = \"arbiter\"\n[[objective]]\nname = \"clicks\"\napplications = [\"storm-*\", \"flink\"]\n\
             policy = { name = \"app-aware\", interval = \"1 s\" }\nlatency = \"50 ms\"\nmost = 0.5\n\
             [[objective]]\nname = \"sort\"\npolicy = { name = \"srb\" }\nweight = 3\n\
             [[objective]]\nname = \"report\"\ndeadline = \"60 s\"\n\
             [[objective]]\nname = \"backup\"\nbackground = true\n",
        )
        .unwrap();
        let aims: Vec<Aim> = all.iter().map(|objective| objective.aim).collect();
        let (half, most) = (Share::literal(500_000), Share::literal(800_000));
        assert_eq!(
            aims,
            [
                Aim::Latency { target: Span::from_millis(50), most: half },
                Aim::Weight(3),
                Aim::Deadline { within: Span::from_secs(60), most },
                Aim::Background,
            ]
        );
        assert!(all[0].names("storm-1") && all[0].names("flink") && !all[0].names("clicks"));
        assert!(all[1].names("sort"), "its own name where no other is given");
        assert_eq!((all[0].policy.name, all[3].policy.name), ("app-aware", "tcp"));
    }

    #[test]
    fn what_contradicts_itself_is_refused_where_it_stands() {
        for (fields, why) in [
            ("", "f:1:1: objective: is missing"),
            ("[[objective]]\n", "f:2:1: objective[0].name: is missing"),
            (
                "[[objective]]\nname = \"a\"\nweight = 1\nbackground = true\n",
                "give only one of weight, latency, deadline and background",
            ),
            ("[[objective]]\nname = \"a\"\nmost = 0.5\n", "has no need that goes first"),
            ("[[objective]]\nname = \"a\"\nlatency = \"0 s\"\n", "latency must be above 0 s"),
            (
                "[[objective]]\nname = \"a\"\npolicy = { name = \"sab\" }\n",
                "f:4:10: objective[0].policy: policy must be one that says rates of flows only",
            ),
            (
                "[[objective]]\nname = \"a\"\npolicy = { name = \"arbiter\", objective = [] }\n",
                "policy must be one that says rates of flows only",
            ),
            ("[[objective]]\nname = \"a\"\n[[objective]]\nname = \"a\"\n", "is given at"),
            ("[[objective]]\nname = \"a\"\napplications = [\"\"]\n", "must have 1 to 256 octets"),
        ] {
            let error = read(&format!("name = \"arbiter\"\n{fields}")).unwrap_err().to_string();
            assert!(error.contains(why), "{fields}: {error}");
        }
    }
}
