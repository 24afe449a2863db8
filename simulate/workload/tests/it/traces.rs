//! What the readers make of good traces, small ones and the published ones.

use model::{Buffer, Job, Network, NodeId};
use proptest::prelude::*;
use units::{Bytes, Span, Time};
use watermaster_workload::cdf::Between;
use watermaster_workload::coflow::{self, Coflows};
use watermaster_workload::{Cdf, load, swim};

#[test]
fn a_swim_line() {
    let text = "a\t49\t49\t7\t8\t9\r\nb\t49\t0\t0\t0\t0\n";
    let read: Result<Vec<_>, _> = swim::Reader::new(text.as_bytes(), "t").collect();
    let read = read.expect("two good lines");
    assert_eq!(read.len(), 2);
    let first = swim::Entry {
        job: "a".to_owned(),
        submit: Time::ZERO + Span::from_secs(49),
        map_input: Bytes::new(7),
        shuffle: Bytes::new(8),
        output: Bytes::new(9),
    };
    assert_eq!(read[0], first);
}

/// 1.5 · 2²⁰ octets over two mappers are 786,432 each. 0.0000005 MB are 0.52 octets, rounded to
/// one, which goes to the second mapper: ⌊1·1/2⌋ = 0, ⌊1·2/2⌋ − 0 = 1.
#[test]
fn a_coflow_line() {
    let text = "4 1\n7 250 2 0 3 3 1:1.5 2:0.0000005 3:0\n";
    let reader = coflow::Reader::new(text.as_bytes(), "t").expect("line 1");
    assert_eq!((reader.ports(), reader.coflows()), (4, 1));
    let hosts: Vec<NodeId> = (10..14).map(NodeId).collect();
    let coflows = Coflows::read(reader, &hosts, &hosts).expect("a good line");
    let jobs: Vec<_> = coflows.jobs().collect();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].arrival, Time::ZERO + Span::from_millis(250));
    let flows = jobs[0].flows.iter();
    let flows: Vec<_> = flows.map(|f| (f.src.0, f.dst.0, f.size.get())).collect();
    assert_eq!(flows, [(10, 11, 786_432), (13, 11, 786_432), (13, 12, 1)]);
}

/// What is kept of coflows, their tasks, makes the jobs of the trace when these are stretched to a load.
#[test]
fn coflows_that_are_kept_by_their_tasks() {
    let text = "4 4\n1 0 2 0 3 3 1:1.5 2:0.5 3:2\n2 10 1 1 1 1:1\n3 40 1 2 1 0:3\n4 50 1 1 1 0:1\n";
    let link = testing::network::link(100, 0, Buffer::Packets(100));
    let network = Network::new(testing::network::hosts(4, link));
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let reader = coflow::Reader::new(text.as_bytes(), "t").expect("line 1");
    let mut kept = Coflows::read(reader, &hosts, &hosts).expect("good lines");
    let mut jobs: Vec<_> = kept.jobs().collect();
    assert_eq!((jobs.len(), kept.size()), (3, jobs.iter().map(Job::size).sum::<Bytes>()));
    load::calibrate(&network, &mut jobs, 0.6).expect("possible");
    kept.calibrate(&network, 0.6).expect("possible");
    assert_eq!(kept.jobs().collect::<Vec<_>>(), jobs);
}

/// A coflow within one port makes no job, and jobs are numbered without it.
#[test]
fn a_coflow_within_a_port() {
    let text = "2 2\n1 0 1 1 1 1:5\n2 0 1 1 1 0:5\n";
    let reader = coflow::Reader::new(text.as_bytes(), "t").expect("line 1");
    let hosts = [NodeId(0), NodeId(1)];
    let coflows = Coflows::read(reader, &hosts, &hosts).expect("good lines");
    assert_eq!(coflows.jobs().map(|job| job.id.0).collect::<Vec<_>>(), [0]);
}

proptest! {
    /// What each reducer receives is conserved, and no mapper's part is an octet from even.
    #[test]
    fn coflow_bytes_are_conserved(
        mappers in prop::collection::vec(0u32..20, 1..20),
        reducers in prop::collection::vec((0u32..20, 0u64..1 << 40), 1..20),
    ) {
        let coflow = coflow::Coflow {
            id: 0,
            arrival: Time::ZERO,
            mappers,
            reducers: reducers.iter().map(|&(port, size)| (port, Bytes::new(size))).collect(),
        };
        let mut sums = vec![0; reducers.len()];
        for (_, reducer, size) in coflow.transfers() {
            sums[reducer] += size.get();
            let even = reducers[reducer].1 / coflow.mappers.len() as u64;
            prop_assert!(size.get() == even || size.get() == even + 1);
        }
        let received: Vec<u64> = reducers.iter().map(|&(_, size)| size).collect();
        prop_assert_eq!(sums, received);
    }
}

/// Between (100, 0) and (300, 0.5) a quarter of the probability lies at 200; half of it at 300;
/// three quarters half-way to 700. The mean is 0.5 · 200 + 0.5 · 500.
#[test]
fn interpolated_quantiles() {
    let cdf = Cdf::read("100,0\n300,0.5\n700,1\n".as_bytes(), "t").expect("good");
    assert_eq!((cdf.between(), cdf.len()), (Between::Interpolated, 3));
    for (probability, size) in [(0.0, 100), (0.25, 200), (0.5, 300), (0.75, 500), (1.0, 700)] {
        assert_eq!(cdf.quantile(probability), Bytes::new(size), "{probability}");
    }
    assert!((cdf.mean() - 350.0).abs() < 1e-9);
}

/// A first probability above 0 is that of the first size itself.
#[test]
fn an_atom_at_the_first_size() {
    let cdf = Cdf::read("100,0.4\n200,1\n".as_bytes(), "t").expect("good");
    assert_eq!(cdf.quantile(0.1), Bytes::new(100));
    assert_eq!(cdf.quantile(0.4), Bytes::new(100));
    assert_eq!(cdf.quantile(0.7), Bytes::new(150));
    assert!((cdf.mean() - (0.4 * 100.0 + 0.6 * 150.0)).abs() < 1e-9);
}

/// Half of the sizes are 100, a quarter 300, a quarter 700: the mean is 300.
#[test]
fn stepped_quantiles() {
    let text = "300.5\n100 0.5\n300 0.75\n700 1.0\n";
    let cdf = Cdf::read(text.as_bytes(), "t").expect("good");
    assert_eq!(cdf.between(), Between::Nothing);
    for (probability, size) in [(0.1, 100), (0.5, 100), (0.51, 300), (0.75, 300), (0.76, 700)] {
        assert_eq!(cdf.quantile(probability), Bytes::new(size), "{probability}");
    }
    assert!((cdf.mean() - 300.0).abs() < 1e-9);
}

/// 5,894 jobs over 24 hours, of which 24.5 % shuffle 22.2 TB.
#[test]
fn the_published_swim_trace() {
    let Some(path) = testing::needs::trace("swim/FB-2009_samples_24_times_1hr_0.tsv") else {
        return;
    };
    let read: Result<Vec<_>, _> = swim::Reader::open(&path).expect("a file").collect();
    let entries = read.expect("no bad line");
    assert_eq!(entries.len(), 5894);
    let shuffling = entries.iter().filter(|entry| entry.shuffle > Bytes::ZERO);
    assert_eq!(shuffling.count(), 1446);
    let total: Bytes = entries.iter().map(|entry| entry.shuffle).sum();
    assert_eq!(total.get() / 100_000_000_000, 222);
}

/// 526 coflows, 706,397 transfers, 150 ports; 4,911 of the transfers stay within a port.
#[test]
fn the_published_coflow_trace() {
    let Some(path) = testing::needs::trace("coflow/FB2010-1Hr-150-0.txt") else {
        return;
    };
    let open = || coflow::Reader::open(&path).expect("a file");
    assert_eq!((open().ports(), open().coflows()), (150, 526));
    let coflows: Result<Vec<_>, _> = open().collect();
    let coflows = coflows.expect("no bad line");
    assert_eq!(coflows.len(), 526);
    let transfers = coflows.iter().map(|coflow| coflow.transfers().count());
    assert_eq!(transfers.sum::<usize>(), 706_397);
    let total: Bytes =
        coflows.iter().flat_map(|coflow| &coflow.reducers).map(|reducer| reducer.1).sum();
    assert_eq!(total.get(), 35_533_534 << 20);

    let hosts: Vec<NodeId> = (0..150).map(NodeId).collect();
    let coflows = Coflows::read(open(), &hosts, &hosts).expect("no bad line");
    let flows = coflows.jobs().map(|job| job.flows.len());
    assert_eq!(flows.sum::<usize>(), 706_397 - 4_911);
}

/// The digitised files state their means, which the points reproduce.
#[test]
fn the_published_distributions() {
    let cases = [
        ("cdf/opera_websearch.csv", 16, None),
        ("cdf/opera_datamining.csv", 17, None),
        ("cdf/opera_FB_Hadoop_Inter_Rack_FlowCDF.csv", 17, None),
        ("cdf/Facebook_CacheFollowerDist_IntraCluster.txt", 331, Some(692_975.6)),
        ("cdf/Facebook_HadoopDist_All.txt", 461, Some(127_796.6)),
        ("cdf/Facebook_WebServerDist_IntraCluster.txt", 441, Some(62_874.27)),
    ];
    for (name, points, mean) in cases {
        let Some(path) = testing::needs::trace(name) else {
            continue;
        };
        let cdf = Cdf::open(&path).expect("a good file");
        assert_eq!(cdf.len(), points, "{name}");
        if let Some(mean) = mean {
            assert!((cdf.mean() - mean).abs() < 1e-5 * mean, "{name}: {}", cdf.mean());
        }
    }
}

/// Where a port is a sender and a receiver, what stays within it is a transfer like any other.
#[test]
fn a_split_port_keeps_its_own_transfers() {
    let text = "2 1\n0 0 2 0 1 1 1:2\n";
    let reader = coflow::Reader::new(text.as_bytes(), "t").expect("line 1");
    let (senders, receivers) = ([NodeId(0), NodeId(1)], [NodeId(2), NodeId(3)]);
    let coflows = Coflows::read(reader, &senders, &receivers).expect("a good line");
    let flows = coflows.jobs().flat_map(|job| job.flows);
    let ends: Vec<_> = flows.map(|flow| (flow.src, flow.dst, flow.size.get())).collect();
    assert_eq!(ends, [(NodeId(0), NodeId(3), 1 << 20), (NodeId(1), NodeId(3), 1 << 20)]);
}
