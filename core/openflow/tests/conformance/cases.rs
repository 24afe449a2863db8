//! What is true of a switch that obeys OpenFlow 1.3.

mod manage;

use std::cell::Cell;
use std::collections::BTreeSet;

use units::Span;
use watermaster_openflow::*;

use crate::controller::{DELETE_ALL, Rig};
use crate::frames::{IP_B, Segment, datagram, segment};
use manage::*;

type Case = (&'static str, fn(&mut Rig));

macro_rules! cases {
    ($($case:ident)*) => {
        pub const ALL: &[Case] = &[$((stringify!($case), $case)),*];
    };
}

cases! {
    features_and_ports
    echo_and_configuration
    an_entry_forwards_and_counts
    without_an_entry_packets_are_dropped
    the_higher_priority_wins
    masks_select
    an_entry_without_fields_sends_misses_to_the_controller
    an_action_sends_to_the_controller
    tcp_flags_tell_connections_from_data
    tables_hand_on_with_metadata
    the_action_set_comes_last
    fields_are_overwritten_and_checksums_mended
    time_to_live_is_taken_down
    vlan_tags_come_and_go
    packets_go_out
    groups_choose
    failover_takes_the_first_port_that_lives
    groups_take_their_entries_along
    entries_are_changed
    entries_are_deleted
    adding_and_removing_changes_nothing
    an_equal_entry_makes_way
    overlaps_are_found
    timeouts_end_entries
    meters_drop_what_is_too_much
    meters_are_told_and_changed
    wrong_entries_are_refused
    wrong_groups_are_refused
    wrong_meters_are_refused
    wrong_ports_and_packets_are_refused
    roles_bind
    unasked_messages_are_chosen
    ports_go_down_and_up
    thousands_of_entries_come_in_parts
    descriptions_are_readable
}

fn kind(value: u16) -> Oxm<'static> {
    Field::exact(Kind::EthType, value).into()
}

fn in_port(port: u32) -> Oxm<'static> {
    Field::exact(Kind::InPort, port).into()
}

fn protocol(value: u8) -> Oxm<'static> {
    Field::exact(Kind::IpProto, value).into()
}

/// Sends a flow entry that does `actions` with the packets of `fields`.
#[track_caller]
fn add(rig: &mut Rig, priority: u16, fields: &[Oxm<'_>], actions: &[Action<'_>]) {
    let instructions = [Instruction::ApplyActions(List::of(actions))];
    add_to(rig, TableId(0), priority, fields, &instructions);
}

#[track_caller]
fn add_to(
    rig: &mut Rig,
    table: TableId,
    priority: u16,
    fields: &[Oxm<'_>],
    instructions: &[Instruction<'_>],
) {
    let change = FlowMod {
        table,
        priority,
        fields: List::of(fields),
        instructions: List::of(instructions),
        ..FlowMod::ADD
    };
    assert_eq!(rig.tell(Message::FlowMod(change)), Ok(()));
}

fn out(port: u32) -> Action<'static> {
    Action::output(PortNo(port))
}

fn request(body: Request<'_>) -> Message<'_> {
    Message::MultipartRequest { more: false, body }
}

/// The parts of a reply, handed to `take` one by one.
#[track_caller]
fn ask(rig: &mut Rig, body: Request<'_>, mut take: impl FnMut(Reply<'_>)) {
    for bytes in rig.ask(request(body)).unwrap() {
        let (_, Message::MultipartReply { body, .. }) = Message::decode(&bytes).unwrap() else {
            panic!("another reply was expected");
        };
        take(body);
    }
}

/// Priority and counters of every entry, by falling priority.
#[track_caller]
fn entries(rig: &mut Rig) -> Vec<(u16, u64, u64)> {
    rig.settle();
    let mut found = Vec::new();
    ask(rig, Request::Flow(FlowSelect::ALL), |reply| {
        let Reply::Flow(flows) = reply else { panic!() };
        found.extend(flows.iter().map(|flow| (flow.priority, flow.packets, flow.frame_bytes)));
    });
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

#[track_caller]
fn priorities(rig: &mut Rig) -> Vec<u16> {
    entries(rig).into_iter().map(|(priority, ..)| priority).collect()
}

#[track_caller]
fn expect_packet_in(rig: &mut Rig, test: impl FnOnce(PacketIn<'_>)) {
    let bytes = rig.hear();
    let (_, Message::PacketIn(packet)) = Message::decode(&bytes).unwrap() else {
        panic!("a Packet-In was expected: {:?}", Message::decode(&bytes));
    };
    test(packet);
}

#[track_caller]
fn expect_removed(rig: &mut Rig, test: impl FnOnce(FlowRemoved<'_>)) {
    let bytes = rig.hear();
    let (_, Message::FlowRemoved(removed)) = Message::decode(&bytes).unwrap() else {
        panic!("a Flow-Removed was expected: {:?}", Message::decode(&bytes));
    };
    test(removed);
}

/// 7.3.1, 7.3.5.7.
fn features_and_ports(rig: &mut Rig) {
    let features = rig.features();
    assert_eq!((features.datapath_id, features.auxiliary_id), (0xaa, 0));
    assert!(features.n_tables >= 2);
    let mut ports = Vec::new();
    ask(rig, Request::PortDesc, |reply| {
        let Reply::PortDesc(part) = reply else { panic!() };
        ports.extend(part.iter().filter(|port| port.port <= PortNo::MAX));
    });
    ports.sort_by_key(|port| port.port);
    let names: Vec<(u32, &str)> = ports.iter().map(|port| (port.port.0, port.name())).collect();
    assert_eq!(names, [(1, "p1"), (2, "p2"), (3, "p3"), (4, "p4")]);
    assert!(ports.iter().all(|port| port.config & 1 == 0 && port.state & 1 == 0));
}

/// 7.5.2, 7.3.2.
fn echo_and_configuration(rig: &mut Rig) {
    let answer = rig.ask(Message::EchoRequest(b"are you there?")).unwrap();
    let (_, reply) = Message::decode(&answer[0]).unwrap();
    assert_eq!(reply, Message::EchoReply(b"are you there?"));
    let config = SwitchConfig { flags: 0, miss_send_len: 77 };
    rig.tell(Message::SetConfig(config)).unwrap();
    let answer = rig.ask(Message::GetConfigRequest).unwrap();
    assert_eq!(Message::decode(&answer[0]).unwrap().1, Message::GetConfigReply(config));
}

fn an_entry_forwards_and_counts(rig: &mut Rig) {
    add(rig, 5, &[in_port(1)], &[out(2), out(3)]);
    let frame = segment();
    let mut before = Vec::new();
    ports_of(rig, &mut before);
    assert_eq!(rig.through(1, &frame), [(2, frame.clone()), (3, frame.clone())]);
    assert_eq!(rig.through(1, &frame), [(2, frame.clone()), (3, frame.clone())]);
    assert_eq!(rig.through(2, &frame), []);
    let length = frame.len() as u64;
    assert_eq!(entries(rig), [(5, 2, 2 * length)]);
    let mut after = Vec::new();
    ports_of(rig, &mut after);
    let gained: Vec<(u64, u64, u64, u64)> = before
        .iter()
        .zip(&after)
        .map(|(b, a)| {
            let received = (a.rx_packets - b.rx_packets, a.rx_frame_bytes - b.rx_frame_bytes);
            let sent = (a.tx_packets - b.tx_packets, a.tx_frame_bytes - b.tx_frame_bytes);
            (received.0, received.1, sent.0, sent.1)
        })
        .collect();
    let (one, two) = ((2, 2 * length, 0, 0), (1, length, 2, 2 * length));
    assert_eq!(gained, [one, two, (0, 0, 2, 2 * length), (0, 0, 0, 0)]);
    let mut sums = None;
    ask(rig, Request::Aggregate(FlowSelect::ALL), |reply| {
        let Reply::Aggregate(found) = reply else { panic!() };
        sums = Some(found);
    });
    assert_eq!(sums, Some(Aggregate { packets: 2, frame_bytes: 2 * length, flows: 1 }));
    ask(rig, Request::Table, |reply| {
        let Reply::Table(tables) = reply else { panic!() };
        let active: u32 = tables.iter().map(|table| table.active).sum();
        assert_eq!(active, 1);
    });
}

fn ports_of(rig: &mut Rig, ports: &mut Vec<PortStats>) {
    rig.settle();
    for port in 1..=4 {
        ask(rig, Request::PortStats(PortNo(port)), |reply| {
            let Reply::PortStats(part) = reply else { panic!() };
            ports.extend(part.iter());
        });
    }
}

/// 5.4: without a table-miss entry a packet that nothing matches is dropped.
fn without_an_entry_packets_are_dropped(rig: &mut Rig) {
    assert_eq!(rig.through(1, &segment()), []);
    assert_eq!(rig.overhear(), None);
}

fn the_higher_priority_wins(rig: &mut Rig) {
    let frame = segment();
    add(rig, 10, &[in_port(1)], &[out(2)]);
    add(rig, 20, &[kind(0x0800)], &[out(3)]);
    assert_eq!(rig.through(1, &frame), [(3, frame.clone())]);
    add(rig, 30, &[], &[]);
    assert_eq!(rig.through(1, &frame), []);
}

/// 7.2.3.5.
fn masks_select(rig: &mut Rig) {
    let net = Field::masked(Kind::Ipv4Dst, 0x0a00_0000_u32, 0xffff_ff00_u32);
    add(rig, 10, &[kind(0x0800), net.into()], &[out(2)]);
    let odd = Field::masked(Kind::EthDst, 1_u8, 1_u8);
    add(rig, 20, &[odd.into()], &[out(3)]);
    let near = segment();
    let far = Segment { ip_dst: [10, 0, 1, 2], eth_dst: [2, 0, 0, 0, 0, 2], ..Segment::default() };
    let even = Segment { eth_dst: [2, 0, 0, 0, 0, 2], ..Segment::default() }.bytes();
    assert_eq!(rig.through(1, &near), [(3, near.clone())]);
    assert_eq!(rig.through(1, &even), [(2, even.clone())]);
    assert_eq!(rig.through(1, &far.bytes()), []);
}

/// 5.4, 7.4.1.
fn an_entry_without_fields_sends_misses_to_the_controller(rig: &mut Rig) {
    let actions = [Action::to_controller()];
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let change = FlowMod {
        priority: 0,
        cookie: 0xc0,
        instructions: List::of(&instructions),
        ..FlowMod::ADD
    };
    rig.tell(Message::FlowMod(change)).unwrap();
    let frame = segment();
    rig.inject(3, &frame);
    expect_packet_in(rig, |packet| {
        assert_eq!(packet.reason, PacketInReason::NO_MATCH);
        assert_eq!(packet.in_port(), Some(PortNo(3)));
        assert_eq!((packet.cookie, packet.table), (0xc0, TableId(0)));
        assert_eq!(packet.buffer, BufferId::NONE);
        assert_eq!(usize::from(packet.total_len), frame.len());
        assert_eq!(packet.data, frame);
    });
}

fn an_action_sends_to_the_controller(rig: &mut Rig) {
    add(rig, 1, &[in_port(2)], &[Action::to_controller(), out(4)]);
    let frame = datagram(99);
    assert_eq!(rig.through(2, &frame), [(4, frame.clone())]);
    expect_packet_in(rig, |packet| {
        assert_eq!(packet.reason, PacketInReason::ACTION);
        assert_eq!((packet.in_port(), packet.data), (Some(PortNo(2)), &frame[..]));
    });
}

/// EXT-109: what SDTCP's table of flows is made from.
fn tcp_flags_tell_connections_from_data(rig: &mut Rig) {
    let flags = |flags, mask| Field::masked(Kind::TcpFlags, flags, mask).into();
    let tcp = [kind(0x0800), protocol(6)];
    let [syn, fin] = [tcp_flags::SYN, tcp_flags::FIN];
    add(rig, 20, &[tcp[0], tcp[1], flags(syn, syn)], &[Action::to_controller(), out(2)]);
    add(rig, 20, &[tcp[0], tcp[1], flags(fin, fin | syn)], &[Action::to_controller(), out(2)]);
    add(rig, 10, &tcp, &[out(2)]);
    let segment = |flags| Segment { flags, ..Segment::default() }.bytes();
    for (flags, told) in [(0x02, true), (0x12, true), (0x10, false), (0x11, true)] {
        let frame = segment(flags);
        assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
        if told {
            expect_packet_in(rig, |packet| assert_eq!(packet.data, frame));
        }
        assert_eq!(rig.overhear(), None);
    }
    // And the match comes back as it was sent, whatever the switch calls the field.
    let mut found = 0;
    ask(rig, Request::Flow(FlowSelect::ALL), |reply| {
        let Reply::Flow(flows) = reply else { panic!() };
        found += flows
            .iter()
            .filter(|flow| {
                let field = flow.fields.field(Kind::TcpFlags);
                let field = field.or(flow.fields.field(Kind::NxTcpFlags));
                field.is_some_and(|field| field.value == u128::from(syn) || field.mask == Some(3))
            })
            .count();
    });
    assert_eq!(found, 2);
}

/// 5.1: the metadata that one table writes, the next can match.
fn tables_hand_on_with_metadata(rig: &mut Rig) {
    let mark =
        [Instruction::WriteMetadata { value: 0x5, mask: 0xf }, Instruction::GotoTable(TableId(1))];
    add_to(rig, TableId(0), 1, &[in_port(1)], &mark);
    add_to(rig, TableId(0), 0, &[], &[Instruction::GotoTable(TableId(1))]);
    let marked = Field::masked(Kind::Metadata, 0x5_u8, 0xf_u8);
    let (two, three) = ([out(2)], [out(3)]);
    let two = [Instruction::ApplyActions(List::of(&two))];
    add_to(rig, TableId(1), 1, &[marked.into()], &two);
    let three = [Instruction::ApplyActions(List::of(&three))];
    add_to(rig, TableId(1), 0, &[], &three);
    let frame = segment();
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    assert_eq!(rig.through(4, &frame), [(3, frame.clone())]);
}

/// 5.10: what is written to the set is done at the end, in the order of the set; later writes win.
fn the_action_set_comes_last(rig: &mut Rig) {
    let moved = [2, 0, 0, 0, 0, 0xcc];
    let set = Action::SetField(Field::exact(Kind::EthDst, 0x0200_0000_00cc_u64).into());
    let three = [out(3)];
    let first = [Instruction::WriteActions(List::of(&three)), Instruction::GotoTable(TableId(1))];
    add_to(rig, TableId(0), 1, &[], &first);
    let (apply, write) = ([Action::output(PortNo(2))], [Action::output(PortNo(4)), set]);
    let second =
        [Instruction::ApplyActions(List::of(&apply)), Instruction::WriteActions(List::of(&write))];
    add_to(rig, TableId(1), 1, &[kind(0x0800)], &second);
    add_to(rig, TableId(1), 0, &[], &[Instruction::ClearActions]);
    let frame = segment();
    let changed = Segment { eth_dst: moved, ..Segment::default() }.bytes();
    assert_eq!(rig.through(1, &frame), [(2, frame.clone()), (4, changed)]);
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 0xa, 0x08, 0x06], &[0; 46]].concat();
    assert_eq!(rig.through(1, &arp), []);
}

fn fields_are_overwritten_and_checksums_mended(rig: &mut Rig) {
    let set = |kind, value: u64| Action::SetField(Field::exact(kind, value).into());
    let actions = [
        set(Kind::EthDst, 0x0200_0000_0001),
        set(Kind::Ipv4Src, 0xc0a8_0101),
        set(Kind::Ipv4Dst, 0xc0a8_02fe),
        set(Kind::IpDscp, 0x2e),
        set(Kind::TcpDst, 8080),
        out(2),
    ];
    add(rig, 1, &[kind(0x0800), protocol(6)], &actions);
    let changed = Segment {
        eth_dst: [2, 0, 0, 0, 0, 1],
        ip_src: [192, 168, 1, 1],
        ip_dst: [192, 168, 2, 254],
        dscp: 0x2e,
        dst: 8080,
        ..Segment::default()
    };
    for length in [100, 101] {
        let frame = Segment { length, ..Segment::default() }.bytes();
        assert_eq!(rig.through(1, &frame), [(2, Segment { length, ..changed }.bytes())]);
    }
}

fn time_to_live_is_taken_down(rig: &mut Rig) {
    add(rig, 1, &[kind(0x0800)], &[Action::DecNwTtl, out(2)]);
    let frame = segment();
    assert_eq!(rig.through(1, &frame), [(2, Segment { ttl: 63, ..Segment::default() }.bytes())]);
    let last = Segment { ttl: 1, ..Segment::default() }.bytes();
    assert_eq!(rig.through(1, &last), []);
}

fn vlan_tags_come_and_go(rig: &mut Rig) {
    let number = Action::SetField(Field::exact(Kind::VlanVid, 0x1000_u16 | 42).into());
    let priority = Action::SetField(Field::exact(Kind::VlanPcp, 5_u8).into());
    add(rig, 1, &[in_port(1)], &[Action::PushVlan(0x8100), number, priority, out(2)]);
    let tag = Field::exact(Kind::VlanVid, 0x1000_u16 | 42);
    add(rig, 2, &[in_port(2), tag.into(), kind(0x0800)], &[Action::PopVlan, out(1)]);
    let (bare, tagged) = (segment(), Segment { vlan: Some((42, 5)), ..Segment::default() }.bytes());
    assert_eq!(rig.through(1, &bare), [(2, tagged.clone())]);
    assert_eq!(rig.through(2, &tagged), [(1, bare.clone())]);
    assert_eq!(rig.through(2, &bare), []);
}

/// 7.3.7.
fn packets_go_out(rig: &mut Rig) {
    let frame = segment();
    let send = |rig: &mut Rig, in_port, port| {
        let actions = [Action::output(port)];
        let packet = PacketOut {
            buffer: BufferId::NONE,
            in_port,
            actions: List::of(&actions),
            data: &frame,
        };
        rig.tell(Message::PacketOut(packet)).unwrap();
    };
    send(rig, PortNo::CONTROLLER, PortNo(3));
    assert_eq!(rig.emitted(1), [(3, frame.clone())]);
    send(rig, PortNo(2), PortNo::ALL);
    let all = [(1, frame.clone()), (3, frame.clone()), (4, frame.clone())];
    assert_eq!(rig.emitted(3), all);
    send(rig, PortNo(2), PortNo::IN_PORT);
    assert_eq!(rig.emitted(1), [(2, frame.clone())]);
    add(rig, 1, &[in_port(4)], &[out(1)]);
    send(rig, PortNo(4), PortNo::TABLE);
    assert_eq!(rig.emitted(1), [(1, frame.clone())]);
}

fn group(rig: &mut Rig, id: u32, kind: GroupKind, buckets: &[Bucket<'_>]) -> Result<(), ErrorCode> {
    let (command, group, buckets) = (GroupCommand::ADD, GroupId(id), List::of(buckets));
    rig.tell(Message::GroupMod(GroupMod { command, kind, group, buckets }))
}

fn bucket<'a>(weight: u16, watch: PortNo, actions: &'a [Action<'a>]) -> Bucket<'a> {
    let watch_group = GroupId::ANY;
    Bucket { weight, watch_port: watch, watch_group, actions: List::of(actions) }
}

/// 5.6.1.
fn groups_choose(rig: &mut Rig) {
    let moved = Action::SetField(Field::exact(Kind::EthDst, 0x0200_0000_00dd_u64).into());
    let (two, three) = ([moved, out(2)], [out(3)]);
    let both = [bucket(0, PortNo::ANY, &two), bucket(0, PortNo::ANY, &three)];
    group(rig, 7, GroupKind::ALL, &both).unwrap();
    add(rig, 1, &[in_port(1)], &[Action::Group(GroupId(7))]);
    let frame = segment();
    let changed = Segment { eth_dst: [2, 0, 0, 0, 0, 0xdd], ..Segment::default() }.bytes();
    // Each bucket has a copy of its own: what one changes the other does not see.
    assert_eq!(rig.through(1, &frame), [(2, changed.clone()), (3, frame.clone())]);

    group(rig, 8, GroupKind::INDIRECT, &both[..1]).unwrap();
    add(rig, 1, &[in_port(2)], &[Action::Group(GroupId(8))]);
    add(rig, 1, &[in_port(3)], &[Action::Group(GroupId(8))]);
    assert_eq!(rig.through(3, &frame), [(2, changed.clone())]);
    // The group's port is where the packet came from.
    assert_eq!(rig.through(2, &frame), []);

    let select = [bucket(1, PortNo::ANY, &two[1..]), bucket(1, PortNo::ANY, &three)];
    group(rig, 9, GroupKind::SELECT, &select).unwrap();
    add(rig, 1, &[in_port(4)], &[Action::Group(GroupId(9))]);
    let mut used = BTreeSet::new();
    for last in 0..32 {
        let frame = Segment { ip_src: [10, 0, 3, last], ..Segment::default() };
        let frame = Segment { dst: 80 + u16::from(last), ..frame }.bytes();
        let [(port, sent)] = rig.through(4, &frame);
        assert_eq!(sent, frame);
        used.insert(port);
        let [(again, _)] = rig.through(4, &frame);
        assert_eq!(again, port, "a flow keeps its way");
    }
    assert_eq!(used, BTreeSet::from([2, 3]));

    rig.settle();
    let mut seen = Vec::new();
    ask(rig, Request::Group(GroupId(7)), |reply| {
        let Reply::Group(groups) = reply else { panic!() };
        for group in groups {
            let buckets: Vec<u64> = group.buckets.iter().map(|bucket| bucket.packets).collect();
            seen.push((group.group, group.references, group.packets, buckets));
        }
    });
    assert_eq!(seen, [(GroupId(7), 1, 1, vec![1, 1])]);
    let mut kinds = Vec::new();
    ask(rig, Request::GroupDesc, |reply| {
        let Reply::GroupDesc(groups) = reply else { panic!() };
        kinds.extend(groups.iter().map(|group| (group.group.0, group.kind)));
        let seven = groups.iter().find(|group| group.group == GroupId(7)).unwrap();
        let actions: Vec<usize> =
            seven.buckets.iter().map(|bucket| bucket.actions.iter().count()).collect();
        assert_eq!(actions, [2, 1]);
    });
    kinds.sort_unstable();
    assert_eq!(kinds, [(7, GroupKind::ALL), (8, GroupKind::INDIRECT), (9, GroupKind::SELECT)]);
}

fn failover_takes_the_first_port_that_lives(rig: &mut Rig) {
    let (two, three) = ([out(2)], [out(3)]);
    let buckets = [bucket(0, PortNo(2), &two), bucket(0, PortNo(3), &three)];
    group(rig, 1, GroupKind::FAST_FAILOVER, &buckets).unwrap();
    add(rig, 1, &[], &[Action::Group(GroupId(1))]);
    let frame = segment();
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    set_port(rig, 2, 1, 1);
    rig.settle();
    assert_eq!(rig.through(1, &frame), [(3, frame.clone())]);
    set_port(rig, 2, 0, 1);
    rig.settle();
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
}

/// 6.5.
fn groups_take_their_entries_along(rig: &mut Rig) {
    let two = [out(2)];
    group(rig, 5, GroupKind::INDIRECT, &[bucket(0, PortNo::ANY, &two)]).unwrap();
    add(rig, 1, &[in_port(1)], &[Action::Group(GroupId(5))]);
    add(rig, 2, &[in_port(2)], &[out(3)]);
    assert_eq!(priorities(rig), [2, 1]);
    let (command, kind) = (GroupCommand::DELETE, GroupKind::ALL);
    let gone = GroupMod { command, kind, group: GroupId(5), buckets: List::EMPTY };
    rig.tell(Message::GroupMod(gone)).unwrap();
    assert_eq!(priorities(rig), [2]);
    // Once more is no error.
    assert_eq!(rig.tell(Message::GroupMod(gone)), Ok(()));
}

/// 6.4: modify keeps cookie, timeouts and counters; strict is about the equal entry alone.
fn entries_are_changed(rig: &mut Rig) {
    let tcp = [kind(0x0800), protocol(6)];
    add(rig, 10, &tcp, &[out(2)]);
    add(rig, 20, &[kind(0x0800), protocol(17)], &[out(2)]);
    let frame = segment();
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    let change = |command, priority, fields, port: &[Action<'_>], flags| {
        let instructions = [Instruction::ApplyActions(List::of(port))];
        let instructions = List::of(&instructions);
        let change = FlowMod { command, priority, fields, instructions, flags, ..FlowMod::ADD };
        let mut bytes = Vec::new();
        Message::FlowMod(change).encode(0, &mut bytes).unwrap();
        bytes
    };
    let tell = |rig: &mut Rig, bytes: Vec<u8>| {
        rig.tell(Message::decode(&bytes).unwrap().1).unwrap();
    };
    let ip = [kind(0x0800)];
    let ip = List::of(&ip);
    // Strictly, no entry has this match and priority.
    tell(rig, change(FlowCommand::MODIFY_STRICT, 10, ip, &[out(4)], FlowFlags(0)));
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    tell(rig, change(FlowCommand::MODIFY_STRICT, 10, List::of(&tcp), &[out(4)], FlowFlags(0)));
    assert_eq!(rig.through(1, &frame), [(4, frame.clone())]);
    // Loosely, both entries lie within it, whatever the priority.
    tell(rig, change(FlowCommand::MODIFY, 77, ip, &[out(3)], FlowFlags(0)));
    assert_eq!(rig.through(1, &frame), [(3, frame.clone())]);
    let other = datagram(9);
    assert_eq!(rig.through(1, &other), [(3, other.clone())]);
    assert_eq!(entries(rig)[1], (10, 4, 4 * frame.len() as u64));
    tell(rig, change(FlowCommand::MODIFY, 77, ip, &[out(3)], FlowFlags::RESET_COUNTS));
    assert_eq!(entries(rig), [(20, 0, 0), (10, 0, 0)]);
}

fn entries_are_deleted(rig: &mut Rig) {
    let wide = [kind(0x0800)];
    let narrow = [kind(0x0800), Field::exact(Kind::Ipv4Dst, u32::from_be_bytes(IP_B)).into()];
    let cookie = |rig: &mut Rig, priority, cookie, fields: &[Oxm<'_>], port: u32| {
        let actions = [out(port)];
        let instructions = [Instruction::ApplyActions(List::of(&actions))];
        let fields = List::of(fields);
        let instructions = List::of(&instructions);
        let flags = FlowFlags::SEND_FLOW_REMOVED;
        let change = FlowMod { priority, cookie, fields, instructions, flags, ..FlowMod::ADD };
        rig.tell(Message::FlowMod(change)).unwrap();
    };
    // In cookies, since a switch may tell of what it removed when the entry is there anew.
    let round = Cell::new(0);
    let fill = |rig: &mut Rig| {
        round.set(round.get() + 0x100);
        cookie(rig, 1, round.get() | 0x11, &wide, 2);
        cookie(rig, 2, round.get() | 0x12, &narrow, 3);
        cookie(rig, 3, round.get() | 0x21, &[in_port(1)], 3);
        assert_eq!(priorities(rig), [3, 2, 1]);
    };
    let mut deleted = BTreeSet::new();
    let mut delete = |rig: &mut Rig, change: FlowMod<'_>, left: &[u16]| {
        let gone = (1..=3).filter(|priority| !left.contains(priority));
        deleted.extend(gone.map(|priority| (round.get(), priority)));
        let command =
            if change.command == FlowCommand::ADD { FlowCommand::DELETE } else { change.command };
        rig.tell(Message::FlowMod(FlowMod { command, ..change })).unwrap();
        assert_eq!(priorities(rig), left);
        while let Some(bytes) = rig.overhear() {
            let (_, Message::FlowRemoved(removed)) = Message::decode(&bytes).unwrap() else {
                panic!()
            };
            assert_eq!(removed.reason, RemovedReason::DELETE);
            let entry = (removed.cookie & !0xff, removed.priority);
            assert!(deleted.contains(&entry), "{entry:x?} was not deleted");
        }
    };
    fill(rig);
    delete(rig, FlowMod { fields: List::of(&wide), ..FlowMod::ADD }, &[3]);
    fill(rig);
    delete(rig, FlowMod { fields: List::of(&narrow), ..FlowMod::ADD }, &[3, 1]);
    fill(rig);
    delete(rig, FlowMod { cookie: 0x10, cookie_mask: 0xf0, ..FlowMod::ADD }, &[3]);
    fill(rig);
    delete(rig, FlowMod { out_port: PortNo(3), ..FlowMod::ADD }, &[1]);
    fill(rig);
    let command = FlowCommand::DELETE_STRICT;
    let fields = List::of(&narrow);
    delete(rig, FlowMod { command, priority: 9, fields, ..FlowMod::ADD }, &[3, 2, 1]);
    delete(rig, FlowMod { command, priority: 2, fields, ..FlowMod::ADD }, &[3, 1]);
    delete(rig, DELETE_ALL, &[]);
}

/// The invariant of every controller: what it puts in and takes out again leaves no trace.
fn adding_and_removing_changes_nothing(rig: &mut Rig) {
    add(rig, 7, &[in_port(3)], &[out(4)]);
    let before = entries(rig);
    let fields = [kind(0x0800), protocol(6), Field::exact(Kind::TcpDst, 80_u16).into()];
    add(rig, 9, &fields, &[Action::DecNwTtl, out(1)]);
    assert_ne!(entries(rig), before);
    let command = FlowCommand::DELETE_STRICT;
    let change = FlowMod { command, priority: 9, fields: List::of(&fields), ..FlowMod::ADD };
    rig.tell(Message::FlowMod(change)).unwrap();
    assert_eq!(entries(rig), before);
}

/// 6.4: an entry of equal match and priority is replaced, and its counters are kept unless the
/// flag says otherwise.
fn an_equal_entry_makes_way(rig: &mut Rig) {
    let frame = segment();
    add(rig, 5, &[in_port(1)], &[out(2)]);
    assert_eq!(rig.through(1, &frame), [(2, frame.clone())]);
    rig.settle();
    let (fields, actions) = ([in_port(1)], [out(3)]);
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let change = FlowMod {
        priority: 5,
        fields: List::of(&fields),
        instructions: List::of(&instructions),
        flags: FlowFlags::RESET_COUNTS,
        ..FlowMod::ADD
    };
    rig.tell(Message::FlowMod(change)).unwrap();
    assert_eq!(entries(rig), [(5, 0, 0)]);
    assert_eq!(rig.through(1, &frame), [(3, frame.clone())]);
    rig.settle();
    rig.tell(Message::FlowMod(FlowMod { flags: FlowFlags(0), ..change })).unwrap();
    assert_eq!(entries(rig), [(5, 1, frame.len() as u64)]);
}

fn overlaps_are_found(rig: &mut Rig) {
    add(rig, 5, &[in_port(1)], &[out(2)]);
    let check = |rig: &mut Rig, priority, fields: &[Oxm<'_>]| {
        let (fields, flags) = (List::of(fields), FlowFlags::CHECK_OVERLAP);
        rig.tell(Message::FlowMod(FlowMod { priority, fields, flags, ..FlowMod::ADD }))
    };
    assert_eq!(check(rig, 5, &[kind(0x0800)]), Err(ErrorCode::OVERLAP));
    assert_eq!(check(rig, 5, &[in_port(2)]), Ok(()));
    assert_eq!(check(rig, 6, &[kind(0x0800)]), Ok(()));
    assert_eq!(priorities(rig), [6, 5, 5]);
}

/// 5.5, 7.4.2.
fn timeouts_end_entries(rig: &mut Rig) {
    let timed = |rig: &mut Rig, priority: u16, idle_timeout_s, hard_timeout_s| {
        let (fields, actions) = ([in_port(priority.into())], [out(4)]);
        let instructions = [Instruction::ApplyActions(List::of(&actions))];
        let change = FlowMod {
            cookie: 0xfeed,
            priority,
            idle_timeout_s,
            hard_timeout_s,
            flags: FlowFlags::SEND_FLOW_REMOVED,
            fields: List::of(&fields),
            instructions: List::of(&instructions),
            ..FlowMod::ADD
        };
        rig.tell(Message::FlowMod(change)).unwrap();
    };
    timed(rig, 1, 0, 4);
    timed(rig, 2, 6, 60);
    let frame = segment();
    assert_eq!(rig.through(2, &frame), [(4, frame.clone())]);
    rig.settle();
    rig.pass(Span::from_secs(3));
    assert_eq!(priorities(rig), [2, 1]);
    rig.pass(Span::from_secs(2));
    expect_removed(rig, |removed| {
        assert_eq!(removed.reason, RemovedReason::HARD_TIMEOUT);
        assert_eq!((removed.cookie, removed.priority), (0xfeed, 1));
        assert_eq!((removed.idle_timeout_s, removed.hard_timeout_s), (0, 4));
        assert_eq!((removed.packets, removed.frame_bytes), (0, 0));
        assert_eq!(removed.fields.field(Kind::InPort), Some(Field::exact(Kind::InPort, 1_u8)));
        let lived = removed.duration.as_secs_f64();
        assert!((4.0..=5.1).contains(&lived), "{lived} s");
    });
    assert_eq!(priorities(rig), [2]);
    // A packet starts the idle time anew.
    assert_eq!(rig.through(2, &frame), [(4, frame.clone())]);
    rig.settle();
    rig.pass(Span::from_secs(4));
    assert_eq!(priorities(rig), [2]);
    rig.pass(Span::from_secs(5));
    expect_removed(rig, |removed| {
        assert_eq!((removed.reason, removed.priority), (RemovedReason::IDLE_TIMEOUT, 2));
        assert_eq!((removed.packets, removed.frame_bytes), (2, 2 * frame.len() as u64));
    });
    assert!(priorities(rig).is_empty());
}

fn meter(
    rig: &mut Rig,
    command: MeterCommand,
    id: u32,
    flags: MeterFlags,
    rate: u32,
    burst: u32,
) -> Result<(), ErrorCode> {
    let bands = [Band { rate, burst, kind: BandKind::Drop }];
    let (meter, bands) = (MeterId(id), List::of(&bands));
    rig.tell(Message::MeterMod(MeterMod { command, flags, meter, bands }))
}

const PACKETS: MeterFlags =
    MeterFlags(MeterFlags::PACKETS.0 | MeterFlags::BURST.0 | MeterFlags::STATS.0);
const KBPS: MeterFlags = MeterFlags(MeterFlags::KBPS.0 | MeterFlags::BURST.0 | MeterFlags::STATS.0);

#[track_caller]
fn passed(rig: &mut Rig, frame: &[u8], count: usize) -> usize {
    for _ in 0..count {
        rig.inject(1, frame);
    }
    rig.emitted(count.min(1)).len()
}

/// 5.7: a burst passes, then what the rate gives.
fn meters_drop_what_is_too_much(rig: &mut Rig) {
    meter(rig, MeterCommand::ADD, 3, PACKETS, 10, 5).unwrap();
    let actions = [out(2)];
    let instructions =
        [Instruction::Meter(MeterId(3)), Instruction::ApplyActions(List::of(&actions))];
    add_to(rig, TableId(0), 1, &[in_port(1)], &instructions);
    let frame = segment();
    // A second fills what the meter's beginning left open.
    rig.pass(Span::from_secs(1));
    assert_eq!(passed(rig, &frame, 8), 5);
    rig.pass(Span::from_millis(300));
    assert_eq!(passed(rig, &frame, 8), 3);
    rig.settle();
    let mut seen = Vec::new();
    ask(rig, Request::Meter(MeterId(3)), |reply| {
        let Reply::Meter(meters) = reply else { panic!() };
        for meter in meters {
            let bands: Vec<u64> = meter.bands.iter().map(|band| band.packets).collect();
            seen.push((meter.meter.0, meter.packets, meter.frame_bytes, bands));
        }
    });
    assert_eq!(seen, [(3, 16, 16 * frame.len() as u64, vec![8])]);
    // The entry counts what comes, the meter what of it goes on.
    assert_eq!(entries(rig)[0].1, 16);

    // 12 kbit of burst are ten frames of 150 bytes; a second brings eight kbit.
    meter(rig, MeterCommand::MODIFY, 3, KBPS, 8, 12).unwrap();
    let frame = Segment { length: 96, ..Segment::default() }.bytes();
    assert_eq!(frame.len(), 150);
    rig.pass(Span::from_secs(3));
    assert_eq!(passed(rig, &frame, 12), 10);
    rig.pass(Span::from_secs(1));
    assert_eq!(passed(rig, &frame, 12), 6);
}

fn meters_are_told_and_changed(rig: &mut Rig) {
    meter(rig, MeterCommand::ADD, 1, KBPS, 1000, 100).unwrap();
    meter(rig, MeterCommand::ADD, 2, PACKETS, 50, 10).unwrap();
    meter(rig, MeterCommand::MODIFY, 1, KBPS, 2000, 200).unwrap();
    let mut seen = Vec::new();
    ask(rig, Request::MeterConfig(MeterId::ALL), |reply| {
        let Reply::MeterConfig(meters) = reply else { panic!() };
        for meter in meters {
            let bands: Vec<(u32, u32)> =
                meter.bands.iter().map(|band| (band.rate, band.burst)).collect();
            seen.push((meter.meter.0, meter.flags, bands));
        }
    });
    seen.sort_unstable();
    assert_eq!(seen, [(1, KBPS, vec![(2000, 200)]), (2, PACKETS, vec![(50, 10)])]);
    let instructions = [Instruction::Meter(MeterId(1))];
    add_to(rig, TableId(0), 1, &[in_port(1)], &instructions);
    add_to(rig, TableId(0), 2, &[in_port(2)], &[]);
    let (command, flags, bands) = (MeterCommand::DELETE, KBPS, List::EMPTY);
    rig.tell(Message::MeterMod(MeterMod { command, flags, meter: MeterId(1), bands })).unwrap();
    // 6.6: the entries that use it go too.
    assert_eq!(priorities(rig), [2]);
}
