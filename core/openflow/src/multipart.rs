//! Statistics and descriptions, which may take several messages (7.3.5).

use alloc::vec::Vec;

use units::Span;

use crate::action::Instruction;
use crate::flow::{FlowFlags, TableId};
use crate::group::{Bucket, GroupId, GroupKind};
use crate::meter::{Band, MeterFlags, MeterId};
use crate::oxm::Match;
use crate::port::{Port, PortNo};
use crate::queue::QueueId;
use crate::wire::{
    Fault, Item, List, Malformed, Part, Plain, Reader, code, pad, plain, put, sized,
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

/// A request for statistics or descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The maker of the switch.
    Desc,
    /// Single flow entries.
    Flow(FlowSelect<'a>),
    /// Flow entries, added up.
    Aggregate(FlowSelect<'a>),
    /// Tables.
    Table,
    /// Counters of a port, or of [`PortNo::ANY`].
    PortStats(PortNo),
    /// Counters of queues.
    Queue(QueueSelect),
    /// Counters of a group, or of [`GroupId::ALL`].
    Group(GroupId),
    /// Groups.
    GroupDesc,
    /// What groups can do.
    GroupFeatures,
    /// Counters of a meter, or of [`MeterId::ALL`].
    Meter(MeterId),
    /// A meter, or [`MeterId::ALL`].
    MeterConfig(MeterId),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; with entries, what they shall do.
    TableFeatures(List<'a, TableFeatures<'a>>),
    /// Ports.
    PortDesc,
    /// Something of somebody else's.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Which.
        kind: u32,
        /// What.
        body: &'a [u8],
    },
}

/// The flow entries that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSelect<'a> {
    /// Their table, or [`TableId::ALL`].
    pub table: TableId,
    /// Only those that send to this port, unless [`PortNo::ANY`].
    pub out_port: PortNo,
    /// Only those that use this group, unless [`GroupId::ANY`].
    pub out_group: GroupId,
    /// The value of their cookies, in the bits of the mask.
    pub cookie: u64,
    /// Those bits.
    pub cookie_mask: u64,
    /// Only those within this match.
    pub fields: Match<'a>,
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

impl<'a> FlowSelect<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let table = TableId::get(from)?;
        from.skip(3)?;
        let (out_port, out_group) = (PortNo::get(from)?, GroupId::get(from)?);
        from.skip(4)?;
        let (cookie, cookie_mask) = (from.u64()?, from.u64()?);
        let fields = Match::decode_match(from)?;
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, fields })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.table, [0; 3], self.out_port, self.out_group, 0u32);
        put!(out, self.cookie, self.cookie_mask);
        self.fields.encode_match(out);
    }
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

impl<'a> Request<'a> {
    /// What is asked for.
    pub const fn kind(&self) -> MultipartKind {
        match self {
            Self::Desc => MultipartKind::DESC,
            Self::Flow(_) => MultipartKind::FLOW,
            Self::Aggregate(_) => MultipartKind::AGGREGATE,
            Self::Table => MultipartKind::TABLE,
            Self::PortStats(_) => MultipartKind::PORT_STATS,
            Self::Queue(_) => MultipartKind::QUEUE,
            Self::Group(_) => MultipartKind::GROUP,
            Self::GroupDesc => MultipartKind::GROUP_DESC,
            Self::GroupFeatures => MultipartKind::GROUP_FEATURES,
            Self::Meter(_) => MultipartKind::METER,
            Self::MeterConfig(_) => MultipartKind::METER_CONFIG,
            Self::MeterFeatures => MultipartKind::METER_FEATURES,
            Self::TableFeatures(_) => MultipartKind::TABLE_FEATURES,
            Self::PortDesc => MultipartKind::PORT_DESC,
            Self::Experimenter { .. } => MultipartKind::EXPERIMENTER,
        }
    }

    pub(crate) fn decode(kind: MultipartKind, from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            MultipartKind::DESC => Self::Desc,
            MultipartKind::FLOW => Self::Flow(FlowSelect::decode(from)?),
            MultipartKind::AGGREGATE => Self::Aggregate(FlowSelect::decode(from)?),
            MultipartKind::TABLE => Self::Table,
            MultipartKind::PORT_STATS => {
                let port = PortNo::get(from)?;
                from.skip(4)?;
                Self::PortStats(port)
            }
            MultipartKind::QUEUE => Self::Queue(QueueSelect::get(from)?),
            MultipartKind::GROUP => {
                let group = GroupId::get(from)?;
                from.skip(4)?;
                Self::Group(group)
            }
            MultipartKind::GROUP_DESC => Self::GroupDesc,
            MultipartKind::GROUP_FEATURES => Self::GroupFeatures,
            MultipartKind::METER | MultipartKind::METER_CONFIG => {
                let meter = MeterId::get(from)?;
                from.skip(4)?;
                if kind == MultipartKind::METER {
                    Self::Meter(meter)
                } else {
                    Self::MeterConfig(meter)
                }
            }
            MultipartKind::METER_FEATURES => Self::MeterFeatures,
            MultipartKind::TABLE_FEATURES => Self::TableFeatures(List::decode(from)?),
            MultipartKind::PORT_DESC => Self::PortDesc,
            MultipartKind::EXPERIMENTER => Self::Experimenter {
                experimenter: from.u32()?,
                kind: from.u32()?,
                body: from.rest(),
            },
            _ => return Err(Malformed { part: Part::Multipart, fault: Fault::Type }),
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Flow(select) | Self::Aggregate(select) => select.encode(out),
            Self::PortStats(port) => put!(out, *port, 0u32),
            Self::Queue(select) => put!(out, *select),
            Self::Group(group) => put!(out, *group, 0u32),
            Self::Meter(meter) | Self::MeterConfig(meter) => put!(out, *meter, 0u32),
            Self::TableFeatures(tables) => tables.encode(out),
            Self::Experimenter { experimenter, kind, body } => {
                put!(out, *experimenter, *kind);
                out.extend_from_slice(body);
            }
            Self::Desc
            | Self::Table
            | Self::GroupDesc
            | Self::GroupFeatures
            | Self::MeterFeatures
            | Self::PortDesc => {}
        }
    }
}

/// Statistics or descriptions, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The maker of the switch.
    Desc(Description<'a>),
    /// Single flow entries.
    Flow(List<'a, FlowStats<'a>>),
    /// Flow entries, added up.
    Aggregate(Aggregate),
    /// Tables.
    Table(List<'a, TableStats>),
    /// Counters of ports.
    PortStats(List<'a, PortStats>),
    /// Counters of queues.
    Queue(List<'a, QueueStats>),
    /// Counters of groups.
    Group(List<'a, GroupStats<'a>>),
    /// Groups.
    GroupDesc(List<'a, GroupDesc<'a>>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Counters of meters.
    Meter(List<'a, MeterStats<'a>>),
    /// Meters.
    MeterConfig(List<'a, MeterConfig<'a>>),
    /// What meters can do.
    MeterFeatures(MeterFeatures),
    /// What tables can do.
    TableFeatures(List<'a, TableFeatures<'a>>),
    /// Ports.
    PortDesc(List<'a, Port>),
    /// Something of somebody else's.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Which.
        kind: u32,
        /// What.
        body: &'a [u8],
    },
}

impl<'a> Reply<'a> {
    /// What was asked for.
    pub const fn kind(&self) -> MultipartKind {
        match self {
            Self::Desc(_) => MultipartKind::DESC,
            Self::Flow(_) => MultipartKind::FLOW,
            Self::Aggregate(_) => MultipartKind::AGGREGATE,
            Self::Table(_) => MultipartKind::TABLE,
            Self::PortStats(_) => MultipartKind::PORT_STATS,
            Self::Queue(_) => MultipartKind::QUEUE,
            Self::Group(_) => MultipartKind::GROUP,
            Self::GroupDesc(_) => MultipartKind::GROUP_DESC,
            Self::GroupFeatures(_) => MultipartKind::GROUP_FEATURES,
            Self::Meter(_) => MultipartKind::METER,
            Self::MeterConfig(_) => MultipartKind::METER_CONFIG,
            Self::MeterFeatures(_) => MultipartKind::METER_FEATURES,
            Self::TableFeatures(_) => MultipartKind::TABLE_FEATURES,
            Self::PortDesc(_) => MultipartKind::PORT_DESC,
            Self::Experimenter { .. } => MultipartKind::EXPERIMENTER,
        }
    }

    pub(crate) fn decode(kind: MultipartKind, from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            MultipartKind::DESC => Self::Desc(Description::decode(from)?),
            MultipartKind::FLOW => Self::Flow(List::decode(from)?),
            MultipartKind::AGGREGATE => Self::Aggregate(Aggregate::get(from)?),
            MultipartKind::TABLE => Self::Table(List::decode(from)?),
            MultipartKind::PORT_STATS => Self::PortStats(List::decode(from)?),
            MultipartKind::QUEUE => Self::Queue(List::decode(from)?),
            MultipartKind::GROUP => Self::Group(List::decode(from)?),
            MultipartKind::GROUP_DESC => Self::GroupDesc(List::decode(from)?),
            MultipartKind::GROUP_FEATURES => Self::GroupFeatures(GroupFeatures::get(from)?),
            MultipartKind::METER => Self::Meter(List::decode(from)?),
            MultipartKind::METER_CONFIG => Self::MeterConfig(List::decode(from)?),
            MultipartKind::METER_FEATURES => Self::MeterFeatures(MeterFeatures::get(from)?),
            MultipartKind::TABLE_FEATURES => Self::TableFeatures(List::decode(from)?),
            MultipartKind::PORT_DESC => Self::PortDesc(List::decode(from)?),
            MultipartKind::EXPERIMENTER => Self::Experimenter {
                experimenter: from.u32()?,
                kind: from.u32()?,
                body: from.rest(),
            },
            _ => return Err(Malformed { part: Part::Multipart, fault: Fault::Type }),
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Desc(description) => description.encode(out),
            Self::Flow(entries) => entries.encode(out),
            Self::Aggregate(sums) => put!(out, *sums),
            Self::Table(entries) => entries.encode(out),
            Self::PortStats(entries) => entries.encode(out),
            Self::Queue(entries) => entries.encode(out),
            Self::Group(entries) => entries.encode(out),
            Self::GroupDesc(entries) => entries.encode(out),
            Self::GroupFeatures(features) => put!(out, *features),
            Self::Meter(entries) => entries.encode(out),
            Self::MeterConfig(entries) => entries.encode(out),
            Self::MeterFeatures(features) => put!(out, *features),
            Self::TableFeatures(entries) => entries.encode(out),
            Self::PortDesc(entries) => entries.encode(out),
            Self::Experimenter { experimenter, kind, body } => {
                put!(out, *experimenter, *kind);
                out.extend_from_slice(body);
            }
        }
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

impl<'a> Description<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
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

    fn encode(&self, out: &mut Vec<u8>) {
        let texts = [self.manufacturer, self.hardware, self.software, self.serial, self.datapath];
        for (text, length) in texts.into_iter().zip([256, 256, 256, 32, 256]) {
            let text = &text[..text.len().min(length - 1)];
            out.extend_from_slice(text);
            pad(out, length - text.len());
        }
    }
}

/// A flow entry and its counters (7.3.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStats<'a> {
    /// Its table.
    pub table: TableId,
    /// How long it has lived.
    pub duration: Span,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout in seconds.
    pub idle_timeout_s: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout_s: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// The controller's number.
    pub cookie: u64,
    /// Packets that it took.
    pub packets: u64,
    /// Bytes of frames that it took.
    pub frame_bytes: u64,
    /// The packets that it is for.
    pub fields: Match<'a>,
    /// What it does with them.
    pub instructions: List<'a, Instruction<'a>>,
}

impl<'a> Item<'a> for FlowStats<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(0, 56, 8)?;
        from.skip(2)?;
        let table = TableId::get(from)?;
        from.skip(1)?;
        let (duration, priority) = (Span::get(from)?, from.u16()?);
        let (idle_timeout_s, hard_timeout_s) = (from.u16()?, from.u16()?);
        let flags = FlowFlags::get(from)?;
        from.skip(4)?;
        Ok(Self {
            table,
            duration,
            priority,
            idle_timeout_s,
            hard_timeout_s,
            flags,
            cookie: from.u64()?,
            packets: from.u64()?,
            frame_bytes: from.u64()?,
            fields: Match::decode_match(from)?,
            instructions: List::decode(from)?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u16, self.table, 0u8, self.duration, self.priority);
            put!(out, self.idle_timeout_s, self.hard_timeout_s, self.flags, 0u32);
            put!(out, self.cookie, self.packets, self.frame_bytes);
            self.fields.encode_match(out);
            self.instructions.encode(out);
        });
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

/// A group's counters (7.3.5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupStats<'a> {
    /// The group.
    pub group: GroupId,
    /// Flow entries and groups that lead to it.
    pub references: u32,
    /// Packets that it took.
    pub packets: u64,
    /// Bytes of frames that it took.
    pub frame_bytes: u64,
    /// How long it has lived.
    pub duration: Span,
    /// The counters of its buckets.
    pub buckets: List<'a, BucketStats>,
}

impl<'a> Item<'a> for GroupStats<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(0, 40, 8)?;
        from.skip(4)?;
        let (group, references) = (GroupId::get(from)?, from.u32()?);
        from.skip(4)?;
        Ok(Self {
            group,
            references,
            packets: from.u64()?,
            frame_bytes: from.u64()?,
            duration: Span::get(from)?,
            buckets: List::decode(from)?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u32, self.group, self.references, 0u32);
            put!(out, self.packets, self.frame_bytes, self.duration);
            self.buckets.encode(out);
        });
    }
}

/// A group (7.3.5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDesc<'a> {
    /// How it chooses.
    pub kind: GroupKind,
    /// Its number.
    pub group: GroupId,
    /// Its buckets.
    pub buckets: List<'a, Bucket<'a>>,
}

impl<'a> Item<'a> for GroupDesc<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(0, 8, 8)?;
        from.skip(2)?;
        let kind = GroupKind::get(from)?;
        from.skip(1)?;
        Ok(Self { kind, group: GroupId::get(from)?, buckets: List::decode(from)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u16, self.kind, 0u8, self.group);
            self.buckets.encode(out);
        });
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

/// A meter's counters (7.3.5.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterStats<'a> {
    /// The meter.
    pub meter: MeterId,
    /// Flow entries that use it.
    pub flows: u32,
    /// Packets that came.
    pub packets: u64,
    /// Bytes of frames that came.
    pub frame_bytes: u64,
    /// How long it has lived.
    pub duration: Span,
    /// The counters of its bands.
    pub bands: List<'a, BandStats>,
}

impl<'a> Item<'a> for MeterStats<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(4, 40, 8)?;
        let meter = MeterId::get(from)?;
        from.skip(8)?;
        Ok(Self {
            meter,
            flows: from.u32()?,
            packets: from.u64()?,
            frame_bytes: from.u64()?,
            duration: Span::get(from)?,
            bands: List::decode(from)?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 4, 8, true, |out| {
            put!(out, self.meter, 0u64, self.flows, self.packets, self.frame_bytes, self.duration);
            self.bands.encode(out);
        });
    }
}

/// A meter (7.3.5.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig<'a> {
    /// What it counts.
    pub flags: MeterFlags,
    /// Its number.
    pub meter: MeterId,
    /// Its bands.
    pub bands: List<'a, Band<'a>>,
}

impl<'a> Item<'a> for MeterConfig<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(0, 8, 8)?;
        from.skip(2)?;
        let (flags, meter) = (MeterFlags::get(from)?, MeterId::get(from)?);
        Ok(Self { flags, meter, bands: List::decode(from)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u16, self.flags, self.meter);
            self.bands.encode(out);
        });
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

/// What a table can do (7.3.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFeatures<'a> {
    /// The table.
    pub table: TableId,
    /// Its name, filled up with zeros.
    pub name: [u8; 32],
    /// The bits of metadata that it can match.
    pub metadata_match: u64,
    /// The bits of metadata that it can write.
    pub metadata_write: u64,
    /// Deprecated bits.
    pub config: u32,
    /// How many entries it can hold.
    pub max_entries: u32,
    /// Lists of what it can use.
    pub properties: List<'a, TableFeature<'a>>,
}

impl<'a> Item<'a> for TableFeatures<'a> {
    const PART: Part = Part::Multipart;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let from = &mut from.sized(0, 64, 8)?;
        from.skip(2)?;
        let table = TableId::get(from)?;
        from.skip(5)?;
        Ok(Self {
            table,
            name: from.array()?,
            metadata_match: from.u64()?,
            metadata_write: from.u64()?,
            config: from.u32()?,
            max_entries: from.u32()?,
            properties: List::decode(from)?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u16, self.table, [0; 5], self.name, self.metadata_match);
            put!(out, self.metadata_write, self.config, self.max_entries);
            self.properties.encode(out);
        });
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
