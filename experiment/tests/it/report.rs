//! The report: whole, self-contained, safe with any text, readable without seeing the plots.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "invented numbers are small and positive"
)]

use crate::by_hand::*;
use engine::Outcome;
use model::build::leaf_spine;
use model::{JobClass, NodeKind, Topology};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_experiment::report::{Report, render, write};
use watermaster_experiment::{Claim, Origin, Published, Run, RunResult};

/// Numbers that only need to look random (Knuth's MMIX constants).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// What a run with a `pace` against fair sharing for each class could look like: an invention that
/// only has to look like one. Jobs arrive evenly, with a few flows each between random hosts.
fn invented(topology: &Topology, jobs: u32, pace: [f64; 3], limited: f64) -> Outcome {
    let hosts: Vec<_> = topology.hosts().collect();
    let (mut workload, mut weather) = (Draws(1), Draws(u64::from(limited > 0.0) + 7));
    let mut outcome = Outcome::default();
    let mut number = 0;
    for id in 0..jobs {
        let drawn = workload.next();
        let (class, mb) = match drawn {
            d if d < 0.62 => (0, 5.0 + 20.0 * workload.next()),
            d if d < 0.78 => (1, 60.0 + 60.0 * workload.next()),
            _ => (2, 200.0 + 900.0 * workload.next().powi(2)),
        };
        let arrival = f64::from(id) * 2.5;
        let flows = 1 + (workload.next() * 5.0) as u32;
        let mut last = Time::ZERO;
        for _ in 0..flows {
            let src = (workload.next() * hosts.len() as f64) as usize;
            let dst =
                (src + 1 + (workload.next() * (hosts.len() - 1) as f64) as usize) % hosts.len();
            let share = (mb / f64::from(flows) * 1e6) as u64;
            let fair = 0.4 + mb / f64::from(flows) * 0.16;
            let life = fair * pace[class] * (0.8 + 0.4 * weather.next());
            let start = arrival + 0.3 * workload.next();
            let mut record = flow(number, id, share, 0, None);
            (record.src, record.dst) = (hosts[src], hosts[dst]);
            record.start = at(start);
            record.end = Some(at(start + life));
            record.retransmissions = (weather.next() * 9.0) as u32;
            if weather.next() < limited {
                let held = weather.next() * 0.7;
                let (from, to) = (start + life * 0.2 * weather.next(), start + life * (0.2 + held));
                record.limits = vec![(at(from), Some(Rate::from_mbps(1))), (at(to), None)];
            }
            last = last.max(at(start + life));
            outcome.flows.push(record);
            number += 1;
        }
        let mut record = job(id, Some(JobClass::ALL[class]), (mb * 1e6) as u64, 0, None);
        record.arrival = at(arrival);
        record.end = Some(last);
        outcome.jobs.push(record);
        outcome.end = outcome.end.max(last);
    }
    let capacity = Rate::from_mbps(100).bytes_in(outcome.end.since(Time::ZERO)).get() as f64;
    let links = (0u32..).zip(topology.links()).map(|(n, l)| {
        let core = topology.nodes()[l.from.index()].kind == topology.nodes()[l.to.index()].kind;
        let used = if core { 0.75 } else { 0.3 } + 0.15 * weather.next();
        let mut record = link(n, 0);
        record.bytes = Bytes::new((capacity * used) as u64);
        record
    });
    outcome.links = links.collect();
    outcome
}

fn racks() -> Topology {
    leaf_spine(2, 1, 3, &access(), &access().link).unwrap()
}

/// Four policies on 100 jobs, the text's figures beside them.
fn everything(topology: &Topology) -> (Vec<Run>, RunResult) {
    let mut runs = vec![
        run("tcp", invented(topology, 100, [1.0, 1.0, 1.0], 0.0)),
        run("fifo", invented(topology, 100, [1.3, 1.05, 0.95], 0.3)),
        run("sff", invented(topology, 100, [0.85, 0.95, 1.02], 0.2)),
        run("smsf", invented(topology, 100, [0.7, 0.88, 0.97], 0.15)),
    ];
    let cut = &mut runs[3].outcome;
    cut.flows.at_mut(7).end = None;
    cut.jobs.at_mut(99).end = None;
    let figure = |metric: &str, value, tolerance, source: &str| Published {
        policy: "smsf".into(),
        metric: metric.into(),
        claim: Claim::Size(value),
        tolerance,
        source: format!("Phurti, {source}"),
        note: String::new(),
        ..Published::default()
    };
    let published = [
        figure("jct_mean_change_ratio", -0.2, 0.05, "section 6.3"),
        figure("jct_p95_change_ratio", -0.13, 0.05, "section 6.3"),
        figure("jct_mean_change_small_ratio", -0.23, 0.05, "figure 6.4"),
        figure("jobs_improved_ratio", 0.95, 0.03, "figure 6.3"),
        figure("transmit_time_ratio", 0.9, 0.05, "section 6.3"),
    ];
    let origin = Origin { scenario: "facebook-100-jobs".into(), ..origin() };
    let result = RunResult::new(origin, topology, &runs, Some("tcp"), &published);
    (runs, result)
}

fn report<'a>(topology: &'a Topology, runs: &'a [Run], result: &'a RunResult) -> Report<'a> {
    Report {
        title: "100 shuffle jobs on two racks of three nodes",
        source: "Phurti, section 6.3",
        command: "watermaster run scenarios/phurti/facebook-100-jobs.toml --seed 7",
        topology,
        runs,
        result,
    }
}

/// Names of the tags in order, closing ones with their slash; fails on a `<` that opens no tag.
fn tags(html: &str) -> Vec<String> {
    let parts = html.split('<').skip(1);
    let names = parts.map(|part| {
        let name: String = part.chars().take_while(|c| !c.is_whitespace() && *c != '>').collect();
        assert!(part.contains('>') && !name.is_empty(), "<{part}");
        name.trim_end_matches('/').to_owned()
    });
    names.filter(|name| !matches!(name.as_str(), "!doctype" | "meta")).collect()
}

#[test]
fn a_whole_report() {
    let topology = racks();
    let (runs, result) = everything(&topology);
    // Kept where a person can look at it.
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    write(&path, &report(&topology, &runs, &result)).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();

    // `path` closes itself when it has no title.
    let mut open = Vec::new();
    for part in page.split('<').skip(1) {
        let tag = part.split('>').next().unwrap();
        let name = tag.split_whitespace().next().unwrap().trim_end_matches('/');
        if tag.starts_with('!') || name == "meta" || tag.ends_with('/') {
            continue;
        }
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");

    for title in [
        "Job completion time",
        "Difference in job completion time",
        "Change of mean completion time",
        "Change of the 95th percentile",
        "Time in TRANSMIT",
        "Effective transmit rate",
        "Flow completion time",
        "Use of links",
        "Flow timeline",
    ] {
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    assert!(page.contains("scenarios/phurti/facebook-100-jobs.toml --seed 7"));
    assert!(page.contains("PCG-64 (rand_pcg 0.10)") && page.contains(">0.1.0<"));
    assert!(page.contains("−20.0 % ± 5.0 %"));
    assert!(page.contains("cut off"));
}

#[test]
fn every_figure_has_a_title_a_caption_a_name_and_its_numbers() {
    let topology = racks();
    let (runs, result) = everything(&topology);
    let page = render(&report(&topology, &runs, &result));
    let figures: Vec<_> =
        page.split("<figure").skip(1).filter_map(|f| f.split("</figure>").next()).collect();
    assert_eq!(figures.len(), 9);
    for figure in figures {
        for part in ["<h3>", "<figcaption>", "role=\"img\" aria-label=\"", "<table>"] {
            assert_eq!(figure.matches(part).count(), 1, "{part} in {figure:.300}");
        }
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_nothing_runs() {
    let topology = racks();
    let (runs, result) = everything(&topology);
    let page = render(&report(&topology, &runs, &result));
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "onload"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn equal_results_give_equal_reports() {
    let topology = racks();
    let (runs, result) = everything(&topology);
    let (again, same) = everything(&topology);
    assert!(
        render(&report(&topology, &runs, &result)) == render(&report(&topology, &again, &same))
    );
}

#[test]
fn the_curve_of_a_small_sample_has_a_step_at_every_value() {
    let topology = three_hosts();
    let runs = [run("tcp", by_hand())];
    let result = RunResult::new(origin(), &topology, &runs, None, &[]);
    let page = render(&report(&topology, &runs, &result));
    // Three jobs on 240 units: up by 80 at 2, 3 and 10 s of an axis of 478 units up to 10 s.
    assert!(page.contains("M143.6 252V172H191.4V92H526V12H526"), "steps of the distribution");
}

#[test]
fn a_large_run_gives_a_report_of_bounded_size() {
    let topology = racks();
    let mut outcome = invented(&topology, 20_000, [1.0; 3], 0.5);
    // One flow whose limit changes more often than a plot has pixels.
    let limits = (0..200_000u64).map(|n| (ms(n), (n % 2 == 0).then_some(Rate::from_mbps(1))));
    let first = outcome.flows.at_mut(0);
    (first.limits, first.end) = (limits.collect(), Some(ms(200_000)));
    let runs = [run("tcp", outcome.clone()), run("smsf", outcome)];
    let result = RunResult::new(origin(), &topology, &runs, Some("tcp"), &[]);
    let page = render(&report(&topology, &runs, &result));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn the_timeline_of_many_flows_draws_four_of_each_job() {
    let topology = three_hosts();
    let mut outcome = by_hand();
    // Jobs of 30 flows: ten jobs are seen with four flows each, job 10 isn't.
    outcome.flows = (0..900).map(|id| flow(id, id / 30, 1, 0, Some(1_000))).collect();
    let runs = [run("tcp", outcome)];
    let result = RunResult::new(origin(), &topology, &runs, None, &[]);
    let page = render(&report(&topology, &runs, &result));
    let rows = |job: u32| page.matches(&format!(">job {job} h0⇝h1</text>")).count();
    assert_eq!([0, 9, 10].map(rows), [4, 4, 0]);
    assert!(page.contains("up to 40 of 900 in all"));
}

#[test]
fn repeated_runs_show_their_intervals() {
    let topology = three_hosts();
    let runs = [run("tcp", by_hand())];
    let of = |runs: &[Run]| RunResult::new(origin(), &topology, runs, None, &[]);
    let once = of(&runs);
    // Means of 5 and 8.75 s: 6.875 ± 12.706 · 1.875 s.
    let result =
        RunResult::mean_of(&[once.clone(), of(&[run("tcp", by_hand_baseline())])]).unwrap();
    let page = render(&report(&topology, &runs, &result));
    assert!(page.contains("6.88 s ± 23.8 s") && page.contains("first repetition"));
    assert!(!render(&report(&topology, &runs, &once)).contains("first repetition"));
}

#[test]
fn nothing_ran() {
    let topology = three_hosts();
    let runs = [run("tcp", Outcome::default())];
    let result = RunResult::new(origin(), &topology, &runs, Some("tcp"), &[]);
    let page = render(&report(&topology, &runs, &result));
    assert!(!page.contains("<figure") && page.ends_with("</html>\n"));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

/// The report with `text` wherever a scenario can put text.
fn with_text(text: &str) -> String {
    let mut topology = Topology::new();
    let nodes: Vec<_> =
        (0..3).map(|_| topology.add_node(text.into(), NodeKind::Host).unwrap()).collect();
    for pair in nodes.windows(2) {
        topology.connect(pair[0], pair[1], access().link, access().link).unwrap();
    }
    let runs = [run("base", by_hand_baseline()), run(text, by_hand())];
    let published = ["jct_mean_s", text].map(|metric| Published {
        policy: text.into(),
        metric: metric.into(),
        claim: Claim::Size(1.0),
        tolerance: 0.1,
        source: text.into(),
        note: text.into(),
        ..Published::default()
    });
    let origin = Origin {
        scenario: text.into(),
        world: text.into(),
        random: text.into(),
        version: text.into(),
        seed: 1,
    };
    let result = RunResult::new(origin, &topology, &runs, Some("base"), &published);
    render(&Report {
        title: text,
        source: text,
        command: text,
        topology: &topology,
        runs: &runs,
        result: &result,
    })
}

#[test]
fn markup_in_a_text_stays_text() {
    let page = with_text("<script>alert(1)</script>");
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_changes_the_structure(
        text in prop_oneof![
            "\\PC{1,20}",
            "[<>\"'&/=! a-z\u{0}\n-]{1,30}",
            Just("\"><script>alert(1)</script>".to_owned()),
            Just("' onload='x".to_owned()),
            Just("</style><!--".to_owned()),
        ]
    ) {
        let (plain, page) = (with_text("x"), with_text(&text));
        prop_assert_eq!(tags(&page), tags(&plain));
        for quote in ['"', '\''] {
            prop_assert_eq!(page.matches(quote).count(), plain.matches(quote).count());
        }
    }

    #[test]
    fn no_outcome_breaks_the_report(
        flows in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..6),
        jobs in prop::collection::vec((0u32..6, any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..6),
        end in any::<u64>(), bytes in any::<u64>(),
    ) {
        let outcome = Outcome {
            flows: flows.into_iter().map(|(id, size, start, end)| {
                let mut record = flow(id, id, size, start, end);
                record.src = model::NodeId(id);
                record
            }).collect(),
            jobs: jobs.into_iter().map(|(id, size, at, end)| job(id, Some(JobClass::Large), size, at, end)).collect(),
            links: vec![link(u32::MAX, bytes), link(0, bytes)],
            end: Time::from_nanos(end),
            ..Outcome::default()
        };
        let topology = three_hosts();
        let runs = [run("a", outcome.clone()), run("b", outcome)];
        let result = RunResult::new(origin(), &topology, &runs, Some("a"), &[]);
        let page = render(&report(&topology, &runs, &result));
        prop_assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
