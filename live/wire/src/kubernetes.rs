//! The API server of Kubernetes: how a pod finds it, shows who it is, and asks.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use document::DocumentError;
use document::fields::{Fields, Value};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time::timeout;

use crate::client::{Address, Client, ClientError};
use crate::tls;

/// Where a pod finds the token, the authority and the namespace of its service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Most octets that are read of a token or a namespace.
const MOST_LINE: u64 = 64 << 10;

/// The way to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The API server; `None`: as the environment of this pod names it.
    pub address: Option<Address>,
    /// The file of the token that is shown.
    pub token: PathBuf,
    /// The file of the authority that the API server's certificate is of.
    pub ca: PathBuf,
}

impl Access {
    /// What a table `kubernetes` of a configuration says of it: `address`, `token`, `ca`. What is relative begins at
    /// `folder`.
    ///
    /// # Errors
    /// One is no address or no path, or the token would be shown to others; the message names place, field and remedy.
    pub fn read(fields: &mut Fields<'_>, folder: &Path) -> Result<Self, DocumentError> {
        let address = fields.optional("address", read_address)?;
        let account = Path::new(SERVICE_ACCOUNT);
        let token = fields.optional("token", |value| value.path(folder))?;
        let ca = fields.optional("ca", |value| value.path(folder))?;
        Ok(Self {
            address,
            token: token.unwrap_or_else(|| account.join("token")),
            ca: ca.unwrap_or_else(|| account.join("ca.crt")),
        })
    }
}

fn read_address(value: &Value<'_>) -> Result<Address, DocumentError> {
    let address = value.text()?.parse::<Address>().map_err(|error| value.error(error))?;
    let is_safe = match &address {
        Address::Tls(_) | Address::Unix(_) => true,
        // A proxy of this machine, such as `kubectl proxy`.
        Address::Tcp(at) => at.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_loopback()),
    };
    if is_safe {
        Ok(address)
    } else {
        Err(value.error("would show the token to others; write https://HOST:PORT"))
    }
}

/// A text of others, as a line of ours may have it.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// The line that a file holds; `key` is what names another file.
///
/// # Errors
/// It can't be read, or is empty.
pub fn line(file: &Path, key: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MOST_LINE).read_to_string(&mut text));
    let wrong = |why: &str| format!("{}: {why}; write kubernetes.{key}", file.display());
    read.map_err(|error| wrong(&error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("is empty")),
        line => Ok(line.to_owned()),
    }
}

/// What is answered within `patience`.
///
/// # Errors
/// What `answer` says, or that none came.
pub async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || format!("no answer of the API server within {} ms", patience.as_millis());
    timeout(patience, answer).await.unwrap_or_else(|_| Err(late()))
}

/// The API server, as the environment of a pod names it.
fn in_cluster(variable: impl Fn(&str) -> Option<String>) -> Result<Address, String> {
    let names = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT_HTTPS"];
    let [Some(host), Some(port)] = names.map(variable) else {
        return Err(format!(
            "kubernetes.address is missing, and without {} this is no pod; write \"https://HOST:PORT\"",
            names.join(" and ")
        ));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("https://{host}:{port}").parse().map_err(|error: ClientError| error.to_string())
}

/// What the API server says where it says no.
#[derive(Deserialize)]
struct Status {
    message: String,
}

/// The API server, asked over one connection after another.
pub struct ApiServer {
    address: Address,
    token: PathBuf,
    ca: PathBuf,
    /// Most octets of an answer that are read.
    most: usize,
    client: Option<Client>,
}

impl ApiServer {
    /// The one at the end of this way; answers longer than `most` octets are errors.
    ///
    /// # Errors
    /// This is no pod, and what isn't configured isn't known.
    pub fn new(access: &Access, most: usize) -> Result<Self, String> {
        let address = match &access.address {
            Some(address) => address.clone(),
            None => in_cluster(|name| std::env::var(name).ok())?,
        };
        let (token, ca) = (access.token.clone(), access.ca.clone());
        Ok(Self { address, token, ca, most, client: None })
    }

    /// Whether its files can be used, which are read again for each question and each connection.
    ///
    /// # Errors
    /// Which can't, and why.
    pub fn check(&self) -> Result<(), String> {
        self.headers("application/json")?;
        self.trusted().map(drop)
    }

    /// What says who asks. The token is read each time: it is renewed in its file.
    fn headers(&self, content: &'static str) -> Result<HeaderMap, String> {
        let token = line(&self.token, "token")?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            format!("{}: holds no token; write kubernetes.token", self.token.display())
        })?;
        bearer.set_sensitive(true);
        let content = HeaderValue::from_static(content);
        Ok(HeaderMap::from_iter([(AUTHORIZATION, bearer), (CONTENT_TYPE, content)]))
    }

    /// Whom a connection trusts. It is read for each: the authority is renewed in its file, too.
    fn trusted(&self) -> Result<Option<Arc<ClientConfig>>, String> {
        match self.address {
            Address::Tls(_) => match tls::anonymous(&self.ca) {
                Ok(config) => Ok(Some(Arc::new(config))),
                Err(error) => Err(error.to_string()),
            },
            Address::Tcp(_) | Address::Unix(_) => Ok(None),
        }
    }

    /// Asks over the connection there is, or a new one. Who gives up on an answer gives up on its connection.
    ///
    /// # Errors
    /// No connection, or no answer that can be read.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        content: &'static str,
        body: String,
    ) -> Result<(StatusCode, Bytes), String> {
        let headers = self.headers(content)?;
        let mut client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let trusted = self.trusted()?;
                let client = Client::connect(&self.address, trusted.as_ref()).await;
                client.map_err(|error| error.to_string())?.reads_at_most(self.most)
            }
        };
        let asked = client.ask_with(method, path, headers, body.into_bytes());
        let (status, answer) = asked.await.map_err(|error| format!("{}: {error}", self.address))?;
        // Where it can't answer, a new connection may find another API server.
        if !status.is_server_error() {
            self.client = Some(client);
        }
        Ok((status, answer))
    }

    /// What is at `path`.
    ///
    /// # Errors
    /// As [`ApiServer::ask`].
    pub async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes), String> {
        self.ask(Method::GET, path, "application/json", String::new()).await
    }

    /// What a refusal of `what` says, and what to do: `remedy`, where it isn't the token that is wrong.
    pub fn refused(&self, what: &str, status: StatusCode, body: &[u8], remedy: &str) -> String {
        let said = serde_json::from_slice(body).map_or_else(
            |_| plain(&String::from_utf8_lossy(body)),
            |status: Status| plain(&status.message),
        );
        let remedy = match (status, remedy) {
            (StatusCode::UNAUTHORIZED, _) => {
                let token = self.token.display();
                format!("; let {token} hold a token of this cluster that has not expired")
            }
            (_, "") => String::new(),
            (_, remedy) => format!("; {remedy}"),
        };
        format!("{}: can't {what} ({status}): {said}{remedy}", self.address)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn a_pod_finds_the_api_server_by_its_environment() {
        let found = |host: &str, port: &str| {
            in_cluster(|name| {
                let value = if name.ends_with("_HOST") { host } else { port };
                (!value.is_empty()).then(|| value.to_owned())
            })
        };
        let tls = |at: &str| Ok(Address::Tls(at.to_owned()));
        assert_eq!(found("10.96.0.1", "443"), tls("10.96.0.1:443"));
        assert_eq!(found("fd00::1", "443"), tls("[fd00::1]:443"));
        assert!(found("", "443").unwrap_err().contains("kubernetes.address is missing"));
        assert!(found("10.96.0.1", "x").is_err());
    }
}
