//! Who a peer has proved to be.
//!
//! The certificate's common name is the name, its organizational unit the role: the certificate of
//! an application can't pass for that of an agent.

use std::fmt;

use model::is_name;
use serde::Serialize;
use x509_parser::parse_x509_certificate;

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Decides.
    Controller,
    /// Acts for hosts.
    Agent,
    /// Declares what it moves.
    Application,
    /// Asks how everything stands, and gives orders.
    Operator,
    /// Asks how everything stands.
    Viewer,
    /// Forwards.
    Switch,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Controller,
        Self::Agent,
        Self::Application,
        Self::Operator,
        Self::Viewer,
        Self::Switch,
    ];

    /// Its name in certificates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Agent => "agent",
            Self::Application => "application",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Switch => "switch",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A role and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Identity {
    /// What it may do.
    pub role: Role,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

/// A certificate that names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate {0}; make one with `watermaster certs`")]
pub struct Nameless(&'static str);

impl Identity {
    /// Whom a certificate names; its signature was checked in the handshake.
    ///
    /// # Errors
    /// It can't be read, or has no common name or no role.
    pub fn of_certificate(der: &[u8]) -> Result<Self, Nameless> {
        let (_, certificate) =
            parse_x509_certificate(der).map_err(|_| Nameless("can't be read"))?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let name =
            name.filter(|name| is_name(name)).ok_or(Nameless("has no usable common name"))?;
        let unit = subject.iter_organizational_unit().next().and_then(|unit| unit.as_str().ok());
        let role = Role::ALL.into_iter().find(|role| Some(role.name()) == unit);
        let role = role.ok_or(Nameless("has no role in its organizational unit"))?;
        Ok(Self { role, name: name.to_owned() })
    }
}
