//! The codec against two that others wrote: os-ken, which builds the same messages from keywords,
//! and Open vSwitch, which reads ours aloud.
//!
//! `make conformance` installs both and lets nothing be skipped. By hand: `OS_KEN` is a Python that
//! has os-ken.
#![allow(clippy::unwrap_used)] // a test may panic

use std::io::Write;
use std::process::Command;

use model::Severity;
use units::Span;
use watermaster_openflow::sdtcp::{CapWindow, Notice, PrepareWindow};
use watermaster_openflow::*;

const XID: u32 = 0x0102_0304;

fn bytes(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(XID, &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn skip(why: &str) {
    testing::needs::skipped(&format!("{why}; make conformance installs it"));
}

fn request(body: Request<'_>) -> Message<'_> {
    Message::MultipartRequest { more: false, body }
}

/// The messages of `os_ken_messages.py`.
fn with_each(mut take: impl FnMut(&str, Message<'_>)) {
    let fields = [
        Field::exact(Kind::InPort, 3_u8).into(),
        Field::masked(Kind::Metadata, 5_u8, 15_u8).into(),
        Field::masked(Kind::EthSrc, 0x0200_0000_0000_u64, 0xff00_0000_0000_u64).into(),
        Field::exact(Kind::EthType, 0x0800_u16).into(),
        Field::exact(Kind::VlanVid, 0x1005_u16).into(),
        Field::exact(Kind::IpDscp, 46_u8).into(),
        Field::exact(Kind::IpProto, 6_u8).into(),
        Field::exact(Kind::Ipv4Src, 0x0a01_0203_u32).into(),
        Field::masked(Kind::Ipv4Dst, 0x0a09_0000_u32, 0xffff_0000_u32).into(),
        Field::exact(Kind::TcpSrc, 1234_u16).into(),
        Field::exact(Kind::TcpDst, 80_u16).into(),
        Field::masked(Kind::TcpFlags, 2_u8, 18_u8).into(),
    ];
    let v6 = [
        Field::exact(Kind::EthType, 0x86dd_u16).into(),
        Field::exact(Kind::IpProto, 17_u8).into(),
        Field::exact(Kind::UdpDst, 53_u16).into(),
        Field::exact(Kind::Ipv6Src, 0x2001_0db8_0000_0000_0000_0000_0000_0001_u128).into(),
        Field::masked(Kind::Ipv6Dst, 0x2001_0db8_u128 << 96, 0xffff_ffff_u128 << 96).into(),
        Field::exact(Kind::Ipv6Flabel, 0x12345_u32).into(),
    ];
    let actions = [
        Action::PushVlan(0x88a8),
        Action::SetField(Field::exact(Kind::VlanVid, 0x1007_u16).into()),
        Action::PopVlan,
        Action::SetField(Field::exact(Kind::EthDst, 0x0200_0000_000b_u64).into()),
        Action::SetField(Field::exact(Kind::Ipv4Dst, 0x0a00_0002_u32).into()),
        Action::SetNwTtl(9),
        Action::DecNwTtl,
        Action::SetMplsTtl(8),
        Action::DecMplsTtl,
        Action::PushMpls(0x8847),
        Action::PopMpls(0x0800),
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::SetQueue(QueueId(6)),
        Action::Group(GroupId(4)),
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::Output { port: PortNo(2), max_len: 128 },
    ];
    let write = [Action::output(PortNo(7))];
    let instructions = [
        Instruction::Meter(MeterId(5)),
        Instruction::ApplyActions(List::of(&actions)),
        Instruction::ClearActions,
        Instruction::WriteActions(List::of(&write)),
        Instruction::WriteMetadata { value: 0x11, mask: 0xff },
        Instruction::GotoTable(TableId(9)),
    ];
    let flow = FlowMod {
        cookie: 0x0102_0304_0506_0708,
        cookie_mask: 0x1112_1314_1516_1718,
        table: TableId(3),
        command: FlowCommand::ADD,
        idle_timeout_s: 21,
        hard_timeout_s: 22,
        priority: 23,
        buffer: BufferId(24),
        out_port: PortNo(25),
        out_group: GroupId(26),
        flags: FlowFlags(27),
        fields: List::of(&fields),
        instructions: List::of(&instructions),
    };
    let delete = FlowMod {
        command: FlowCommand::DELETE_STRICT,
        fields: List::of(&v6),
        instructions: List::EMPTY,
        ..flow
    };
    let bands = [
        Band { rate: 1000, burst: 100, kind: BandKind::Drop },
        Band { rate: 2000, burst: 200, kind: BandKind::Remark(2) },
    ];
    let one = [Action::output(PortNo(1))];
    let bucket = |weight, port, group, actions| Bucket {
        weight,
        watch_port: PortNo(port),
        watch_group: GroupId(group),
        actions,
    };
    let buckets = [bucket(2, 3, 4, List::of(&one)), bucket(5, 6, 7, List::EMPTY)];
    let port = [Field::exact(Kind::InPort, 1_u8).into()];
    let select = FlowSelect {
        table: TableId(2),
        out_port: PortNo(11),
        out_group: GroupId(12),
        cookie: 0x13,
        cookie_mask: 0x14,
        fields: List::of(&port),
    };
    let refused = [4, 14, 0, 8, 0, 0, 0, 1];
    let two = [Action::output(PortNo(2))];
    let packet = PacketOut {
        buffer: BufferId::NONE,
        in_port: PortNo(5),
        actions: List::of(&two),
        data: &[1, 2, 3],
    };
    let experimenter = Experimenter { experimenter: 0x1122_3344, kind: 0x5566_7788, body: b"xyz" };
    let group = GroupMod {
        command: GroupCommand::MODIFY,
        kind: GroupKind::SELECT,
        group: GroupId(77),
        buckets: List::of(&buckets),
    };
    let port_mod =
        PortMod { port: PortNo(3), hw_addr: [2, 0, 0, 0, 0, 1], config: 1, mask: 2, advertise: 4 };
    let meter = MeterMod {
        command: MeterCommand::MODIFY,
        flags: MeterFlags(MeterFlags::KBPS.0 | MeterFlags::BURST.0),
        meter: MeterId(9),
        bands: List::of(&bands),
    };
    let role = RoleMessage { role: Role::SLAVE, generation_id: 0x1234_5678_9abc_def0 };
    let unasked = AsyncConfig {
        packet_in: 1,
        packet_in_slave: 2,
        port_status: 3,
        port_status_slave: 4,
        flow_removed: 5,
        flow_removed_slave: 6,
    };
    let queue = QueueSelect { port: PortNo(8), queue: QueueId(9) };
    take("error", Message::Error(ErrorMessage { error: ErrorCode::OVERLAP, data: &refused }));
    take("echo_request", Message::EchoRequest(b"abc"));
    take("echo_reply", Message::EchoReply(b"abcd"));
    take("experimenter", Message::Experimenter(experimenter));
    take("features_request", Message::FeaturesRequest);
    take("get_config", Message::GetConfigRequest);
    take("set_config", Message::SetConfig(SwitchConfig { flags: 1, miss_send_len: 513 }));
    take("packet_out", Message::PacketOut(packet));
    take("flow_add", Message::FlowMod(flow));
    take("flow_delete", Message::FlowMod(delete));
    take("group_mod", Message::GroupMod(group));
    take("port_mod", Message::PortMod(port_mod));
    take("table_mod", Message::TableMod(TableMod { table: TableId(6), config: 3 }));
    take("meter_mod", Message::MeterMod(meter));
    take("desc", request(Request::Desc));
    take("flows", request(Request::Flow(select)));
    take("aggregate", request(Request::Aggregate(select)));
    take("tables", request(Request::Table));
    take("port_stats", request(Request::PortStats(PortNo(8))));
    take("queue_stats", request(Request::Queue(queue)));
    take("group_stats", request(Request::Group(GroupId(8))));
    take("group_desc", request(Request::GroupDesc));
    take("group_features", request(Request::GroupFeatures));
    take("meter_stats", request(Request::Meter(MeterId(8))));
    take("meter_config", request(Request::MeterConfig(MeterId(8))));
    take("meter_features", request(Request::MeterFeatures));
    take("table_features", request(Request::TableFeatures(List::EMPTY)));
    take("port_desc", request(Request::PortDesc));
    take("barrier", Message::BarrierRequest);
    take("queue_config", Message::QueueGetConfigRequest(PortNo(8)));
    take("role", Message::RoleRequest(role));
    take("get_async", Message::GetAsyncRequest);
    take("set_async", Message::SetAsync(unasked));
}

#[test]
fn os_ken_builds_the_same_bytes() {
    let Some(python) = std::env::var_os("OS_KEN") else {
        return skip("OS_KEN is not set to a Python that has os-ken");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/os_ken_messages.py");
    let output = Command::new(python).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = String::from_utf8(output.stdout).unwrap();
    let mut theirs: Vec<(&str, &str)> =
        theirs.lines().map(|line| line.split_once(' ').unwrap()).collect();
    with_each(|name, message| {
        let at = theirs.iter().position(|(theirs, _)| *theirs == name).unwrap();
        let (_, hex) = theirs.remove(at);
        let ours = bytes(&message);
        let ours_hex: String = ours.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours_hex, hex, "{name}");
        assert_eq!(Message::decode(&ours), Ok((XID, message)), "{name}");
    });
    assert!(theirs.is_empty(), "not built by us: {theirs:?}");
}

/// What a switch sends, and what Open vSwitch must read in it.
fn with_each_of_a_switch(mut take: impl FnMut(Message<'_>, &[&str])) {
    let fields = [Field::exact(Kind::InPort, 3_u8).into()];
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[7; 50]].concat();
    let packet = PacketIn {
        buffer: BufferId::NONE,
        total_len: 64,
        reason: PacketInReason::ACTION,
        table: TableId(4),
        cookie: 0xabc,
        fields: List::of(&fields),
        data: &frame,
    };
    let text = ["table_id=4", "cookie=0xabc", "total_len=64", "in_port=3", "(via action)"];
    take(Message::PacketIn(packet), &text);
    let notice = Notice { severity: Severity::High, port: PortNo(6), queue_bytes: 128_000 };
    let notice_fields = notice.fields();
    // Whoever doesn't know the extension still reads a Packet-In of the congested port.
    let text = ["total_len=0 in_port=6 (via 27)"];
    take(Message::PacketIn(notice.packet_in(&notice_fields)), &text);
    let removed = FlowRemoved {
        cookie: 0x77,
        priority: 5,
        reason: RemovedReason::IDLE_TIMEOUT,
        table: TableId(2),
        duration: Span::from_millis(1500),
        idle_timeout_s: 9,
        hard_timeout_s: 10,
        packets: 11,
        frame_bytes: 1200,
        fields: List::of(&fields),
    };
    let text = ["priority=5,in_port=3", "reason=idle", "table_id=2", "cookie:0x77"];
    take(Message::FlowRemoved(removed), &text);
    take(
        Message::FlowRemoved(removed),
        &["duration1.500s", "idle9", "hard10", "pkts11", "bytes1200"],
    );
    let meter = [Instruction::Meter(MeterId(8)), Instruction::GotoTable(TableId(3))];
    let stats = [FlowStats {
        table: TableId(1),
        duration: Span::from_millis(2250),
        priority: 55,
        idle_timeout_s: 6,
        hard_timeout_s: 7,
        flags: FlowFlags::SEND_FLOW_REMOVED,
        cookie: 0x88,
        packets: 9,
        frame_bytes: 900,
        fields: List::of(&fields),
        instructions: List::of(&meter),
    }];
    let reply = |body| Message::MultipartReply { more: false, body };
    let text = [
        "cookie=0x88",
        "duration=2.250s",
        "table=1",
        "n_packets=9",
        "n_bytes=900",
        "idle_timeout=6",
        "hard_timeout=7",
        "send_flow_rem",
        "priority=55,in_port=3",
        "meter:8,goto_table:3",
    ];
    take(reply(Reply::Flow(List::of(&stats))), &text);
    let band_stats = [BandStats { packets: 4, frame_bytes: 40 }];
    let meters = [MeterStats {
        meter: MeterId(5),
        flows: 2,
        packets: 6,
        frame_bytes: 60,
        duration: Span::from_secs(7),
        bands: List::of(&band_stats),
    }];
    let text = ["meter:5 flow_count:2", "packet_in_count:6", "byte_in_count:60"];
    take(reply(Reply::Meter(List::of(&meters))), &text);
    take(reply(Reply::Meter(List::of(&meters))), &["duration:7s", "packet_count:4 byte_count:40"]);
    let bucket_stats = [BucketStats { packets: 3, frame_bytes: 30 }];
    let groups = [GroupStats {
        group: GroupId(12),
        references: 2,
        packets: 3,
        frame_bytes: 30,
        duration: Span::from_secs(8),
        buckets: List::of(&bucket_stats),
    }];
    let text = [
        "group_id=12",
        "duration=8s",
        "ref_count=2",
        "packet_count=3",
        "bucket0:packet_count=3,byte_count=30",
    ];
    take(reply(Reply::Group(List::of(&groups))), &text);
    let ports = [PortStats {
        port: PortNo(2),
        rx_packets: 21,
        tx_packets: 22,
        rx_frame_bytes: 23,
        tx_frame_bytes: 24,
        rx_dropped: 25,
        tx_dropped: 26,
        rx_errors: 27,
        tx_errors: 28,
        rx_frame_errors: 29,
        rx_over_errors: 30,
        rx_crc_errors: 31,
        collisions: 32,
        duration: Span::from_secs(9),
    }];
    let text = [
        "rx pkts=21, bytes=23, drop=25, errs=27, frame=29, over=30, crc=31",
        "tx pkts=22, bytes=24, drop=26, errs=28, coll=32",
        "duration=9s",
    ];
    take(reply(Reply::PortStats(List::of(&ports))), &text);
    let features = Features {
        datapath_id: 0xaabb,
        n_buffers: 3,
        n_tables: 4,
        auxiliary_id: 5,
        capabilities: 1,
        reserved: 0,
    };
    let text = ["dpid:000000000000aabb", "n_tables:4, n_buffers:3", "auxiliary_id:5", "FLOW_STATS"];
    take(Message::FeaturesReply(features), &text);
    let role = RoleMessage { role: Role::MASTER, generation_id: 17 };
    take(Message::RoleReply(role), &["role=primary generation_id=17"]);
    take(Message::Hello(Hello::ONLY_1_3), &["version bitmap: 0x04"]);
    // Actions that only we know: the length is right, so the rest is read.
    let caps = PrepareWindow { port: PortNo(1), window_bytes: [8760, 5840, 2920, 1460], shift: 7 };
    let cap = Action::CapWindow(CapWindow { window_bytes: 2920, shift: 7 });
    for action in [cap, Action::PrepareWindow(caps)] {
        let actions = [action];
        let instructions = [Instruction::ApplyActions(List::of(&actions))];
        let change = FlowMod { instructions: List::of(&instructions), ..FlowMod::ADD };
        take(Message::FlowMod(change), &["unknown vendor 0x2574d", "OFPBAC_BAD_VENDOR"]);
    }
}

#[test]
fn open_vswitch_reads_what_was_meant() {
    if Command::new("ovs-ofctl").arg("--version").output().is_err() {
        return skip("ovs-ofctl is not there");
    }
    let read = |message: &Message<'_>| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes(message)).unwrap();
        let output = Command::new("ovs-ofctl").arg("ofp-parse").arg(file.path()).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    with_each_of_a_switch(|message, fragments| {
        let text = read(&message);
        for fragment in fragments {
            assert!(text.contains(fragment), "{fragment} is not in {text}");
        }
    });
    // Requests that os-ken builds too are read without complaint, but for what this version of
    // Open vSwitch doesn't support.
    with_each(|name, message| {
        let unsupported = ["experimenter", "flow_add", "table_mod"];
        let text = read(&message);
        let complains = text.contains("***") || text.contains("error");
        assert!(!complains || unsupported.contains(&name) || name == "error", "{name}: {text}");
    });
}
