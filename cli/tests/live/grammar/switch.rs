//! What switches can say.

use std::time::{Duration, Instant};

use openflow::switch::Output;
use openflow::{
    BufferId, ErrorCode, ErrorMessage, Field, FlowRemoved, Hello, Kind, List, Message, PacketIn,
    PacketInReason, PortNo, PortReason, PortStatus, RemovedReason, TableId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use units::{Span, Time};
use wire::client::connect;

use super::{PORTS, To};
use crate::draw::Draw;
use crate::switch::segment;

const PORTS_OF_SWITCH: u32 = 5;

fn encoded(xid: u32, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(xid, &mut bytes).unwrap();
    bytes
}

/// An Ethernet address: that of a port, or another.
fn mac(draw: &mut Draw) -> [u8; 6] {
    [2, 0, 0, draw.small(2), 0, draw.small(30)]
}

fn address(draw: &mut Draw) -> [u8; 4] {
    if draw.once_in(3) {
        [10, 0, draw.small(4), draw.small(250)]
    } else {
        [10, 0, 0, 1 + draw.small::<u8>(3)]
    }
}

/// ARP, LLDP, or TCP with some of its flags.
fn frame(draw: &mut Draw, probes: &[Vec<u8>]) -> Vec<u8> {
    let (from, to) = (mac(draw), mac(draw));
    let outer = if draw.once_in(2) { [0xff; 6] } else { to };
    let mut frame = [outer, from].concat();
    match draw.below(5) {
        0..=1 => {
            frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, draw.of(&[1, 2])]);
            frame.extend(if draw.once_in(5) { mac(draw) } else { from });
            frame.extend(address(draw));
            frame.extend(to);
            frame.extend(address(draw));
        }
        // What the controller has sent to look for links comes back, here or elsewhere.
        2 if !probes.is_empty() => return probes[draw.small::<usize>(probes.len() as u64)].clone(),
        _ => {
            let (source, destination) = (address(draw), address(draw));
            let (here, there) = (draw.of(&PORTS), draw.of(&PORTS));
            let flags = draw.of(&[2, 0x12, 1, 0x11, 4, 0x10]);
            let (from, to) = ((from, source, here), (outer, destination, there));
            return segment(from, to, flags, draw.small(16), 0);
        }
    }
    frame.resize(frame.len().max(60), 0);
    frame
}

fn unasked(draw: &mut Draw, probes: &[Vec<u8>], xids: &[u32]) -> Vec<u8> {
    let any = draw.small(1 << 32);
    let xid = if xids.is_empty() { any } else { xids[draw.small::<usize>(xids.len() as u64)] };
    match draw.below(12) {
        0..=4 => {
            let port = if draw.once_in(20) { any } else { 1 + draw.small::<u32>(7) };
            let fields = [Field::exact(Kind::InPort, port).into()];
            let data = frame(draw, probes);
            let packet = PacketIn {
                buffer: BufferId::NONE,
                total_len: u16::try_from(data.len()).unwrap(),
                reason: draw.of(&[PacketInReason::NO_MATCH, PacketInReason::ACTION]),
                table: TableId(draw.small(3)),
                cookie: draw.next(),
                fields: List::of(&fields),
                data: &data,
            };
            encoded(0, &Message::PacketIn(packet))
        }
        5..=6 => {
            let mut port = testing::openflow::port(1 + draw.small::<u32>(7));
            port.state = draw.of(&[0, 1, 4]);
            port.curr_speed_kbps = draw.of(&[0, 1, 10_000_000, u32::MAX]);
            if draw.once_in(10) {
                port.port = PortNo(any);
            }
            let reason = draw.of(&[PortReason::ADD, PortReason::DELETE, PortReason::MODIFY]);
            encoded(0, &Message::PortStatus(PortStatus { reason, port }))
        }
        7 => {
            let fields = [Field::exact(Kind::EthType, 0x800_u16).into()];
            let removed = FlowRemoved {
                cookie: draw.next(),
                priority: draw.small(65_536),
                reason: draw.of(&[RemovedReason::HARD_TIMEOUT, RemovedReason::DELETE]),
                table: TableId(draw.small(3)),
                duration: Span::from_millis(draw.below(10_000)),
                idle_timeout_s: 0,
                hard_timeout_s: 10,
                packets: draw.next(),
                frame_bytes: draw.next(),
                fields: List::of(&fields),
            };
            encoded(0, &Message::FlowRemoved(removed))
        }
        8 => encoded(any, &Message::EchoRequest(b"there?")),
        9 => encoded(xid, &Message::BarrierReply),
        10 => {
            let error = draw.of(&[
                ErrorCode::TABLE_FULL,
                ErrorCode::OUT_OF_METERS,
                ErrorCode::IS_SLAVE,
                ErrorCode::STALE,
            ]);
            encoded(xid, &Message::Error(ErrorMessage { error, data: &[4, 14, 0, 8, 0, 0, 0, 1] }))
        }
        _ => encoded(xid, &Message::EchoReply(b"")),
    }
}

/// The whole messages at the beginning of what came.
fn whole(came: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let [_, _, high, low, ..] = came[..] {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < 8 || came.len() < length {
            break;
        }
        all.push(came.drain(..length).collect());
    }
    all
}

/// A switch that comes, answers as it likes and goes.
pub async fn speak(to: To, mut draw: Draw, until: Instant) -> u64 {
    let mut said = 0;
    while Instant::now() < until {
        let Ok(mut stream) = connect(&to.openflow, None).await else { continue };
        let datapath = draw.of(&[0xaa, 0xaa, 0xbb, 0xcc, 0]);
        let mut switch =
            testing::openflow::switch(datapath, draw.of(&[254, 254, 1]), PORTS_OF_SWITCH);
        let began = Instant::now();
        let now =
            || Time::ZERO + Span::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap());
        let mut waiting = vec![encoded(1, &Message::Hello(Hello::ONLY_1_3))];
        let (mut came, mut chunk, mut out) = (Vec::new(), vec![0; 16 << 10], Output::default());
        let (mut probes, mut xids, mut before) = (Vec::new(), Vec::new(), Vec::new());
        // How often it answers otherwise than it should: some are nearly honest.
        let odd = draw.of(&[5, 50, 1_000]);
        'connected: for _ in 0..draw.below(400) {
            if Instant::now() >= until {
                break;
            }
            let read =
                tokio::time::timeout(Duration::from_millis(5), stream.read(&mut chunk)).await;
            match read {
                Ok(Ok(0) | Err(_)) => break 'connected,
                Ok(Ok(read)) => came.extend_from_slice(&chunk[..read]),
                Err(_) => {}
            }
            for bytes in whole(&mut came) {
                let Ok((xid, message)) = Message::decode(&bytes) else { continue };
                xids.push(xid);
                match &message {
                    Message::EchoRequest(data) => {
                        waiting.push(encoded(xid, &Message::EchoReply(data)))
                    }
                    Message::PacketOut(packet) => probes.push(packet.data.to_vec()),
                    _ => {}
                }
                if draw.once_in(odd) {
                    let error = draw.of(&[
                        ErrorCode::BAD_TYPE,
                        ErrorCode::TABLE_FULL,
                        ErrorCode::UNKNOWN_METER,
                    ]);
                    let data = &bytes[..bytes.len().min(64)];
                    waiting.push(encoded(xid, &Message::Error(ErrorMessage { error, data })));
                } else {
                    switch.handle(now(), xid, &message, &mut out);
                }
            }
            switch.tick(now(), &mut out);
            waiting.append(&mut out.messages);
            out.frames.clear();
            for _ in 0..draw.below(4) {
                waiting.push(unasked(&mut draw, &probes, &xids));
            }
            // Out of order, twice, or never.
            if draw.once_in(odd) && waiting.len() > 1 {
                let (one, other) = (
                    draw.small::<usize>(waiting.len() as u64),
                    draw.small::<usize>(waiting.len() as u64),
                );
                waiting.swap(one, other);
            }
            if draw.once_in(odd) && !before.is_empty() {
                waiting.push(before.clone());
            }
            if draw.once_in(odd) {
                waiting.pop();
            }
            for bytes in waiting.drain(..) {
                if stream.write_all(&bytes).await.is_err() {
                    break 'connected;
                }
                said += 1;
                before = bytes;
            }
            if stream.flush().await.is_err() {
                break;
            }
            if probes.len() > 200 {
                probes.truncate(100);
            }
            if xids.len() > 200 {
                xids.drain(..xids.len() / 2);
            }
        }
    }
    said
}
