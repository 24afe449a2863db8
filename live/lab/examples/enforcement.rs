//! Goodput of one flow against the rate that a controller holds it to: by the pacing of an agent, and by
//! a meter of Open vSwitch.
//!
//! `make lab-meters`, as root. Each row has a lab of its own, with the daemons of real machines. Rates
//! in Mbit/s may be given; published figures use 1, 10 and 100. What counts is what has arrived over
//! five seconds, after three to settle. Above 100 Mbit/s segmentation is left to the interfaces where
//! the kernel forwards, as on real hosts; Open vSwitch's user-space datapath is given a packet at a
//! time. The last column is the lab's own verdict on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command of the development tree"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use engine::{Notice, Outcome, World as _};
use lab::{
    Control, Daemons, Enforcement, Error, Governance, Lab, Northbound, Order, Switches, Transport,
    World,
};
use model::build::{Access, star};
use model::{Buffer, Declared, FlowId, JobId, LinkSpec, Network};
use policy::Policy as _;
use units::{Bytes, Rate, Span, Time};

const SETTLE: Span = Span::from_secs(3);
const MEASURE: Span = Span::from_secs(5);
/// What two cores carry a packet at a time.
const PACKETWISE: Rate = Rate::from_mbps(100);

fn main() -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, for network namespaces and BPF");
        return ExitCode::from(2);
    }
    let rates: Result<Vec<u64>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let Ok(rates) = rates else {
        eprintln!("usage: enforcement [MBIT_PER_SECOND…]");
        return ExitCode::from(2);
    };
    let rates = if rates.is_empty() { vec![1, 10, 100, 1000] } else { rates };
    println!(
        "| set, frames | switch | by | expected payload | seen payload | ratio | sent again | machine |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for rate in rates.into_iter().map(Rate::from_mbps) {
        for (switches, enforcement) in [
            (Switches::Bridge, Enforcement::Pacing),
            (Switches::Ovs, Enforcement::Pacing),
            (Switches::Ovs, Enforcement::Meters),
        ] {
            match row(rate, switches, enforcement) {
                Ok(row) => println!("{row}"),
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// The program, which is built beside the examples.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("watermaster")
}

fn transport() -> Transport {
    Transport {
        congestion_control: "cubic",
        mss: 1460,
        header: 40,
        initial_window: 10,
        min_rto: Span::from_millis(200),
        delayed_ack: true,
        receive_window: Bytes::new(4 << 20),
        sack: true,
        ecn: false,
        handshake: false,
    }
}

fn row(rate: Rate, switches: Switches, enforcement: Enforcement) -> Result<String, Error> {
    // The limit is what binds, not the link.
    let capacity = rate.fraction(2, 1).max(Rate::from_mbps(20));
    let buffer = Buffer::Packets(200);
    let link = LinkSpec { capacity, delay: Span::ZERO, buffer, mark: None };
    let topology = star(2, &Access { link, nic: buffer }).unwrap();
    let network = Network::new(topology);
    let name = format!("held{}", std::process::id());
    let segmentation = switches == Switches::Bridge && rate > PACKETWISE;
    let order = Order { name, switches, segmentation, passing: true, ..Order::default() };
    let mut lab = Lab::up(network.topology(), &order)?;
    let governance = Governance { enforcement, ..Governance::default() };
    let policy = format!("name = \"static\"\nrates = [\"{} bit/s\"]", rate.as_bps());
    let daemons = Daemons::start(&mut lab, &governance, &policy, &program())?;
    let lab = Arc::new(lab);
    let elsewhere = Control::Elsewhere;
    let mut world = World::new(Arc::clone(&lab), &network, transport(), elsewhere, Time::NEVER)?;
    let directory = world.directory();
    let mut northbound = Northbound::new("held", daemons.address().clone(), directory)?;
    let hosts: Vec<_> = network.topology().hosts().collect();
    let (src, dst, size) = (hosts[0], hosts[1], Bytes::MAX);
    let flow = world.start(&network, src, dst, size)?;
    let job = JobId(0);
    for declared in [
        Declared::JobStart { job, application: "".into() },
        Declared::FlowRequest { job, flow, src, dst, size },
    ] {
        northbound.observe(Time::ZERO, &network, &declared.into());
    }
    pass(&mut world, SETTLE)?;
    let (start, before) = (world.now(), state(&world, flow));
    pass(&mut world, MEASURE)?;
    let (end, after) = (world.now(), state(&world, flow));
    let mut outcome = Outcome::default();
    world.finish(&mut outcome)?;
    let slow = outcome.notes.iter().any(|note| note.contains("TOO SLOW"));
    let machine = if slow { "**too slow**" } else { "kept up" };
    drop(northbound);
    daemons.stop()?;
    let seen = Rate::of(after.delivered - before.delivered, end.since(start));
    let expected = rate.fraction(u64::from(transport().mss), 1500);
    #[expect(clippy::cast_precision_loss, reason = "for show")]
    let ratio = seen.as_bps() as f64 / expected.as_bps() as f64;
    let switches = if switches == Switches::Ovs { "Open vSwitch" } else { "bridge" };
    let by = if enforcement == Enforcement::Meters { "meter" } else { "pacing" };
    let again = after.retransmissions - before.retransmissions;
    Ok(format!(
        "| {rate} | {switches} | {by} | {expected} | {seen} | {ratio:.3} | {again} | {machine} |"
    ))
}

fn state(world: &World, flow: FlowId) -> engine::FlowState {
    world.state(flow).unwrap_or_default()
}

fn pass(world: &mut World, span: Span) -> Result<(), Error> {
    let until = world.now() + span;
    while world.run(until) != Notice::Limit {
        world.check()?;
    }
    world.advance(until);
    Ok(())
}
