//! What an agent's daemon takes from its configuration while it runs.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use wire::identity::Role;
use wire::tls::{self, Files, TlsError};

use crate::StartError;
use crate::settings::{Acting, Interface, Kubernetes, Settings};

/// The certificates that it connects with; none where no `[tls]` names them.
#[derive(Default)]
pub struct Certificates {
    /// What a connection takes.
    pub config: Option<Arc<ClientConfig>>,
    /// Its own and the authority's: those of a connection that is open are these, or it is made anew.
    held: Vec<CertificateDer<'static>>,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// A file that can't be used.
    pub fn load(files: Option<&Files>) -> Result<Self, TlsError> {
        let Some(files) = files else { return Ok(Self::default()) };
        Ok(Self { config: Some(Arc::new(tls::client(files)?)), held: tls::held(files)? })
    }
}

/// What can't change while an agent runs.
pub struct Kept {
    name: String,
    log_json: bool,
    kubernetes: Option<Kubernetes>,
    pacer: kernel::PacerOptions,
    hosts: Vec<Acting>,
    ports: Vec<Interface>,
}

impl Kept {
    /// Each key is either here or put into effect by a reload: a new one is named by the compiler.
    pub fn of(settings: &Settings) -> Self {
        let Settings {
            file: _,
            name,
            controllers: _,
            tls: _,
            log_json,
            kubernetes,
            pacer,
            openings: _,
            hosts,
            // No key sets it.
            left_out: _,
            ports,
        } = settings;
        Self {
            name: name.clone(),
            log_json: *log_json,
            kubernetes: kubernetes.clone(),
            pacer: pacer.clone(),
            hosts: hosts.clone(),
            ports: ports.clone(),
        }
    }

    /// What is otherwise in `fresh`, as the file calls it.
    fn differs(&self, fresh: &Self) -> Vec<&'static str> {
        let (pacer, other) = (&self.pacer, &fresh.pacer);
        let all = [
            // Others know it by its certificate.
            ("name (controller and [tls] go with it)", self.name != fresh.name),
            ("log", self.log_json != fresh.log_json),
            ("[kubernetes]", self.kubernetes != fresh.kubernetes),
            ("cgroup", pacer.cgroup != other.cgroup),
            ("pins", pacer.pins != other.pins),
            ("limits", pacer.limits != other.limits),
            ("[[host]]", self.hosts != fresh.hosts),
            ("[[interface]]", self.ports != fresh.ports),
        ];
        all.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// What a reload has done.
pub struct Reloaded {
    /// What has changed and needs a restart.
    pub restart: Vec<&'static str>,
    /// Whether the controller that the agent is connected to may stay, and knows it by the certificate that it has now.
    pub stays: bool,
}

/// Reads the configuration at `path` again and puts into effect what can change while it runs.
///
/// # Errors
/// An agent can't connect with it; nothing has changed.
pub fn reload(
    path: &Path,
    kept: &Kept,
    settings: &mut Settings,
    certificates: &mut Certificates,
) -> Result<Reloaded, StartError> {
    let fresh = Settings::load(path)?;
    let read = Certificates::load(fresh.tls.as_ref())?;
    if let Some(files) = &fresh.tls {
        tls::check(files, Role::Agent, Some(&fresh.name))?;
    }
    let restart = kept.differs(&Kept::of(&fresh));
    settings.openings = fresh.openings;
    let mut stays = true;
    if fresh.name == settings.name {
        stays = read.held == certificates.held;
        stays &= settings.controllers.change(fresh.controllers);
        (settings.tls, *certificates) = (fresh.tls, read);
    }
    Ok(Reloaded { restart, stays })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::fs;

    use wire::certs::{self, Order};
    use wire::identity::Identity;

    use super::*;

    /// A connection stays while the agent would make it the same way again; what is wrong changes nothing.
    #[test]
    fn a_connection_stays_while_its_controller_and_its_certificates_do() {
        let folder = tempfile::tempdir().unwrap();
        let (at, file) = (folder.path(), folder.path().join("agent.toml"));
        let make = |names: &[&str]| {
            let order = |name: &&str| Order {
                identity: Identity { role: Role::Agent, name: (*name).to_owned() },
                reached_by: Vec::new(),
            };
            certs::make(at, &names.iter().map(order).collect::<Vec<_>>(), false).unwrap();
        };
        make(&["h1", "h2"]);
        let write = |name: &str, controllers: &str, openings: u32| {
            let text = format!(
                "name = \"{name}\"\ncontroller = [{controllers}]\nopenings_per_second = {openings}\n\
                 [[host]]\nname = \"h1\"\naddresses = []\n\
                 [tls]\nca = \"ca.crt\"\ncertificate = \"agent-h1.crt\"\nkey = \"agent-h1.key\"\n"
            );
            fs::write(&file, text).unwrap();
        };
        let (one, two, three) = ("\"https://a:1\"", "\"https://b:1\"", "\"https://c:1\"");
        write("h1", &format!("{one}, {two}"), 1);
        let mut settings = Settings::load(&file).unwrap();
        let mut held = Certificates::load(settings.tls.as_ref()).unwrap();
        let kept = Kept::of(&settings);
        let mut again = || {
            let done = reload(&file, &kept, &mut settings, &mut held);
            let done = done.map(|done| (done.stays, done.restart.join(", ")));
            (done.map_err(|error| error.to_string()), settings.controllers.to_string())
        };
        assert_eq!(again().0, Ok((true, String::new())));
        write("h1", &format!("{three}, {one}"), 2);
        let both = "https://c:1, https://a:1";
        assert_eq!(again(), (Ok((true, String::new())), both.to_owned()), "it is among them");

        // Another's.
        for kind in ["crt", "key"] {
            fs::rename(at.join(format!("agent-h1.{kind}")), at.join(kind)).unwrap();
            fs::copy(at.join(format!("agent-h2.{kind}")), at.join(format!("agent-h1.{kind}")))
                .unwrap();
        }
        write("h1", two, 3);
        let (done, controllers) = again();
        let said = done.unwrap_err();
        assert!(said.contains("agent-h1.crt: is for the agent h2; name that of"), "{said}");
        assert_eq!(controllers, both);
        write("h2", two, 3);
        let restart = "name (controller and [tls] go with it)".to_owned();
        assert_eq!(again(), (Ok((true, restart)), both.to_owned()));

        for kind in ["crt", "key"] {
            fs::remove_file(at.join(format!("agent-h1.{kind}"))).unwrap();
        }
        make(&["h1"]);
        write("h1", one, 3);
        assert_eq!(again(), (Ok((false, String::new())), "https://a:1".to_owned()), "renewed");
        assert_eq!(again().0, Ok((true, String::new())));
        write("h1", two, 4);
        assert_eq!(again().0, Ok((false, String::new())), "it is gone");
        assert_eq!(settings.openings, 4);
    }
}
