//! SDTCP's rules by hand, and its table of connections against a naive one.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;

use model::build::{self, Access};
use model::{
    Buffer, Cap, Caps, Directive, Directives, FlowId, LinkId, LinkSpec, Measured, Network, NodeId,
    Observation, Severity, Thresholds,
};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{Parameters, Policy, by_name};

const MSS: u64 = 1460;

/// 1 Gbit/s and 33 µs, a buffer of 100 packets.
const LINK: LinkSpec = LinkSpec {
    capacity: Rate::from_mbps(1_000),
    delay: Span::from_micros(33),
    buffer: Buffer::Packets(100),
    mark: None,
};

/// The text's dumbbell (figure 8).
fn dumbbell(left: u32) -> Network {
    let access = Access { link: LINK, nic: Buffer::Unlimited };
    Network::new(build::dumbbell(left, 2, &access, &LINK).unwrap())
}

/// Six times 33 µs, and three times the 11.68 µs that 1460 B take: 233.04 µs, or 29,130 B.
const PIPE: u64 = 29_130;

struct Bench {
    network: Network,
    policy: Box<dyn Policy + Send>,
    now: Time,
}

impl Bench {
    fn new(name: &str, left: u32) -> Self {
        Self::with(name, &Parameters::default(), left)
    }

    fn with(name: &str, parameters: &Parameters, left: u32) -> Self {
        let policy = by_name(name, parameters).unwrap();
        Self { network: dumbbell(left), policy, now: Time::ZERO }
    }

    fn tell(&mut self, measured: Measured) -> Directives {
        let mut out = Directives::new();
        let observation = Observation::Measured(measured);
        self.policy.observe(self.now, &self.network, &observation);
        self.policy.decide(self.now, &self.network, &mut out);
        out
    }

    /// Flow `number` opens, from a host on the left to the first on the right.
    fn open(&mut self, number: u32) -> Directives {
        let hosts: Vec<_> = self.network.topology().hosts().collect();
        let left = hosts.len() - 2;
        let (src, dst) = (hosts[number as usize % left], hosts[left]);
        self.tell(Measured::Opened { flow: FlowId(number), src, dst })
    }

    fn carried(&mut self, flows: &[(u32, u64)]) -> Directives {
        let flows = flows.iter().map(|(flow, bytes)| (FlowId(*flow), Bytes::new(*bytes)));
        self.tell(Measured::Carried { flows: flows.collect() })
    }

    /// Round trips, µs.
    fn timed(&mut self, flows: &[(u32, u64)]) -> Directives {
        let flows = flows.iter().map(|(flow, us)| (FlowId(*flow), Span::from_micros(*us)));
        self.tell(Measured::RoundTrips(flows.collect()))
    }

    fn core(&self) -> LinkId {
        let topology = self.network.topology();
        let [a, b] = ["s0", "s1"].map(|name| topology.node_named(name).unwrap());
        topology.link_between(a, b).unwrap()
    }

    /// Window entries that a notification with so many packets of 1500 B in the queue gives.
    fn congested(&mut self, level: Severity, packets: u64) -> BTreeMap<u32, u64> {
        let (link, queue) = (self.core(), Bytes::new(1500 * packets));
        let directives = self.tell(Measured::Congested { link, severity: level, queue });
        let entry = |directive: Directive| match directive {
            Directive::Window { link: at, flow: Some(flow), cap: Some(cap), .. } => {
                assert_eq!(at, link);
                (flow.0, cap.bytes.get())
            }
            other => panic!("{other:?}"),
        };
        directives.into_iter().map(entry).collect()
    }
}

/// One background flow among ten bursts: the three cases of section 3.4.
#[test]
fn windows_by_equations_3_to_8() {
    let mut bench = Bench::new("sdtcp", 11);
    assert!(bench.open(0).is_empty());
    bench.now = Time::from_nanos(2_000_000_000);
    (1..=10).for_each(|flow| assert!(bench.open(flow).is_empty()));
    bench.carried(&[(0, 2_000_000), (1, 3000)]);

    // W = (29,130 + 45,000) / 11 = 6739.
    assert_eq!(bench.congested(Severity::Low, 30), BTreeMap::from([(0, 4492)]));
    // W = (29,130 + 90,000) / 11 = 10,830.
    assert_eq!(bench.congested(Severity::Medium, 60), BTreeMap::from([(0, 5415)]));
    // (29,130 + 127,500 − 1460) / 10 = 15,517 for each burst.
    let mut expected: BTreeMap<u32, u64> = (1..=10).map(|flow| (flow, 15_517)).collect();
    expected.insert(0, MSS);
    assert_eq!(bench.congested(Severity::High, 85), expected);
    let link = bench.core();
    let recovered = Measured::Congested { link, severity: Severity::Recovered, queue: Bytes::ZERO };
    let all = bench.tell(recovered);
    assert!(matches!(all[..], [Directive::Window { flow: None, cap: None, .. }]));
}

/// Section 3.3, if asked for.
#[test]
fn syns_are_held_if_asked_for() {
    for (syn, is_held) in [("passes", false), ("held", true)] {
        let policy = by_name("sdtcp", &Parameters::default().with("syn", syn)).unwrap();
        assert_eq!(policy.watch().unwrap().holds_syns, is_held);
    }
}

/// One background flow among ten bursts, and then others come and go. By default nobody hears of them.
#[test]
fn late_flows_are_capped_if_asked_for() {
    for is_capped in [false, true] {
        let late = if is_capped { "capped" } else { "uncapped" };
        let parameters = Parameters::default().with("late", late);
        let mut bench = Bench::with("sdtcp", &parameters, 20);
        let link = bench.core();
        bench.open(0);
        bench.now = Time::from_nanos(2_000_000_000);
        (1..=10).for_each(|flow| assert!(bench.open(flow).is_empty()));
        bench.carried(&[(0, 2_000_000)]);
        let own = |flow, bytes| {
            let (flow, cap) = (Some(FlowId(flow)), Some(cap_of(bytes)));
            Directive::Window { link, flow, cap }
        };
        let all = |bytes| Directive::Window { link, flow: None, cap: Some(cap_of(bytes)) };
        let is = |bench: &mut Bench, told: Directives, expected: &[Directive]| {
            assert_eq!(told, if is_capped { expected } else { &[] });
            bench.now += Span::from_millis(1);
        };
        let congested = |bench: &mut Bench, severity, packets: u64| {
            let queue = Bytes::new(1500 * packets);
            bench.tell(Measured::Congested { link, severity, queue })
        };
        // W = (29,130 + 45,000) / 12 = 6177 with another flow; two thirds.
        congested(&mut bench, Severity::Low, 30);
        let told = bench.open(11);
        is(&mut bench, told, &[own(0, 4118)]);
        let told = congested(&mut bench, Severity::High, 85);
        // (29,130 + 127,500 − 1460) / 11.
        if is_capped {
            assert_eq!(told, [own(0, MSS), all(14_106)]);
        } else {
            assert_eq!(told.len(), 12, "each its own");
        }
        let told = bench.open(12);
        is(&mut bench, told, &[all(12_930)]);
        let told = bench.tell(Measured::Closed { flow: FlowId(3) });
        is(&mut bench, told, &[all(14_106)]);
        // A second one is background: 2920 less for eleven.
        bench.now += Span::from_secs(2);
        let told = bench.carried(&[(0, 3_000_000), (5, 2_000_000)]);
        is(&mut bench, told, &[own(0, MSS), own(5, MSS), all(15_371)]);
        let told = congested(&mut bench, Severity::Recovered, 0);
        assert_eq!(told, [Directive::Window { link, flow: None, cap: None }]);
        assert!(bench.open(13).is_empty(), "nothing is congested");
    }
}

/// What the text has at each threshold is said with each SYN: one message for the bursts of a port, one for each of
/// its background flows; at the threshold itself nothing.
#[test]
fn prepared_windows_are_those_of_the_notices_said_before() {
    let mut bench = Bench::with("sdtcp", &Parameters::default().with("windows", "prepared"), 20);
    let link = bench.core();
    let high = |bytes| Caps { high: Some(cap_of(bytes)), ..Caps::default() };
    let at_core = |told: Directives| -> Directives {
        let at = |directive: &Directive| matches!(directive, Directive::Prepare { link: at, .. } | Directive::Window { link: at, .. } if *at == link);
        told.into_iter().filter(at).collect()
    };
    // (29,130 + 127,500) for one.
    let told = at_core(bench.open(0));
    assert_eq!(told, [Directive::Prepare { link, flow: None, caps: high(156_630) }]);
    bench.now = Time::from_nanos(2_000_000_000);
    for flow in 1..=10 {
        let told = at_core(bench.open(flow));
        let caps = high(156_630 / u64::from(flow + 1));
        assert_eq!(told, [Directive::Prepare { link, flow: None, caps }]);
    }
    // As in `windows_by_equations_3_to_8`.
    let [low, medium, least] = [4_492, 5_415, MSS].map(|bytes| Some(cap_of(bytes)));
    let told = at_core(bench.carried(&[(0, 2_000_000), (1, 3000)]));
    let caps = Caps { recovered: None, low, medium, high: least };
    let own = Directive::Prepare { link, flow: Some(FlowId(0)), caps };
    assert_eq!(told, [own.clone(), Directive::Prepare { link, flow: None, caps: high(15_517) }]);
    for severity in Severity::ALL {
        let queue = Bytes::new(45_000);
        assert!(bench.tell(Measured::Congested { link, severity, queue }).is_empty());
    }
    assert_eq!(at_core(bench.open(11)).len(), 2, "the background flow, and all others");
    bench.tell(Measured::Closed { flow: FlowId(0) });
    for flow in 1..11 {
        assert_eq!(at_core(bench.tell(Measured::Closed { flow: FlowId(flow) })).len(), 1);
    }
    let told = at_core(bench.tell(Measured::Closed { flow: FlowId(11) }));
    assert_eq!(told, [Directive::Window { link, flow: None, cap: None }], "no flow, no entry");
}

/// `sab` says the least for more flows than are known; `sdtcp-hold` has idle flows count from M on.
#[test]
fn policies_whose_windows_hold_always_prepare_them_for_a_congested_port() {
    let prepared = Parameters::default().with("windows", "prepared");
    let caps_at = |link, told: Directives| {
        told.into_iter().find_map(|directive| match directive {
            Directive::Prepare { link: at, flow: None, caps } if at == link => Some(caps),
            _ => None,
        })
    };
    let mut sab = Bench::with("sab", &prepared, 4);
    let link = sab.core();
    sab.open(0);
    let fair = Some(cap_of((PIPE + 75_000) / 2));
    let caps = Caps { recovered: fair, low: fair, medium: fair, high: Some(cap_of(MSS)) };
    assert_eq!(caps_at(link, sab.open(1)), Some(caps));
    assert!(!sab.policy.watch().unwrap().local);
    let mut hold = Bench::with("sdtcp-hold", &prepared, 4);
    (0..4).for_each(|flow| drop(hold.open(flow)));
    hold.carried(&[(0, 1_000), (1, 1_000), (2, 1_000), (3, 1_000)]);
    hold.now += Span::from_millis(100);
    let told = hold.carried(&[(0, 2_000), (1, 2_000), (2, 1_000), (3, 1_000)]);
    let caps = caps_at(link, told).unwrap();
    let [two, four] = [PIPE, PIPE / 2].map(|bytes| Some(cap_of(bytes)));
    assert_eq!(caps, Caps { recovered: two, low: two, medium: four, high: four });
    // While the link has time left the total grows, but not that of a congested port.
    let told = hold.tell(Measured::QueueLength { link, queue: Bytes::ZERO, sent: Bytes::ZERO });
    let more = Some(cap_of(PIPE * 105 / 100));
    assert_eq!(caps_at(link, told), Some(Caps { recovered: more, ..caps }));
}

/// Among flows that are capped late: a round trip changes the caps of a port that is congested, and a notice
/// that repeats what stands costs no message.
#[test]
fn caps_are_said_anew_where_a_round_trip_changes_them_and_not_where_a_notice_repeats_them() {
    let mut bench = Bench::with("sdtcp", &Parameters::default().with("late", "capped"), 2);
    let link = bench.core();
    bench.open(0);
    bench.now = Time::from_nanos(2_000_000_000);
    bench.open(1);
    bench.carried(&[(0, 2_000_000)]);
    let told = |flow: Option<u32>, bytes| {
        let (flow, cap) = (flow.map(FlowId), Some(cap_of(bytes)));
        Directive::Window { link, flow, cap }
    };
    assert!(bench.timed(&[(0, 300)]).is_empty(), "nothing is congested");
    let (severity, queue) = (Severity::High, Bytes::new(127_500));
    let high = Measured::Congested { link, severity, queue };
    // 300 µs are 37,500 B, 200 are 25,000.
    let first = bench.tell(high.clone());
    assert_eq!(first, [told(Some(0), MSS), told(None, 165_000 - MSS)]);
    assert!(bench.tell(high.clone()).is_empty(), "it stands");
    assert_eq!(bench.timed(&[(1, 200)]), [told(None, 152_500 - MSS)]);
    assert!(bench.tell(high).is_empty(), "it stands");
    // A longer queue gives the burst more, the background flow what it has.
    let queue = Bytes::new(130_000);
    let longer = bench.tell(Measured::Congested { link, severity, queue });
    assert_eq!(longer, [told(None, 155_000 - MSS)]);
}

/// The round trip is the least that was measured of any flow that passes the same ports, as long as one
/// does; of others that of the configured delays holds. A report of no time tells nothing.
#[test]
fn a_measured_round_trip_replaces_the_configured_one() {
    let mut bench = Bench::new("sdtcp", 2);
    let each = |bench: &mut Bench, flows: u64| {
        let entries = bench.congested(Severity::High, 85);
        assert_eq!(entries.len() as u64, flows);
        (entries[&1] * flows).checked_sub(127_500).unwrap()
    };
    bench.open(1);
    assert_eq!(each(&mut bench, 1), PIPE);
    bench.timed(&[(1, 0), (7, 3)]);
    assert_eq!(each(&mut bench, 1), PIPE);
    // A handshake among full queues took 400 µs, another 200: 50,000 and 25,000 B.
    bench.timed(&[(1, 400)]);
    assert_eq!(each(&mut bench, 1), 50_000);
    bench.open(2);
    bench.timed(&[(2, 200)]);
    assert_eq!(each(&mut bench, 2), 25_000);
    bench.timed(&[(1, 300)]);
    assert_eq!(each(&mut bench, 2), 25_000);
    bench.tell(Measured::Closed { flow: FlowId(2) });
    assert_eq!(each(&mut bench, 1), 25_000, "what is left goes the same way");
    bench.tell(Measured::Closed { flow: FlowId(1) });
    bench.open(1);
    assert_eq!(each(&mut bench, 1), PIPE, "nobody has measured yet");
}

/// Of a port through which flows go two ways the round trip is the mean over its flows.
#[test]
fn ways_of_one_port_have_round_trips_of_their_own() {
    let mut bench = Bench::new("sdtcp", 1);
    let node = |bench: &Bench, name: &str| bench.network.topology().node_named(name).unwrap();
    // h0 is on the left, h1 and h2 on the right: both send to h2, over its one port.
    let (left, right, to) = (node(&bench, "h0"), node(&bench, "h1"), node(&bench, "h2"));
    let link = bench.network.topology().link_between(node(&bench, "s1"), to).unwrap();
    for (flow, src) in [(0, left), (1, right)] {
        bench.tell(Measured::Opened { flow: FlowId(flow), src, dst: to });
    }
    let each = |bench: &mut Bench| {
        let queue = Bytes::new(127_500);
        let told = bench.tell(Measured::Congested { link, severity: Severity::High, queue });
        let Directive::Window { cap: Some(cap), .. } = told[0] else { panic!("{told:?}") };
        2 * cap.bytes.get() - 127_500
    };
    // 233.04 µs over three links and 155.36 over two: 194.2.
    assert_eq!(each(&mut bench), 24_274);
    bench.timed(&[(0, 300)]);
    assert_eq!(each(&mut bench), 28_460, "300 and 155.36 µs");
    bench.timed(&[(1, 100)]);
    assert_eq!(each(&mut bench), 25_000, "300 and 100 µs");
}

/// What each flow has changes where a measurement does, and at no other.
#[test]
fn variants_divide_anew_when_a_round_trip_is_measured() {
    for (name, total) in [("sab", 25_000 + 75_000), ("sdtcp-hold", 2 * 25_000)] {
        let mut bench = Bench::new(name, 2);
        (0..2).for_each(|flow| drop(bench.open(flow)));
        let told = bench.timed(&[(0, 200)]);
        assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(total / 2)), "{name}");
        assert!(bench.timed(&[(1, 250)]).is_empty(), "{name}");
    }
}

#[test]
fn no_window_is_below_a_segment() {
    let mut bench = Bench::new("sdtcp", 200);
    (0..200).for_each(|flow| assert!(bench.open(flow).is_empty()));
    bench.now = Time::from_nanos(2_000_000_000);
    bench.carried(&[(0, 1_000_001)]);
    assert_eq!(bench.congested(Severity::Low, 30)[&0], MSS);
    assert_eq!(bench.congested(Severity::Medium, 60)[&0], MSS);
    let all = bench.congested(Severity::High, 85);
    assert!(all.len() == 200 && all.values().all(|cap| *cap == MSS));
}

/// The text of `high` names the bound that agents check.
#[test]
fn high_says_what_a_live_port_can_count() {
    let sdtcp = watermaster_policy::POLICIES.iter().find(|policy| policy.name == "sdtcp").unwrap();
    let high = sdtcp.parameters.iter().find(|parameter| parameter.name == "high").unwrap();
    let said = format!("live at most {}", Thresholds::MOST_LIVE);
    assert!(high.meaning.ends_with(&said), "{}", high.meaning);
}

/// Over 1 MB and older than 1 s, both.
#[test]
fn background_by_volume_and_age() {
    let mut bench = Bench::new("sdtcp", 4);
    bench.open(0);
    bench.open(1);
    bench.now = Time::from_nanos(1_000_000_000);
    bench.open(2);
    bench.carried(&[(0, 1_000_001)]);
    assert!(bench.congested(Severity::Low, 30).is_empty(), "not older than 1 s");
    bench.now = Time::from_nanos(1_000_000_001);
    bench.carried(&[(0, 1_000_001), (1, 1_000_000), (2, 9_000_000)]);
    assert_eq!(bench.congested(Severity::Low, 30).into_keys().collect::<Vec<_>>(), [0]);
    bench.tell(Measured::Closed { flow: FlowId(0) });
    assert!(bench.congested(Severity::Low, 30).is_empty());
}

/// The published floor is one segment.
fn cap_of(bytes: u64) -> Cap {
    Cap { bytes: Bytes::new(bytes), floor_segments: 1 }
}

/// ε = 0.5 of 150,000 B and the pipe for all.
#[test]
fn sab_divides_the_buffer_at_each_syn_and_fin() {
    let mut bench = Bench::new("sab", 80);
    let core = bench.core();
    let cap = |directives: &[Directive]| {
        directives.iter().find_map(|directive| match directive {
            Directive::Window { link, flow: None, cap, .. } if *link == core => Some(*cap),
            _ => None,
        })
    };
    let total = PIPE + 75_000;
    for flow in 0..80 {
        let expected = cap_of((total / u64::from(flow + 1)).max(MSS));
        assert_eq!(cap(&bench.open(flow)), Some(Some(expected)));
    }
    for flow in 0..79 {
        let expected = cap_of((total / u64::from(79 - flow)).max(MSS));
        let closed = bench.tell(Measured::Closed { flow: FlowId(flow) });
        assert_eq!(cap(&closed), Some(Some(expected)));
    }
    let closed = bench.tell(Measured::Closed { flow: FlowId(79) });
    assert_eq!(cap(&closed), Some(None), "no flow, no entry");
}

fn core_entries(bench: &Bench, directives: &[Directive]) -> (Option<Bytes>, Option<Span>) {
    let core = bench.core();
    let mut entries = (None, None);
    for directive in directives {
        match directive {
            Directive::Window { link, flow: None, cap, .. } if *link == core => {
                entries.0 = cap.map(|cap| cap.bytes)
            }
            Directive::Space { link, gap, .. } if *link == core => entries.1 = *gap,
            _ => {}
        }
    }
    entries
}

/// Twice the pipe is divided; of more flows than it has segments each gets one, and ACKs 12 µs
/// apart: 39 segments of 1460 B are 56,940 of 58,260 B.
#[test]
fn hold_divides_windows_and_then_time() {
    let mut bench = Bench::new("sdtcp-hold", 100);
    for flow in 0..39_u32 {
        let told = bench.open(flow);
        let cap = Bytes::new(2 * PIPE / u64::from(flow + 1));
        // From the second flow on, acknowledgements keep 9.6 µs apart.
        let gap = (flow == 1).then_some(Span::from_nanos(9_600));
        assert_eq!(core_entries(&bench, &told), (Some(cap), gap));
    }
    let told = bench.open(39);
    let even = Span::from_micros(12);
    assert_eq!(core_entries(&bench, &told), (Some(Bytes::new(MSS)), Some(even)));
    // 60 more change nothing.
    for flow in 40..100 {
        assert!(bench.open(flow).iter().all(|d| !matches!(d, Directive::Space { gap: None, .. })));
    }
    // Reports are answered with the link's spacing, more or less the distance from the target: of
    // 8 ms or 1,000,000 B, an empty queue misses 29,130.
    let link = bench.core();
    for (queue, expected) in [(PIPE, 12_000), (0, 11_660), (PIPE + 29_130, 12_360)] {
        bench.tell(Measured::QueueLength { link, queue: Bytes::new(77_777), sent: Bytes::MAX });
        let told =
            bench.tell(Measured::QueueLength { link, queue: Bytes::new(queue), sent: Bytes::MAX });
        assert_eq!(core_entries(&bench, &told).1, Some(Span::from_nanos(expected)));
    }
}

/// With its last flow a port has neither cap nor spacing any more; also where the flow only moves away.
#[test]
fn an_empty_port_is_held_to_nothing() {
    let lifted = |told: Directives, core: LinkId| -> Vec<Directive> {
        let at = |directive: &Directive| match directive {
            Directive::Window { link, .. } | Directive::Space { link, .. } => *link == core,
            _ => false,
        };
        told.into_iter().filter(at).collect()
    };
    for moves in [false, true] {
        let mut bench = Bench::new("sdtcp-hold", 2);
        let link = bench.core();
        let spaced = (0..2).map(|flow| bench.open(flow)).last().unwrap();
        assert!(core_entries(&bench, &spaced).1.is_some());
        let last = if moves {
            bench.network.set_up(link, false);
            Measured::LinkState { link, up: false }
        } else {
            bench.tell(Measured::Closed { flow: FlowId(0) });
            Measured::Closed { flow: FlowId(1) }
        };
        let expected = [
            Directive::Window { link, flow: None, cap: None },
            Directive::Space { link, gap: None },
        ];
        assert_eq!(lifted(bench.tell(last), link), expected, "moves: {moves}");
    }
}

/// Two hosts, each at a leaf, with two spines between: the ports that lead to those from the first.
fn two_ways(parameters: &Parameters) -> (Bench, [NodeId; 2], [LinkId; 2]) {
    let access = Access { link: LINK, nic: Buffer::Unlimited };
    let network = Network::new(build::leaf_spine(2, 2, 1, &access, &LINK).unwrap());
    let topology = network.topology();
    let node = |name: &str| topology.node_named(name).unwrap();
    let ends = ["h0", "h1"].map(node);
    let up = ["spine0", "spine1"]
        .map(|spine| topology.link_between(node("leaf0"), node(spine)).unwrap());
    let policy = by_name("sdtcp", parameters).unwrap();
    (Bench { network, policy, now: Time::ZERO }, ends, up)
}

/// A link fails: the flow's window is set at the port that it goes through now, and at that only.
#[test]
fn a_flow_that_moves_is_capped_at_its_new_port() {
    let (mut bench, [src, dst], up) = two_ways(&Parameters::default());
    bench.tell(Measured::Opened { flow: FlowId(0), src, dst });
    let capped = |bench: &mut Bench| {
        up.map(|link| {
            let queue = Bytes::new(127_500);
            !bench.tell(Measured::Congested { link, severity: Severity::High, queue }).is_empty()
        })
    };
    let before = capped(&mut bench);
    assert_ne!(before[0], before[1], "it goes by one spine");
    let link = up[usize::from(before[1])];
    for (is_up, expected) in [(false, before.map(|is_there| !is_there)), (true, before)] {
        bench.network.set_up(link, is_up);
        assert!(bench.tell(Measured::LinkState { link, up: is_up }).is_empty());
        assert_eq!(capped(&mut bench), expected, "up: {is_up}");
    }
}

/// Of late flows: a port whose bursts hold at high congestion gives one more segment to a background flow that
/// moves there, and the bursts less. Its own windows at the port it left don't hold there.
#[test]
fn a_background_flow_that_moves_to_a_congested_port_is_capped_at_once() {
    let (mut bench, [src, dst], up) = two_ways(&Parameters::default().with("late", "capped"));
    let way = |bench: &Bench, flow: u32| {
        let mut path = Vec::new();
        bench.network.path(src, dst, flow.into(), &mut path);
        up.into_iter().find(|link| path.contains(link)).unwrap()
    };
    let from = way(&bench, 0);
    let burst = (1..).find(|flow| way(&bench, *flow) != from).unwrap();
    let link = way(&bench, burst);
    bench.tell(Measured::Opened { flow: FlowId(0), src, dst });
    bench.now += Span::from_secs(2);
    bench.tell(Measured::Opened { flow: FlowId(burst), src, dst });
    bench.carried(&[(0, 2_000_000)]);
    let told = |flow: Option<u32>, bytes| {
        let (flow, cap) = (flow.map(FlowId), Some(cap_of(bytes)));
        Directive::Window { link, flow, cap }
    };
    // Eight times 33 µs, and four times the 11.68 µs that 1460 B take: 310.72 µs, or 38,840 B.
    let (severity, queue) = (Severity::High, Bytes::new(127_500));
    let high = bench.tell(Measured::Congested { link, severity, queue });
    assert_eq!(high, [told(None, 166_340)]);
    bench.network.set_up(from, false);
    let moved = bench.tell(Measured::LinkState { link: from, up: false });
    assert_eq!(moved, [told(Some(0), MSS), told(None, 166_340 - MSS)]);
}

/// Flows that carry nothing from one statistics to the next have no share.
#[test]
fn hold_counts_active_flows() {
    let mut bench = Bench::new("sdtcp-hold", 10);
    (0..10).for_each(|flow| drop(bench.open(flow)));
    let all = |bytes: [u64; 2]| -> Vec<(u32, u64)> {
        (0..10).map(|flow| (flow, if flow < 2 { bytes[0] } else { bytes[1] })).collect()
    };
    bench.carried(&all([100, 100]));
    let told = bench.carried(&all([200, 100]));
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE / 2)));
    let told = bench.carried(&all([300, 150]));
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE / 10)));
}

/// A SYN that was lost comes again: meanwhile statistics have found its flow idle.
#[test]
fn hold_counts_a_flow_whose_syn_comes_again() {
    let mut bench = Bench::new("sdtcp-hold", 10);
    (0..10).for_each(|flow| drop(bench.open(flow)));
    let flows = |first| (0..10).map(|flow| (flow, if flow < 2 { first } else { 0 })).collect();
    let grown: Vec<_> = flows(100);
    let told = bench.carried(&grown);
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE / 2)));
    let told = bench.open(7);
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE / 3)));
    let told = bench.open(7);
    assert_eq!(core_entries(&bench, &told).0, None, "it counts already");
    let grown: Vec<_> = flows(200);
    let told = bench.carried(&grown);
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE / 2)), "it sent nothing");
}

/// A queue above twice its target says that idle flows woke: all count until the next statistics.
#[test]
fn hold_counts_all_flows_when_some_woke() {
    let mut bench = Bench::new("sdtcp-hold", 10);
    (0..10).for_each(|flow| drop(bench.open(flow)));
    let flows = |first| (0..10).map(|flow| (flow, if flow == 0 { first } else { 100 })).collect();
    let (before, after): (Vec<_>, Vec<_>) = (flows(100), flows(200));
    bench.carried(&before);
    let told = bench.carried(&after);
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE)));
    let link = bench.core();
    let mut report = |queue| {
        let queue = Bytes::new(queue);
        let told = bench.tell(Measured::QueueLength { link, queue, sent: Bytes::MAX });
        core_entries(&bench, &told).0
    };
    assert_eq!(report(2 * PIPE), None);
    assert_eq!(report(2 * PIPE + 1), Some(Bytes::new(2 * PIPE / 10)));
    assert_eq!(report(0), None);
    let told = bench.carried(&after);
    assert_eq!(core_entries(&bench, &told).0, Some(Bytes::new(2 * PIPE)), "nobody woke");
}

/// A link with time left gives its flows more, until it has none: some are held up elsewhere.
#[test]
fn hold_makes_up_for_flows_held_up_elsewhere() {
    let mut bench = Bench::new("sdtcp-hold", 10);
    (0..10).for_each(|flow| drop(bench.open(flow)));
    let link = bench.core();
    let mut report = |queue, sent| {
        let (queue, sent) = (Bytes::new(queue), Bytes::new(sent));
        let told = bench.tell(Measured::QueueLength { link, queue, sent });
        core_entries(&bench, &told).0.map(Bytes::get)
    };
    // 95 % of the 125,000 B of a report's millisecond.
    assert_eq!(report(0, 118_750), None);
    assert_eq!(report(0, 118_749), Some(2 * PIPE * 105 / 100 / 10));
    let last = (0..100).filter_map(|_| report(0, 0)).last();
    assert_eq!(last, Some(2 * PIPE * 3 / 10), "three times as much at the most");
    let last = (0..100).filter_map(|_| report(PIPE + 1, 125_000)).last();
    assert_eq!(last, Some(2 * PIPE / 10));
}

proptest! {
    /// Connections come, grow and go: the entries at CN-H are those of a table kept naively.
    #[test]
    fn the_table_is_what_was_seen(
        story in prop::collection::vec((0..5_u8, 0..12_u32, 0..2_000_000_u64), 0..120),
    ) {
        let mut bench = Bench::new("sdtcp", 12);
        let mut naive: BTreeMap<u32, (Time, u64, bool)> = BTreeMap::new();
        // The least round trip, µs: all go the same way.
        let mut least: Option<u64> = None;
        for (what, flow, bytes) in story {
            bench.now += Span::from_millis(300);
            match what {
                0 | 1 => {
                    bench.open(flow);
                    naive.entry(flow).or_insert((bench.now, 0, false));
                }
                2 => {
                    bench.tell(Measured::Closed { flow: FlowId(flow) });
                    naive.remove(&flow);
                    least = least.filter(|_| !naive.is_empty());
                }
                3 => {
                    bench.timed(&[(flow, bytes)]);
                    if naive.contains_key(&flow) && bytes > 0 {
                        least = Some(least.map_or(bytes, |least| least.min(bytes)));
                    }
                }
                _ => {
                    bench.carried(&[(flow, bytes)]);
                    if let Some((opened, most, background)) = naive.get_mut(&flow) {
                        *most = bytes.max(*most);
                        let old = bench.now.since(*opened) > Span::from_secs(1);
                        *background = *most > 1_000_000 && old;
                    }
                }
            }
            let background = naive.values().filter(|flow| flow.2).count() as u64;
            let bursts = naive.len() as u64 - background;
            let pipe = least.map_or(PIPE, |us| us * 125);
            let burst = (pipe + 127_500).saturating_sub(MSS * background) / bursts.max(1);
            let expected: BTreeMap<u32, u64> = naive
                .iter()
                .map(|(flow, (.., background))| (*flow, if *background { MSS } else { burst }))
                .collect();
            prop_assert_eq!(bench.congested(Severity::High, 85), expected);
        }
    }
}
