//! One message with its header (7.1).

use alloc::vec::Vec;
use core::fmt;

use crate::error::ErrorMessage;
use crate::flow::{FlowMod, FlowRemoved, TableId};
use crate::group::GroupMod;
use crate::hello::Hello;
use crate::meter::MeterMod;
use crate::multipart::{MultipartKind, Reply, Request};
use crate::packet::{PacketIn, PacketOut};
use crate::port::{PortMod, PortNo, PortStatus};
use crate::queue::Queue;
use crate::wire::{Body, Fault, List, Malformed, Part, Plain, Reader, code, plain, put, sized};
use crate::{HEADER_BYTES, VERSION};

code! {
    /// The type in a header (`ofp_type`).
    MessageType(u8) {
        /// [`Message::Hello`].
        HELLO = 0;
        /// [`Message::Error`].
        ERROR = 1;
        /// [`Message::EchoRequest`].
        ECHO_REQUEST = 2;
        /// [`Message::EchoReply`].
        ECHO_REPLY = 3;
        /// [`Message::Experimenter`].
        EXPERIMENTER = 4;
        /// [`Message::FeaturesRequest`].
        FEATURES_REQUEST = 5;
        /// [`Message::FeaturesReply`].
        FEATURES_REPLY = 6;
        /// [`Message::GetConfigRequest`].
        GET_CONFIG_REQUEST = 7;
        /// [`Message::GetConfigReply`].
        GET_CONFIG_REPLY = 8;
        /// [`Message::SetConfig`].
        SET_CONFIG = 9;
        /// [`Message::PacketIn`].
        PACKET_IN = 10;
        /// [`Message::FlowRemoved`].
        FLOW_REMOVED = 11;
        /// [`Message::PortStatus`].
        PORT_STATUS = 12;
        /// [`Message::PacketOut`].
        PACKET_OUT = 13;
        /// [`Message::FlowMod`].
        FLOW_MOD = 14;
        /// [`Message::GroupMod`].
        GROUP_MOD = 15;
        /// [`Message::PortMod`].
        PORT_MOD = 16;
        /// [`Message::TableMod`].
        TABLE_MOD = 17;
        /// [`Message::MultipartRequest`].
        MULTIPART_REQUEST = 18;
        /// [`Message::MultipartReply`].
        MULTIPART_REPLY = 19;
        /// [`Message::BarrierRequest`].
        BARRIER_REQUEST = 20;
        /// [`Message::BarrierReply`].
        BARRIER_REPLY = 21;
        /// [`Message::QueueGetConfigRequest`].
        QUEUE_GET_CONFIG_REQUEST = 22;
        /// [`Message::QueueGetConfigReply`].
        QUEUE_GET_CONFIG_REPLY = 23;
        /// [`Message::RoleRequest`].
        ROLE_REQUEST = 24;
        /// [`Message::RoleReply`].
        ROLE_REPLY = 25;
        /// [`Message::GetAsyncRequest`].
        GET_ASYNC_REQUEST = 26;
        /// [`Message::GetAsyncReply`].
        GET_ASYNC_REPLY = 27;
        /// [`Message::SetAsync`].
        SET_ASYNC = 28;
        /// [`Message::MeterMod`].
        METER_MOD = 29;
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The first of each side (7.5.1).
    Hello(Hello<'a>),
    /// What could not be done.
    Error(ErrorMessage<'a>),
    /// Are you there? (7.5.2)
    EchoRequest(&'a [u8]),
    /// I am; with the content of the question (7.5.3).
    EchoReply(&'a [u8]),
    /// Something of somebody else's.
    Experimenter(Experimenter<'a>),
    /// Who are you? (7.3.1)
    FeaturesRequest,
    /// This I am.
    FeaturesReply(Features),
    /// How are you set? (7.3.2)
    GetConfigRequest,
    /// Like this.
    GetConfigReply(SwitchConfig),
    /// Be set like this.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn<'a>),
    /// A flow entry has gone.
    FlowRemoved(FlowRemoved<'a>),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// A packet to send.
    PacketOut(PacketOut<'a>),
    /// Flow entries to change.
    FlowMod(FlowMod<'a>),
    /// A group to change.
    GroupMod(GroupMod<'a>),
    /// A port to change.
    PortMod(PortMod),
    /// A table to change (7.3.3).
    TableMod(TableMod),
    /// A request for statistics or descriptions.
    MultipartRequest {
        /// The request goes on in another message.
        more: bool,
        /// What is asked for.
        body: Request<'a>,
    },
    /// Statistics or descriptions.
    MultipartReply {
        /// The reply goes on in another message.
        more: bool,
        /// This part.
        body: Reply<'a>,
    },
    /// Finish what came before (7.3.8).
    BarrierRequest,
    /// It is finished.
    BarrierReply,
    /// Which queues has this port? (7.3.6)
    QueueGetConfigRequest(PortNo),
    /// These.
    QueueGetConfigReply {
        /// The port that was asked for.
        port: PortNo,
        /// The queues.
        queues: List<'a, Queue<'a>>,
    },
    /// A role that the controller wants (7.3.9).
    RoleRequest(RoleMessage),
    /// The role that it has.
    RoleReply(RoleMessage),
    /// Which messages do you send unasked? (7.3.10)
    GetAsyncRequest,
    /// These.
    GetAsyncReply(AsyncConfig),
    /// Send these.
    SetAsync(AsyncConfig),
    /// A meter to change.
    MeterMod(MeterMod<'a>),
}

/// A message of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experimenter<'a> {
    /// Whose.
    pub experimenter: u32,
    /// Which.
    pub kind: u32,
    /// What.
    pub body: &'a [u8],
}

impl<'a> Body<'a> for Experimenter<'a> {
    fn decode_body(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { experimenter: from.u32()?, kind: from.u32()?, body: from.rest() })
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        put!(out, self.experimenter, self.kind);
        out.extend_from_slice(self.body);
    }
}

plain! {
    /// What a switch is (7.3.1).
    Features in Message {
        /// Its number; the lower 48 bits are an Ethernet address.
        datapath_id: u64;
        /// Packets that it can keep for the controller.
        n_buffers: u32;
        /// Its tables.
        n_tables: u8;
        /// 0 for the main connection.
        auxiliary_id: u8, pad 2;
        /// Capabilities, as bits (`ofp_capabilities`).
        capabilities: u32;
        /// Nothing.
        reserved: u32;
    }
}

plain! {
    /// How a switch is set (7.3.2).
    SwitchConfig in Message {
        /// What to do with IP fragments: 0 nothing, 1 drop, 2 reassemble.
        flags: u16;
        /// Bytes of a packet without an entry that go to the controller.
        miss_send_len: u16;
    }
}

plain! {
    /// Changes a table: nothing in 1.3 (7.3.3).
    TableMod in Message {
        /// The table.
        table: TableId, pad 3;
        /// Deprecated bits.
        config: u32;
    }
}

code! {
    /// What a controller may do (7.3.9).
    Role(u32) {
        /// As before.
        NO_CHANGE = 0;
        /// Everything, as others may.
        EQUAL = 1;
        /// Everything, alone.
        MASTER = 2;
        /// Only read.
        SLAVE = 3;
    }
}

plain! {
    /// A role and how new the claim to it is.
    RoleMessage in Message {
        /// The role.
        role: Role, pad 4;
        /// A number that grows with every election.
        generation_id: u64;
    }
}

plain! {
    /// Which messages come unasked: bits of reasons, first as master or equal, then as slave (7.3.10).
    AsyncConfig in Message {
        /// Packet-In to a master or equal.
        packet_in: u32;
        /// Packet-In to a slave.
        packet_in_slave: u32;
        /// Port-Status to a master or equal.
        port_status: u32;
        /// Port-Status to a slave.
        port_status_slave: u32;
        /// Flow-Removed to a master or equal.
        flow_removed: u32;
        /// Flow-Removed to a slave.
        flow_removed_slave: u32;
    }
}

/// A message would take more than the 65535 bytes that its header can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an OpenFlow message can't be longer than 65535 bytes: send it in parts")
    }
}

impl core::error::Error for TooLong {}

/// The flag of a multipart message that is not the last one.
const MORE: u16 = 1;

impl<'a> Message<'a> {
    /// Reads one message, header and all, and the number that ties a reply to its request.
    ///
    /// `bytes` must be the whole message and nothing else. A hello or an error may be of any
    /// version.
    pub fn decode(bytes: &'a [u8]) -> Result<(u32, Self), Malformed> {
        let mut whole = Reader::new(bytes, Part::Message);
        let mut from = whole.sized(2, HEADER_BYTES, 1)?;
        if whole.len() > 0 {
            return Err(whole.fault(Fault::Length));
        }
        let (version, kind) = (from.u8()?, MessageType::get(&mut from)?);
        from.skip(2)?;
        let xid = from.u32()?;
        let early = matches!(kind, MessageType::HELLO | MessageType::ERROR);
        if version != VERSION && !early {
            return Err(from.fault(Fault::Version));
        }
        let message = Self::body(version, kind, &mut from)?;
        if from.len() > 0 {
            return Err(Malformed { part: Part::Message, fault: Fault::Length });
        }
        Ok((xid, message))
    }

    fn body(version: u8, kind: MessageType, from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            MessageType::HELLO => Self::Hello(Hello { version, elements: List::decode(from)? }),
            MessageType::ERROR => Self::Error(ErrorMessage::decode(from)?),
            MessageType::ECHO_REQUEST => Self::EchoRequest(from.rest()),
            MessageType::ECHO_REPLY => Self::EchoReply(from.rest()),
            MessageType::EXPERIMENTER => Self::Experimenter(Experimenter::decode_body(from)?),
            MessageType::FEATURES_REQUEST => Self::FeaturesRequest,
            MessageType::FEATURES_REPLY => Self::FeaturesReply(Plain::get(from)?),
            MessageType::GET_CONFIG_REQUEST => Self::GetConfigRequest,
            MessageType::GET_CONFIG_REPLY => Self::GetConfigReply(Plain::get(from)?),
            MessageType::SET_CONFIG => Self::SetConfig(Plain::get(from)?),
            MessageType::PACKET_IN => Self::PacketIn(PacketIn::decode(from)?),
            MessageType::FLOW_REMOVED => Self::FlowRemoved(FlowRemoved::decode_body(from)?),
            MessageType::PORT_STATUS => Self::PortStatus(Plain::get(from)?),
            MessageType::PACKET_OUT => Self::PacketOut(PacketOut::decode(from)?),
            MessageType::FLOW_MOD => Self::FlowMod(FlowMod::decode_body(from)?),
            MessageType::GROUP_MOD => Self::GroupMod(GroupMod::decode_body(from)?),
            MessageType::PORT_MOD => Self::PortMod(Plain::get(from)?),
            MessageType::TABLE_MOD => Self::TableMod(Plain::get(from)?),
            MessageType::MULTIPART_REQUEST => {
                let (kind, flags) = (MultipartKind::get(from)?, from.u16()?);
                from.skip(4)?;
                let body = Request::decode(kind, from)?;
                Self::MultipartRequest { more: flags & MORE != 0, body }
            }
            MessageType::MULTIPART_REPLY => {
                let (kind, flags) = (MultipartKind::get(from)?, from.u16()?);
                from.skip(4)?;
                let body = Reply::decode(kind, from)?;
                Self::MultipartReply { more: flags & MORE != 0, body }
            }
            MessageType::BARRIER_REQUEST => Self::BarrierRequest,
            MessageType::BARRIER_REPLY => Self::BarrierReply,
            MessageType::QUEUE_GET_CONFIG_REQUEST => {
                let port = PortNo::get(from)?;
                from.skip(4)?;
                Self::QueueGetConfigRequest(port)
            }
            MessageType::QUEUE_GET_CONFIG_REPLY => {
                let port = PortNo::get(from)?;
                from.skip(4)?;
                Self::QueueGetConfigReply { port, queues: List::decode(from)? }
            }
            MessageType::ROLE_REQUEST => Self::RoleRequest(Plain::get(from)?),
            MessageType::ROLE_REPLY => Self::RoleReply(Plain::get(from)?),
            MessageType::GET_ASYNC_REQUEST => Self::GetAsyncRequest,
            MessageType::GET_ASYNC_REPLY => Self::GetAsyncReply(Plain::get(from)?),
            MessageType::SET_ASYNC => Self::SetAsync(Plain::get(from)?),
            MessageType::METER_MOD => Self::MeterMod(MeterMod::decode_body(from)?),
            _ => return Err(from.fault(Fault::Type)),
        })
    }

    /// The type in the header.
    pub const fn kind(&self) -> MessageType {
        match self {
            Self::Hello(_) => MessageType::HELLO,
            Self::Error(_) => MessageType::ERROR,
            Self::EchoRequest(_) => MessageType::ECHO_REQUEST,
            Self::EchoReply(_) => MessageType::ECHO_REPLY,
            Self::Experimenter(_) => MessageType::EXPERIMENTER,
            Self::FeaturesRequest => MessageType::FEATURES_REQUEST,
            Self::FeaturesReply(_) => MessageType::FEATURES_REPLY,
            Self::GetConfigRequest => MessageType::GET_CONFIG_REQUEST,
            Self::GetConfigReply(_) => MessageType::GET_CONFIG_REPLY,
            Self::SetConfig(_) => MessageType::SET_CONFIG,
            Self::PacketIn(_) => MessageType::PACKET_IN,
            Self::FlowRemoved(_) => MessageType::FLOW_REMOVED,
            Self::PortStatus(_) => MessageType::PORT_STATUS,
            Self::PacketOut(_) => MessageType::PACKET_OUT,
            Self::FlowMod(_) => MessageType::FLOW_MOD,
            Self::GroupMod(_) => MessageType::GROUP_MOD,
            Self::PortMod(_) => MessageType::PORT_MOD,
            Self::TableMod(_) => MessageType::TABLE_MOD,
            Self::MultipartRequest { .. } => MessageType::MULTIPART_REQUEST,
            Self::MultipartReply { .. } => MessageType::MULTIPART_REPLY,
            Self::BarrierRequest => MessageType::BARRIER_REQUEST,
            Self::BarrierReply => MessageType::BARRIER_REPLY,
            Self::QueueGetConfigRequest(_) => MessageType::QUEUE_GET_CONFIG_REQUEST,
            Self::QueueGetConfigReply { .. } => MessageType::QUEUE_GET_CONFIG_REPLY,
            Self::RoleRequest(_) => MessageType::ROLE_REQUEST,
            Self::RoleReply(_) => MessageType::ROLE_REPLY,
            Self::GetAsyncRequest => MessageType::GET_ASYNC_REQUEST,
            Self::GetAsyncReply(_) => MessageType::GET_ASYNC_REPLY,
            Self::SetAsync(_) => MessageType::SET_ASYNC,
            Self::MeterMod(_) => MessageType::METER_MOD,
        }
    }

    /// Appends the message. Nothing is appended when it is too long.
    pub fn encode(&self, xid: u32, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        let version = if let Self::Hello(hello) = self { hello.version } else { VERSION };
        sized(out, 2, 1, true, |out| {
            put!(out, version, self.kind(), 0u16, xid);
            self.encode_body(out);
        });
        if out.len() - start > usize::from(u16::MAX) {
            out.truncate(start);
            return Err(TooLong);
        }
        Ok(())
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => hello.elements.encode(out),
            Self::Error(error) => error.encode(out),
            Self::EchoRequest(data) | Self::EchoReply(data) => out.extend_from_slice(data),
            Self::Experimenter(message) => message.encode_body(out),
            Self::FeaturesReply(features) => put!(out, *features),
            Self::GetConfigReply(config) | Self::SetConfig(config) => put!(out, *config),
            Self::PacketIn(packet) => packet.encode(out),
            Self::FlowRemoved(removed) => removed.encode_body(out),
            Self::PortStatus(status) => put!(out, *status),
            Self::PacketOut(packet) => packet.encode(out),
            Self::FlowMod(change) => change.encode_body(out),
            Self::GroupMod(change) => change.encode_body(out),
            Self::PortMod(change) => put!(out, *change),
            Self::TableMod(change) => put!(out, *change),
            Self::MultipartRequest { more, body } => {
                put!(out, body.kind(), u16::from(*more) * MORE, 0u32);
                body.encode(out);
            }
            Self::MultipartReply { more, body } => {
                put!(out, body.kind(), u16::from(*more) * MORE, 0u32);
                body.encode(out);
            }
            Self::QueueGetConfigRequest(port) => put!(out, *port, 0u32),
            Self::QueueGetConfigReply { port, queues } => {
                put!(out, *port, 0u32);
                queues.encode(out);
            }
            Self::RoleRequest(role) | Self::RoleReply(role) => put!(out, *role),
            Self::GetAsyncReply(config) | Self::SetAsync(config) => put!(out, *config),
            Self::MeterMod(change) => change.encode_body(out),
            Self::FeaturesRequest
            | Self::GetConfigRequest
            | Self::BarrierRequest
            | Self::BarrierReply
            | Self::GetAsyncRequest => {}
        }
    }
}
