//! `[control]`: whether the policy decides alone or within the whole controller, and how decisions
//! reach the flows.

use ::control::Enforcement;
use document::DocumentError;
use document::fields::{Value, between};
use model::Topology;
use packet::Limiter;
use policy::{DirectiveKind, Need};
use simulated_controller::{Faults, Often};
use units::{Bytes, Span};

use super::policy::PolicySpec;

/// The way from a decision to the flow it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// One-way delay between hosts and controller.
    pub delay: Span,
    /// Processing time of each message; one at a time.
    pub processing: Span,
    /// What limits a flow.
    pub enforcement: Limiter,
    /// The simulated controller; `None`: the policy decides alone.
    pub simulated: Option<Simulated>,
}

/// The whole controller in the simulated world, with agents and channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// How long agents keep what they were told without hearing from the controller.
    pub lease: Span,
    /// What goes wrong.
    pub faults: Faults,
}

/// Control without delay, the default.
pub(super) const CONTROL: Control = Control {
    delay: Span::ZERO,
    processing: Span::ZERO,
    enforcement: Limiter::Pacing,
    simulated: None,
};

pub(super) fn read(value: &Value<'_>) -> Result<Control, DocumentError> {
    let mut fields = value.fields()?;
    let delay = fields.or("delay", Span::ZERO, |v| between(v, Span::ZERO, Span::from_secs(10)))?;
    let processing =
        fields.or("processing", Span::ZERO, |v| between(v, Span::ZERO, Span::from_secs(10)))?;
    let enforcement =
        fields.or("enforcement", Enforcement::default(), |v| v.choice(Enforcement::NAMED))?;
    // Said of pacing it means nothing, but lets one key change the other way of enforcing.
    let burst = fields.optional("burst", |v| between(v, Bytes::new(64), Bytes::new(1 << 30)))?;
    let enforcement = match (enforcement, burst) {
        (Enforcement::Pacing, _) => Limiter::Pacing,
        (Enforcement::Meters, Some(burst)) => Limiter::Meter { burst },
        (Enforcement::Meters, None) => {
            return Err(fields
                .need("burst", "\"15 KB\"")
                .err()
                .unwrap_or_else(|| fields.error("")));
        }
    };
    let is_simulated =
        fields.or("controller", false, |v| v.choice(&[("none", false), ("simulated", true)]))?;
    let simulated = if is_simulated {
        let lease = fields.or("lease", ::control::LEASE, |v| {
            between(v, Span::from_millis(10), Span::from_secs(3_600))
        })?;
        Some(Simulated { lease, faults: fields.or("faults", Faults::default(), read_faults)? })
    } else {
        None
    };
    fields.done()?;
    Ok(Control { delay, processing, enforcement, simulated })
}

fn read_faults(value: &Value<'_>) -> Result<Faults, DocumentError> {
    let mut fields = value.fields()?;
    let faults = Faults {
        jitter: fields.or("jitter", Span::ZERO, |v| between(v, Span::ZERO, Span::from_secs(60)))?,
        loss: fields.or("loss", 0.0, |v| v.number(0.0..=0.9))?,
        cut: fields.optional("cut", read_often)?,
        death: fields.optional("death", read_often)?,
        crash: fields.optional("crash", read_often)?,
        failure: fields.or("failure", 0.0, |v| v.number(0.0..=0.9))?,
    };
    fields.done()?;
    Ok(faults)
}

fn read_often(value: &Value<'_>) -> Result<Often, DocumentError> {
    let mut fields = value.fields()?;
    let hour = Span::from_secs(3_600);
    let every = fields.need("every", "\"10 s\"")?;
    let most = fields.need("most", "\"3 s\"")?;
    let often = Often {
        every: between(&every, Span::from_millis(10), hour)?,
        most: between(&most, Span::ZERO, hour)?,
    };
    fields.done()?;
    Ok(often)
}

/// Refuses what the simulated controller can't do.
pub(super) fn check(
    value: &Value<'_>,
    topology: &Topology,
    policies: &[PolicySpec],
) -> Result<(), DocumentError> {
    // A tree, with a link for each direction.
    if topology.links().len() + 2 != topology.nodes().len() * 2 {
        let what = "the simulated controller needs a topology with one path between any two hosts; \
                    use a star, two racks or another tree";
        return Err(value.error(what));
    }
    if let Some(spec) = policies.iter().find(|spec| spec.counts_ports()) {
        return Err(value.error(format_args!(
            "{} with cross needs counters of ports, of which the simulated controller isn't told; remove \
             controller or cross",
            spec.policy.name
        )));
    }
    let enforced = [DirectiveKind::Pace, DirectiveKind::Prioritize];
    let refused = policies.iter().find(|spec| {
        spec.transport.held
            || spec.policy.needs(Need::Tags)
            || spec.policy.directives.iter().any(|kind| !enforced.contains(kind))
    });
    refused.map_or(Ok(()), |spec| {
        Err(value.error(format_args!(
            "{} decides about more than rates and priorities, which the simulated controller can't \
             enforce; remove controller or the policy",
            spec.policy.name
        )))
    })
}
