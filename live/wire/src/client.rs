//! Asks a controller over HTTP/1.1 on one connection.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::tls::{distrust, why_lost};
use crate::{EXCHANGE, Stream};

/// Longest answer that is read, in octets, unless somebody says otherwise.
const MOST_ANSWER: usize = 64 << 20;
/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a controller listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// `host:port`, without TLS.
    Tcp(String),
    /// `host:port`, with TLS.
    Tls(String),
}

impl FromStr for Address {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong()),
        };
        let rest = rest.trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() || rest.contains('/') {
            return Err(wrong());
        }
        Ok(if tls { Self::Tls(rest.to_owned()) } else { Self::Tcp(rest.to_owned()) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "http://{host}"),
            Self::Tls(host) => write!(f, "https://{host}"),
        }
    }
}

/// Why a controller could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address.
    #[error("\"{0}\" is no address; write https://HOST:PORT, http://HOST:PORT or unix:PATH")]
    Address(String),
    /// An address with TLS, and no certificates.
    #[error("{0} needs certificates; name them, `watermaster certs` makes them")]
    NoCertificates(Address),
    /// A socket of this machine that isn't everybody's.
    #[error(
        "{0}: this user may not open it; join the group that it belongs to (`ls -l` shows it, `usermod -aG GROUP USER` \
         adds to it), or use sudo"
    )]
    Forbidden(Address),
    /// No connection.
    #[error("can't connect to {0}: {why}; does the controller run there?", why = why_lost(.1))]
    Connect(Address, std::io::Error),
    /// One end doesn't trust the other's certificate.
    #[error(
        "{0}: {1}; name certificates of one authority that are good, `watermaster certs` makes them"
    )]
    Distrusted(Address, String),
    /// Of several controllers none leads.
    #[error("no controller leads: {0}")]
    Leaderless(String),
    /// Who listens speaks something else.
    #[error("{0}: who listens there does not speak {1}; try {2}")]
    Foreign(Address, &'static str, Address),
    /// The connection failed.
    #[error("the connection to the controller failed: {}; does it still run? its log says why", with_causes(.0))]
    Http(#[from] hyper::Error),
    /// The connection failed within the answer, or the answer is too long.
    #[error("the answer can't be read: {0}; are both of one version?")]
    Answer(String),
    /// The controller said no.
    #[error("the controller refuses ({status}): {said}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it said.
        said: String,
    },
}

impl ClientError {
    /// Whether asking again brings no other answer, until somebody gives other certificates.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Distrusted(..) => true,
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            }
            _ => false,
        }
    }
}

/// An error, what brought it about, and what brought that about.
fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
}

/// An error with what brought it about, which it doesn't say itself.
fn with_causes(error: &hyper::Error) -> String {
    let own = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref().map_or_else(|| error.to_string(), why_lost)
    };
    causes(error).map(own).collect::<Vec<_>>().join(": ")
}

/// What the connection of an agent becomes: lines in both directions.
pub type Exchange = TokioIo<hyper::upgrade::Upgraded>;

/// Opens a connection.
///
/// # Errors
/// Nobody listens, or the two ends don't trust each other.
pub async fn connect(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Stream>, ClientError> {
    let failed = |error| match distrust(&error) {
        Some(why) => ClientError::Distrusted(address.clone(), why),
        None => ClientError::Connect(address.clone(), error),
    };
    let open = async {
        Ok::<Box<dyn Stream>, ClientError>(match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Box::new(stream.map_err(|error| match error.kind() {
                    ErrorKind::PermissionDenied => ClientError::Forbidden(address.clone()),
                    _ => failed(error),
                })?)
            }
            Address::Tcp(host) => {
                let stream = TcpStream::connect(host).await.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                Box::new(stream)
            }
            Address::Tls(host) => {
                let config = tls.ok_or_else(|| ClientError::NoCertificates(address.clone()))?;
                let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
                let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(name)
                    .map_err(|_| ClientError::Address(address.to_string()))?;
                let stream = TcpStream::connect(host).await.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name, stream).await;
                Box::new(stream.map_err(|error| match error.get_ref() {
                    Some(why) if is_no_tls(why) => {
                        ClientError::Foreign(address.clone(), "TLS", Address::Tcp(host.clone()))
                    }
                    _ => failed(error),
                })?)
            }
        })
    };
    let late = std::io::Error::from(ErrorKind::TimedOut);
    timeout(PATIENCE, open).await.map_err(|_| failed(late))?
}

/// Whether the other end's first words are no TLS.
fn is_no_tls(why: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(why.downcast_ref(), Some(rustls::Error::InvalidMessage(_)))
}

/// One connection, one request after another.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// What becomes of the connection, until somebody asks.
    connection: Option<JoinHandle<hyper::Result<()>>>,
    address: Address,
    /// Most octets of an answer that are read.
    most: usize,
    /// The other end has said that it will close it.
    is_ending: bool,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// As [`connect`].
    pub async fn connect(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, ClientError> {
        let stream = connect(address, tls).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = Some(tokio::spawn(connection.with_upgrades()));
        let (address, most) = (address.clone(), MOST_ANSWER);
        Ok(Self { sender, connection, address, most, is_ending: false })
    }

    /// The same, for which longer answers than so many octets are errors.
    #[must_use]
    pub fn reads_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// What a request that met `error` says.
    async fn failed(&mut self, mut error: hyper::Error) -> ClientError {
        // Why a connection closed before the request, that alone knows.
        if (error.is_closed() || error.is_canceled())
            && let Some(connection) = self.connection.take()
            && let Ok(Ok(Err(why))) = timeout(PATIENCE, connection).await
        {
            error = why;
        }
        let distrusted = causes(&error).find_map(|cause| distrust(cause.downcast_ref()?));
        if let Some(why) = distrusted {
            return ClientError::Distrusted(self.address.clone(), why);
        }
        match &self.address {
            Address::Tcp(host) if error.is_parse() => {
                ClientError::Foreign(self.address.clone(), "HTTP", Address::Tls(host.clone()))
            }
            _ => error.into(),
        }
    }

    /// Whether the other end has closed it, as far as is known.
    pub fn is_closed(&self) -> bool {
        self.is_ending || self.sender.is_closed()
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<hyper::body::Incoming>, ClientError> {
        if let Err(error) = self.sender.ready().await {
            return Err(self.failed(error).await);
        }
        let host = match &self.address {
            Address::Unix(_) => "localhost",
            Address::Tcp(host) | Address::Tls(host) => host,
        };
        let mut request = Request::builder().method(method).uri(path).header(HOST, host);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let mut request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ClientError::Answer(error.to_string()))?;
        request.headers_mut().extend(headers);
        match self.sender.send_request(request).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Asks; gives the status and what was said.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.ask_with(method, path, HeaderMap::new(), body).await
    }

    /// The same with `headers`, which go before ours.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn ask_with(
        &mut self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let response = self.send(method, path, headers, body).await?;
        let status = response.status();
        self.is_ending = response.headers().get(CONNECTION).is_some_and(|said| said == "close");
        let body = Limited::new(response.into_body(), self.most).collect().await;
        let body = body.map_err(|error| ClientError::Answer(error.to_string()))?;
        Ok((status, body.to_bytes()))
    }

    /// Asks for what is at `path`.
    ///
    /// # Errors
    /// A broken connection, or the controller refuses.
    pub async fn get(&mut self, path: &str) -> Result<Bytes, ClientError> {
        let (status, body) = self.ask(Method::GET, path, Vec::new()).await?;
        if status.is_success() { Ok(body) } else { Err(refused(status, &body)) }
    }

    /// Turns the connection into an exchange of lines.
    ///
    /// # Errors
    /// A broken connection, or the controller refuses.
    pub async fn exchange(mut self, path: &str) -> Result<Exchange, ClientError> {
        let upgrade = HeaderMap::from_iter([
            (CONNECTION, HeaderValue::from_static("upgrade")),
            (UPGRADE, HeaderValue::from_static(EXCHANGE)),
        ]);
        let response = self.send(Method::GET, path, upgrade, Vec::new()).await?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
            let body = body.map_err(|error| ClientError::Answer(error.to_string()))?;
            return Err(refused(status, &body.to_bytes()));
        }
        Ok(TokioIo::new(hyper::upgrade::on(response).await?))
    }
}

fn refused(status: StatusCode, body: &[u8]) -> ClientError {
    let said: String = String::from_utf8_lossy(body).chars().take(500).collect();
    ClientError::Refused { status, said: said.trim().to_owned() }
}
