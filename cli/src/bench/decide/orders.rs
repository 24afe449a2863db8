//! Policies that decide at each arrival and departure: one flow ends and another begins among those
//! of 200 jobs between 1,000 hosts.

use model::{Declared, FlowId, JobId};
use policy::{Acknowledgements, Aim, Objective, Parameters, Share};
use units::{Bytes, Rate, Span};

use super::{Bench, Decision, Dice, timed_us};
use crate::failure::Failure;

const HOSTS: u32 = 1000;
const JOBS: u32 = 200;
const FLOWS: u32 = 10_000;
const MANY: u32 = 100_000;
const APPLICATIONS: [&str; 4] = ["web", "report", "sort", "backup"];

pub(super) fn smsf() -> Result<Decision, Failure> {
    case("smsf", FLOWS)
}

pub(super) fn many_smsf() -> Result<Decision, Failure> {
    case("smsf", MANY)
}

pub(super) fn many_srb() -> Result<Decision, Failure> {
    case("srb", MANY)
}

pub(super) fn fair() -> Result<Decision, Failure> {
    case("fair", FLOWS)
}

/// The same where each segment is acknowledged over links that others divide.
pub(super) fn fair_acknowledged() -> Result<Decision, Failure> {
    let acknowledged = Acknowledgements::new(40, 1500);
    case_under("fair", FLOWS, &Parameters::default().acknowledged(acknowledged))
}

/// Four objectives, whose policies decide nothing: what the arbiter itself takes.
pub(super) fn arbiter() -> Result<Decision, Failure> {
    let most = Share::literal(500_000);
    let aims = [
        Aim::Latency { target: Span::from_millis(100), most },
        Aim::Deadline { within: Span::from_secs(100), most },
        Aim::Weight(3),
        Aim::Background,
    ];
    let objectives = APPLICATIONS.iter().zip(aims).map(|(name, aim)| {
        let (name, policy) = ((*name).to_owned(), policy::PLAIN);
        let (applications, parameters) = (vec![name.clone()], Parameters::default());
        Objective { name, applications, policy, parameters, aim }
    });
    case_under("arbiter", FLOWS, &Parameters::default().under(objectives.collect()))
}

fn case(name: &str, flows: u32) -> Result<Decision, Failure> {
    case_under(name, flows, &Parameters::default())
}

fn case_under(name: &str, flows: u32, parameters: &Parameters) -> Result<Decision, Failure> {
    let mut bench = Bench::star(name, HOSTS, Rate::from_mbps(1000))?;
    bench.policy = policy::by_name(name, parameters).map_err(Failure::failed)?;
    let mut dice = Dice(1);
    let mut next = move |bench: &Bench, flow: u32| {
        let ends = (dice.roll(HOSTS), dice.roll(HOSTS));
        let size = Bytes::new(1_000_000 + u64::from(dice.roll(100_000_000)));
        bench.request(flow % JOBS, flow, ends, size)
    };
    for (job, application) in (0..JOBS).map(JobId).zip(APPLICATIONS.iter().cycle()) {
        bench.declare(Declared::JobStart { job, application: (*application).into() });
    }
    for flow in 0..flows {
        let request = next(&bench, flow);
        bench.declare(request);
    }
    let mut oldest = 0;
    Ok(Box::new(move || {
        let flow = FlowId(oldest);
        let ended = Declared::FlowComplete { job: JobId(oldest % JOBS), flow };
        let begun = next(&bench, oldest + flows);
        oldest += 1;
        bench.now += Span::from_millis(1);
        timed_us(|| {
            bench.declare(ended);
            bench.declare(begun);
            bench.pass(Span::ZERO);
            bench.out.len()
        })
    }))
}
