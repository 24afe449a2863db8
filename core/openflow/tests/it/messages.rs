//! Arbitrary messages. Lists borrow their items, so the strategies leak them: a test ends soon.
#![allow(dead_code)] // each test uses its part

use proptest::prelude::*;
use units::Span;
use watermaster_openflow::*;

fn leak<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

fn list<T: Item<'static> + std::fmt::Debug + 'static>(
    item: impl Strategy<Value = T>,
) -> impl Strategy<Value = List<'static, T>> {
    prop::collection::vec(item, 0..4).prop_map(|items| List::of(leak(items)))
}

/// Bytes in whole words of eight, less `less`.
fn words(less: usize) -> impl Strategy<Value = &'static [u8]> {
    (1_usize..4).prop_flat_map(move |words| {
        prop::collection::vec(any::<u8>(), words * 8 - less).prop_map(leak)
    })
}

fn data() -> impl Strategy<Value = &'static [u8]> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(leak)
}

fn span() -> impl Strategy<Value = Span> {
    (any::<u32>(), 0..1_000_000_000_u64)
        .prop_map(|(s, ns)| Span::from_nanos(u64::from(s) * 1_000_000_000 + ns))
}

pub fn field() -> impl Strategy<Value = Field> {
    (prop::sample::select(Kind::ALL), any::<u128>(), any::<Option<u128>>()).prop_map(
        |(kind, value, mask)| match mask {
            Some(mask) => Field::masked(kind, value, mask),
            None => Field::exact(kind, value),
        },
    )
}

fn fields() -> impl Strategy<Value = Match<'static>> {
    list(field().prop_map(Oxm::Field))
}

pub fn action() -> impl Strategy<Value = Action<'static>> {
    prop_oneof![
        (any::<u32>(), any::<u16>())
            .prop_map(|(port, max_len)| Action::Output { port: PortNo(port), max_len }),
        Just(Action::CopyTtlOut),
        Just(Action::CopyTtlIn),
        any::<u8>().prop_map(Action::SetMplsTtl),
        Just(Action::DecMplsTtl),
        any::<u16>().prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        any::<u16>().prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u32>().prop_map(|queue| Action::SetQueue(QueueId(queue))),
        any::<u32>().prop_map(|group| Action::Group(GroupId(group))),
        any::<u8>().prop_map(Action::SetNwTtl),
        Just(Action::DecNwTtl),
        field().prop_map(|field| Action::SetField(field.into())),
        any::<u16>().prop_map(Action::PushPbb),
        Just(Action::PopPbb),
        (any::<u32>(), any::<u8>()).prop_map(|(window_bytes, shift)| {
            Action::CapWindow(sdtcp::CapWindow { window_bytes, shift })
        }),
        (any::<u32>(), any::<[u32; 4]>(), any::<u8>()).prop_map(|(port, window_bytes, shift)| {
            let port = PortNo(port);
            Action::PrepareWindow(sdtcp::PrepareWindow { port, window_bytes, shift })
        }),
        (1..1000_u32, words(8))
            .prop_map(|(experimenter, body)| Action::Experimenter { experimenter, body }),
    ]
}

fn instruction() -> impl Strategy<Value = Instruction<'static>> {
    prop_oneof![
        any::<u8>().prop_map(|table| Instruction::GotoTable(TableId(table))),
        (any::<u64>(), any::<u64>())
            .prop_map(|(value, mask)| Instruction::WriteMetadata { value, mask }),
        list(action()).prop_map(Instruction::WriteActions),
        list(action()).prop_map(Instruction::ApplyActions),
        Just(Instruction::ClearActions),
        any::<u32>().prop_map(|meter| Instruction::Meter(MeterId(meter))),
        (any::<u32>(), words(8))
            .prop_map(|(experimenter, body)| Instruction::Experimenter { experimenter, body }),
    ]
}

fn bucket() -> impl Strategy<Value = Bucket<'static>> {
    (any::<u16>(), any::<u32>(), any::<u32>(), list(action())).prop_map(
        |(weight, port, group, actions)| Bucket {
            weight,
            watch_port: PortNo(port),
            watch_group: GroupId(group),
            actions,
        },
    )
}

fn band() -> impl Strategy<Value = Band<'static>> {
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(BandKind::Remark),
        (any::<u32>(), words(8))
            .prop_map(|(experimenter, body)| BandKind::Experimenter { experimenter, body }),
    ];
    (any::<u32>(), any::<u32>(), kind).prop_map(|(rate, burst, kind)| Band { rate, burst, kind })
}

fn port() -> impl Strategy<Value = Port> {
    (any::<u32>(), any::<[u8; 6]>(), any::<[u8; 16]>(), any::<[u32; 8]>()).prop_map(
        |(port, hw_addr, name, bits)| Port {
            port: PortNo(port),
            hw_addr,
            name,
            config: bits[0],
            state: bits[1],
            curr: bits[2],
            advertised: bits[3],
            supported: bits[4],
            peer: bits[5],
            curr_speed_kbps: bits[6],
            max_speed_kbps: bits[7],
        },
    )
}

fn flow_mod() -> impl Strategy<Value = FlowMod<'static>> {
    let numbers = (any::<[u64; 2]>(), any::<[u8; 2]>(), any::<[u16; 4]>(), any::<[u32; 3]>());
    (numbers, fields(), list(instruction())).prop_map(|((c, b, s, w), fields, instructions)| {
        FlowMod {
            cookie: c[0],
            cookie_mask: c[1],
            table: TableId(b[0]),
            command: FlowCommand(b[1]),
            idle_timeout_s: s[0],
            hard_timeout_s: s[1],
            priority: s[2],
            buffer: BufferId(w[0]),
            out_port: PortNo(w[1]),
            out_group: GroupId(w[2]),
            flags: FlowFlags(s[3]),
            fields,
            instructions,
        }
    })
}

fn flow_removed() -> impl Strategy<Value = FlowRemoved<'static>> {
    (any::<[u64; 3]>(), any::<[u16; 3]>(), any::<[u8; 2]>(), span(), fields()).prop_map(
        |(c, s, b, duration, fields)| FlowRemoved {
            cookie: c[0],
            priority: s[0],
            reason: RemovedReason(b[0]),
            table: TableId(b[1]),
            duration,
            idle_timeout_s: s[1],
            hard_timeout_s: s[2],
            packets: c[1],
            frame_bytes: c[2],
            fields,
        },
    )
}

fn packet_in() -> impl Strategy<Value = PacketIn<'static>> {
    (any::<u32>(), any::<u16>(), any::<[u8; 2]>(), any::<u64>(), fields(), data()).prop_map(
        |(buffer, total_len, b, cookie, fields, data)| PacketIn {
            buffer: BufferId(buffer),
            total_len,
            reason: PacketInReason(b[0]),
            table: TableId(b[1]),
            cookie,
            fields,
            data,
        },
    )
}

fn packet_out() -> impl Strategy<Value = PacketOut<'static>> {
    (any::<u32>(), any::<u32>(), list(action()), data()).prop_map(
        |(buffer, port, actions, data)| PacketOut {
            buffer: BufferId(buffer),
            in_port: PortNo(port),
            actions,
            data,
        },
    )
}

fn select() -> impl Strategy<Value = FlowSelect<'static>> {
    (any::<u8>(), any::<[u32; 2]>(), any::<[u64; 2]>(), fields()).prop_map(
        |(table, w, c, fields)| FlowSelect {
            table: TableId(table),
            out_port: PortNo(w[0]),
            out_group: GroupId(w[1]),
            cookie: c[0],
            cookie_mask: c[1],
            fields,
        },
    )
}

fn table_features() -> impl Strategy<Value = TableFeatures<'static>> {
    let feature = (any::<u16>(), data()).prop_map(|(kind, body)| TableFeature { kind, body });
    (any::<u8>(), any::<[u8; 32]>(), any::<[u64; 2]>(), any::<[u32; 2]>(), list(feature)).prop_map(
        |(table, name, c, w, properties)| TableFeatures {
            table: TableId(table),
            name,
            metadata_match: c[0],
            metadata_write: c[1],
            config: w[0],
            max_entries: w[1],
            properties,
        },
    )
}

fn request() -> impl Strategy<Value = Request<'static>> {
    prop_oneof![
        Just(Request::Desc),
        select().prop_map(Request::Flow),
        select().prop_map(Request::Aggregate),
        Just(Request::Table),
        any::<u32>().prop_map(|port| Request::PortStats(PortNo(port))),
        (any::<u32>(), any::<u32>()).prop_map(|(port, queue)| {
            Request::Queue(QueueSelect { port: PortNo(port), queue: QueueId(queue) })
        }),
        any::<u32>().prop_map(|group| Request::Group(GroupId(group))),
        Just(Request::GroupDesc),
        Just(Request::GroupFeatures),
        any::<u32>().prop_map(|meter| Request::Meter(MeterId(meter))),
        any::<u32>().prop_map(|meter| Request::MeterConfig(MeterId(meter))),
        Just(Request::MeterFeatures),
        list(table_features()).prop_map(Request::TableFeatures),
        Just(Request::PortDesc),
        (any::<u32>(), any::<u32>(), data()).prop_map(|(experimenter, kind, body)| {
            Request::Experimenter(Experimenter { experimenter, kind, body })
        }),
    ]
}

fn statistics() -> impl Strategy<Value = Reply<'static>> {
    let flow = (
        (any::<u8>(), span(), any::<[u16; 4]>(), any::<[u64; 3]>()),
        fields(),
        list(instruction()),
    )
        .prop_map(|((table, duration, s, c), fields, instructions)| FlowStats {
            table: TableId(table),
            duration,
            priority: s[0],
            idle_timeout_s: s[1],
            hard_timeout_s: s[2],
            flags: FlowFlags(s[3]),
            cookie: c[0],
            packets: c[1],
            frame_bytes: c[2],
            fields,
            instructions,
        });
    let table = (any::<u8>(), any::<u32>(), any::<[u64; 2]>()).prop_map(|(table, active, c)| {
        TableStats { table: TableId(table), active, lookups: c[0], matched: c[1] }
    });
    let port_stats =
        (any::<u32>(), any::<[u64; 12]>(), span()).prop_map(|(port, c, duration)| PortStats {
            port: PortNo(port),
            rx_packets: c[0],
            tx_packets: c[1],
            rx_frame_bytes: c[2],
            tx_frame_bytes: c[3],
            rx_dropped: c[4],
            tx_dropped: c[5],
            rx_errors: c[6],
            tx_errors: c[7],
            rx_frame_errors: c[8],
            rx_over_errors: c[9],
            rx_crc_errors: c[10],
            collisions: c[11],
            duration,
        });
    let queue =
        (any::<[u32; 2]>(), any::<[u64; 3]>(), span()).prop_map(|(w, c, duration)| QueueStats {
            port: PortNo(w[0]),
            queue: QueueId(w[1]),
            tx_frame_bytes: c[0],
            tx_packets: c[1],
            tx_errors: c[2],
            duration,
        });
    let bucket_stats =
        any::<[u64; 2]>().prop_map(|c| BucketStats { packets: c[0], frame_bytes: c[1] });
    let band_stats = any::<[u64; 2]>().prop_map(|c| BandStats { packets: c[0], frame_bytes: c[1] });
    let group = (any::<[u32; 2]>(), any::<[u64; 2]>(), span(), list(bucket_stats)).prop_map(
        |(w, c, duration, buckets)| GroupStats {
            group: GroupId(w[0]),
            references: w[1],
            packets: c[0],
            frame_bytes: c[1],
            duration,
            buckets,
        },
    );
    let meter = (any::<[u32; 2]>(), any::<[u64; 2]>(), span(), list(band_stats)).prop_map(
        |(w, c, duration, bands)| MeterStats {
            meter: MeterId(w[0]),
            flows: w[1],
            packets: c[0],
            frame_bytes: c[1],
            duration,
            bands,
        },
    );
    let text = |most| prop::collection::vec(1_u8..=255, 0..=most).prop_map(leak);
    prop_oneof![
        (text(255), text(255), text(255), text(31), text(255)).prop_map(
            |(manufacturer, hardware, software, serial, datapath)| {
                Reply::Desc(Description { manufacturer, hardware, software, serial, datapath })
            }
        ),
        list(flow).prop_map(Reply::Flow),
        (any::<[u64; 2]>(), any::<u32>()).prop_map(|(c, flows)| {
            Reply::Aggregate(Aggregate { packets: c[0], frame_bytes: c[1], flows })
        }),
        list(table).prop_map(Reply::Table),
        list(port_stats).prop_map(Reply::PortStats),
        list(queue).prop_map(Reply::Queue),
        list(group).prop_map(Reply::Group),
        list((any::<u8>(), any::<u32>(), list(bucket())).prop_map(|(kind, group, buckets)| {
            GroupDesc { kind: GroupKind(kind), group: GroupId(group), buckets }
        }))
        .prop_map(Reply::GroupDesc),
        (any::<[u32; 2]>(), any::<[u32; 4]>(), any::<[u32; 4]>()).prop_map(
            |(w, max_groups, actions)| Reply::GroupFeatures(GroupFeatures {
                kinds: w[0],
                capabilities: w[1],
                max_groups,
                actions,
            })
        ),
        list(meter).prop_map(Reply::Meter),
        list((any::<u16>(), any::<u32>(), list(band())).prop_map(|(flags, meter, bands)| {
            MeterConfig { flags: MeterFlags(flags), meter: MeterId(meter), bands }
        }))
        .prop_map(Reply::MeterConfig),
        (any::<[u32; 3]>(), any::<[u8; 2]>()).prop_map(|(w, b)| {
            Reply::MeterFeatures(MeterFeatures {
                max_meters: w[0],
                band_kinds: w[1],
                capabilities: w[2],
                max_bands: b[0],
                max_colors: b[1],
            })
        }),
        list(table_features()).prop_map(Reply::TableFeatures),
        list(port()).prop_map(Reply::PortDesc),
        (any::<u32>(), any::<u32>(), data()).prop_map(|(experimenter, kind, body)| {
            Reply::Experimenter(Experimenter { experimenter, kind, body })
        }),
    ]
}

fn async_config() -> impl Strategy<Value = AsyncConfig> {
    any::<[u32; 6]>().prop_map(|w| AsyncConfig {
        packet_in: w[0],
        packet_in_slave: w[1],
        port_status: w[2],
        port_status_slave: w[3],
        flow_removed: w[4],
        flow_removed_slave: w[5],
    })
}

/// Any message.
pub fn message() -> impl Strategy<Value = Message<'static>> {
    let config = || {
        (any::<u16>(), any::<u16>())
            .prop_map(|(flags, miss_send_len)| SwitchConfig { flags, miss_send_len })
    };
    let role = || {
        (any::<u32>(), any::<u64>())
            .prop_map(|(role, generation_id)| RoleMessage { role: Role(role), generation_id })
    };
    let element = (any::<u16>(), data()).prop_map(|(kind, body)| HelloElement { kind, body });
    let property = prop_oneof![
        any::<u16>().prop_map(QueueProperty::MinRate),
        any::<u16>().prop_map(QueueProperty::MaxRate),
        (3..=u16::MAX, words(0)).prop_map(|(kind, body)| QueueProperty::Other { kind, body }),
    ];
    let queue = (any::<[u32; 2]>(), list(property)).prop_map(|(w, properties)| Queue {
        queue: QueueId(w[0]),
        port: PortNo(w[1]),
        properties,
    });
    let simple = prop_oneof![
        Just(Message::FeaturesRequest),
        Just(Message::GetConfigRequest),
        Just(Message::BarrierRequest),
        Just(Message::BarrierReply),
        Just(Message::GetAsyncRequest),
        data().prop_map(Message::EchoRequest),
        data().prop_map(Message::EchoReply),
        config().prop_map(Message::GetConfigReply),
        config().prop_map(Message::SetConfig),
        role().prop_map(Message::RoleRequest),
        role().prop_map(Message::RoleReply),
        async_config().prop_map(Message::GetAsyncReply),
        async_config().prop_map(Message::SetAsync),
        any::<u32>().prop_map(|port| Message::QueueGetConfigRequest(PortNo(port))),
        (any::<u8>(), any::<u32>()).prop_map(|(table, config)| Message::TableMod(TableMod {
            table: TableId(table),
            config
        })),
        (any::<u64>(), any::<[u32; 3]>(), any::<[u8; 2]>()).prop_map(|(datapath_id, w, b)| {
            Message::FeaturesReply(Features {
                datapath_id,
                n_buffers: w[0],
                n_tables: b[0],
                auxiliary_id: b[1],
                capabilities: w[1],
                reserved: w[2],
            })
        }),
    ];
    prop_oneof![
        3 => simple,
        1 => (any::<u8>(), list(element))
            .prop_map(|(version, elements)| Message::Hello(Hello { version, elements })),
        1 => (any::<[u16; 2]>(), data()).prop_map(|(s, data)| {
            Message::Error(ErrorMessage { error: ErrorCode { kind: s[0], code: s[1] }, data })
        }),
        1 => (any::<u32>(), any::<u32>(), data()).prop_map(|(experimenter, kind, body)| {
            Message::Experimenter(Experimenter { experimenter, kind, body })
        }),
        1 => packet_in().prop_map(Message::PacketIn),
        1 => packet_out().prop_map(Message::PacketOut),
        2 => flow_mod().prop_map(Message::FlowMod),
        1 => flow_removed().prop_map(Message::FlowRemoved),
        1 => (any::<u8>(), port()).prop_map(|(reason, port)| {
            Message::PortStatus(PortStatus { reason: PortReason(reason), port })
        }),
        1 => (any::<u16>(), any::<u8>(), any::<u32>(), list(bucket())).prop_map(
            |(command, kind, group, buckets)| Message::GroupMod(GroupMod {
                command: GroupCommand(command),
                kind: GroupKind(kind),
                group: GroupId(group),
                buckets,
            })
        ),
        1 => (any::<u32>(), any::<[u8; 6]>(), any::<[u32; 3]>()).prop_map(|(port, hw_addr, w)| {
            Message::PortMod(PortMod {
                port: PortNo(port),
                hw_addr,
                config: w[0],
                mask: w[1],
                advertise: w[2],
            })
        }),
        1 => (any::<[u16; 2]>(), any::<u32>(), list(band())).prop_map(|(s, meter, bands)| {
            Message::MeterMod(MeterMod {
                command: MeterCommand(s[0]),
                flags: MeterFlags(s[1]),
                meter: MeterId(meter),
                bands,
            })
        }),
        1 => (any::<u32>(), list(queue)).prop_map(|(port, queues)| {
            Message::QueueGetConfigReply { port: PortNo(port), queues }
        }),
        2 => (any::<bool>(), request())
            .prop_map(|(more, body)| Message::MultipartRequest { more, body }),
        3 => (any::<bool>(), statistics())
            .prop_map(|(more, body)| Message::MultipartReply { more, body }),
    ]
}
