//! What a switch refuses, and how it is managed: roles, ports, statistics.

use std::collections::BTreeSet;

use watermaster_openflow::*;

use super::*;
use crate::controller::Rig;
use crate::frames::{B, IP_A, segment};

pub(super) fn wrong_entries_are_refused(rig: &mut Rig) {
    let fields = |rig: &mut Rig, fields: &[Oxm<'_>]| {
        rig.tell(Message::FlowMod(FlowMod { fields: List::of(fields), ..FlowMod::ADD }))
    };
    let port = Field::exact(Kind::TcpDst, 80_u16).into();
    assert_eq!(fields(rig, &[port]), Err(ErrorCode::MATCH_BAD_PREREQUISITE));
    assert_eq!(
        fields(rig, &[kind(0x0800), protocol(17), port]),
        Err(ErrorCode::MATCH_BAD_PREREQUISITE)
    );
    assert_eq!(fields(rig, &[in_port(1), in_port(2)]), Err(ErrorCode::MATCH_DUPLICATE_FIELD));
    let loose = Field { kind: Kind::EthDst, value: 3, mask: Some(1) };
    assert_eq!(fields(rig, &[loose.into()]), Err(ErrorCode::MATCH_BAD_WILDCARDS));
    let queue = Field::exact(Kind::QueueBytes, 3_u8);
    assert_eq!(fields(rig, &[queue.into()]), Err(ErrorCode::MATCH_BAD_FIELD));

    let doing = |rig: &mut Rig, table, instructions: &[Instruction<'_>]| {
        let (table, instructions) = (TableId(table), List::of(instructions));
        rig.tell(Message::FlowMod(FlowMod { table, instructions, ..FlowMod::ADD }))
    };
    let goto = [Instruction::GotoTable(TableId(1))];
    assert_eq!(doing(rig, 1, &goto), Err(ErrorCode::INSTRUCTION_BAD_TABLE));
    let unknown = [Instruction::Experimenter { experimenter: 0x1234, body: &[] }];
    assert_eq!(doing(rig, 0, &unknown), Err(ErrorCode::INSTRUCTION_BAD_EXPERIMENTER));
    let missing = [Instruction::Meter(MeterId(99))];
    assert_eq!(doing(rig, 0, &missing), Err(ErrorCode::INVALID_METER));

    let acting = |rig: &mut Rig, action| {
        let actions = [action];
        let instructions = [Instruction::ApplyActions(List::of(&actions))];
        rig.tell(Message::FlowMod(FlowMod {
            instructions: List::of(&instructions),
            ..FlowMod::ADD
        }))
    };
    let nowhere = Action::output(PortNo::ANY);
    assert_eq!(acting(rig, nowhere), Err(ErrorCode::ACTION_BAD_OUT_PORT));
    let group = Action::Group(GroupId(99));
    assert_eq!(acting(rig, group), Err(ErrorCode::ACTION_BAD_OUT_GROUP));
    let other = Action::Experimenter { experimenter: 0x1234, body: &[0; 8] };
    assert_eq!(acting(rig, other), Err(ErrorCode::ACTION_BAD_EXPERIMENTER));
    let push = Action::PushVlan(0x1234);
    assert_eq!(acting(rig, push), Err(ErrorCode::ACTION_BAD_ARGUMENT));

    let command = FlowCommand(9);
    let wrong = FlowMod { command, ..FlowMod::ADD };
    assert_eq!(rig.tell(Message::FlowMod(wrong)), Err(ErrorCode::FLOW_BAD_COMMAND));
    let buffer = BufferId(3);
    let wrong = FlowMod { buffer, ..FlowMod::ADD };
    assert_eq!(rig.tell(Message::FlowMod(wrong)), Err(ErrorCode::BUFFER_UNKNOWN));
}

pub(super) fn wrong_groups_are_refused(rig: &mut Rig) {
    let two = [out(2)];
    let one = [bucket(0, PortNo::ANY, &two)];
    group(rig, 4, GroupKind::ALL, &one).unwrap();
    assert_eq!(group(rig, 4, GroupKind::ALL, &one), Err(ErrorCode::GROUP_EXISTS));
    assert_eq!(group(rig, 0xffff_ff01, GroupKind::ALL, &one), Err(ErrorCode::INVALID_GROUP));
    assert_eq!(group(rig, 5, GroupKind(9), &one), Err(ErrorCode::GROUP_BAD_TYPE));
    let (command, kind, buckets) = (GroupCommand::MODIFY, GroupKind::ALL, List::EMPTY);
    let change = GroupMod { command, kind, group: GroupId(6), buckets };
    assert_eq!(rig.tell(Message::GroupMod(change)), Err(ErrorCode::UNKNOWN_GROUP));
    let change = GroupMod { command: GroupCommand(9), ..change };
    assert_eq!(rig.tell(Message::GroupMod(change)), Err(ErrorCode::GROUP_BAD_COMMAND));
}

pub(super) fn wrong_meters_are_refused(rig: &mut Rig) {
    meter(rig, MeterCommand::ADD, 4, KBPS, 10, 10).unwrap();
    let again = meter(rig, MeterCommand::ADD, 4, KBPS, 10, 10);
    assert_eq!(again, Err(ErrorCode::METER_EXISTS));
    let unknown = meter(rig, MeterCommand::MODIFY, 5, KBPS, 10, 10);
    assert_eq!(unknown, Err(ErrorCode::UNKNOWN_METER));
    let zero = meter(rig, MeterCommand::ADD, 0, KBPS, 10, 10);
    assert_eq!(zero, Err(ErrorCode::INVALID_METER));
    let wrong = meter(rig, MeterCommand(9), 6, KBPS, 10, 10);
    assert_eq!(wrong, Err(ErrorCode::METER_BAD_COMMAND));
    let both = MeterFlags(MeterFlags::KBPS.0 | MeterFlags::PACKETS.0);
    let both = meter(rig, MeterCommand::ADD, 6, both, 10, 10);
    assert_eq!(both, Err(ErrorCode::METER_BAD_FLAGS));
    let asked = rig.ask(request(Request::Meter(MeterId(77))));
    assert_eq!(asked, Err(ErrorCode::UNKNOWN_METER));
}

pub(super) fn wrong_ports_and_packets_are_refused(rig: &mut Rig) {
    // A port that isn't there has no statistics: Open vSwitch sees no error in that.
    let stats = Request::PortStats(PortNo(77));
    ask(rig, stats, |reply| assert_eq!(reply, Reply::PortStats(List::EMPTY)));
    let queue = QueueSelect { port: PortNo(77), queue: QueueId::ALL };
    let asked = rig.ask(request(Request::Queue(queue)));
    assert_eq!(asked, Err(ErrorCode::QUEUE_BAD_PORT));
    let asked = rig.ask(Message::QueueGetConfigRequest(PortNo(77)));
    assert_eq!(asked, Err(ErrorCode::QUEUE_BAD_PORT));
    let change = PortMod { port: PortNo(77), hw_addr: B, config: 0, mask: 0, advertise: 0 };
    assert_eq!(rig.tell(Message::PortMod(change)), Err(ErrorCode::PORT_MOD_BAD_PORT));
    let change = PortMod { port: PortNo(1), hw_addr: [9; 6], ..change };
    assert_eq!(rig.tell(Message::PortMod(change)), Err(ErrorCode::PORT_MOD_BAD_HW_ADDR));
    let packet = PacketOut {
        buffer: BufferId(7),
        in_port: PortNo::CONTROLLER,
        actions: List::EMPTY,
        data: &[],
    };
    assert_eq!(rig.tell(Message::PacketOut(packet)), Err(ErrorCode::BUFFER_UNKNOWN));
    let unknown = Experimenter { experimenter: 0x1234, kind: 0, body: &[] };
    let told = rig.tell(Message::Experimenter(unknown));
    assert_eq!(told, Err(ErrorCode::BAD_EXPERIMENTER));
}

/// 6.3.6.
pub(super) fn roles_bind(rig: &mut Rig) {
    let role = |rig: &mut Rig, role, generation_id| {
        let answer = rig.ask(Message::RoleRequest(RoleMessage { role, generation_id }))?;
        let (_, Message::RoleReply(reply)) = Message::decode(&answer[0]).unwrap() else { panic!() };
        Ok(reply.role)
    };
    assert_eq!(role(rig, Role::NO_CHANGE, 0), Ok(Role::EQUAL));
    assert_eq!(role(rig, Role::MASTER, 100), Ok(Role::MASTER));
    assert_eq!(role(rig, Role::SLAVE, 99), Err(ErrorCode::STALE));
    assert_eq!(role(rig, Role::SLAVE, 101), Ok(Role::SLAVE));
    assert_eq!(rig.tell(Message::FlowMod(FlowMod::ADD)), Err(ErrorCode::IS_SLAVE));
    // Reading stays allowed.
    assert!(priorities(rig).is_empty());
    assert_eq!(role(rig, Role::EQUAL, 0), Ok(Role::EQUAL));
    assert_eq!(rig.tell(Message::FlowMod(FlowMod::ADD)), Ok(()));
}

/// 7.3.10.
pub(super) fn unasked_messages_are_chosen(rig: &mut Rig) {
    let answer = rig.ask(Message::GetAsyncRequest).unwrap();
    let (_, Message::GetAsyncReply(before)) = Message::decode(&answer[0]).unwrap() else {
        panic!()
    };
    assert_eq!(before.packet_in & 0b11, 0b11);
    assert_eq!((before.packet_in_slave, before.port_status_slave), (0, 0b111));
    add(rig, 1, &[], &[Action::to_controller()]);
    let quiet = AsyncConfig { packet_in: before.packet_in & !0b10, ..before };
    rig.tell(Message::SetAsync(quiet)).unwrap();
    rig.inject(1, &segment());
    rig.settle();
    assert_eq!(rig.overhear(), None);
    rig.tell(Message::SetAsync(before)).unwrap();
    rig.inject(1, &segment());
    expect_packet_in(rig, |packet| assert_eq!(packet.reason, PacketInReason::ACTION));
}

/// `OFPPC_PORT_DOWN`, `OFPPC_NO_RECV`, `OFPPC_NO_FWD`.
const DOWN: u32 = 1;
const NO_RECV: u32 = 1 << 2;
const NO_FWD: u32 = 1 << 5;

fn port_of(rig: &mut Rig, port: u32) -> Port {
    let mut found = None;
    ask(rig, Request::PortDesc, |reply| {
        let Reply::PortDesc(ports) = reply else { panic!() };
        found = found.or(ports.iter().find(|found| found.port.0 == port));
    });
    found.unwrap()
}

/// Sets bits of a port. That it went down or up is told; whether the rest is, is left open.
pub(super) fn set_port(rig: &mut Rig, port: u32, config: u32, mask: u32) {
    let Port { port, hw_addr, .. } = port_of(rig, port);
    rig.tell(Message::PortMod(PortMod { port, hw_addr, config, mask, advertise: 0 })).unwrap();
    if mask == DOWN {
        let bytes = rig.hear();
        let (_, Message::PortStatus(status)) = Message::decode(&bytes).unwrap() else { panic!() };
        assert_eq!(status.reason, PortReason::MODIFY);
        assert_eq!((status.port.port, status.port.config & mask), (port, config));
    }
    assert_eq!(port_of(rig, port.0).config & mask, config);
    while rig.overhear().is_some() {}
}

/// 7.3.4.3, 7.4.3. Whether a port that is down carries packets is up to its device: the ports that
/// Open vSwitch has for tests do. (That failover sees it is a case above.)
pub(super) fn ports_go_down_and_up(rig: &mut Rig) {
    add(rig, 1, &[in_port(1)], &[out(2)]);
    let frame = segment();
    set_port(rig, 2, DOWN, DOWN);
    set_port(rig, 2, 0, DOWN);
    for (port, bit) in [(1, NO_RECV), (2, NO_FWD)] {
        set_port(rig, port, bit, bit);
        assert_eq!(rig.through(1, &frame), []);
        set_port(rig, port, 0, bit);
        assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    }
}

/// 7.3.5: two thousand entries don't fit into one message.
pub(super) fn thousands_of_entries_come_in_parts(rig: &mut Rig) {
    for address in 0..2000_u32 {
        let fields = [kind(0x0800), Field::exact(Kind::Ipv4Dst, 0x0b00_0000 | address).into()];
        let (fields, cookie) = (List::of(&fields), u64::from(address));
        let change = Message::FlowMod(FlowMod { cookie, fields, ..FlowMod::ADD });
        // A barrier for each would only take time.
        if address % 100 == 99 {
            rig.tell(change).unwrap();
        } else {
            rig.send(change);
        }
    }
    let (mut parts, mut cookies) = (0, BTreeSet::new());
    ask(rig, Request::Flow(FlowSelect::ALL), |reply| {
        let Reply::Flow(flows) = reply else { panic!() };
        parts += 1;
        cookies.extend(flows.iter().map(|flow| flow.cookie));
    });
    assert!(parts > 1);
    assert_eq!(cookies, (0..2000).collect());
    let fields = [kind(0x0800), Field::exact(Kind::Ipv4Src, u32::from_be_bytes(IP_A)).into()];
    let none = FlowSelect { fields: List::of(&fields), ..FlowSelect::ALL };
    ask(rig, Request::Flow(none), |reply| assert_eq!(reply, Reply::Flow(List::EMPTY)));
}

/// The rest of the multipart replies: each is read to its end.
pub(super) fn descriptions_are_readable(rig: &mut Rig) {
    ask(rig, Request::Desc, |reply| {
        let Reply::Desc(description) = reply else { panic!() };
        assert!(!description.manufacturer.is_empty());
    });
    ask(rig, Request::GroupFeatures, |reply| {
        let Reply::GroupFeatures(features) = reply else { panic!() };
        assert_eq!(features.kinds, 0b1111);
    });
    ask(rig, Request::MeterFeatures, |reply| {
        let Reply::MeterFeatures(features) = reply else { panic!() };
        assert!(features.band_kinds & 0b10 != 0 && features.capabilities & 0b111 == 0b111);
    });
    let mut tables = BTreeSet::new();
    ask(rig, Request::TableFeatures(List::EMPTY), |reply| {
        let Reply::TableFeatures(part) = reply else { panic!() };
        tables.extend(part.iter().map(|table| table.table));
    });
    assert_eq!(tables.len(), usize::from(rig.features().n_tables));
    let queues = QueueSelect { port: PortNo::ANY, queue: QueueId::ALL };
    ask(rig, Request::Queue(queues), |reply| {
        let Reply::Queue(queues) = reply else { panic!() };
        // At most the one that a port has anyway.
        assert!(queues.iter().all(|queue| queue.queue == QueueId(0)));
    });
    let answer = rig.ask(Message::QueueGetConfigRequest(PortNo(1))).unwrap();
    let (_, Message::QueueGetConfigReply { port, queues }) = Message::decode(&answer[0]).unwrap()
    else {
        panic!()
    };
    assert_eq!(port, PortNo(1));
    assert!(queues.iter().all(|queue| (queue.port, queue.queue) == (port, QueueId(0))));
}
