//! What the kernel gives, found by trying.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use libbpf_rs::Object;

use crate::error::CGROUP_REMEDY;
use crate::objects::{PACE, PORT};
use crate::{Attachment, Dctcp, Error, Namespace, PortOptions, Switch, pacer, unified_mount};

/// Something that the kernel may give an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// What was found, or what is missing.
    pub finding: Result<String, Missing>,
}

/// Why something can't be had, and how it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What was found.
    pub reason: String,
    /// How to get it.
    pub remedy: &'static str,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features(pub Vec<Feature>);

impl Features {
    /// Tries each, in a network namespace without a name that ends with the try: nothing outside is
    /// touched.
    pub fn probe() -> Self {
        let mut found = vec![
            feature(
                "bpf",
                "all that agents do",
                "run as root, or give the capabilities BPF, PERFMON, NET_ADMIN and SYS_ADMIN, on a \
                 kernel from Linux 5.17 with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF",
                bpf(),
            ),
            feature(
                "cgroup2",
                "telling whose connections are held to rates",
                CGROUP_REMEDY,
                unified_mount().map(|path| format!("mounted at {}", path.display())).map_err(
                    |error| match error {
                        Error::NoCgroup => "none is mounted here".to_owned(),
                        other => other.to_string(),
                    },
                ),
            ),
        ];
        let pace = PACE.open().and_then(|object| PACE.load(object));
        found.push(feature(
            "pacing",
            "holding connections to rates at their sender, and their statistics",
            "use Linux 5.15 or later with CONFIG_CGROUP_BPF",
            pace.as_ref().map(|_| "programs for sockets accepted".to_owned()).map_err(reason),
        ));
        found.push(feature(
            "adopt",
            "reaching connections that were there before the agent",
            "use Linux 6.13 or later; until then start the agent before the applications",
            match &pace {
                Ok(object) => adopt(object).map_err(|error| error.to_string()),
                Err(_) => Err("there is no pacing".to_owned()),
            },
        ));
        for (name, attachment, purpose, remedy) in [
            (
                "tcx",
                Attachment::Tcx,
                "programs on interfaces that end with the agent",
                "use Linux 6.6 or later; before, clsact takes its place",
            ),
            (
                "clsact",
                Attachment::Clsact,
                "programs on interfaces where there is no tcx",
                "use a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF",
            ),
        ] {
            let finding = interface(attachment).map_err(|error| error.to_string());
            found.push(feature(name, purpose, remedy, finding));
        }
        found.push(feature(
            "events",
            "hearing of queues, openings and endings at once",
            "use Linux 5.8 or later",
            Switch::new()
                .map(|_| "made a ring buffer".to_owned())
                .map_err(|error| error.to_string()),
        ));
        found.push(feature(
            "dctcp",
            "senders that obey marks by how many there are",
            "modprobe tcp_dctcp, or use Linux 6.4 or later with CONFIG_BPF_JIT",
            Dctcp::obtain()
                .map(|dctcp| match dctcp.is_kernels() {
                    true => "the kernel's own".to_owned(),
                    false => "a program of ours accepted".to_owned(),
                })
                .map_err(|error| reason(&error)),
        ));
        // Without the right to use BPF at all, that is what all the rest lacks.
        let (first, rest) = found.split_at_mut(1);
        if let Err(Missing { remedy, .. }) = first[0].finding {
            rest.iter_mut()
                .filter(|each| each.name != "cgroup2")
                .filter_map(|each| each.finding.as_mut().err())
                .for_each(|missing| missing.remedy = remedy);
        }
        Self(found)
    }

    /// The names of those that are there.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|each| each.finding.is_ok()).map(|each| each.name)
    }
}

fn feature(
    name: &'static str,
    purpose: &'static str,
    remedy: &'static str,
    finding: Result<String, String>,
) -> Feature {
    Feature { name, purpose, finding: finding.map_err(|reason| Missing { reason, remedy }) }
}

fn bpf() -> Result<String, String> {
    fs::metadata("/sys/kernel/btf/vmlinux").map_err(|error| format!("no BTF: {error}"))?;
    let object = PORT.open().and_then(|object| PORT.load(object));
    object.map(|_| "programs accepted".to_owned()).map_err(|error| reason(&error))
}

/// An error without the advice to ask for what is being told.
fn reason(error: &Error) -> String {
    match error {
        Error::Load { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Adopts a connection of our own.
fn adopt(object: &Object) -> Result<String, Error> {
    let pair = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        Ok((listener.accept()?, near))
    };
    let namespace = Namespace::private()?;
    let _pair = namespace.visit(|| pair().map_err(Error::file("a connection over loopback")))?;
    if pacer::adopt(object, &namespace)? == 0 {
        let refused = std::io::Error::other("the kernel refuses callbacks set from outside");
        return Err(Error::file("TCP_BPF_SOCK_OPS_CB_FLAGS")(refused));
    }
    Ok("reached a connection of its own".to_owned())
}

fn interface(attachment: Attachment) -> Result<String, Error> {
    let options = PortOptions { attachment, connections: 16, ..PortOptions::default() };
    Switch::new()?.attach(Namespace::private()?, "lo", &options)?;
    Ok("put on an interface and taken off".to_owned())
}
