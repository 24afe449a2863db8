//! A Lease of Kubernetes (`coordination.k8s.io/v1`) as the store. The leader's record and the orders that stand are
//! annotations of it, so that one conditional write is about both; the fields of the Lease say the same to people
//! (`docs/decisions/a-lease-is-patched.md`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use protocol::kubernetes::is_object;
use protocol::operator::Act;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use wire::kubernetes::{ApiServer, SERVICE_ACCOUNT, in_time, line, plain};

use super::machine::{Action, Record, Revision, Said};
use crate::settings;

/// The annotation that holds the leader's record.
const LEADER: &str = "watermaster/leader";
/// The annotation that holds the orders that stand.
const ORDERS: &str = "watermaster/orders";
/// Most octets of the orders that stand. Kubernetes takes 256 KiB of annotations, keys and values
/// (`TotalAnnotationSizeLimitB`); the rest is for the record, and for annotations of others.
const MOST_ORDERS: usize = 240 << 10;
/// Most octets of an answer: more than Kubernetes keeps of an object.
const MOST_ANSWER: usize = 4 << 20;
/// How often an order is tried: the leader writes its record meanwhile, and answers are lost.
const TRIES: usize = 4;

/// A Lease, by the API server.
pub struct Kubernetes {
    server: ApiServer,
    namespace: String,
    name: String,
    /// How long the API server may take for what is wanted.
    patience: Duration,
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

impl Kubernetes {
    /// Asks the API server about the Lease that is `wanted`.
    ///
    /// # Errors
    /// This is no pod, and what isn't configured isn't known; or a file can't be used.
    pub fn new(wanted: &settings::Kubernetes, patience: Duration) -> Result<Self, String> {
        let server = ApiServer::new(&wanted.access, MOST_ANSWER)?;
        let namespace = match &wanted.namespace {
            Some(namespace) => namespace.clone(),
            None => line(&Path::new(SERVICE_ACCOUNT).join("namespace"), "namespace")?,
        };
        // It becomes part of a path.
        if !is_object(&namespace) {
            let namespace = plain(&namespace);
            return Err(format!("\"{namespace}\" is no namespace; write kubernetes.namespace"));
        }
        // What can't be used is told at once.
        server.check()?;
        Ok(Self { server, namespace, name: wanted.name.clone(), patience, seen: None })
    }

    async fn ask(
        &mut self,
        method: &Method,
        content: &'static str,
        body: String,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace);
        if *method != Method::POST {
            path = format!("{path}/{}", self.name);
        }
        self.server.ask(method.clone(), &path, content, body).await
    }

    /// What a refusal says, and what to do.
    fn refused(&self, method: &Method, status: StatusCode, body: &[u8]) -> String {
        let Self { server, namespace, name, .. } = self;
        let verb = match *method {
            Method::GET => "get",
            Method::POST => "create",
            _ => "patch",
        };
        let remedy = match status {
            StatusCode::FORBIDDEN => format!(
                "grant get, create and patch of leases in coordination.k8s.io, namespace {namespace}, to who has the \
                 token"
            ),
            StatusCode::NOT_FOUND => {
                "make the namespace, or name another by election.kubernetes.namespace".to_owned()
            }
            _ => String::new(),
        };
        server.refused(&format!("{verb} the Lease {namespace}/{name}"), status, body, &remedy)
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
    fn times_are_written_as_kubernetes_reads_them() {
        let at = Duration::new(951_782_400, 7_000);
        assert_eq!(written(at).unwrap(), "2000-02-29T00:00:00.000007Z");
        assert_eq!(written(Duration::MAX), None);
    }
}
