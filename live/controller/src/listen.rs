//! Sockets that listen, and connections that come in by them.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wire::Stream;
use wire::identity::Identity;

use crate::strangers::Strangers;

/// How long a peer may take to prove who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Rest after the system refuses a connection, as when no file descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// Certificates that can be replaced while connections come in.
pub type Certificates = Arc<RwLock<Option<Arc<ServerConfig>>>>;

/// An address or a path that can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {place}: {error}; {}", self.remedy())]
pub struct ListenError {
    place: String,
    is_path: bool,
    error: io::Error,
}

impl ListenError {
    fn remedy(&self) -> &'static str {
        match self.error.kind() {
            io::ErrorKind::InvalidInput if self.is_path => "name a shorter path",
            io::ErrorKind::InvalidInput => {
                "name an address of this machine; a link-local one takes the number of its interface: [fe80::1%2]:7443"
            }
            io::ErrorKind::AddrNotAvailable => "name an address of this machine",
            io::ErrorKind::AlreadyExists => "name another path, or remove what is there",
            _ => "is another controller running there?",
        }
    }
}

/// What listens.
pub enum Listener {
    /// On an address.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener),
}

/// Listens on an address.
///
/// # Errors
/// It is taken, or not this machine's.
pub async fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
    let listener = TcpListener::bind(address).await;
    let wrong = |error| ListenError { place: address.to_string(), is_path: false, error };
    listener.map(Listener::Tcp).map_err(wrong)
}

/// Listens on a path that its owner and group may use. A socket that a dead controller left is replaced.
///
/// # Errors
/// The path is taken by something else, or can't be made.
pub fn unix(path: &Path) -> Result<Listener, ListenError> {
    let wrong = |error| ListenError { place: path.display().to_string(), is_path: true, error };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            let other = "what is there is no socket";
            return Err(wrong(io::Error::new(io::ErrorKind::AlreadyExists, other)));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(wrong(io::ErrorKind::AddrInUse.into()));
        }
        fs::remove_file(path).map_err(wrong)?;
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(wrong)?;
    Ok(Listener::Unix(listener))
}

impl Listener {
    /// Where it listens, which the system chose where the configuration says port 0.
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            Self::Unix(listener) => {
                let path = listener.local_addr().ok();
                let path = path.and_then(|at| at.as_pathname().map(|at| at.display().to_string()));
                path.unwrap_or_default()
            }
        }
    }

    /// Whether only this machine reaches it.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// The next connection, and where it comes from.
    pub async fn accept(&self) -> (Box<dyn Stream>, From) {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener.accept().await.map(|(stream, from)| {
                    // Small messages must not wait for one another.
                    let _ = stream.set_nodelay(true);
                    (Box::new(stream) as Box<dyn Stream>, From(Some(from)))
                }),
                Self::Unix(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| (Box::new(stream) as Box<dyn Stream>, From(None))),
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::error!(%error, "a connection could not be accepted");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

/// Where a connection comes from: over the network, or else the Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct From(pub Option<SocketAddr>);

impl From {
    /// Whom the log tells apart from others of whom it tells the same: who has proved who it is, and where nobody
    /// `proves` that, each machine. Strangers are one.
    pub fn apart(self, proves: bool, by: Option<&str>) -> Option<String> {
        let machine = self.0.filter(|_| !proves).map(|from| from.ip().to_string());
        by.map(str::to_owned).or(machine)
    }
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(from) => from.fmt(f),
            None => f.write_str("unix"),
        }
    }
}

/// Who a peer has proved to be, by which certificate.
pub struct Peer {
    /// Who.
    pub identity: Identity,
    /// The certificate, DER.
    pub certificate: Arc<[u8]>,
}

/// Has the peer prove who it is; without certificates there is nothing to prove. `None`: it had to give way to
/// others meanwhile.
///
/// # Errors
/// It can't, or takes too long.
pub async fn identify(
    stream: Box<dyn Stream>,
    from: From,
    certificates: Option<&Certificates>,
    strangers: &Arc<Strangers>,
) -> Result<Option<(Box<dyn Stream>, Option<Peer>)>, String> {
    let (Some(certificates), Some(from)) = (certificates, from.0) else {
        return Ok(Some((stream, None)));
    };
    let mut stranger = strangers.enter(from.ip(), Instant::now());
    tokio::select! {
        proved = prove(stream, certificates) => proved.map(Some),
        () = stranger.ousted() => Ok(None),
    }
}

async fn prove(
    stream: Box<dyn Stream>,
    certificates: &Certificates,
) -> Result<(Box<dyn Stream>, Option<Peer>), String> {
    let config = certificates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let config = config.ok_or("no certificates")?;
    let handshake = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream));
    let stream = handshake
        .await
        .map_err(|_| "it did not finish the TLS handshake in time".to_owned())?
        .map_err(|error| wire::tls::why_lost(&error))?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let shown = shown.ok_or("it showed no certificate")?;
    let identity = Identity::of_certificate(shown).map_err(|error| error.to_string())?;
    let certificate = Arc::from(shown.as_ref());
    Ok((Box::new(stream), Some(Peer { identity, certificate })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_replaced_only_where_nobody_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("controller.sock");
        let first = unix(&path).unwrap();
        let refused = unix(&path).err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains("is another controller running there?"), "{refused}");
        drop(first);
        assert!(unix(&path).is_ok(), "a dead controller's");
        let other = folder.path().join("other");
        fs::write(&other, "mine").unwrap();
        let refused = unix(&other).err().map(|error| error.to_string()).unwrap();
        let wanted = "what is there is no socket; name another path, or remove what is there";
        assert!(refused.ends_with(wanted), "{refused}");
        assert_eq!(fs::read(&other).unwrap(), b"mine");
    }

    #[test]
    fn the_log_tells_apart_who_is_known_and_machines_where_nobody_is() {
        let [one, again, other] =
            ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"].map(|at| From(at.parse().ok()));
        assert_eq!(one.apart(false, None), again.apart(false, None));
        assert_ne!(one.apart(false, None), other.apart(false, None));
        assert_eq!((one.apart(true, None), other.apart(true, None)), (None, None), "strangers");
        let who = |from: From| from.apart(true, Some("switch s1"));
        assert_eq!(who(one), who(other));
        assert_ne!(who(one), one.apart(true, Some("switch s2")));
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_and_an_address_without_its_interface_have_a_remedy_each() {
        let folder = tempfile::tempdir().unwrap();
        let refused = unix(&folder.path().join("s".repeat(200))).err().unwrap().to_string();
        assert!(refused.ends_with("; name a shorter path"), "{refused}");
        let local: SocketAddr = "[fe80::1]:7443".parse().unwrap();
        let Some(error) = tcp(local).await.err() else { panic!("{local} needs its interface") };
        // Where there is no IPv6 the system says something else.
        if error.error.kind() == io::ErrorKind::InvalidInput {
            let refused = error.to_string();
            assert!(refused.ends_with("number of its interface: [fe80::1%2]:7443"), "{refused}");
        }
    }
}
