//! etcd as the store: its JSON gateway (`/v3/kv/range`, `/v3/kv/txn`; etcd 3.4 and later), over the HTTP that
//! daemons have anyway (`docs/decisions/etcd-by-its-gateway.md`).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use protocol::operator::Act;
use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use wire::client::{Address, Client};

use super::machine::{Action, Record, Said};

/// etcd, by whichever of its members answers.
pub struct Etcd {
    members: Vec<Address>,
    tls: Option<Arc<ClientConfig>>,
    prefix: String,
    /// How long a member may take to answer.
    patience: Duration,
    /// The member that is asked first, and the connection to it.
    at: usize,
    client: Option<Client>,
}

/// What the gateway answers; of numbers it makes texts.
#[derive(Deserialize)]
struct Answer {
    header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<Part>,
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    response_range: Option<Range>,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    mod_revision: String,
    #[serde(default)]
    value: String,
}

impl Pair {
    fn value(&self) -> Result<Vec<u8>, String> {
        STANDARD.decode(&self.value).map_err(|error| format!("a value is no base64: {error}"))
    }
}

/// The answer to an action, as `/v3/kv/range` or `/v3/kv/txn` gives it.
///
/// # Errors
/// It is something else, or what the key holds is no record: why.
pub fn read(body: &[u8]) -> Result<Said, String> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| format!("etcd's answer can't be read: {error}"))?;
    if answer.succeeded {
        return Ok(Said::Written(answer.header.revision));
    }
    let mut ranges = answer.responses.into_iter().filter_map(|part| part.response_range);
    let held = ranges.next().map_or(answer.kvs, |range| range.kvs);
    let Some(pair) = held.into_iter().next() else { return Ok(Said::Holds(None, None)) };
    let record = Record::read(&pair.value()?, "the key of the leader")?;
    Ok(Said::Holds(Some(record), Some(pair.mod_revision)))
}

impl Etcd {
    /// Asks `members` of etcd about keys that begin with `prefix`.
    pub fn new(
        members: Vec<Address>,
        tls: Option<Arc<ClientConfig>>,
        prefix: String,
        patience: Duration,
    ) -> Self {
        Self { members, tls, prefix, patience, at: 0, client: None }
    }

    fn key(&self, name: &str) -> String {
        STANDARD.encode(format!("{}{name}", self.prefix))
    }

    /// Does what the machine wants.
    ///
    /// # Errors
    /// No answer, or none that can be understood: why. It may be done all the same.
    pub async fn act(&mut self, action: &Action) -> Result<Said, String> {
        let key = self.key("leader");
        let body = match action {
            Action::Read => self.ask("range", &json!({ "key": key })).await?,
            Action::Write { over, record } => {
                // etcd says of a key that isn't there that its revision is 0.
                let revision = over.as_deref().unwrap_or("0");
                let compare = json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision });
                let put = json!({ "request_put": { "key": key, "value": encoded(record) } });
                let range = json!({ "request_range": { "key": key } });
                let asked = json!({ "compare": [compare], "success": [put], "failure": [range] });
                self.ask("txn", &asked).await?
            }
        };
        read(&body)
    }

    /// The orders that stand; `None`: none was ever kept.
    ///
    /// # Errors
    /// As [`Etcd::act`].
    pub async fn standing(&mut self) -> Result<Option<Vec<Act>>, String> {
        let body = self.insist("range", &json!({ "key": self.key("orders") })).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let Some(pair) = answer.kvs.first() else { return Ok(None) };
        let orders = serde_json::from_slice(&pair.value()?);
        orders.map(Some).map_err(|error| {
            format!("{}orders holds no orders: {error}; correct or remove it", self.prefix)
        })
    }

    /// Keeps the orders that stand, as long as `leader` leads.
    ///
    /// # Errors
    /// It leads no longer, or as [`Etcd::act`].
    pub async fn keep(&mut self, leader: &Record, standing: &[Act]) -> Result<(), String> {
        let key = self.key("leader");
        let compare =
            json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": encoded(leader) });
        let orders = serde_json::to_vec(standing).map_err(|error| error.to_string())?;
        let put = json!({ "key": self.key("orders"), "value": STANDARD.encode(orders) });
        let asked = json!({ "compare": [compare], "success": [{ "request_put": put }] });
        let body = self.insist("txn", &asked).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        if answer.succeeded { Ok(()) } else { Err("another controller leads".to_owned()) }
    }

    /// Asks one member after another, each twice at most.
    async fn insist(&mut self, what: &str, body: &Value) -> Result<hyper::body::Bytes, String> {
        for _ in 1..2 * self.members.len() {
            if let Ok(answer) = self.ask(what, body).await {
                return Ok(answer);
            }
        }
        self.ask(what, body).await
    }

    /// Asks one member, over the connection there is; where that fails, the next time another.
    async fn ask(&mut self, what: &str, body: &Value) -> Result<hyper::body::Bytes, String> {
        let address = self.members[self.at % self.members.len()].clone();
        let asked = timeout(self.patience, async {
            let mut client = match self.client.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => Client::connect(&address, self.tls.as_ref()).await?,
            };
            let path = format!("/v3/kv/{what}");
            let answer = client.ask(Method::POST, &path, body.to_string().into_bytes()).await?;
            Ok::<_, wire::client::ClientError>((client, answer))
        });
        let why = match asked.await {
            Ok(Ok((client, (status, body)))) if status.is_success() => {
                self.client = Some(client);
                return Ok(body);
            }
            Ok(Ok((_, (status, body)))) => {
                let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                format!("etcd refuses ({status}): {said}")
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} ms", self.patience.as_millis()),
        };
        self.at = (self.at + 1) % self.members.len();
        Err(format!("{address}: {why}"))
    }
}

fn encoded(record: &Record) -> String {
    // Texts and numbers can always be written, and the same always alike.
    STANDARD.encode(serde_json::to_vec(record).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use protocol::agent::MOST_EPOCH;
    use units::Span;

    use super::*;

    /// What etcd 3.4 says, in its words.
    #[test]
    fn answers_are_read() {
        let record = Record {
            name: "a".into(),
            address: "https://10.0.0.1:7443".into(),
            epoch: 3,
            process: 9,
            lease_ns: Span::from_secs(2),
            since_s: 1,
            released: false,
        };
        let pair = |value: &str| json!({ "key": "bA==", "mod_revision": "12", "value": value });
        let said = |value: Value| read(value.to_string().as_bytes());
        let header = json!({ "revision": "15", "raft_term": "2" });
        let written =
            json!({ "header": header, "succeeded": true, "responses": [{ "response_put": {} }] });
        assert_eq!(said(written), Ok(Said::Written("15".into())));
        let held = Ok(Said::Holds(Some(record.clone()), Some("12".into())));
        let kvs = json!([pair(&encoded(&record))]);
        assert_eq!(said(json!({ "header": header, "kvs": kvs, "count": "1" })), held);
        let range = json!({ "response_range": { "header": header, "kvs": kvs } });
        assert_eq!(said(json!({ "header": header, "responses": [range] })), held);
        assert_eq!(said(json!({ "header": header })), Ok(Said::Holds(None, None)));
        let beyond = encoded(&Record { epoch: MOST_EPOCH + 1, ..record });
        let wrong = said(json!({ "header": header, "kvs": [pair(&beyond)] })).unwrap_err();
        assert!(wrong.contains("remove the key of the leader"), "{wrong}");
        for (value, why) in [("e30=", "something else"), ("?", "no base64")] {
            let wrong = said(json!({ "header": header, "kvs": [pair(value)] })).unwrap_err();
            assert!(wrong.contains(why), "{wrong}");
        }
    }
}
