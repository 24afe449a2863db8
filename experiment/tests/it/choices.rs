//! What choices that a text leaves open decide of a verdict, and which runs they take.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;

use crate::reproduce::{AXIS, BASE, CURVES, Desk, OPEN, keys};
use watermaster_experiment::metrics::Summary;
use watermaster_experiment::report::render_results;
use watermaster_experiment::reproduce::{
    ChoiceResult, Measure, Measured, Plan, PointPlan, PolicyMeasured, Reproduction, Selection,
};
use watermaster_experiment::scenario::Scenario;
use watermaster_experiment::{Rule, Verdict};

#[test]
fn a_verdict_that_a_choice_decides_is_undetermined() {
    let desk = Desk::new();
    desk.scenario("axis", &format!("{AXIS}{OPEN}"));
    let plan = desk.plan(&Selection::default());
    // The axis, and for the value over all of it both points under each of the two other values.
    assert_eq!(plan.units.len(), 4 + 2 * 4);
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let figure = &reproduction.figures[0];
    let told: Vec<_> =
        figure.measures.iter().map(|m| (m.name.as_str(), m.verdict, m.as_chosen)).collect();
    let expected = [
        ("tcp fct_mean_s at 1", Verdict::Undetermined, Some(Verdict::Holds)),
        ("tcp fct_mean_s at 2", Verdict::Differs, None),
        ("fifo fct_mean_s", Verdict::Holds, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(figure.verdict, Verdict::Differs, "what differs prevails");
    assert_eq!(reproduction.headline().count(), 0, "what is undetermined is no headline");
    let because = &figure.measures[0].because;
    assert_eq!(
        because,
        "holds with what stands for how much is sent (100 KB), otherwise less: differs"
    );
    let [choice] = &figure.choices[..] else { panic!("one choice") };
    let names: Vec<_> = choice.tried.iter().map(|tried| tried.name.as_str()).collect();
    assert_eq!(names, ["as much", "less"]);
    assert!(choice.tried.iter().all(|tried| tried.measures.len() == 3 && tried.failed.is_empty()));

    let json: serde_json::Value = serde_json::from_str(&reproduction.to_json().unwrap()).unwrap();
    let measure = &json[0]["measures"][0];
    assert_eq!(
        (&measure["verdict"], &measure["as_chosen"]),
        (&"undetermined".into(), &"holds".into())
    );
    let tried = &json[0]["choices"][0]["tried"];
    assert_eq!(tried[1]["measures"][0]["verdict"], "differs");
    assert_eq!(json[0]["choices"][0]["rule"], "plainest");
    for told in [
        reproduction.text(),
        reproduction.text_markdown("text", ""),
        render_results(&reproduction, ""),
    ] {
        for words in ["how much is sent", "the plainest: a round number", "less", because] {
            assert!(told.contains(words), "no {words} in\n{told}");
        }
    }
    // Of what the text does say, and can't be run, nobody is told that it doesn't.
    let choice = &reproduction.figures[0].choices[0];
    assert!(choice.told().starts_with("The text doesn't say how much is sent. Here: "));
    let reduced = ChoiceResult { rule: Rule::Reduced, ..choice.clone() }.told();
    assert!(
        reduced.starts_with("The text says how much is sent, which isn't run. Here: "),
        "{reduced}"
    );
}

/// Completion times follow from what was put in, by the scenario's word; the time of the whole doesn't.
#[test]
fn what_another_metric_of_the_same_runs_tells_is_weighed_even_where_ours_follows() {
    let desk = Desk::new();
    let choice = "[[choice]]\nabout = \"of what times are\"\nstands = \"a flow\"\nrule = \"plainest\"\n\
                  why = \"it is short\"\n\
                  tried = [{ name = \"all\", metric = { fct_mean_s = \"makespan_s\" } }]\n";
    let put_in = AXIS.replace("error = 0.001 }", "error = 0.001 }\nfollows_from = \"sizes\"");
    desk.scenario("axis", &format!("{put_in}{choice}"));
    let plan = desk.plan(&Selection::default());
    assert_eq!(plan.units.len(), 4, "the runs are the same");
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let figure = &reproduction.figures[0];
    let [one, two, _] = &figure.measures[..] else { panic!("three values") };
    assert_eq!((one.verdict, one.as_chosen), (Verdict::Undetermined, Some(Verdict::NoInformation)));
    assert!(
        one.because.ends_with("stands for of what times are (a flow), otherwise all: holds"),
        "{}",
        one.because
    );
    assert_eq!((two.verdict, two.as_chosen), (Verdict::Differs, None), "it differs by both");
    let tried = &figure.choices[0].tried[0].measures;
    assert_eq!(tried[0].name, "tcp makespan_s at 1");
    // Of a metric that it doesn't read otherwise a value says nothing.
    let other = choice.replace("fct_mean_s =", "fct_p99_s =");
    desk.scenario("axis", &format!("{AXIS}{other}"));
    let plan = desk.plan(&Selection::default());
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    assert_eq!(reproduction.figures[0].measures[0].verdict, Verdict::Holds);
    assert!(reproduction.figures[0].choices.is_empty(), "and isn't told");

    for (wrong, expected) in [
        ("metric = { fct_mean_s = \"makespan\" }", "unknown"),
        ("metric = { fct = \"makespan_s\" }", "metric.fct: \"fct\" is unknown"),
        ("against = { tcp = \"udp\" }", "\"udp\" is unknown"),
        ("metric = {}", "write 1 to"),
        ("metric = { fct_mean_s = \"makespan_s\" }, set = { seed = 2 }", "exclude each other"),
    ] {
        let text = choice.replace("metric = { fct_mean_s = \"makespan_s\" }", wrong);
        desk.scenario("axis", &format!("{AXIS}{text}"));
        let path = desk.0.path().join("scenarios/text/axis.toml");
        let error = Scenario::load(&path, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Within a millisecond no transfer ends, so that nothing is measured: it counts for nothing.
/// A second choice leaves what the first made undetermined.
#[test]
fn what_a_value_leaves_unmeasured_counts_for_nothing_and_undetermined_stays() {
    let desk = Desk::new();
    let choice = |about: &str, set: &str| {
        format!(
            "[[choice]]\nabout = \"{about}\"\nstands = \"b\"\nrule = \"plainest\"\nwhy = \"none\"\n\
             tried = [{{ name = \"c\", set = {{ {set} }} }}]\n"
        )
    };
    let never = choice("when it ends", "until = \"1 ms\"");
    desk.scenario("axis", &format!("{AXIS}{never}"));
    let plan = desk.plan(&Selection::default());
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let figure = &reproduction.figures[0];
    assert!(figure.choices[0].tried[0].measures.iter().all(|measure| measure.ours.is_none()));
    assert_eq!((figure.measures[0].verdict, figure.measures[0].as_chosen), (Verdict::Holds, None));

    let desk = Desk::new();
    let less = choice("how much", "\"workload.bytes\" = \"10 KB\"");
    let same = choice("a round number", "\"workload.bytes\" = \"101 KB\"");
    desk.scenario("axis", &format!("{AXIS}{less}{same}"));
    let plan = desk.plan(&Selection::default());
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let measure = &reproduction.figures[0].measures[0];
    assert_eq!(
        (measure.verdict, measure.as_chosen),
        (Verdict::Undetermined, Some(Verdict::Holds)),
        "{measure:?}"
    );
    // A point that fails leaves no good verdict, and nothing that differs.
    let mut results = desk.run(&plan);
    for &unit in &plan.figures[0].panels[0].points[1].units {
        results[unit] = Err("it fails".into());
    }
    let failed = Reproduction::new(&plan, &results, false);
    assert!(failed.figures[0].reason.contains("failed: it fails"));
    let mut alone = plan.clone();
    alone.figures[0].panels[0].choices.clear();
    let failed = Reproduction::new(&alone, &results, false);
    assert_eq!(failed.figures[0].verdict, Verdict::Unresolved);
}

/// A single job is first in and first out. With a smaller window it takes longer, which leaves open what
/// says so and contradicts the opposite.
#[test]
fn runs_that_are_equal_under_what_stands_alone_leave_open_what_another_value_shows() {
    let against = |direction: &str| {
        format!(
            "[[published]]\npolicy = \"fifo\"\nmetric = \"fct_mean_s\"\nagainst = \"tcp\"\n\
             direction = \"{direction}\"\n"
        )
    };
    let choice = |window: u32| {
        let (rule, why) = ("rule = \"plainest\"", "why = \"none\"");
        format!(
            "[[choice]]\nabout = \"a\"\nstands = \"b\"\n{rule}\n{why}\n\
             tried = [{{ name = \"c\", set = {{ \"policy.fifo.transport.initial_window\" = {window} }} }}]\n"
        )
    };
    let axis = AXIS.split("[[published]]").next().unwrap();
    for (window, direction, verdict, as_chosen) in [
        (10, "more", Verdict::NoInformation, None),
        (1, "more", Verdict::Undetermined, Some(Verdict::NoInformation)),
        (1, "less", Verdict::Differs, Some(Verdict::NoInformation)),
    ] {
        let desk = Desk::new();
        let (against, choice) = (against(direction), choice(window));
        let text = format!("name = \"n\"\ntitle = \"t\"\n{BASE}{axis}{against}{choice}");
        fs::write(desk.0.path().join("scenarios/text/equal.toml"), text).unwrap();
        let plan = desk.plan(&Selection::default());
        let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
        let measure = &reproduction.figures[0].measures[0];
        assert_eq!((measure.verdict, measure.as_chosen), (verdict, as_chosen), "{measure:?}");
    }
}

/// A plan of `runs` of each transfer, with 3 under what else was possible, and the verdict on the first value
/// when those that stand take `stands`, and the others `tried`, in seconds.
fn weighed(stands: &[f64], tried: &[f64]) -> (Verdict, String, usize) {
    let desk = Desk::new();
    let axis = AXIS.replace("seeds = 2", &format!("seeds = {}", stands.len()));
    let less = OPEN
        .replace("    { name = \"as much\", set = { \"workload.bytes\" = \"101 KB\" } },\n", "");
    desk.scenario("axis", &format!("{axis}{less}"));
    let plan = desk.plan(&Selection::default());
    let panel = &plan.figures[0].panels[0];
    let mut results = vec![Err("not run".to_owned()); plan.units.len()];
    let measured = |time: f64| {
        let one = |policy: &str| PolicyMeasured {
            policy: policy.into(),
            metrics: [("fct_mean_s".to_owned(), time)].into(),
            samples: BTreeMap::new(),
        };
        Ok(Measured(vec![one("tcp"), one("fifo")]))
    };
    for (points, times) in [(&panel.points, stands), (&panel.choices[0].tried[0], tried)] {
        for point in points {
            for (unit, time) in point.units.iter().zip(times) {
                results[*unit] = measured(*time);
            }
        }
    }
    let reproduction = Reproduction::new(&plan, &results, false);
    let figure = &reproduction.figures[0];
    let one = &figure.measures[0];
    (one.verdict, one.because.clone(), figure.choices[0].tried[0].measures.len())
}

/// Published are 8.5 ms ± 1 ms, and in the mean or at the most nobody says. Alone neither choice tells
/// against it: of the runs that stand mean and most agree, and so does the mean of the others.
#[test]
fn other_runs_are_read_in_every_way() {
    let published = "[[published]]\npolicy = \"tcp\"\nmetric = \"fct_mean_s\"\nvalue = 0.0085\n\
        reading = { from = \"text\", error = 0.001 }\n";
    let (agrees, _, rows) = read_as_the_most(published, 0.0086, 0.0085);
    assert_eq!((agrees, rows), (Verdict::Holds, vec![0, 0, 0, 0]));
    let (differs, because, rows) = read_as_the_most(published, 0.0086, 0.03);
    assert_eq!((differs, rows), (Verdict::Undetermined, vec![0, 0, 0, 1]));
    assert!(because.ends_with("otherwise less, read as the most: differs"), "{because}");
    // What follows of one metric needn't follow of another, whatever runs.
    let follows = format!("{published}follows_from = \"what is put in\"\n");
    let (verdict, because, _) = read_as_the_most(&follows, 0.03, 0.0085);
    assert_eq!(verdict, Verdict::Undetermined);
    assert!(because.contains("otherwise less, read as the most: holds;"), "{because}");
}

/// The verdict on `published` of 8.5 ms ± 1 ms, its reason, and the rows of a choice's values, where another reading takes the
/// most: `stands` in all runs but those of the value "less", in which it is `most`.
fn read_as_the_most(published: &str, stands: f64, most: f64) -> (Verdict, String, Vec<usize>) {
    let desk = Desk::new();
    let figure = AXIS.split("vary = ").next().unwrap();
    let one = format!("{figure}seeds = 2\nmetric = \"fct_mean_s\"\n\n");
    let reading = "[[choice]]\nabout = \"of which\"\nstands = \"the mean\"\nrule = \"plainest\"\n\
        why = \"none\"\n\
        tried = [{ name = \"the most\", metric = { fct_mean_s = \"fct_p95_s\" } }]\n";
    // By a value that is left open nothing follows, so that the runs are there.
    let open = "[[published]]\npolicy = \"fifo\"\nmetric = \"fct_mean_s\"\nvalue = 0.0085\n\
        reading = { from = \"text\", error = 0.001 }\n";
    desk.scenario("axis", &format!("{one}{published}{open}{OPEN}{reading}"));
    let plan = desk.plan(&Selection::default());
    let panel = &plan.figures[0].panels[0];
    let names: Vec<_> = panel.choices[0].choice.tried.iter().map(|t| t.name.as_str()).collect();
    let both = ["as much, read as the most", "less, read as the most"];
    assert_eq!(names, ["as much", both[0], "less", both[1]]);
    let mut results = vec![Err("not run".to_owned()); plan.units.len()];
    let mut put = |points: &[PointPlan], most: f64| {
        for unit in points.iter().flat_map(|point| &point.units) {
            let metrics = [("fct_mean_s", 0.0085), ("fct_p95_s", most)];
            let metrics: BTreeMap<_, _> = metrics.map(|(m, v)| (m.to_owned(), v)).into();
            let of = |policy: &str| PolicyMeasured {
                policy: policy.into(),
                metrics: metrics.clone(),
                samples: BTreeMap::new(),
            };
            results[*unit] = Ok(Measured(vec![of("tcp"), of("fifo")]));
        }
    };
    put(&panel.points, stands);
    put(&panel.choices[0].tried[0], stands);
    put(&panel.choices[0].tried[2], most);
    let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
    let of_tcp = |m: &&Measure| m.published.policy == "tcp";
    let rows =
        figure.choices[0].tried.iter().map(|tried| tried.measures.iter().filter(of_tcp).count());
    (figure.measures[0].verdict, figure.measures[0].because.clone(), rows.collect())
}

/// Published are 8.5 ms ± 1 ms.
#[test]
fn a_choice_decides_only_what_it_changes_on_the_same_seeds() {
    let stands = [0.0085, 0.0085, 0.0086, 0.0084, 0.0085, 0.0085];
    let (verdict, because, _) = weighed(&stands, &[0.002, 0.0021, 0.0019]);
    assert_eq!(verdict, Verdict::Undetermined, "{because}");
    assert_eq!(weighed(&stands, &[0.0086, 0.0085, 0.0086]).0, Verdict::Holds);
    // Few repetitions that can't tell count for nothing, with the interval of what was run.
    let (verdict, because, _) = weighed(&stands, &[0.004, 0.009, 0.006]);
    assert_eq!((verdict, because.as_str()), (Verdict::Holds, ""));
    // What comes out the same has no row, and one that differs only in its seeds none that counts.
    assert_eq!(weighed(&stands, &stands[..3]), (Verdict::Holds, String::new(), 0));
    let late = [0.002, 0.0021, 0.0019, 0.0019, 0.0021, 0.002];
    let early: Vec<f64> = [0.0085, 0.0086, 0.0085].into_iter().chain(late).chain(late).collect();
    let (verdict, because, rows) = weighed(&early, &[0.0086, 0.0085, 0.0084]);
    assert_eq!((verdict, because.as_str(), rows), (Verdict::Differs, "", 3), "by its seeds");
    // Where what stands can't tell on the same seeds, only intervals that lie apart count.
    let wide: Vec<f64> = [0.0065, 0.0085, 0.0105].into_iter().chain([0.0085; 60]).collect();
    assert_eq!(weighed(&wide, &[0.006, 0.0061, 0.0062]).0, Verdict::Holds);
    assert_eq!(weighed(&wide, &[0.002, 0.0021, 0.0022]).0, Verdict::Undetermined);
    // Where what stands can't tell at all, two values must contradict each other.
    let open = [0.004, 0.009, 0.006];
    assert_eq!(weighed(&open, &[0.03, 0.031, 0.032]).0, Verdict::Unresolved);
}

#[test]
fn a_choice_takes_few_repetitions_with_the_interval_of_what_was_run() {
    let desk = Desk::new();
    let noisy = BASE.replace("senders = 2", "senders = 2\njitter = \"2 ms\"");
    let axis = AXIS.replace("seeds = 2", "seeds = 12");
    let text = format!("name = \"axis\"\ntitle = \"Axis\"\n{noisy}{axis}{OPEN}");
    fs::write(desk.0.path().join("scenarios/text/axis.toml"), text).unwrap();
    let plan = desk.plan(&Selection::default());
    assert_eq!(plan.units.len(), 24 + 2 * 2 * 3);
    let quick = desk.plan(&Selection { quick: true, ..Selection::default() });
    assert_eq!(quick.units.len(), 2);
    let judged = Reproduction::new(&quick, &desk.run(&quick), true);
    assert!(judged.figures[0].reason.contains("not tried in a quick run: "), "{judged:?}");
    let results = desk.run(&plan);
    let reproduction = Reproduction::new(&plan, &results, false);
    let panel = &plan.figures[0].panels[0];
    let tcp = |unit: &usize| results[*unit].as_ref().unwrap().0[0].metrics["fct_mean_s"];
    let half = |units: &[usize]| {
        Summary::of(&units.iter().map(tcp).collect::<Vec<_>>()).unwrap().half_width.unwrap()
    };
    let tried = &reproduction.figures[0].choices[0].tried[0].measures[1];
    assert_eq!(tried.name, "tcp fct_mean_s at 2");
    let own = half(&panel.choices[0].tried[0][1].units);
    assert!(own > 0.0 && (tried.interval.unwrap() - own).abs() < 1e-12, "{tried:?}");
    let stands = half(&panel.points[1].units[..3]);
    let same_seeds = tried.same_seeds.as_ref().unwrap();
    assert!((same_seeds.interval.unwrap() - stands).abs() < 1e-12, "{tried:?}");
    let page = reproduction.text_markdown("text", "");
    assert!(page.contains(&tried.same_seeds_shown()), "{page}");
}

/// The sentence says that one is slower, and not than which.
#[test]
fn a_value_counts_once_however_it_is_read() {
    let lone = BASE.replace("name = \"fifo\"", "name = \"fifo\"\n\n[[policy]]\nname = \"tcp\"\nlabel = \"slow\"\ntransport = { initial_window = 1 }");
    let axis = AXIS.split("[[published]]").next().unwrap();
    let row = |policy: &str| {
        format!(
            "[[published]]\npolicy = \"{policy}\"\nmetric = \"fct_mean_s\"\nagainst = \"fifo\"\ndirection = \"more\"\n"
        )
    };
    let choice = |of: &str| {
        format!(
            "[[choice]]\nabout = \"than which\"\nstands = \"fifo\"\nrule = \"plainest\"\nwhy = \"none\"\n{of}\n\
         tried = [{{ name = \"tcp\", against = {{ fifo = \"tcp\" }} }}]\n"
        )
    };
    let judged = |of: &str| {
        let desk = Desk::new();
        let text = format!(
            "name = \"n\"\ntitle = \"t\"\n{lone}{axis}{}{}{}",
            row("slow"),
            row("tcp"),
            choice(of)
        );
        fs::write(desk.0.path().join("scenarios/text/n.toml"), text).unwrap();
        let plan = desk.plan(&Selection::default());
        let figure = Reproduction::new(&plan, &desk.run(&plan), false).figures.remove(0);
        assert_eq!(figure.measures.len(), 2);
        let rows: Vec<_> =
            figure.choices.iter().flat_map(|c| &c.tried[0].measures).cloned().collect();
        (figure, rows)
    };
    let (figure, rows) = judged("");
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["slow fct_mean_s against tcp"], "a policy isn't compared with itself");
    assert_eq!(figure.measures[0].verdict, Verdict::DirectionHolds, "both ways");
    let (_, rows) = judged("of = { policy = \"tcp\" }");
    assert!(rows.is_empty(), "it is about another row: {rows:?}");
    let (_, rows) = judged("of = { policy = \"slow\", metric = \"fct_mean_s\" }");
    assert_eq!(rows.len(), 1);
}

#[test]
fn bounds_by_our_rule_and_values_of_stand_ins_are_counted_apart() {
    let desk = Desk::new();
    let rule = AXIS.replace(
        "value = 0.0085\nreading = { from = \"text\"",
        "value = 0.0085\nbound = \"at most\"\nnote = \"half of it\"\nreading = { from = \"rule\"",
    ) + "\n";
    let text = format!(
        "untried = [\"how long cables are\"]\nname = \"axis\"\ntitle = \"t\"\n{BASE}{rule}"
    );
    let path = desk.0.path().join("scenarios/text/axis.toml");
    fs::write(&path, &text).unwrap();
    let again = rule.replace("\"10\"", "\"10-again\"\nsame_values_as = \"10\"");
    desk.scenario("again", &again);
    let plan = desk.plan(&Selection::default());
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    assert_eq!((reproduction.figures.len(), reproduction.headline().count()), (2, 1));
    let markdown = reproduction.markdown("");
    for words in [
        "figures: **differs** 10.\n",
        "| at most 8.50 ms ± 1.00 ms (our rule) |",
        "| values by our rules | 1 | 0 | 0 |",
    ] {
        assert!(markdown.contains(words), "no {words} in\n{markdown}");
    }
    // The published value at 2 differs; without it a bound that differs decides nothing.
    let only = |bound: &str| {
        let desk = Desk::new();
        let rule = rule.replace("value = 0.0085", &format!("value = {bound}"));
        let (rule, _) = rule.rsplit_once("[[published]]").unwrap();
        desk.scenario("axis", rule);
        let plan = desk.plan(&Selection::default());
        let figure = Reproduction::new(&plan, &desk.run(&plan), false).figures.remove(0);
        (figure.measures[0].verdict, figure.verdict)
    };
    assert_eq!(only("0.0085"), (Verdict::Holds, Verdict::Holds));
    assert_eq!(only("0.0001"), (Verdict::Differs, Verdict::Holds));
    let own = reproduction.text_markdown("text", "");
    let counts = "Of 2 published numbers 1 hold, 0 hold in direction, 1 differ. Rules of ours make 1 more of its words: 1 hold, 0 hold in direction, 0 differ. Judged again from other input, and not counted: 10-again.";
    assert!(own.contains(counts), "{own}");
    assert!(
        own.contains("Note. tcp fct\\_mean\\_s at 1: half of it")
            || own.contains("Note. tcp fct_mean_s at 1: half of it"),
        "{own}"
    );
    assert!(
        own.contains("## Left open, and not tried\n\n* how long cables are (figures 10)"),
        "{own}"
    );
    let page = render_results(&reproduction, "");
    assert!(page.contains("not tried: how long cables are"));
    // Of each of the two figures the second point is drawn; the bound isn't.
    assert_eq!(page.matches("class=\"told p").count(), 2);
    for (from, to, expected) in [
        ("note = \"half of it\"\n", "", "say which in note"),
        ("number = \"10\"", "number = \"10\"\nsame_values_as = \"10\"", "is the figure itself"),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = Scenario::load(&path, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&path, text.replace("number = \"10\"", "number = \"11\"")).unwrap();
    let folder = desk.0.path().join("scenarios");
    let error = Plan::new(&folder, &Selection::default()).unwrap_err().to_string();
    assert!(error.contains("again.toml: figure.same_values_as: there is no figure 10;"), "{error}");
}

#[test]
fn a_choice_that_could_mean_several_policies_is_refused() {
    let desk = Desk::new();
    let two = BASE.replace(
        "name = \"fifo\"",
        "name = \"fifo\"\n\n[[policy]]\nname = \"fifo\"\nlabel = \"other\"",
    );
    let both = two.replace(
        "[[policy]]\nname = \"fifo\"\n\n",
        "[[policy]]\nname = \"fifo\"\nlabel = \"one\"\n\n",
    );
    let choice =
        OPEN.replace("workload.bytes\" = \"10 KB\"", "policy.fifo.transport.initial_window\" = 1");
    let plan = |base: &str, axis: &str| {
        let text = format!("name = \"n\"\ntitle = \"t\"\n{base}{axis}{choice}");
        fs::write(desk.0.path().join("scenarios/text/n.toml"), text).unwrap();
        Plan::new(&desk.0.path().join("scenarios"), &Selection::default())
    };
    assert!(plan(&two, AXIS).is_ok(), "one of them is called fifo");
    let error = plan(&both, &AXIS.replace("\"fifo\"", "\"one\"")).unwrap_err().to_string();
    assert!(
        error.contains(
            "several members \"fifo\"; name one by its label or its number: one (1), other (2)"
        ),
        "{error}"
    );
}

#[test]
fn figures_share_a_testbed_and_what_they_leave_open() {
    let desk = Desk::new();
    let folder = desk.0.path().join("scenarios/text");
    fs::create_dir(folder.join("testbed")).unwrap();
    fs::write(folder.join("testbed/star.toml"), format!("{BASE}{OPEN}")).unwrap();
    let text = |name: &str, more: &str| {
        format!("name = \"{name}\"\ntitle = \"T\"\ntestbed = \"testbed/star.toml\"\n{more}")
    };
    let own = OPEN
        .replace("how much is sent", "how many packets wait")
        .replace("workload.bytes", "topology.access.buffer");
    let longer = format!("topology.access.delay = \"99 us\"\n{AXIS}{own}");
    fs::write(folder.join("axis.toml"), text("axis", &longer)).unwrap();
    fs::write(folder.join("curves.toml"), text("curves", CURVES)).unwrap();
    let plan = desk.plan(&Selection::default());
    let names: Vec<&str> = plan.figures.iter().map(|figure| figure.number.as_str()).collect();
    assert_eq!(names, ["9", "10"], "the testbed is no scenario");
    let about = |figure: usize| -> Vec<&str> {
        let choices = plan.figures[figure].panels[0].choices.iter();
        choices.map(|plan| plan.choice.about.as_str()).collect()
    };
    assert_eq!(about(1), ["how much is sent", "how many packets wait"], "of both files");
    let load = |name: &str| Scenario::load(&folder.join(name), &[]).unwrap();
    let instead = OPEN.replace("stands = \"", "stands = \"here ");
    fs::write(folder.join("instead.toml"), text("instead", &format!("{BASE}{instead}"))).unwrap();
    let choices = load("instead.toml").choices;
    assert_eq!(choices.len(), 1, "its own in place of the testbed's: {choices:?}");
    assert!(choices[0].stands.starts_with("here "), "{choices:?}");
    fs::remove_file(folder.join("instead.toml")).unwrap();
    let (axis, curves) = (load("axis.toml"), load("curves.toml"));
    let link = |scenario: &Scenario| scenario.topology.links()[0].spec;
    assert_eq!(link(&axis).delay, units::Span::from_micros(99));
    assert_eq!(
        (link(&curves).delay, link(&axis).capacity),
        (units::Span::from_micros(33), link(&curves).capacity)
    );
    // What the testbed says is part of what results depend on; what nobody reads of it isn't.
    let keys = |desk: &Desk| keys(&desk.plan(&Selection::default()));
    let before = keys(&desk);
    let change = |from: &str, to: &str| {
        let text = fs::read_to_string(folder.join("testbed/star.toml")).unwrap();
        fs::write(folder.join("testbed/star.toml"), text.replace(from, to)).unwrap();
    };
    change("A text, section 1", "A text, section 2");
    assert_eq!(keys(&desk), before);
    change("100 Mbit/s", "99 Mbit/s");
    assert!(keys(&desk).iter().all(|key| !before.contains(key)));
    // Errors name the file that is to blame.
    let fault = |from: &str, to: &str| {
        change(from, to);
        let fault = Scenario::load(&folder.join("axis.toml"), &[]).unwrap_err().to_string();
        change(to, from);
        fault
    };
    let fault_below = fault("senders = 2", "senders = -2");
    assert!(fault_below.contains("testbed/star.toml:12:11: workload.senders"), "{fault_below}");
    let fault_deep = fault("source =", "testbed = \"x\"\nsource =");
    assert!(fault_deep.contains("star.toml: testbed: stands on no other file"), "{fault_deep}");
    let missing = text("axis", AXIS).replace("star.toml", "stars.toml");
    fs::write(folder.join("axis.toml"), missing).unwrap();
    let error = Scenario::load(&folder.join("axis.toml"), &[]).unwrap_err().to_string();
    assert!(
        error.contains("axis.toml:3:11: testbed: ") && error.contains("no such file"),
        "{error}"
    );
}
