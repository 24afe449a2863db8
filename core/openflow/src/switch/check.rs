//! What a switch refuses: matches, instructions and actions that can't be.

use alloc::vec::Vec;

use crate::action::{Action, Instruction};
use crate::error::ErrorCode;
use crate::oxm::{Field, Kind, Match, Oxm};
use crate::port::PortNo;
use crate::wire::List;

const IP: &[u128] = &[0x0800, 0x86dd];
const IPV4: &[u128] = &[0x0800];
const IPV6: &[u128] = &[0x86dd];
const ARP: &[u128] = &[0x0806];

/// Fields that say what a packet is, not what it holds.
const READ_ONLY: &[Kind] =
    &[Kind::InPort, Kind::Metadata, Kind::EthType, Kind::IpProto, Kind::TcpFlags, Kind::NxTcpFlags];

/// The field that another presupposes, and the values that it may have (7.2.3.6); `None` for a
/// field that this switch doesn't know.
fn prerequisite(kind: Kind) -> Option<Option<(Kind, &'static [u128])>> {
    Some(match kind {
        Kind::InPort
        | Kind::Metadata
        | Kind::EthDst
        | Kind::EthSrc
        | Kind::EthType
        | Kind::VlanVid => None,
        Kind::VlanPcp => Some((Kind::VlanVid, &[])),
        Kind::IpDscp | Kind::IpEcn | Kind::IpProto => Some((Kind::EthType, IP)),
        Kind::Ipv4Src | Kind::Ipv4Dst => Some((Kind::EthType, IPV4)),
        Kind::Ipv6Src | Kind::Ipv6Dst => Some((Kind::EthType, IPV6)),
        Kind::ArpOp | Kind::ArpSpa | Kind::ArpTpa | Kind::ArpSha | Kind::ArpTha => {
            Some((Kind::EthType, ARP))
        }
        Kind::TcpSrc | Kind::TcpDst | Kind::TcpFlags | Kind::NxTcpFlags => {
            Some((Kind::IpProto, &[6]))
        }
        Kind::UdpSrc | Kind::UdpDst => Some((Kind::IpProto, &[17])),
        Kind::SctpSrc | Kind::SctpDst => Some((Kind::IpProto, &[132])),
        Kind::Icmpv4Type | Kind::Icmpv4Code => Some((Kind::IpProto, &[1])),
        Kind::Icmpv6Type | Kind::Icmpv6Code => Some((Kind::IpProto, &[58])),
        _ => return None,
    })
}

/// The fields of a match in the order of their kinds, without those that select nothing.
pub(super) fn fields(fields: &Match<'_>) -> Result<Vec<Field>, ErrorCode> {
    let mut all: Vec<Field> = Vec::new();
    for oxm in fields.iter() {
        let Oxm::Field(mut field) = oxm else {
            return Err(ErrorCode::MATCH_BAD_FIELD);
        };
        if field.kind == Kind::NxTcpFlags {
            field.kind = Kind::TcpFlags;
        }
        if all.iter().any(|other| other.kind == field.kind) {
            return Err(ErrorCode::MATCH_DUPLICATE_FIELD);
        }
        if field.value & !field.wild() != 0 {
            return Err(ErrorCode::MATCH_BAD_WILDCARDS);
        }
        if let Some((needed, values)) =
            prerequisite(field.kind).ok_or(ErrorCode::MATCH_BAD_FIELD)?
        {
            // A prerequisite stands before the field that needs it.
            let meets = |other: &Field| {
                let valued = other.mask.is_none() && values.contains(&other.value);
                other.kind == needed && (values.is_empty() || valued)
            };
            if !all.iter().any(meets) {
                return Err(ErrorCode::MATCH_BAD_PREREQUISITE);
            }
        }
        if field.wild() == field.kind.full() {
            field.mask = None;
        }
        all.push(field);
    }
    all.retain(|field| field.wild() != 0);
    all.sort_unstable();
    Ok(all)
}

/// What the checks of actions need to know of the switch.
pub(super) struct Known<'a> {
    pub has_group: &'a dyn Fn(u32) -> bool,
    pub has_meter: &'a dyn Fn(u32) -> bool,
    pub tables: u8,
}

impl Known<'_> {
    /// Refuses actions that the switch can't do. `out` is true in a Packet-Out.
    pub fn actions(&self, actions: &List<'_, Action<'_>>, out: bool) -> Result<(), ErrorCode> {
        actions.iter().try_for_each(|action| self.action(&action, out))
    }

    fn action(&self, action: &Action<'_>, out: bool) -> Result<(), ErrorCode> {
        match action {
            Action::Output { port, .. } => {
                let possible = match *port {
                    PortNo::TABLE => out,
                    PortNo::IN_PORT | PortNo::FLOOD | PortNo::ALL => true,
                    PortNo::CONTROLLER | PortNo::LOCAL => true,
                    port => port <= PortNo::MAX,
                };
                if possible { Ok(()) } else { Err(ErrorCode::ACTION_BAD_OUT_PORT) }
            }
            Action::Group(group) if (self.has_group)(group.0) => Ok(()),
            Action::Group(_) => Err(ErrorCode::ACTION_BAD_OUT_GROUP),
            Action::SetField(Oxm::Field(field)) => match prerequisite(field.kind) {
                Some(_) if !READ_ONLY.contains(&field.kind) => Ok(()),
                _ => Err(ErrorCode::ACTION_BAD_SET_TYPE),
            },
            Action::SetField(Oxm::Other(_)) => Err(ErrorCode::ACTION_BAD_SET_TYPE),
            Action::PushVlan(0x8100 | 0x88a8) => Ok(()),
            Action::PushVlan(_) => Err(ErrorCode::ACTION_BAD_ARGUMENT),
            Action::PopVlan
            | Action::SetQueue(_)
            | Action::SetNwTtl(_)
            | Action::DecNwTtl
            | Action::CapWindow(_) => Ok(()),
            Action::PrepareWindow(caps) if caps.port <= PortNo::MAX => Ok(()),
            Action::PrepareWindow(_) => Err(ErrorCode::ACTION_BAD_ARGUMENT),
            Action::Experimenter { .. } => Err(ErrorCode::ACTION_BAD_EXPERIMENTER),
            _ => Err(ErrorCode::ACTION_BAD_TYPE),
        }
    }

    /// Refuses instructions that the switch can't do in this table.
    pub fn instructions(
        &self,
        table: u8,
        instructions: &List<'_, Instruction<'_>>,
    ) -> Result<(), ErrorCode> {
        for instruction in instructions.iter() {
            match instruction {
                Instruction::GotoTable(next) if next.0 > table && next.0 < self.tables => {}
                Instruction::GotoTable(_) => return Err(ErrorCode::INSTRUCTION_BAD_TABLE),
                Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                    self.actions(&actions, false)?;
                }
                Instruction::Meter(meter) if !(self.has_meter)(meter.0) => {
                    return Err(ErrorCode::INVALID_METER);
                }
                Instruction::Experimenter { .. } => {
                    return Err(ErrorCode::INSTRUCTION_BAD_EXPERIMENTER);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
