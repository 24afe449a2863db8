//! A controller that stands for election, before an etcd that is imitated and takes certificates of its own
//! authority: what of others' offices is remembered where etcd loses it, and how one begins above them.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controller::election::machine::Record;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use protocol::agent::{Commands, Host, Report};
use protocol::operator::{Act, Order};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::wait::{PATIENCE, until};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use units::Span;
use wire::certs;
use wire::client::{Address, Client};
use wire::identity::{Identity, Role};
use wire::lines::{self, Lines};
use wire::tls::{self, Files};

/// What etcd holds: keys with their value and the revision at which that was written.
#[derive(Default)]
struct Held {
    revision: u64,
    keys: HashMap<String, (String, u64)>,
}

impl Held {
    fn put(&mut self, key: &str, value: &str) {
        self.revision += 1;
        self.keys.insert(key.to_owned(), (value.to_owned(), self.revision));
    }

    fn pairs(&self, asked: &Value) -> Vec<Value> {
        let key = asked["key"].as_str().unwrap();
        let pair = self.keys.get(key);
        let pair = pair.map(|(value, revision)| {
            json!({ "key": key, "value": value, "mod_revision": revision.to_string() })
        });
        pair.into_iter().collect()
    }

    fn header(&self) -> Value {
        json!({ "revision": self.revision.to_string() })
    }
}

type Shared = Arc<Mutex<Held>>;

async fn range(State(held): State<Shared>, Json(asked): Json<Value>) -> Json<Value> {
    let held = held.lock().unwrap();
    Json(json!({ "header": held.header(), "kvs": held.pairs(&asked) }))
}

async fn txn(State(held): State<Shared>, Json(asked): Json<Value>) -> Json<Value> {
    let mut held = held.lock().unwrap();
    let compare = &asked["compare"][0];
    let known = held.keys.get(compare["key"].as_str().unwrap());
    let holds = if compare["target"] == "MOD" {
        let asked = compare["mod_revision"].as_str().and_then(|text| text.parse().ok());
        asked == Some(known.map_or(0, |known| known.1))
    } else {
        known.is_some_and(|known| compare["value"] == known.0)
    };
    if holds {
        let put = &asked["success"][0]["request_put"];
        held.put(put["key"].as_str().unwrap(), put["value"].as_str().unwrap());
        return Json(json!({ "header": held.header(), "succeeded": true }));
    }
    let range = asked["failure"][0].get("request_range").map(|asked| held.pairs(asked));
    let responses = range.map(|kvs| json!({ "response_range": { "kvs": kvs } }));
    let responses: Vec<Value> = responses.into_iter().collect();
    Json(json!({ "header": held.header(), "responses": responses }))
}

/// An etcd, and the folder of a controller that asks it.
struct World {
    folder: TempDir,
    held: Shared,
    /// With what etcd serves, and the number of its authority.
    serves: watch::Sender<(u64, Arc<ServerConfig>)>,
    /// The last authority by which somebody got in.
    entered: Arc<AtomicU64>,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let serves = watch::Sender::new((1, certify(folder.path())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let etcd = format!("https://{}", listener.local_addr().unwrap());
        let world = Self { folder, held: Shared::default(), serves, entered: Arc::default() };
        let router = Router::new()
            .route("/v3/kv/range", post(range))
            .route("/v3/kv/txn", post(txn))
            .with_state(Arc::clone(&world.held));
        let (serves, entered) = (world.serves.subscribe(), Arc::clone(&world.entered));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (router, mut serves) = (router.clone(), serves.clone());
                let entered = Arc::clone(&entered);
                tokio::spawn(async move {
                    let (authority, config) = serves.borrow_and_update().clone();
                    let stream = TlsAcceptor::from(config).accept(stream).await;
                    let Ok(stream) = stream else { return };
                    entered.fetch_max(authority, Ordering::Relaxed);
                    let service = TowerToHyperService::new(router);
                    let served = http1::Builder::new();
                    let served = served.serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = served => {}
                        // As where etcd is started again.
                        _ = serves.changed() => {}
                    }
                });
            }
        });
        let text = format!(
            "state = \"state\"\n[listen]\nsocket = \"controller.sock\"\n\
             [election]\nname = \"c2\"\naddress = \"https://10.0.0.2:7443\"\netcd = [\"{etcd}\"]\n\
             [election.tls]\nca = \"certs/ca.crt\"\ncertificate = \"certs/operator-ctl.crt\"\n\
             key = \"certs/operator-ctl.key\"\n\
             [policy]\nname = \"tcp\"\n[topology]\nkind = \"star\"\nhosts = 2\n\
             access = {{ capacity = \"1 Gbit/s\", delay = \"1 us\", buffer = \"100 packets\" }}\n\
             [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n"
        );
        std::fs::write(world.file(), text).unwrap();
        std::fs::create_dir(world.path("state")).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("controller.toml")
    }

    fn socket(&self) -> Address {
        Address::Unix(self.path("controller.sock"))
    }

    /// etcd is given another authority, and the controller's files certificates of that.
    fn certify_anew(&self) {
        let config = certify(self.folder.path());
        self.serves.send_modify(|serves| *serves = (serves.0 + 1, config));
    }

    fn put(&self, name: &str, value: &[u8]) {
        self.held.lock().unwrap().put(&key(name), &STANDARD.encode(value));
    }

    /// Another controller leads, and its lease outlives every test.
    fn led_by_another(&self, epoch: u64) {
        let record = Record {
            name: "c1".into(),
            address: "https://10.0.0.1:7443".into(),
            epoch,
            process: 1,
            lease_ns: Span::from_secs(3_600),
            since_s: 0,
            released: false,
        };
        self.put("leader", &serde_json::to_vec(&record).unwrap());
    }

    fn loses(&self, name: &str) {
        self.held.lock().unwrap().keys.remove(&key(name));
    }

    /// The epoch under which the controller leads.
    fn leads(&self) -> Option<u64> {
        let value = self.held.lock().unwrap().keys.get(&key("leader"))?.0.clone();
        let record: Record = serde_json::from_slice(&STANDARD.decode(value).unwrap()).unwrap();
        (record.name == "c2").then_some(record.epoch)
    }

    /// What `STATE/epoch` holds.
    fn epoch(&self) -> Option<u64> {
        std::fs::read_to_string(self.path("state/epoch")).ok()?.trim().parse().ok()
    }

    /// What `STATE/orders.json` holds.
    fn orders(&self) -> Option<Vec<Act>> {
        serde_json::from_slice(&std::fs::read(self.path("state/orders.json")).ok()?).ok()
    }

    /// What `check` finds while the controller runs.
    async fn beside<T>(&self, check: impl Future<Output = T>) -> T {
        let file = self.file();
        tokio::select! {
            ended = controller::run(&file, Arc::default(), || ()) => panic!("it has ended: {ended:?}"),
            found = check => found,
        }
    }
}

fn key(name: &str) -> String {
    STANDARD.encode(format!("/watermaster/{name}"))
}

/// An authority, certificates of etcd and of the controller, and how etcd serves with them.
fn certify(folder: &Path) -> Arc<ServerConfig> {
    let folder = folder.join("certs");
    let order = |role, name: &str, at: &[&str]| certs::Order {
        identity: Identity { role, name: name.to_owned() },
        reached_by: at.iter().map(|at| (*at).to_owned()).collect(),
    };
    // Whoever is a client has the usage for it.
    let orders =
        [order(Role::Controller, "etcd", &["127.0.0.1"]), order(Role::Operator, "ctl", &[])];
    certs::make(&folder, &orders, true).unwrap();
    let files = Files {
        ca: folder.join("ca.crt"),
        certificate: folder.join("controller-etcd.crt"),
        key: folder.join("controller-etcd.key"),
        crl: None,
    };
    Arc::new(tls::server(&files).unwrap())
}

fn act(order: Order) -> Act {
    Act { at_s: 1, by: "operator me".into(), order }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_only_followed_begins_above_the_record_that_is_lost() {
    let world = World::new().await;
    world.led_by_another(7);
    let check = async {
        until("the epoch is written down", async || (world.epoch() == Some(7)).then_some(())).await;
        world.loses("leader");
        let later = async || world.epoch().filter(|epoch| *epoch > 7);
        until("it begins to lead", later).await
    };
    let epoch = world.beside(check).await;
    assert_eq!(world.leads(), Some(epoch));
}

/// The order that stands is at hand at each controller: where etcd loses it, the first that leads brings it.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_follows_writes_down_the_orders_that_stand() {
    let world = World::new().await;
    world.led_by_another(1);
    let freeze = vec![act(Order::Freeze { reason: None })];
    world.put("orders", &serde_json::to_vec(&freeze).unwrap());
    let check = async {
        until("it is written down", async || (world.orders()? == freeze).then_some(())).await;
        world.loses("orders");
        world.loses("leader");
        let mut told = until("it stands again", async || {
            let mut client = Client::connect(&world.socket(), None).await.ok()?;
            let told = client.get("/v1/orders").await.ok()?;
            serde_json::from_slice::<Value>(&told).ok()
        })
        .await;
        assert_eq!(told["standing"].take(), serde_json::to_value(&freeze).unwrap());
    };
    world.beside(check).await;
}

/// What it was ordered itself, before, is over where the orders that stand don't have it.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_elected_writes_down_the_orders_that_stand() {
    let world = World::new().await;
    let before = vec![act(Order::Freeze { reason: None })];
    std::fs::write(world.path("state/orders.json"), serde_json::to_vec(&before).unwrap()).unwrap();
    world.put("orders", b"[]");
    let check = until("it is written down", async || world.orders()?.is_empty().then_some(()));
    world.beside(check).await;
    assert_eq!(world.leads(), Some(1), "it was elected");
}

/// Nobody here knows what the agents obey: neither etcd nor the controller's state.
#[tokio::test(flavor = "multi_thread")]
async fn one_whom_its_agents_refuse_leads_again_above_what_they_obey() {
    const OBEYS: u64 = 5;
    let world = World::new().await;
    let agent = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let Ok(client) = Client::connect(&world.socket(), None).await else { continue };
            let Ok(stream) = client.exchange("/v1/agents/a/exchange").await else { continue };
            let (reader, mut writer) = tokio::io::split(stream);
            let mut lines = Lines::new(tokio::io::BufReader::new(reader), 1 << 20);
            let host = Host { name: "h0".into(), addresses: vec![[10, 0, 0, 1].into()] };
            let mut said = Report::Hello { hosts: vec![host], capabilities: vec![], epoch: OBEYS };
            loop {
                let mut out = Vec::new();
                lines::append(&said, &mut out).unwrap();
                if writer.write_all(&out).await.is_err() || writer.flush().await.is_err() {
                    break;
                }
                let told = loop {
                    match lines.next::<Commands>().await {
                        Ok(Some(None)) => {}
                        Ok(Some(Some(commands))) => break Some(commands.epoch),
                        Ok(None) | Err(_) => break None,
                    }
                };
                match told {
                    Some(epoch) if epoch > OBEYS => return epoch,
                    Some(epoch) => said = Report::Stale { epoch, obeys: OBEYS },
                    None => break,
                }
            }
        }
    };
    let check = tokio::time::timeout(PATIENCE, agent);
    let epoch = world.beside(check).await.expect("it is told of a later epoch");
    assert_eq!(world.leads(), Some(epoch));
}

/// etcd has another authority and is started again. A controller that has read its new certificates gets in.
#[tokio::test(flavor = "multi_thread")]
async fn the_certificates_for_etcd_are_read_again_with_the_configuration() {
    let world = World::new().await;
    let check = async {
        until("it leads", async || world.leads()).await;
        let told = until("metrics", async || {
            let mut client = Client::connect(&world.socket(), None).await.ok()?;
            client.get("/metrics").await.ok()
        })
        .await;
        let told = String::from_utf8_lossy(&told).into_owned();
        let own = world.path("certs/operator-ctl.crt");
        let ends = format!(
            "watermaster_certificate_ends_timestamp_seconds{{file=\"{}\"}} ",
            own.display()
        );
        assert!(told.contains(&ends), "{told}");
        world.certify_anew();
        let hangup = format!("kill -HUP {}", std::process::id());
        assert!(Command::new("sh").args(["-c", &hangup]).status().unwrap().success());
        let entered = async || (world.entered.load(Ordering::Relaxed) == 2).then_some(());
        until("it gets in with its new certificate", entered).await;
    };
    world.beside(check).await;
}
