//! A Lease of Kubernetes (`coordination.k8s.io/v1`) as the store. The leader's record and the orders that stand are
//! annotations of it, so that one conditional write is about both; the fields of the Lease say the same to people
//! (`docs/decisions/a-lease-is-patched.md`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use protocol::operator::Act;
use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::timeout;
use wire::client::{Address, Client, ClientError};
use wire::tls;

use super::machine::{Action, Record, Revision, Said};
use crate::settings::{self, SERVICE_ACCOUNT};

/// The annotation that holds the leader's record.
const LEADER: &str = "watermaster/leader";
/// The annotation that holds the orders that stand.
const ORDERS: &str = "watermaster/orders";
/// Most octets of the orders that stand. Kubernetes takes 256 KiB of annotations, keys and values
/// (`TotalAnnotationSizeLimitB`); the rest is for the record, and for annotations of others.
const MOST_ORDERS: usize = 240 << 10;
/// Most octets that are read of a token or a namespace.
const MOST_LINE: u64 = 64 << 10;
/// How often an order is tried: the leader writes its record meanwhile, and answers are lost.
const TRIES: usize = 4;

/// A Lease, by the API server.
pub struct Kubernetes {
    address: Address,
    namespace: String,
    name: String,
    token: PathBuf,
    ca: PathBuf,
    /// How long the API server may take for what is wanted.
    patience: Duration,
    client: Option<Client>,
    /// What stood there when it was heard last.
    seen: Option<Lease>,
}

/// What stands in a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    revision: Revision,
    record: Option<Record>,
    orders: Option<String>,
    /// How often it has passed from one holder to another.
    transitions: i32,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Revision,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    holder_identity: Option<String>,
    lease_transitions: Option<i32>,
}

/// What the API server says where it says no.
#[derive(Deserialize)]
struct Status {
    message: String,
}

/// The Lease that the API server answers with.
///
/// # Errors
/// It is something else, or not of Watermaster: why.
pub fn read(body: &[u8]) -> Result<Lease, String> {
    let object: Object = serde_json::from_slice(body)
        .map_err(|error| format!("the API server's answer is no Lease: {error}"))?;
    let Metadata { resource_version: revision, annotations } = object.metadata;
    // A write over it would be one over anything.
    if revision.is_empty() {
        return Err("the API server's answer has no metadata.resourceVersion".to_owned());
    }
    let mut annotations = annotations.unwrap_or_default();
    let record = annotations.remove(LEADER);
    let record = record.map(|text| Record::read(text.as_bytes(), "the Lease")).transpose();
    let record = record.map_err(|why| plain(&why))?;
    let holder = object.spec.holder_identity.filter(|holder| !holder.is_empty());
    if let (None, Some(holder)) = (&record, holder) {
        return Err(format!(
            "the Lease is held by {}, which is no controller of Watermaster: name another by \
             election.kubernetes.name",
            plain(&holder)
        ));
    }
    let transitions = object.spec.lease_transitions.unwrap_or(0);
    Ok(Lease { revision, record, orders: annotations.remove(ORDERS), transitions })
}

/// A text of others, as a line of ours may have it.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// What the machine is told of a Lease.
fn holds(lease: Option<Lease>) -> Said {
    lease.map_or(Said::Holds(None, None), |lease| Said::Holds(lease.record, Some(lease.revision)))
}

/// The fields of the Lease that say to people what `record` says, which takes the place of what is `known`.
fn spec(record: &Record, known: Option<&Lease>, now: Duration) -> Value {
    let former = known.and_then(|known| known.record.as_ref());
    let passes = former.is_some_and(|former| former.process != record.process);
    let transitions = known.map_or(0, |known| known.transitions);
    // Kubernetes knows whole seconds, and not zero.
    let lease_s = record.lease_ns.as_nanos().div_ceil(1_000_000_000).max(1);
    json!({
        "holderIdentity": if record.released { "" } else { record.name.as_str() },
        "leaseDurationSeconds": lease_s,
        "acquireTime": written(Duration::from_secs(record.since_s)),
        "renewTime": written(now),
        "leaseTransitions": transitions.saturating_add(i32::from(passes)),
    })
}

/// A time since 1970 as Kubernetes writes it, and wants it: with six digits below the second.
fn written(since: Duration) -> Option<String> {
    let at = i128::try_from(since.as_nanos()).ok()?;
    let at = OffsetDateTime::from_unix_timestamp_nanos(at).ok()?;
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, micros) = (at.hour(), at.minute(), at.second(), at.microsecond());
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"))
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

/// The line that a file holds; `key` is what names another file.
fn line(file: &Path, key: &str) -> Result<String, String> {
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
async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || format!("no answer of the API server within {} ms", patience.as_millis());
    timeout(patience, answer).await.unwrap_or_else(|_| Err(late()))
}

impl Kubernetes {
    /// Asks the API server about the Lease that is `wanted`.
    ///
    /// # Errors
    /// This is no pod, and what isn't configured isn't known; or a file can't be used.
    pub fn new(wanted: &settings::Kubernetes, patience: Duration) -> Result<Self, String> {
        let address = match &wanted.address {
            Some(address) => address.clone(),
            None => in_cluster(|name| std::env::var(name).ok())?,
        };
        let namespace = match &wanted.namespace {
            Some(namespace) => namespace.clone(),
            None => line(&Path::new(SERVICE_ACCOUNT).join("namespace"), "namespace")?,
        };
        // It becomes part of a path.
        if !settings::is_object(&namespace) {
            let namespace = plain(&namespace);
            return Err(format!("\"{namespace}\" is no namespace; write kubernetes.namespace"));
        }
        let found = Self {
            address,
            namespace,
            name: wanted.name.clone(),
            token: wanted.token.clone(),
            ca: wanted.ca.clone(),
            patience,
            client: None,
            seen: None,
        };
        // What can't be used is told at once.
        found.headers("application/json")?;
        found.trusted()?;
        Ok(found)
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

    /// Asks over the connection there is, or a new one.
    async fn ask(
        &mut self,
        method: &Method,
        content: &'static str,
        body: String,
    ) -> Result<(StatusCode, Bytes), String> {
        let headers = self.headers(content)?;
        let mut path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace);
        if *method != Method::POST {
            path = format!("{path}/{}", self.name);
        }
        let mut client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let trusted = self.trusted()?;
                Client::connect(&self.address, trusted.as_ref())
                    .await
                    .map_err(|error| error.to_string())?
            }
        };
        let asked = client.ask_with(method.clone(), &path, headers, body.into_bytes());
        let (status, answer) = asked.await.map_err(|error| format!("{}: {error}", self.address))?;
        // Where it can't answer, a new connection may find another API server.
        if !status.is_server_error() {
            self.client = Some(client);
        }
        Ok((status, answer))
    }

    /// What a refusal says, and what to do.
    fn refused(&self, method: &Method, status: StatusCode, body: &[u8]) -> String {
        let said = serde_json::from_slice(body).map_or_else(
            |_| plain(&String::from_utf8_lossy(body)),
            |status: Status| plain(&status.message),
        );
        let Self { address, namespace, name, .. } = self;
        let verb = match *method {
            Method::GET => "get",
            Method::POST => "create",
            _ => "patch",
        };
        let remedy = match status {
            StatusCode::UNAUTHORIZED => {
                let token = self.token.display();
                format!("; let {token} hold a token of this cluster that has not expired")
            }
            StatusCode::FORBIDDEN => format!(
                "; grant get, create and patch of leases in coordination.k8s.io, namespace {namespace}, to who has the \
                 token"
            ),
            StatusCode::NOT_FOUND => {
                "; make the namespace, or name another by election.kubernetes.namespace".to_owned()
            }
            _ => String::new(),
        };
        format!("{address}: can't {verb} the Lease {namespace}/{name} ({status}): {said}{remedy}")
    }

    /// The Lease, where there is one.
    async fn get(&mut self) -> Result<Option<Lease>, String> {
        let (status, body) = self.ask(&Method::GET, "application/json", String::new()).await?;
        let found = match status {
            StatusCode::NOT_FOUND => None,
            _ if status.is_success() => Some(read(&body)?),
            _ => return Err(self.refused(&Method::GET, status, &body)),
        };
        self.seen.clone_from(&found);
        Ok(found)
    }

    /// Changes what stands under revision `over`, or makes what isn't there; `None`: something else stands there.
    async fn put(
        &mut self,
        over: Option<&Revision>,
        annotations: Value,
        spec: Value,
    ) -> Result<Option<Lease>, String> {
        let mut metadata = json!({ "annotations": annotations });
        let (method, content, body) = if let Some(over) = over {
            // Where another stands there, that is a conflict; what isn't named stays as it is.
            metadata["resourceVersion"] = json!(over);
            let body = json!({ "metadata": metadata, "spec": spec });
            (Method::PATCH, "application/merge-patch+json", body)
        } else {
            metadata["name"] = json!(self.name);
            let version = "coordination.k8s.io/v1";
            let body = json!({
                "apiVersion": version, "kind": "Lease", "metadata": metadata, "spec": spec,
            });
            (Method::POST, "application/json", body)
        };
        let (status, answer) = self.ask(&method, content, body.to_string()).await?;
        match status {
            StatusCode::CONFLICT => Ok(None),
            StatusCode::NOT_FOUND if over.is_some() => Ok(None),
            _ if status.is_success() => {
                let lease = read(&answer)?;
                self.seen = Some(lease.clone());
                Ok(Some(lease))
            }
            _ => Err(self.refused(&method, status, &answer)),
        }
    }

    /// Does what the machine wants.
    ///
    /// # Errors
    /// No answer, or none that can be understood: why. It may be done all the same.
    pub async fn act(&mut self, action: &Action) -> Result<Said, String> {
        in_time(self.patience, self.answer(action)).await
    }

    async fn answer(&mut self, action: &Action) -> Result<Said, String> {
        let Action::Write { over, record } = action else { return Ok(holds(self.get().await?)) };
        let over = over.as_ref();
        // What stands there says how often the Lease has passed on.
        let known = match self.seen.take().filter(|seen| Some(&seen.revision) == over) {
            Some(seen) => Some(seen),
            None => self.get().await?,
        };
        if known.as_ref().map(|known| &known.revision) != over {
            return Ok(holds(known));
        }
        let record_text = serde_json::to_string(record).map_err(|error| error.to_string())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (annotations, spec) =
            (json!({ LEADER: record_text }), spec(record, known.as_ref(), now));
        let Some(lease) = self.put(over, annotations, spec).await? else {
            return Ok(holds(self.get().await?));
        };
        // Kubernetes doesn't write what changes nothing, and others would see no sign of life.
        if Some(&lease.revision) == over {
            return Err(
                "the Lease is as it was before it was written; set this machine's clock".to_owned()
            );
        }
        Ok(Said::Written(lease.revision))
    }

    /// The orders that stand; `None`: none was ever kept.
    ///
    /// # Errors
    /// As [`Kubernetes::act`].
    pub async fn standing(&mut self) -> Result<Option<Vec<Act>>, String> {
        let mut tries = 1;
        let lease = loop {
            match in_time(self.patience, self.get()).await {
                Err(_) if tries < TRIES => tries += 1,
                found => break found?,
            }
        };
        let Some(orders) = lease.and_then(|lease| lease.orders) else { return Ok(None) };
        serde_json::from_str(&orders).map(Some).map_err(|error| {
            format!(
                "the annotation {ORDERS} of the Lease holds no orders: {error}; correct or remove it"
            )
        })
    }

    /// Keeps the orders that stand, as long as `leader` leads.
    ///
    /// # Errors
    /// It leads no longer, the orders are too many, or as [`Kubernetes::act`].
    pub async fn keep(&mut self, leader: &Record, standing: &[Act]) -> Result<(), String> {
        let orders = serde_json::to_string(standing).map_err(|error| error.to_string())?;
        if orders.len() > MOST_ORDERS {
            let octets = orders.len();
            return Err(format!(
                "the orders that stand take {octets} octets, and a Lease has room for {MOST_ORDERS}; end some of them"
            ));
        }
        let mut tries = 1;
        loop {
            match in_time(self.patience, self.keep_once(leader, &orders)).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err("another controller leads".to_owned()),
                Err(_) if tries < TRIES => tries += 1,
                Err(why) => return Err(why),
            }
        }
    }

    /// Whether `leader` leads; the orders are kept then.
    async fn keep_once(&mut self, leader: &Record, orders: &str) -> Result<bool, String> {
        let lease = self.get().await?.filter(|lease| lease.record.as_ref() == Some(leader));
        let Some(lease) = lease else { return Ok(false) };
        let kept = self.put(Some(&lease.revision), json!({ ORDERS: orders }), json!({})).await?;
        kept.map(|_| true).ok_or_else(|| "others write the Lease all the time".to_owned())
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

    #[test]
    fn times_are_written_as_kubernetes_reads_them() {
        let at = Duration::new(951_782_400, 7_000);
        assert_eq!(written(at).unwrap(), "2000-02-29T00:00:00.000007Z");
        assert_eq!(written(Duration::MAX), None);
    }
}
