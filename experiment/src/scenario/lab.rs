//! `[lab]`: how the lab is built and governed.

use std::path::Path;

use ::lab::{Enforcement, Governance, Switches};
use control::{LEASES, PERIODS, wrong_sample};
use document::DocumentError;
use document::fields::{Value, between};

/// How the lab is built and governed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabSettings {
    /// What forwards.
    pub switches: Switches,
    /// Whether interfaces offload segmentation.
    pub segmentation: bool,
    /// The daemons that govern it; `None`: the policy decides in the process that runs the scenario.
    pub daemons: Option<Governance>,
}

/// The table `[lab]` of a file in `folder`.
pub(super) fn read(value: &Value<'_>, folder: &Path) -> Result<LabSettings, DocumentError> {
    let mut fields = value.fields()?;
    let known = &[("bridge", Switches::Bridge), ("ovs", Switches::Ovs)];
    let switches = fields.or("switches", Switches::default(), |v| v.choice(known))?;
    let segmentation = fields.optional("segmentation", |v| {
        let wanted = v.flag()?;
        if wanted && switches == Switches::Ovs {
            return Err(
                v.error("needs the kernel's switches; write switches = \"bridge\" beside it")
            );
        }
        Ok(wanted)
    })?;
    let controls = &[("direct", false), ("daemons", true)];
    let by_daemons = fields.or("control", false, |v| v.choice(controls))?;
    let default = Governance::default();
    let span = |v: &Value<'_>| between(v, PERIODS.0, PERIODS.1);
    let enforcement = fields.optional("enforcement", |v| {
        let way = v.choice(Enforcement::NAMED)?;
        if way == Enforcement::Meters && switches != Switches::Ovs {
            return Err(v.error("needs switches with meters; write switches = \"ovs\" beside it"));
        }
        if way == Enforcement::Meters && !by_daemons {
            return Err(v.error("needs a controller; write control = \"daemons\" beside it"));
        }
        Ok(way)
    })?;
    let lease = fields.or("lease", default.lease, |v| between(v, LEASES.0, LEASES.1))?;
    let sample = |v: &Value<'_>| {
        let sample = span(v)?;
        wrong_sample(sample, lease).map_or(Ok(sample), |reason| Err(v.error(reason)))
    };
    let record = fields.optional("record", |v| {
        if !by_daemons {
            return Err(v.error("needs a controller; write control = \"daemons\" beside it"));
        }
        let path = v.path(folder)?;
        std::path::absolute(path).map_err(|error| v.error(error))
    })?;
    let governance = Governance {
        enforcement: enforcement.unwrap_or_default(),
        lease,
        sample: fields.or("sample", default.sample, sample)?,
        record,
        ..default
    };
    fields.done()?;
    let segmentation = segmentation.unwrap_or(false);
    Ok(LabSettings { switches, segmentation, daemons: by_daemons.then_some(governance) })
}
