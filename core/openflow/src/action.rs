//! Actions and instructions (7.2.4, 7.2.5).

use alloc::vec::Vec;

use crate::flow::TableId;
use crate::group::GroupId;
use crate::meter::MeterId;
use crate::oxm::Oxm;
use crate::port::PortNo;
use crate::queue::QueueId;
use crate::sdtcp::{CAP_WINDOW, CapWindow, PREPARE_WINDOW, PrepareWindow, WATERMASTER};
use crate::wire::{Fault, Item, List, Malformed, Part, Plain, Reader, pad, put, sized};

const EXPERIMENTER: u16 = 0xffff;

/// What is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Sends it out of a port.
    Output {
        /// The port, which may be a reserved one.
        port: PortNo,
        /// How many bytes of it a controller gets; [`Action::WHOLE`] for all.
        max_len: u16,
    },
    /// Copies the time to live outwards.
    CopyTtlOut,
    /// Copies the time to live inwards.
    CopyTtlIn,
    /// Sets the time to live of the outermost MPLS header.
    SetMplsTtl(u8),
    /// Takes one from it.
    DecMplsTtl,
    /// Adds a VLAN tag with this Ethernet type.
    PushVlan(u16),
    /// Takes the outermost VLAN tag off.
    PopVlan,
    /// Adds an MPLS header with this Ethernet type.
    PushMpls(u16),
    /// Takes the outermost MPLS header off; this Ethernet type comes out.
    PopMpls(u16),
    /// Chooses the queue of the port that the packet leaves by.
    SetQueue(QueueId),
    /// Hands it to a group.
    Group(GroupId),
    /// Sets the IP time to live.
    SetNwTtl(u8),
    /// Takes one from it.
    DecNwTtl,
    /// Overwrites a header field.
    SetField(Oxm<'a>),
    /// Adds a provider backbone tag with this Ethernet type.
    PushPbb(u16),
    /// Takes it off.
    PopPbb,
    /// Caps the window that a TCP acknowledgement advertises.
    CapWindow(CapWindow),
    /// Caps it by how congested a port is.
    PrepareWindow(PrepareWindow),
    /// An action of somebody else.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// What; padded to a multiple of 8 bytes when written.
        body: &'a [u8],
    },
}

impl<'a> Action<'a> {
    /// `OFPCML_NO_BUFFER`: a controller gets the whole packet.
    pub const WHOLE: u16 = 0xffff;

    /// Sends the packet out of a port.
    pub const fn output(port: PortNo) -> Self {
        Self::Output { port, max_len: 0 }
    }

    /// Sends the whole packet to the controllers.
    pub const fn to_controller() -> Self {
        Self::Output { port: PortNo::CONTROLLER, max_len: Self::WHOLE }
    }
}

impl<'a> Item<'a> for Action<'a> {
    const PART: Part = Part::Action;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut body = from.part(Part::Action).sized(2, 8, 8)?;
        let kind = body.u16()?;
        body.skip(2)?;
        let from = &mut body;
        Ok(match kind {
            0 => Self::Output { port: PortNo::get(from)?, max_len: from.u16()? },
            11 => Self::CopyTtlOut,
            12 => Self::CopyTtlIn,
            15 => Self::SetMplsTtl(from.u8()?),
            16 => Self::DecMplsTtl,
            17 => Self::PushVlan(from.u16()?),
            18 => Self::PopVlan,
            19 => Self::PushMpls(from.u16()?),
            20 => Self::PopMpls(from.u16()?),
            21 => Self::SetQueue(QueueId::get(from)?),
            22 => Self::Group(GroupId::get(from)?),
            23 => Self::SetNwTtl(from.u8()?),
            24 => Self::DecNwTtl,
            25 => Self::SetField(Oxm::decode(from)?),
            26 => Self::PushPbb(from.u16()?),
            27 => Self::PopPbb,
            EXPERIMENTER => {
                let experimenter = from.u32()?;
                let mut own = *from;
                match (experimenter, own.u16()) {
                    (WATERMASTER, Ok(CAP_WINDOW)) => Self::CapWindow(CapWindow::decode(&mut own)?),
                    (WATERMASTER, Ok(PREPARE_WINDOW)) => {
                        Self::PrepareWindow(PrepareWindow::decode(&mut own)?)
                    }
                    _ => Self::Experimenter { experimenter, body: from.rest() },
                }
            }
            _ => return Err(from.fault(Fault::Type)),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, true, |out| match *self {
            Self::Output { port, max_len } => {
                put!(out, 0u16, 0u16, port, max_len);
                pad(out, 6);
            }
            Self::CopyTtlOut => put!(out, 11u16, 0u16),
            Self::CopyTtlIn => put!(out, 12u16, 0u16),
            Self::SetMplsTtl(ttl) => put!(out, 15u16, 0u16, ttl),
            Self::DecMplsTtl => put!(out, 16u16, 0u16),
            Self::PushVlan(kind) => put!(out, 17u16, 0u16, kind),
            Self::PopVlan => put!(out, 18u16, 0u16),
            Self::PushMpls(kind) => put!(out, 19u16, 0u16, kind),
            Self::PopMpls(kind) => put!(out, 20u16, 0u16, kind),
            Self::SetQueue(queue) => put!(out, 21u16, 0u16, queue),
            Self::Group(group) => put!(out, 22u16, 0u16, group),
            Self::SetNwTtl(ttl) => put!(out, 23u16, 0u16, ttl),
            Self::DecNwTtl => put!(out, 24u16, 0u16),
            Self::SetField(field) => {
                put!(out, 25u16, 0u16);
                field.encode(out);
            }
            Self::PushPbb(kind) => put!(out, 26u16, 0u16, kind),
            Self::PopPbb => put!(out, 27u16, 0u16),
            Self::CapWindow(cap) => {
                put!(out, EXPERIMENTER, 0u16, WATERMASTER);
                cap.encode(out);
            }
            Self::PrepareWindow(caps) => {
                put!(out, EXPERIMENTER, 0u16, WATERMASTER);
                caps.encode(out);
            }
            Self::Experimenter { experimenter, body } => {
                put!(out, EXPERIMENTER, 0u16, experimenter);
                out.extend_from_slice(body);
            }
        });
    }
}

/// What a flow entry does with the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction<'a> {
    /// Goes on in a later table.
    GotoTable(TableId),
    /// Writes the bits of `mask` into the metadata.
    WriteMetadata {
        /// What is written.
        value: u64,
        /// Where.
        mask: u64,
    },
    /// Adds actions to the set that is done at the end.
    WriteActions(List<'a, Action<'a>>),
    /// Does actions now, in their order.
    ApplyActions(List<'a, Action<'a>>),
    /// Empties the set of actions.
    ClearActions,
    /// Measures the packet, and perhaps drops it.
    Meter(MeterId),
    /// An instruction of somebody else.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// What; padded to a multiple of 8 bytes when written.
        body: &'a [u8],
    },
}

impl<'a> Item<'a> for Instruction<'a> {
    const PART: Part = Part::Instruction;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut body = from.part(Part::Instruction).sized(2, 8, 8)?;
        let kind = body.u16()?;
        body.skip(2)?;
        let from = &mut body;
        Ok(match kind {
            1 => Self::GotoTable(TableId::get(from)?),
            2 => {
                from.skip(4)?;
                Self::WriteMetadata { value: from.u64()?, mask: from.u64()? }
            }
            3 | 4 => {
                from.skip(4)?;
                let actions = List::decode(from)?;
                if kind == 3 { Self::WriteActions(actions) } else { Self::ApplyActions(actions) }
            }
            5 => Self::ClearActions,
            6 => Self::Meter(MeterId::get(from)?),
            EXPERIMENTER => Self::Experimenter { experimenter: from.u32()?, body: from.rest() },
            _ => return Err(from.fault(Fault::Type)),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, true, |out| match *self {
            Self::GotoTable(table) => put!(out, 1u16, 0u16, table),
            Self::WriteMetadata { value, mask } => put!(out, 2u16, 0u16, 0u32, value, mask),
            Self::WriteActions(actions) => {
                put!(out, 3u16, 0u16, 0u32);
                actions.encode(out);
            }
            Self::ApplyActions(actions) => {
                put!(out, 4u16, 0u16, 0u32);
                actions.encode(out);
            }
            Self::ClearActions => put!(out, 5u16, 0u16),
            Self::Meter(meter) => put!(out, 6u16, 0u16, meter),
            Self::Experimenter { experimenter, body } => {
                put!(out, EXPERIMENTER, 0u16, experimenter);
                out.extend_from_slice(body);
            }
        });
    }
}
