//! `watermaster certs`: an authority and the certificates of everyone who takes part.

use std::path::PathBuf;

use clap::Args;
use wire::certs::{self, Made, Order};
use wire::identity::{Identity, Role};

use crate::failure::{Failure, print};

/// Make an authority and certificates for controllers, agents, applications, operators, viewers and switches
///
/// Existing files are kept. Keys are readable only by their owner; keep ca.key off the network.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster certs --directory /etc/watermaster/certs \
                  --controller main=10.0.0.1,control.example.org --agent h1 --agent h2 \
                  --application wordcount --operator me --viewer grafana --switch leaf1\n  \
                  watermaster certs --directory /etc/watermaster/certs --revoke agent-h1.crt\n\n\
                  Open vSwitch:\n  ovs-vsctl set-ssl switch-leaf1.key switch-leaf1.crt ca.crt")]
pub(crate) struct Certs {
    /// Where the files go
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// A controller, and the names and addresses that others reach it by
    #[arg(long, value_name = "NAME=HOST[,HOST…]")]
    controller: Vec<String>,

    /// An agent, by its name
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,

    /// An application, by its name
    #[arg(long, value_name = "NAME")]
    application: Vec<String>,

    /// An operator, who may see everything and give orders
    #[arg(long, value_name = "NAME")]
    operator: Vec<String>,

    /// A viewer, who may see everything and change nothing
    #[arg(long, value_name = "NAME")]
    viewer: Vec<String>,

    /// A switch, by its name
    #[arg(long, value_name = "NAME")]
    switch: Vec<String>,

    /// A certificate to revoke: ca.crl lists it; controllers that name the list cut it off at a reload
    #[arg(long, value_name = "FILE", conflicts_with_all = ["controller", "agent", "application", "operator", "viewer", "switch", "force"])]
    revoke: Vec<PathBuf>,

    /// Make ca.crl, a list of what is revoked: an empty one, where there is none
    #[arg(long, conflicts_with = "revoke")]
    crl: bool,

    /// Make all of them anew, the authority too
    #[arg(long)]
    force: bool,
}

impl Certs {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if !self.revoke.is_empty() {
            let (list, count) =
                certs::revoke(&self.directory, &self.revoke).map_err(|error| match error {
                    certs::CertsError::Revoked { .. } => Failure::misused(error),
                    error => Failure::failed(error),
                })?;
            return print(&format!("made  {}, which lists {count}\n", list.display()));
        }
        let mut orders = Vec::new();
        for text in &self.controller {
            let Some((name, hosts)) = text.split_once('=') else {
                let text = text.escape_debug();
                let what =
                    format!("--controller {text}: how is it reached? write {text}=10.0.0.1,NAME");
                return Err(Failure::misused(what));
            };
            let reached_by = hosts.split(',').map(str::to_owned).collect();
            let identity = Identity { role: Role::Controller, name: name.to_owned() };
            orders.push(Order { identity, reached_by });
        }
        for (role, names) in [
            (Role::Agent, &self.agent),
            (Role::Application, &self.application),
            (Role::Operator, &self.operator),
            (Role::Viewer, &self.viewer),
            (Role::Switch, &self.switch),
        ] {
            orders.extend(names.iter().map(|name| Order {
                identity: Identity { role, name: name.clone() },
                reached_by: Vec::new(),
            }));
        }
        let made =
            certs::make(&self.directory, &orders, self.force).map_err(|error| match error {
                certs::CertsError::Name(_)
                | certs::CertsError::Address(_)
                | certs::CertsError::Halved { .. }
                | certs::CertsError::Exists { .. } => Failure::misused(error),
                error => Failure::failed(error),
            })?;
        let lines: Vec<String> = made
            .iter()
            .map(|(file, made)| {
                let said = match made {
                    Made::Written => "made",
                    Made::Kept => "kept",
                };
                format!("{said}  {}\n", file.display())
            })
            .collect();
        print(&lines.concat())?;
        if !self.crl {
            return Ok(());
        }
        let (list, count) = certs::revoke(&self.directory, &[]).map_err(Failure::failed)?;
        print(&format!("made  {}, which lists {count}\n", list.display()))
    }
}
