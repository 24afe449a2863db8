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
    /// It can't be read, or has no common name or role, or several: which of them counts nobody could see.
    pub fn of_certificate(der: &[u8]) -> Result<Self, Nameless> {
        let (_, certificate) =
            parse_x509_certificate(der).map_err(|_| Nameless("can't be read"))?;
        let subject = certificate.subject();
        let mut names = subject.iter_common_name();
        let name = names.next().and_then(|name| name.as_str().ok());
        let name =
            name.filter(|name| is_name(name)).ok_or(Nameless("has no usable common name"))?;
        let units = subject.iter_organizational_unit().filter_map(|unit| unit.as_str().ok());
        let mut roles =
            units.filter_map(|unit| Role::ALL.into_iter().find(|role| role.name() == unit));
        let role = roles.next().ok_or(Nameless("has no role in its organizational unit"))?;
        if names.next().is_some() {
            return Err(Nameless("has more than one common name"));
        }
        if roles.next().is_some() {
            return Err(Nameless("has more than one role"));
        }
        Ok(Self { role, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    /// Whom a certificate names that has these names and units.
    fn named(names: &[&str], units: &[&str]) -> Result<String, String> {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        // One of each kind alone can be written by `rcgen`: the kinds are given as those that they become.
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let kinds = [(DnType::CommonName, names), (DnType::OrganizationalUnitName, units)];
        for (kind, values) in kinds {
            for (at, value) in values.iter().enumerate() {
                let kind = if at == 0 { kind.clone() } else { again(&kind) };
                parameters.distinguished_name.push(kind, DnValue::Utf8String((*value).to_owned()));
            }
        }
        let made = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let found = Identity::of_certificate(made.der());
        found.map(|found| found.to_string()).map_err(|nameless| nameless.to_string())
    }

    /// The same kind, which `rcgen` takes for another.
    fn again(kind: &DnType) -> DnType {
        let last = if *kind == DnType::CommonName { 3 } else { 11 };
        DnType::CustomDnType(vec![2, 5, 4, last])
    }

    /// Which of two it would be the order in the certificate would decide, which nobody sees who reads it.
    #[test]
    fn a_certificate_names_one_identity() {
        assert_eq!(named(&["h1"], &["agent"]).unwrap(), "agent h1");
        assert!(named(&["h1"], &["Plant 7"]).unwrap_err().contains("has no role"));
        for units in [["agent", "operator"], ["operator", "agent"], ["agent", "agent"]] {
            let said = named(&["h1"], &units).unwrap_err();
            assert!(said.contains("has more than one role"), "{said}");
        }
        let said = named(&["h1", "h2"], &["agent"]).unwrap_err();
        assert!(said.contains("has more than one common name"), "{said}");
        assert_eq!(named(&["h1"], &["Plant 7", "agent"]).unwrap(), "agent h1");
    }
}
