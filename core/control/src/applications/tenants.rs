//! What the configuration grants to whom: tenants, the applications that may declare something, and the agents that
//! may act for nodes. Where it names no tenant, every application may declare everything.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::RangeInclusive;

use protocol::{Connection, Process};

use crate::config::{ConfigError, Tenant};
use crate::message::Refusal;

/// What one application may declare.
pub(crate) struct Grants {
    hosts: BTreeSet<String>,
    ports: Vec<RangeInclusive<u16>>,
    jobs: Option<usize>,
    flows: Option<usize>,
}

/// All tenants.
#[derive(Default)]
pub(crate) struct Tenants {
    by_application: BTreeMap<Arc<str>, Grants>,
    /// Whose sockets are those of a control group of a host, by host and path.
    groups: BTreeMap<String, BTreeMap<String, Arc<str>>>,
}

fn refuse(field: &'static str, reason: String) -> Result<(), Refusal> {
    Err(Refusal { field, reason, busy: false })
}

impl Tenants {
    /// Checks what the configuration says.
    pub(crate) fn new(tenants: &[Tenant]) -> Result<Self, ConfigError> {
        let mut all = Self::default();
        for (i, tenant) in tenants.iter().enumerate() {
            let error = |field: &str, reason: String| {
                Err(ConfigError { field: format!("tenants[{i}].{field}"), reason })
            };
            let name: Arc<str> = Arc::from(&*tenant.application);
            if all.by_application.contains_key(&name) {
                return error("application", "stands twice; write one [[tenant]] of it".into());
            }
            for group in &tenant.cgroups {
                for host in &tenant.hosts {
                    let at = all.groups.entry(host.clone()).or_default();
                    if let Some(other) = at.insert(group.clone(), name.clone()) {
                        let reason = format!("{group} at {host} is {other}'s; give each its own");
                        return error("cgroups", reason);
                    }
                    if at.len() > Tenant::MOST_CGROUPS {
                        let reason = format!(
                            "at {host} more than {} are named; name groups above them",
                            Tenant::MOST_CGROUPS
                        );
                        return error("cgroups", reason);
                    }
                }
            }
            let grants = Grants {
                hosts: tenant.hosts.iter().cloned().collect(),
                ports: tenant.ports.clone(),
                jobs: tenant.jobs,
                flows: tenant.flows,
            };
            all.by_application.insert(name, grants);
        }
        Ok(all)
    }

    /// What an application may declare; `None`: everything.
    ///
    /// # Errors
    /// There are tenants, and it is none.
    pub(crate) fn of(&self, application: &str) -> Result<Option<&Grants>, Refusal> {
        let found = self.by_application.get(application);
        if found.is_none() && !self.by_application.is_empty() {
            let reason = "is no tenant; have the operator add a [[tenant]] to the controller's configuration";
            refuse("application", reason.into())?;
        }
        Ok(found)
    }

    /// The names of all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.by_application.keys().map(|name| &**name)
    }

    /// Whether it is a tenant by name.
    pub(crate) fn names(&self, application: &str) -> bool {
        self.by_application.contains_key(application)
    }

    /// How many jobs and flows an application may have, where that is not what others may.
    pub(crate) fn amounts(&self, application: &str) -> (Option<usize>, Option<usize>) {
        let grants = self.by_application.get(application);
        grants.map_or((None, None), |grants| (grants.jobs, grants.flows))
    }

    /// The control groups of a host whose sockets are tenants'.
    pub(crate) fn groups_at(&self, host: &str) -> impl Iterator<Item = &String> {
        self.groups.get(host).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whose a socket of a host is that these have. Of a group and one within it, the inner one says.
    pub(crate) fn owner(&self, host: &str, processes: &[Process]) -> Option<&Arc<str>> {
        let groups = self.groups.get(host)?;
        let paths = processes.iter().filter_map(|process| match process {
            Process::Cgroup(path) => Some((path.len(), groups.get(path)?)),
            Process::Pid(_) | Process::Pod(_) => None,
        });
        paths.max_by_key(|(length, _)| *length).map(|(_, owner)| owner)
    }

    /// Whether the kernel of one of these hosts could tell that a connection is this application's.
    pub(crate) fn can_prove(&self, application: &str, hosts: [&str; 2]) -> bool {
        hosts
            .into_iter()
            .filter_map(|host| self.groups.get(host))
            .any(|groups| groups.values().any(|owner| **owner == *application))
    }
}

impl Grants {
    /// Whether a host may be declared.
    pub(crate) fn permit_host(&self, field: &'static str, host: &str) -> Result<(), Refusal> {
        if self.hosts.contains(host) {
            return Ok(());
        }
        let reason = format!(
            "{host} is not among the hosts of this tenant; name one, or have the operator add it to its [[tenant]]"
        );
        refuse(field, reason)
    }

    /// Whether one of the ports of a connection may be declared.
    pub(crate) fn permit_ports(&self, connection: &Connection) -> Result<(), Refusal> {
        let ends = [connection.source.port(), connection.destination.port()];
        let is_granted = |port: &u16| self.ports.iter().any(|range| range.contains(port));
        if self.ports.is_empty() || ends.iter().any(is_granted) {
            return Ok(());
        }
        let mut granted = String::new();
        for (i, range) in self.ports.iter().enumerate() {
            let _ = write!(granted, "{}{}", if i > 0 { ", " } else { "" }, range.start());
            if range.end() != range.start() {
                granted = granted + "-" + &range.end().to_string();
            }
        }
        let reason = format!(
            "has no port of this tenant, which are {granted}; name one, or have the operator add it to its [[tenant]]"
        );
        refuse("connection", reason)
    }
}
