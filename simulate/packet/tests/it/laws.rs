//! What must hold in every run: equal runs are equal, bytes are conserved, queues keep their
//! bounds, nothing panics. The simulator audits itself at the end of each run and returns an error
//! when a law is broken, so a run that comes back has passed.
#![allow(clippy::unwrap_used)] // in what the tests share, too

use crate::runs::{access, job, link, outcome, pace, per_flow, setup};
use engine::Jobs;
use model::{
    Buffer, Directive, Directives, FlowId, Job, LinkSpec, NodeId, NodeKind, Topology, build,
};
use policy::{Parameters, by_name};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_packet::{Discipline, Limiter, Outcome, Protocol, Transport};

#[derive(Clone, Debug)]
struct Case {
    shape: u32,
    spec: LinkSpec,
    transport: Transport,
    queues: [Discipline; 2],
    flows: Vec<(u32, u32, u64, u64)>,
    /// A policy that limits flow n to so many kbit/s once it is announced.
    limits: Vec<u64>,
    meter: Option<u64>,
    delay: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let buffer = prop_oneof![
        (1u32..40).prop_map(Buffer::Packets),
        (2_000u64..60_000).prop_map(|bytes| Buffer::Bytes(Bytes::new(bytes))),
        Just(Buffer::Unlimited),
    ];
    let spec = (1u64..2_000, 0u64..3_000, buffer, prop::option::of(1u32..30)).prop_map(
        |(mbps, us, buffer, mark)| LinkSpec {
            capacity: Rate::from_mbps(mbps),
            delay: Span::from_micros(us),
            buffer,
            mark,
        },
    );
    let protocol = prop::sample::select(vec![
        Protocol::NewReno,
        Protocol::Cubic,
        Protocol::Dctcp,
        Protocol::Datagram,
    ]);
    // RACK with or without the probe, the reduction and a clock.
    let by_time = prop::option::of((any::<bool>(), any::<bool>(), any::<bool>(), 0u64..10));
    let transport =
        (protocol, 1u32..20, any::<bool>(), any::<bool>(), 1u64..200, 100u16..3_000, by_time)
            .prop_map(|(protocol, initial_window, sack, delayed, rto, mss, by_time)| {
                let (tail_loss_probe, prr, frto, tick) = by_time.unwrap_or_default();
                Transport {
                    protocol,
                    mss,
                    initial_window,
                    min_rto: Span::from_millis(rto),
                    delayed_ack: delayed.then_some(Span::from_millis(40)),
                    sack: sack || by_time.is_some(),
                    rack: by_time.is_some(),
                    tail_loss_probe,
                    prr,
                    frto,
                    tick: Span::from_millis(tick),
                    ..Transport::default()
                }
            });
    let disciplines = prop::sample::select(vec![
        Discipline::Fifo,
        Discipline::StrictPriority,
        Discipline::PerFlow,
        Discipline::PerDestination,
    ]);
    (
        0u32..4,
        spec,
        transport,
        prop::array::uniform2(disciplines),
        prop::collection::vec((0u32..16, 0u32..16, 0u64..200_000, 0u64..5_000), 1..12),
        prop::collection::vec(1u64..50_000, 0..4),
        prop::option::of(1u64..100_000),
        0u64..3_000,
    )
        .prop_map(|(shape, spec, transport, queues, flows, limits, meter, delay)| Case {
            shape,
            spec,
            transport,
            queues,
            flows,
            limits,
            meter,
            delay,
        })
}

fn topology(case: &Case) -> Topology {
    let edge = access(case.spec);
    match case.shape {
        0 => build::star(16, &edge),
        1 => build::dumbbell(8, 8, &edge, &case.spec),
        2 => build::leaf_spine(4, 2, 4, &edge, &case.spec),
        _ => build::fat_tree(4, &edge, &case.spec),
    }
    .unwrap()
}

/// Limits each flow as it is announced, and gives it a priority.
fn limiter(limits: Vec<u64>) -> impl policy::Policy {
    per_flow(move |_, flow: FlowId, out: &mut Directives| {
        let priority = u8::try_from(flow.0 % 8).unwrap();
        out.push(Directive::Prioritize { flow, priority });
        out.push(pace(flow, limits.get(flow.index()).map(|kbps| Rate::from_bps(kbps * 1_000))));
    })
}

fn play(case: &Case) -> Outcome {
    play_under(case, Box::new(limiter(case.limits.clone())), 30)
}

fn play_under(case: &Case, policy: Box<dyn policy::Policy>, seconds: u64) -> Outcome {
    let topology = topology(case);
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let mut jobs: Vec<Job> = (0u32..)
        .zip(&case.flows)
        .map(|(id, &(src, dst, size, us))| {
            let dst = if src == dst { (dst + 1) % 16 } else { dst };
            let (src, dst) = (hosts[src as usize], hosts[dst as usize]);
            job(id, Time::ZERO + Span::from_micros(us), src, dst, size)
        })
        .collect();
    jobs.sort_by_key(|job| job.arrival);
    let mut setup = setup(topology, case.transport, jobs);
    setup.policy = Some(policy);
    if let Some(burst) = case.meter {
        setup.enforcement = Limiter::Meter { burst: Bytes::new(burst) };
    }
    [setup.host_queue, setup.switch_queue] = case.queues;
    setup.control_delay = Span::from_micros(case.delay);
    // A flow whose packets can never pass, for want of room, would try for ever.
    setup.until = Time::ZERO + Span::from_secs(seconds);
    outcome(setup)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn laws_hold_in_random_networks(case in case()) {
        let outcome = play(&case);
        for flow in &outcome.flows {
            prop_assert!(flow.delivered <= flow.size);
            if flow.size == Bytes::ZERO {
                prop_assert_eq!(flow.end, Some(flow.start));
            }
            if let Some(end) = flow.end {
                prop_assert!(end >= flow.start);
                if case.transport.protocol != Protocol::Datagram {
                    prop_assert_eq!(flow.delivered, flow.size);
                }
            }
        }
        // With room for anything, and no meter, nothing is lost and everything arrives.
        if case.spec.buffer == Buffer::Unlimited && case.meter.is_none() {
            prop_assert_eq!(outcome.links.iter().map(|link| link.dropped).sum::<u64>(), 0);
            for flow in outcome.flows.iter().filter(|flow| flow.end.is_some()) {
                prop_assert_eq!(flow.delivered, flow.size);
            }
        }
    }

    #[test]
    fn laws_hold_where_packets_have_tags(case in case(), which in 0..3, size in 1u64..100_000) {
        let mut case = case;
        if case.transport.protocol == Protocol::Datagram {
            case.transport.protocol = Protocol::NewReno;
        }
        let parameters = Parameters::default();
        let sizes = [1, 2, 3].map(|n| Bytes::new(n * size)).to_vec();
        let policy = match which {
            0 => {
                let (timeout, buffer) = (Span::from_millis(20), Bytes::new(4_000 + size));
                let parameters = parameters.with("timeout", timeout).with("buffer", buffer);
                by_name("pfabric", &parameters)
            }
            1 => by_name("pias", &parameters.with("thresholds", sizes)),
            _ => by_name("homa", &parameters.with("cutoffs", sizes)),
        };
        let outcome = play_under(&case, policy.unwrap(), 300);
        for flow in outcome.flows.iter().filter(|flow| flow.end.is_some()) {
            prop_assert_eq!(flow.delivered, flow.size);
        }
        if which == 0 || which == 2 && case.spec.buffer == Buffer::Unlimited {
            // Its window doesn't close: whatever is dropped is sent again.
            prop_assert!(outcome.flows.iter().all(|flow| flow.end.is_some()));
        }
    }

    #[test]
    fn equal_runs_are_equal(case in case()) {
        let (a, b) = (play(&case), play(&case));
        prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
}

#[test]
fn a_broken_setup_is_an_error() {
    let star = || build::star(2, &access(link(100, 1, 10))).unwrap();
    let flow = |src, dst| vec![job(0, Time::ZERO, NodeId(src), NodeId(dst), 1)];
    let error =
        |setup| watermaster_packet::run(setup, &mut |_| {}).map(|_| ()).unwrap_err().to_string();
    let to_itself = setup(star(), Transport::default(), flow(1, 1));
    assert!(error(to_itself).contains("two different hosts"));
    let nowhere = setup(star(), Transport::default(), flow(1, 77));
    assert!(error(nowhere).contains("does not connect"));
    let no_window = Transport { initial_window: 0, ..Transport::default() };
    assert!(error(setup(star(), no_window, flow(1, 2))).contains("initial_window 0"));
    let mut blind = setup(star(), Transport::default(), flow(1, 2));
    blind.monitors = vec![watermaster_packet::Monitor {
        link: model::LinkId(99),
        interval: Span::ZERO,
        start: Span::ZERO,
    }];
    assert!(error(blind).contains("link 99"));
}

#[test]
fn links_of_too_many_kinds_are_an_error() {
    let delayed = |delay_ns| LinkSpec {
        capacity: Rate::from_mbps(1000),
        delay: Span::from_nanos(delay_ns),
        buffer: Buffer::Unlimited,
        mark: None,
    };
    let run = |kinds: u64| {
        let mut topology = Topology::new();
        let [a, b] = ["a", "b"].map(|name| topology.add_node(name.into(), NodeKind::Host).unwrap());
        for kind in 0..kinds / 2 {
            topology.connect(a, b, delayed(2 * kind), delayed(2 * kind + 1)).unwrap();
        }
        let jobs = Box::new(Jobs::new(std::iter::empty()));
        let setup = testing::packet::setup(topology, Transport::default(), jobs);
        watermaster_packet::run(setup, &mut |_| {})
    };
    assert!(run(1 << 16).is_ok());
    let error = run((1 << 16) + 2).unwrap_err().to_string();
    assert!(error.contains("65536 kinds") && error.contains("give more of them"), "{error}");
}
