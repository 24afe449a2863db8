//! `app-aware` and its variant: one step for 10,000 streams among 1,000 hosts, all of whose links
//! are bottlenecks: samples are taken in, rates decided.

use model::{Declared, FlowId, JobId, StreamSample};
use units::{Bytes, Rate, Span};

use super::{Bench, Decision, Dice, timed_us};
use crate::failure::Failure;

const HOSTS: u32 = 1000;
/// Streams of a host.
const EACH: u32 = 10;

pub(super) fn published() -> Result<Decision, Failure> {
    case("app-aware", Span::from_secs(5))
}

pub(super) fn fast() -> Result<Decision, Failure> {
    case("app-aware-fast", Span::from_millis(200))
}

fn case(name: &str, interval: Span) -> Result<Decision, Failure> {
    let capacity = Rate::from_mbps(100);
    let mut bench = Bench::star(name, HOSTS, capacity)?;
    let mut samples = Vec::new();
    bench.declare(Declared::JobStart { job: JobId(0), application: "".into() });
    for (src, number) in (0..HOSTS).flat_map(|host| (0..EACH).map(move |number| (host, number))) {
        let flow = FlowId(u32::try_from(samples.len()).unwrap_or(u32::MAX));
        // Every host receives as many streams as it sends, from hosts far and near.
        let dst = src + 1 + number * number;
        let request = bench.request(0, flow.0, (src, dst), Bytes::MAX);
        bench.declare(request);
        samples.push(StreamSample { flow, ..StreamSample::default() });
    }
    bench.declare(Declared::Streams(samples.clone()));
    let fair = capacity.bytes_in(interval).get() / u64::from(EACH);
    let mut dice = Dice(1);
    Ok(Box::new(move || {
        for sample in &mut samples {
            // In percent of the stream's even share.
            let mut part =
                |least, most| Bytes::new(fair * u64::from(least + dice.roll(most - least)) / 100);
            sample.delivered += part(95, 100);
            sample.sender_queue = part(0, 100);
            sample.receiver_queue = part(0, 25);
        }
        let told = Declared::Streams(samples.clone());
        bench.now += interval;
        timed_us(|| {
            bench.declare(told);
            bench.pass(Span::ZERO);
            bench.out.len()
        })
    }))
}
