//! Statistics and descriptions, which may take several messages (7.3.5).

use alloc::vec::Vec;

use units::Span;

use crate::action::Instruction;
use crate::flow::{FlowFlags, TableId};
use crate::group::{Bucket, GroupId, GroupKind};
use crate::message::Experimenter;
use crate::meter::{Band, MeterFlags, MeterId};
use crate::port::{Port, PortNo};
use crate::queue::QueueId;
use crate::wire::{
    Body, Fault, Item, List, Malformed, Part, Reader, code, growing, pad, plain, put, sized,
};

code! {
    /// What is asked for.
    MultipartKind(u16) {
        /// The maker of the switch.
        DESC = 0;
        /// Single flow entries.
        FLOW = 1;
        /// Flow entries, added up.
        AGGREGATE = 2;
        /// Tables.
        TABLE = 3;
        /// Counters of ports.
        PORT_STATS = 4;
        /// Counters of queues.
        QUEUE = 5;
        /// Counters of groups.
        GROUP = 6;
        /// Groups.
        GROUP_DESC = 7;
        /// What groups can do.
        GROUP_FEATURES = 8;
        /// Counters of meters.
        METER = 9;
        /// Meters.
        METER_CONFIG = 10;
        /// What meters can do.
        METER_FEATURES = 11;
        /// What tables can do.
        TABLE_FEATURES = 12;
        /// Ports.
        PORT_DESC = 13;
        /// Something of somebody else's.
        EXPERIMENTER = 0xffff;
    }
}

/// What is asked for or answered: each kind with what it says, and the padding after that.
macro_rules! bodies {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$value_doc:meta])* $kind:ident = $variant:ident $(($body:ty $(, pad $pad:literal)?))?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$value_doc])* $variant $(($body))?,)*
        }

        impl<'a> $name<'a> {
            /// What is asked for.
            pub const fn kind(&self) -> MultipartKind {
                match self {
                    $(Self::$variant { .. } => MultipartKind::$kind,)*
                }
            }

            pub(crate) fn decode(
                kind: MultipartKind,
                from: &mut Reader<'a>,
            ) -> Result<Self, Malformed> {
                Ok(match kind {
                    $(MultipartKind::$kind => Self::$variant $(({
                        let body = <$body as Body<'a>>::decode_body(from)?;
                        $(from.skip($pad)?;)?
                        body
                    }))?,)*
                    _ => return Err(Malformed { part: Part::Multipart, fault: Fault::Type }),
                })
            }

            pub(crate) fn encode(&self, out: &mut Vec<u8>) {
                $($(if let Self::$variant(body) = self {
                    <$body as Body<'a>>::encode_body(body, out);
                    $(pad(out, $pad);)?
                })?)*
            }
        }
    };
}

bodies! {
    /// A request for statistics or descriptions.
    Request {
        /// The maker of the switch.
        DESC = Desc;
        /// Single flow entries.
        FLOW = Flow(FlowSelect<'a>);
        /// Flow entries, added up.
        AGGREGATE = Aggregate(FlowSelect<'a>);
        /// Tables.
        TABLE = Table;
        /// Counters of a port, or of [`PortNo::ANY`].
        PORT_STATS = PortStats(PortNo, pad 4);
        /// Counters of queues.
        QUEUE = Queue(QueueSelect);
        /// Counters of a group, or of [`GroupId::ALL`].
        GROUP = Group(GroupId, pad 4);
        /// Groups.
        GROUP_DESC = GroupDesc;
        /// What groups can do.
        GROUP_FEATURES = GroupFeatures;
        /// Counters of a meter, or of [`MeterId::ALL`].
        METER = Meter(MeterId, pad 4);
        /// A meter, or [`MeterId::ALL`].
        METER_CONFIG = MeterConfig(MeterId, pad 4);
        /// What meters can do.
        METER_FEATURES = MeterFeatures;
        /// What tables can do; with entries, what they shall do.
        TABLE_FEATURES = TableFeatures(List<'a, TableFeatures<'a>>);
        /// Ports.
        PORT_DESC = PortDesc;
        /// Something of somebody else's.
        EXPERIMENTER = Experimenter(Experimenter<'a>);
    }
}

growing! {
    /// The flow entries that a request is about.
    FlowSelect {
        /// Their table, or [`TableId::ALL`].
        table: TableId, pad 3;
        /// Only those that send to this port, unless [`PortNo::ANY`].
        out_port: PortNo;
        /// Only those that use this group, unless [`GroupId::ANY`].
        out_group: GroupId, pad 4;
        /// The value of their cookies, in the bits of the mask.
        cookie: u64;
        /// Those bits.
        cookie_mask: u64;
    } match {
        /// Only those within this match.
        fields;
    }
}

impl FlowSelect<'_> {
    /// Every flow entry of every table.
    pub const ALL: Self = Self {
        table: TableId::ALL,
        out_port: PortNo::ANY,
        out_group: GroupId::ANY,
        cookie: 0,
        cookie_mask: 0,
        fields: List::EMPTY,
    };
}

plain! {
    /// The queues that a request is about.
    QueueSelect in Message {
        /// Their port, or [`PortNo::ANY`].
        port: PortNo;
        /// The queue, or [`QueueId::ALL`].
        queue: QueueId;
    }
}

bodies! {
    /// Statistics or descriptions, or a part of them.
    Reply {
        /// The maker of the switch.
        DESC = Desc(Description<'a>);
        /// Single flow entries.
        FLOW = Flow(List<'a, FlowStats<'a>>);
        /// Flow entries, added up.
        AGGREGATE = Aggregate(Aggregate);
        /// Tables.
        TABLE = Table(List<'a, TableStats>);
        /// Counters of ports.
        PORT_STATS = PortStats(List<'a, PortStats>);
        /// Counters of queues.
        QUEUE = Queue(List<'a, QueueStats>);
        /// Counters of groups.
        GROUP = Group(List<'a, GroupStats<'a>>);
        /// Groups.
        GROUP_DESC = GroupDesc(List<'a, GroupDesc<'a>>);
        /// What groups can do.
        GROUP_FEATURES = GroupFeatures(GroupFeatures);
        /// Counters of meters.
        METER = Meter(List<'a, MeterStats<'a>>);
        /// Meters.
        METER_CONFIG = MeterConfig(List<'a, MeterConfig<'a>>);
        /// What meters can do.
        METER_FEATURES = MeterFeatures(MeterFeatures);
        /// What tables can do.
        TABLE_FEATURES = TableFeatures(List<'a, TableFeatures<'a>>);
        /// Ports.
        PORT_DESC = PortDesc(List<'a, Port>);
        /// Something of somebody else's.
        EXPERIMENTER = Experimenter(Experimenter<'a>);
    }
}

/// Who made the switch (7.3.5.1): texts without the zeros that fill them up. Longer ones are cut
/// when written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    /// The manufacturer, at most 255 bytes.
    pub manufacturer: &'a [u8],
    /// The hardware, at most 255 bytes.
    pub hardware: &'a [u8],
    /// The software, at most 255 bytes.
    pub software: &'a [u8],
    /// The serial number, at most 31 bytes.
    pub serial: &'a [u8],
    /// The switch, in words for people, at most 255 bytes.
    pub datapath: &'a [u8],
}

impl<'a> Body<'a> for Description<'a> {
    fn decode_body(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut text = |length| {
            let bytes = from.take(length)?;
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length - 1);
            Ok(&bytes[..end.min(length - 1)])
        };
        Ok(Self {
            manufacturer: text(256)?,
            hardware: text(256)?,
            software: text(256)?,
            serial: text(32)?,
            datapath: text(256)?,
        })
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        let texts = [self.manufacturer, self.hardware, self.software, self.serial, self.datapath];
        for (text, length) in texts.into_iter().zip([256, 256, 256, 32, 256]) {
            let text = &text[..text.len().min(length - 1)];
            out.extend_from_slice(text);
            pad(out, length - text.len());
        }
    }
}

growing! {
    /// A flow entry and its counters (7.3.5.2).
    FlowStats in Multipart, length at 0, least 56, lead 2 {
        /// Its table.
        table: TableId, pad 1;
        /// How long it has lived.
        duration: Span;
        /// Its priority.
        priority: u16;
        /// Its idle timeout in seconds.
        idle_timeout_s: u16;
        /// Its hard timeout in seconds.
        hard_timeout_s: u16;
        /// Its flags.
        flags: FlowFlags, pad 4;
        /// The controller's number.
        cookie: u64;
        /// Packets that it took.
        packets: u64;
        /// Bytes of frames that it took.
        frame_bytes: u64;
    } match {
        /// The packets that it is for.
        fields;
    } list {
        /// What it does with them.
        instructions: Instruction<'a>;
    }
}

plain! {
    /// Flow entries, added up (7.3.5.3).
    Aggregate in Message {
        /// Packets that they took.
        packets: u64;
        /// Bytes of frames that they took.
        frame_bytes: u64;
        /// How many they are.
        flows: u32, pad 4;
    }
}

plain! {
    /// A table and its counters (7.3.5.4).
    TableStats in Multipart {
        /// The table.
        table: TableId, pad 3;
        /// Its entries.
        active: u32;
        /// Packets that were looked up in it.
        lookups: u64;
        /// Packets that an entry matched.
        matched: u64;
    }
}

plain! {
    /// A port's counters (7.3.5.6). All ones where a switch doesn't count.
    PortStats in Multipart {
        /// The port.
        port: PortNo, pad 4;
        /// Packets received.
        rx_packets: u64;
        /// Packets sent.
        tx_packets: u64;
        /// Bytes of frames received.
        rx_frame_bytes: u64;
        /// Bytes of frames sent.
        tx_frame_bytes: u64;
        /// Packets dropped while receiving.
        rx_dropped: u64;
        /// Packets dropped while sending.
        tx_dropped: u64;
        /// Errors of any kind while receiving.
        rx_errors: u64;
        /// Errors while sending.
        tx_errors: u64;
        /// Frames out of alignment.
        rx_frame_errors: u64;
        /// Frames without room.
        rx_over_errors: u64;
        /// Frames with a wrong checksum.
        rx_crc_errors: u64;
        /// Collisions.
        collisions: u64;
        /// How long the port has been there.
        duration: Span;
    }
}

plain! {
    /// A queue's counters (7.3.5.8).
    QueueStats in Multipart {
        /// Its port.
        port: PortNo;
        /// The queue.
        queue: QueueId;
        /// Bytes of frames sent.
        tx_frame_bytes: u64;
        /// Packets sent.
        tx_packets: u64;
        /// Packets dropped for want of room.
        tx_errors: u64;
        /// How long the queue has been there.
        duration: Span;
    }
}

plain! {
    /// What a bucket has taken.
    BucketStats in Multipart {
        /// Packets.
        packets: u64;
        /// Bytes of frames.
        frame_bytes: u64;
    }
}

growing! {
    /// A group's counters (7.3.5.9).
    GroupStats in Multipart, length at 0, least 40, lead 4 {
        /// The group.
        group: GroupId;
        /// Flow entries and groups that lead to it.
        references: u32, pad 4;
        /// Packets that it took.
        packets: u64;
        /// Bytes of frames that it took.
        frame_bytes: u64;
        /// How long it has lived.
        duration: Span;
    } list {
        /// The counters of its buckets.
        buckets: BucketStats;
    }
}

growing! {
    /// A group (7.3.5.10).
    GroupDesc in Multipart, length at 0, least 8, lead 2 {
        /// How it chooses.
        kind: GroupKind, pad 1;
        /// Its number.
        group: GroupId;
    } list {
        /// Its buckets.
        buckets: Bucket<'a>;
    }
}

plain! {
    /// What groups can do (7.3.5.11); one entry for each [`GroupKind`] in its order.
    GroupFeatures in Message {
        /// The kinds, as bits.
        kinds: u32;
        /// Capabilities, as bits: weights, liveness, chaining, checks for loops.
        capabilities: u32;
        /// How many there may be.
        max_groups: [u32; 4];
        /// The action types that they may use, as bits.
        actions: [u32; 4];
    }
}

plain! {
    /// What a band has stopped or changed.
    BandStats in Multipart {
        /// Packets.
        packets: u64;
        /// Bytes of frames.
        frame_bytes: u64;
    }
}

growing! {
    /// A meter's counters (7.3.5.12).
    MeterStats in Multipart, length at 4, least 40, lead 0 {
        /// The meter.
        meter: MeterId, pad 8;
        /// Flow entries that use it.
        flows: u32;
        /// Packets that came.
        packets: u64;
        /// Bytes of frames that came.
        frame_bytes: u64;
        /// How long it has lived.
        duration: Span;
    } list {
        /// The counters of its bands.
        bands: BandStats;
    }
}

growing! {
    /// A meter (7.3.5.13).
    MeterConfig in Multipart, length at 0, least 8, lead 2 {
        /// What it counts.
        flags: MeterFlags;
        /// Its number.
        meter: MeterId;
    } list {
        /// Its bands.
        bands: Band<'a>;
    }
}

plain! {
    /// What meters can do (7.3.5.14).
    MeterFeatures in Message {
        /// How many there may be.
        max_meters: u32;
        /// The kinds of bands, as bits.
        band_kinds: u32;
        /// The flags, as bits.
        capabilities: u32;
        /// Bands a meter.
        max_bands: u8;
        /// Colours.
        max_colors: u8, pad 2;
    }
}

growing! {
    /// What a table can do (7.3.5.5).
    TableFeatures in Multipart, length at 0, least 64, lead 2 {
        /// The table.
        table: TableId, pad 5;
        /// Its name, filled up with zeros.
        name: [u8; 32];
        /// The bits of metadata that it can match.
        metadata_match: u64;
        /// The bits of metadata that it can write.
        metadata_write: u64;
        /// Deprecated bits.
        config: u32;
        /// How many entries it can hold.
        max_entries: u32;
    } list {
        /// Lists of what it can use.
        properties: TableFeature<'a>;
    }
}

/// A list of what a table can use, unread: nothing here decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFeature<'a> {
    /// Which list (`ofp_table_feature_prop_type`).
    pub kind: u16,
    /// The list.
    pub body: &'a [u8],
}

impl<'a> Item<'a> for TableFeature<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut body = from.sized(2, 4, 1)?;
        let length = body.len();
        from.skip(length.next_multiple_of(8) - length)?;
        let kind = body.u16()?;
        body.skip(2)?;
        Ok(Self { kind, body: body.rest() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, false, |out| {
            put!(out, self.kind, 0u16);
            out.extend_from_slice(self.body);
        });
    }
}
