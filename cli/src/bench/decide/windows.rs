//! `sdtcp`: the windows of a congested port with 1,500 flows.

use model::{FlowId, Measured, Severity};
use units::{Bytes, Rate, Span};

use super::{Bench, Decision, timed_us};
use crate::failure::Failure;

const FLOWS: u32 = 1500;

pub(super) fn sdtcp() -> Result<Decision, Failure> {
    let mut bench = Bench::star("sdtcp", FLOWS + 1, Rate::from_mbps(1000))?;
    let (receiver, mut carried) = (bench.host(FLOWS), Vec::new());
    for flow in 0..FLOWS {
        let (flow, src) = (FlowId(flow), bench.host(flow));
        bench.tell(&Measured::Opened { flow, src, dst: receiver }.into());
        // One in ten is a background flow.
        let bytes = if flow.0 % 10 == 0 { 10_000_000 } else { 100_000 };
        carried.push((flow, Bytes::new(bytes)));
    }
    bench.now += Span::from_secs(2);
    bench.tell(&Measured::Carried { flows: carried }.into());
    let links = (0u32..).zip(bench.network.topology().links());
    let mut into = links.filter(|(_, link)| link.to == receiver);
    let Some(link) = into.next().map(|(number, _)| model::LinkId(number)) else {
        return Err(Failure::failed("a star has a link to each host"));
    };
    let levels = [Severity::Low, Severity::Medium, Severity::High, Severity::Recovered];
    let mut levels = levels.into_iter().cycle();
    Ok(Box::new(move || {
        let level = levels.next().unwrap_or(Severity::Low);
        let told = Measured::Congested { link, severity: level, queue: Bytes::new(90_000) }.into();
        bench.now += Span::from_millis(1);
        timed_us(|| {
            bench.tell(&told);
            bench.out.len()
        })
    }))
}
