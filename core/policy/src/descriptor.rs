//! What is said of a policy in one place, its own file: everything else that names policies follows
//! from it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use model::Directive;

use crate::{Given, Parameter, Parameters, Policy, PolicyError};

/// A policy as the rest of the world knows it.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Its name in scenarios, configurations and results.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The text that it is from, and where in it; "ours" where it is from none.
    pub source: &'static str,
    /// What it can be told.
    pub parameters: &'static [Parameter],
    /// What it needs of a world beyond flows that applications announce.
    pub needs: &'static [Need],
    /// What it says.
    pub directives: &'static [DirectiveKind],
    /// Whether its rates are the max-min fair ones of all links, which the fluid world gives of itself.
    pub is_max_min: bool,
    /// Builds it. Values are of the right kind and within their bounds; what they must be together
    /// is checked here.
    pub build: fn(&Given<'_>) -> Result<Box<dyn Policy + Send>, PolicyError>,
}

impl Descriptor {
    /// The policy in its initial state.
    ///
    /// # Errors
    /// A parameter that the policy doesn't have, a value out of bounds, or values that contradict each
    /// other.
    pub fn build(&self, parameters: &Parameters) -> Result<Box<dyn Policy + Send>, PolicyError> {
        parameters.check(self.parameters)?;
        (self.build)(&Given { parameters: self.parameters, given: parameters })
    }

    /// Whether it leaves everything to the transport.
    pub fn is_passive(&self) -> bool {
        self.directives.is_empty() && !self.needs(Need::Tags)
    }

    /// Whether it needs this of a world.
    pub fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    /// Whether it says directives of this kind.
    pub fn says(&self, kind: DirectiveKind) -> bool {
        self.directives.contains(&kind)
    }

    /// Whether a live controller can enforce all that it says. What it needs is not looked at, nor that
    /// switches decide by themselves ([`Watch::local`](crate::Watch::local)): live, the controller does.
    pub fn is_live(&self) -> bool {
        self.why_not_live().is_none()
    }

    /// Why a live controller can't enforce all that it says, if so.
    pub fn why_not_live(&self) -> Option<String> {
        if self.needs(Need::Tags) {
            return Some(format!("nothing heeds {} outside a simulation", Need::Tags));
        }
        let kind = self.directives.iter().find(|kind| kind.live_actuator().is_none())?;
        Some(match kind {
            DirectiveKind::Gather => {
                format!("{kind} is no matter of the controller: watermaster gather runs the policy")
            }
            _ => format!("nothing enforces {kind} outside a simulation"),
        })
    }
}

impl PartialEq for Descriptor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Descriptor {}

/// What a policy may need of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Connections whose SYN and FIN pass a switch that reports them.
    Handshakes,
    /// Switches that report congested or filled ports.
    PortReports,
    /// Hosts that report what waits for whom.
    WaitingPackets,
    /// Streams whose queues are sampled.
    StreamSamples,
    /// Hosts that write tags into packets, and ports that serve by them ([`Tags`](crate::Tags)).
    Tags,
    /// Requests that fan out, and an application that gathers the answers.
    Requests,
    /// Hubs beside the servers, which collect and pass on.
    Hubs,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshakes => "switches that report SYN and FIN",
            Self::PortReports => "switches that report the queues of their ports",
            Self::WaitingPackets => "hosts that report what waits for whom",
            Self::StreamSamples => "streams whose queues are sampled",
            Self::Tags => "tags in packets by which ports serve",
            Self::Requests => "requests that fan out",
            Self::Hubs => "hubs beside the servers",
        })
    }
}

/// What a policy can say: the variants of [`Directive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectiveKind {
    /// [`Directive::Pace`].
    Pace,
    /// [`Directive::Prioritize`].
    Prioritize,
    /// [`Directive::Window`].
    Window,
    /// [`Directive::Prepare`].
    Prepare,
    /// [`Directive::Space`].
    Space,
    /// [`Directive::Grant`].
    Grant,
    /// [`Directive::PacePair`].
    PacePair,
    /// [`Directive::Gather`].
    Gather,
}

impl DirectiveKind {
    /// What enforces it under a live controller; `None`: nothing does. What [`Gather`](Self::Gather) says
    /// `watermaster gather` obeys, which needs no controller. The packet world enforces all, [`Grant`](Self::Grant) and
    /// [`PacePair`](Self::PacePair) where packets wait at their hosts; the fluid world [`Pace`](Self::Pace) alone.
    pub const fn live_actuator(self) -> Option<&'static str> {
        match self {
            Self::Pace | Self::PacePair => Some("agents that pace, or meters at switches"),
            Self::Prioritize => Some("agents that serve by priority"),
            Self::Window | Self::Prepare => Some("agents or switches that rewrite windows"),
            Self::Space => Some("agents that space acknowledgements"),
            Self::Grant | Self::Gather => None,
        }
    }
}

impl From<&Directive> for DirectiveKind {
    fn from(directive: &Directive) -> Self {
        match directive {
            Directive::Pace { .. } => Self::Pace,
            Directive::Prioritize { .. } => Self::Prioritize,
            Directive::Window { .. } => Self::Window,
            Directive::Prepare { .. } => Self::Prepare,
            Directive::Space { .. } => Self::Space,
            Directive::Grant { .. } => Self::Grant,
            Directive::PacePair { .. } => Self::PacePair,
            Directive::Gather { .. } => Self::Gather,
        }
    }
}

impl fmt::Display for DirectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pace => "rates of flows",
            Self::Prioritize => "priorities of flows",
            Self::Window => "windows at switches",
            Self::Prepare => "prepared windows at switches",
            Self::Space => "spacing of acknowledgements",
            Self::Grant => "timeslots",
            Self::PacePair => "rates of pairs of hosts",
            Self::Gather => "how requests are gathered",
        })
    }
}
