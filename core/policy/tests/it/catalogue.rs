//! What is said of each policy, held against the policy.

use std::collections::BTreeSet;

use units::Bytes;
use watermaster_policy::{
    Kind, NAMES, Need, POLICIES, Parameter, Parameters, PolicyError, Tags, Typed, Value, by_name,
    find,
};

#[test]
fn every_policy_says_what_it_is() {
    let names: BTreeSet<&str> = NAMES.into_iter().collect();
    assert_eq!(names.len(), POLICIES.len(), "names are unique");
    for policy in POLICIES {
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(!policy.name.is_empty() && policy.name.chars().all(plain), "{}", policy.name);
        assert!(!policy.summary.is_empty() && !policy.source.is_empty(), "{}", policy.name);
        assert_eq!(find(policy.name), Ok(*policy));
        let keys: BTreeSet<&str> = policy.parameters.iter().map(|p| p.name).collect();
        assert_eq!(keys.len(), policy.parameters.len(), "{}: keys are unique", policy.name);
        // Keys of the table itself.
        assert!(["name", "label", "transport"].iter().all(|key| !keys.contains(key)));
        for Parameter { name, meaning, kind, default, otherwise, .. } in policy.parameters {
            assert!(!meaning.is_empty());
            assert!(default.as_ref().is_none_or(|value| kind.admits(value)), "{name}");
            assert!(kind.admits(&kind.example()), "{name}");
            assert_eq!(default.is_none(), !otherwise.is_empty(), "{name}");
        }
    }
}

/// A default is published where the source of the policy that lists the parameter gives it: ours have none, and of `sab`
/// the text gives one.
#[test]
fn no_default_of_ours_counts_as_published() {
    for policy in POLICIES {
        let published = policy.parameters.iter().filter(|p| p.published.is_some()).map(|p| p.name);
        if policy.source.starts_with("ours") {
            assert_eq!(published.count(), 0, "{}", policy.name);
        } else if policy.name == "sab" {
            assert_eq!(published.collect::<Vec<_>>(), ["buffer_share"]);
        }
    }
}

/// Each parameter is read as the type that it has: least and most are taken, or refused as contradicting
/// another, and nothing panics.
#[test]
fn every_value_in_bounds_is_understood() {
    for policy in POLICIES {
        policy.build(&Parameters::default()).unwrap();
        for Parameter { name, kind, .. } in policy.parameters {
            let mut values = vec![kind.example()];
            values.extend(kind.bounds().map(|(least, most)| [least, most]).into_iter().flatten());
            if let Kind::List(kind, _) = kind {
                let members = kind.bounds().map(|(least, most)| vec![least, most]);
                values.push(Value::List(members.unwrap_or_default()));
            }
            for value in values {
                let mut parameters = Parameters::default();
                parameters.set(name, value);
                let refused = policy.build(&parameters).err();
                assert!(matches!(refused, None | Some(PolicyError::OutOfRange { .. })), "{name}");
            }
        }
    }
}

#[test]
fn what_a_policy_cannot_be_told_is_refused() {
    let refusal = |name, value: Value| {
        let mut parameters = Parameters::default();
        parameters.set(name, value);
        by_name("smsf", &parameters).err().unwrap().to_string()
    };
    assert_eq!(refusal("gamma", true.value()), "the policy has no parameter \"gamma\"");
    assert_eq!(refusal("beta", true.value()), "beta must be a number from 0.000001 to 1");
    assert_eq!(
        refusal("period", units::Span::ZERO.value()),
        "period must be a time from 1 ms to 3600000 s"
    );
    assert_eq!(
        refusal("duration", units::Span::from_secs(21).value()),
        "duration must be at most the period (T)"
    );
    let unknown = by_name("smfs", &Parameters::default()).err().unwrap();
    assert!(
        unknown.to_string().starts_with("there is no policy \"smfs\"; choose one of tcp, fair")
    );
}

#[test]
fn who_has_switches_report_needs_handshakes() {
    for policy in POLICIES {
        let watches = policy.build(&Parameters::default()).unwrap().watch().is_some();
        assert_eq!(policy.needs(Need::Handshakes), watches, "{}", policy.name);
    }
}

#[test]
fn who_has_hosts_write_tags_needs_them_and_is_neither_passive_nor_live() {
    for policy in POLICIES {
        let tags = policy.build(&Parameters::default()).unwrap().tags();
        assert_eq!(policy.needs(Need::Tags), tags.is_some(), "{}", policy.name);
        if tags.is_some() {
            assert!(!policy.is_passive() && !policy.is_live(), "{}", policy.name);
        }
    }
}

#[test]
fn tags_are_as_published_unless_told_otherwise() {
    let tags = |name, parameters| by_name(name, &parameters).map(|policy| policy.tags().unwrap());
    let Ok(Tags::Left(own)) = tags("pfabric", Parameters::default()) else { panic!() };
    let windows = (own.first_window, own.largest_window);
    assert_eq!((own.buffer, windows, own.timeouts), (Bytes::new(36_000), (12, 23), 5));
    let Ok(Tags::Sent(sizes)) = tags("pias", Parameters::default()) else { panic!() };
    assert_eq!((sizes.len(), sizes[0]), (7, Bytes::new(909 * 1460)));
    let Ok(Tags::Granted(own)) = tags("homa", Parameters::default()) else { panic!() };
    assert_eq!((own.ahead, own.priorities, own.overcommitment), (12, 7, 7));
    let three = Parameters::default().with("cutoffs", vec![Bytes::new(5), Bytes::new(6)]);
    let Ok(Tags::Granted(own)) = tags("homa", three) else { panic!() };
    assert_eq!((own.cutoffs.len(), own.priorities, own.overcommitment), (2, 5, 5));
    let refusal = |name, parameters| tags(name, parameters).err().unwrap().to_string();
    assert_eq!(
        refusal("pfabric", Parameters::default().with("first_window", 24u32)),
        "largest_window must be at least first_window"
    );
    let equal = vec![Bytes::new(5), Bytes::new(5)];
    assert_eq!(
        refusal("homa", Parameters::default().with("cutoffs", equal.clone())),
        "cutoffs must be a list in which each size is above the one before"
    );
    assert_eq!(
        refusal("pias", Parameters::default().with("thresholds", equal)),
        "thresholds must be a list in which each size is above the one before"
    );
}
