//! A Lease of Kubernetes as the store, before an API server that is imitated: it takes what Kubernetes takes and refuses
//! the rest, writes nothing where nothing changes, and its revisions are no numbers.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::{Json, Router};
use controller::election::machine::{Action, Candidate, Election, Record, Said};
use controller::election::{self, Store, kubernetes};
use controller::settings;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use protocol::operator::{Act, Order};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::wait::PATIENCE;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use units::{Span, Time};
use wire::certs;
use wire::client::{Address, Client};
use wire::identity::{Identity, Role};
use wire::kubernetes::Access;

/// A quarter of it is how long an answer is waited for.
const LEASE: Span = Span::from_secs(40);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/traffic/leases";
const LEADER: &str = "watermaster/leader";
const ORDERS: &str = "watermaster/orders";

/// A cluster that may have one Lease, `traffic/wm`.
#[derive(Default)]
struct Cluster {
    held: Option<Value>,
    writes: u64,
    token: String,
    /// Says this to all.
    refuses: Option<StatusCode>,
    /// Does what changes something, and says that it took too long.
    loses: bool,
    /// Says the same, and does it later.
    delays: bool,
    /// What it does later: method, path, kind of content and body.
    late: Vec<(Method, String, String, Vec<u8>)>,
    /// Answers nothing.
    is_silent: bool,
    /// Writes nothing, and says that it has.
    is_idle: bool,
    /// Another makes this Lease first.
    rival: Option<Value>,
    /// So many changes find that another was first.
    conflicts: usize,
}

type Shared = Arc<Mutex<Cluster>>;
type Answer = (StatusCode, Value);

fn refusal(status: StatusCode, message: &str) -> Answer {
    let code = status.as_u16();
    (status, json!({ "kind": "Status", "metadata": {}, "message": message, "code": code }))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in members {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key.as_str()], value);
        }
    }
}

/// Why Kubernetes doesn't take a Lease.
fn wrong(object: &Value) -> Option<&'static str> {
    let spec = &object["spec"];
    let is_time = |value: &Value| {
        value.as_str().is_some_and(|at| at.len() == 27 && &at[19..20] == "." && at.ends_with('Z'))
    };
    let annotations = object["metadata"]["annotations"].as_object();
    let octets = annotations.into_iter().flatten();
    let octets: usize = octets.map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum();
    let rules = [
        (
            spec["leaseDurationSeconds"].as_i64().is_none_or(|seconds| seconds < 1),
            "spec.leaseDurationSeconds: must be greater than 0",
        ),
        (
            spec["leaseTransitions"].as_i64().is_none_or(|count| count < 0),
            "spec.leaseTransitions: must be greater than or equal to 0",
        ),
        (
            !is_time(&spec["acquireTime"]) || !is_time(&spec["renewTime"]),
            "cannot parse as \"2006-01-02T15:04:05.000000Z07:00\"",
        ),
        (octets > 256 << 10, "metadata.annotations: Too long"),
    ];
    rules.into_iter().find_map(|(is_broken, why)| is_broken.then_some(why))
}

impl Cluster {
    fn answer(&mut self, method: &Method, path: &str, headers: &HeaderMap, body: &[u8]) -> Answer {
        if header(headers, "authorization") != format!("Bearer {}", self.token) {
            return refusal(StatusCode::UNAUTHORIZED, "Unauthorized");
        }
        if let Some(status) = self.refuses {
            return refusal(status, "not\nnow");
        }
        let (content, changes) = (header(headers, "content-type"), *method != Method::GET);
        let too_late = || refusal(StatusCode::GATEWAY_TIMEOUT, "too late");
        if self.delays && changes {
            let (path, content) = (path.to_owned(), content.to_owned());
            self.late.push((method.clone(), path, content, body.to_vec()));
            return too_late();
        }
        let said = self.done(method, path, content, body);
        if self.loses && changes { too_late() } else { said }
    }

    /// Does one thing that is late; whether it changes something.
    fn catch_up(&mut self, which: usize) -> bool {
        let (method, path, content, body) = self.late.swap_remove(which);
        self.done(&method, &path, &content, &body).0.is_success()
    }

    fn done(&mut self, method: &Method, path: &str, content: &str, body: &[u8]) -> Answer {
        let is_lease = path == format!("{LEASES}/wm");
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let revision = &sent["metadata"]["resourceVersion"];
        let is_known = sent["apiVersion"] == "coordination.k8s.io/v1" && sent["kind"] == "Lease";
        match (method.as_str(), &self.held) {
            ("GET", Some(held)) if is_lease => (StatusCode::OK, held.clone()),
            ("POST", _) if path == LEASES && content == "application/json" => {
                if let Some(rival) = self.rival.take() {
                    self.put(rival, StatusCode::CREATED);
                }
                if !is_known || sent["metadata"]["name"] != "wm" || !revision.is_null() {
                    refusal(StatusCode::BAD_REQUEST, "no new Lease")
                } else if self.held.is_some() {
                    refusal(StatusCode::CONFLICT, "leases \"wm\" already exists")
                } else {
                    self.put(sent, StatusCode::CREATED)
                }
            }
            ("PATCH", Some(held)) if is_lease && content == "application/merge-patch+json" => {
                // Kubernetes lets it be left out. Who does so would write over anything.
                if !revision.is_string() {
                    return refusal(StatusCode::BAD_REQUEST, "it is over nothing");
                }
                if *revision != held["metadata"]["resourceVersion"] || self.conflicts > 0 {
                    self.conflicts = self.conflicts.saturating_sub(1);
                    return refusal(StatusCode::CONFLICT, "the object has been modified");
                }
                let mut object = held.clone();
                merge(&mut object, &sent);
                if object == *held || self.is_idle {
                    return (StatusCode::OK, held.clone());
                }
                self.put(object, StatusCode::OK)
            }
            _ => refusal(StatusCode::NOT_FOUND, "not found"),
        }
    }

    fn put(&mut self, mut object: Value, status: StatusCode) -> Answer {
        if let Some(wrong) = wrong(&object) {
            return refusal(StatusCode::UNPROCESSABLE_ENTITY, wrong);
        }
        self.writes += 1;
        object["metadata"]["resourceVersion"] = json!(format!("v{}", self.writes));
        self.held = Some(object.clone());
        (status, object)
    }
}

async fn serve(
    State(cluster): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let is_silent = cluster.lock().unwrap().is_silent;
    if is_silent {
        std::future::pending::<()>().await;
    }
    let (status, said) = cluster.lock().unwrap().answer(&method, uri.path(), &headers, &body);
    (status, Json(said))
}

/// A cluster, and the folder of a controller that is a pod there.
struct World {
    folder: TempDir,
    cluster: Shared,
    address: Address,
}

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let cluster = Cluster { token: "sesame".to_owned(), ..Cluster::default() };
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            cluster: Arc::new(Mutex::new(cluster)),
            address,
        };
        std::fs::write(world.path("token"), "sesame\n").unwrap();
        let router = world.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        world
    }

    fn router(&self) -> Router {
        Router::new().fallback(serve).with_state(Arc::clone(&self.cluster))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with(&self, change: impl FnOnce(&mut Cluster)) {
        change(&mut self.cluster.lock().unwrap());
    }

    fn lease(&self) -> Value {
        self.cluster.lock().unwrap().held.clone().unwrap()
    }

    fn wanted(&self, lease: Span) -> (settings::Election, settings::Kubernetes) {
        let lease_of = settings::Kubernetes {
            name: "wm".into(),
            namespace: Some("traffic".into()),
            access: Access {
                address: Some(self.address.clone()),
                token: self.path("token"),
                ca: self.path("ca.crt"),
            },
        };
        let election = settings::Election {
            name: "c1".into(),
            address: self.address.clone(),
            store: settings::Store::Kubernetes(lease_of.clone()),
            lease,
        };
        (election, lease_of)
    }

    fn store(&self) -> Store {
        election::store(&self.wanted(LEASE).0).unwrap()
    }
}

fn record(process: u64, epoch: u64) -> Record {
    Record {
        name: format!("c{process}"),
        address: format!("https://10.0.0.{process}:7443"),
        epoch,
        process,
        lease_ns: Span::from_millis(2_500),
        since_s: 1,
        released: false,
    }
}

async fn write(store: &mut Store, over: Option<&str>, record: &Record) -> Result<Said, String> {
    let over = over.map(str::to_owned);
    store.act(&Action::Write { over, record: record.clone() }).await
}

fn held(record: &Record, revision: &str) -> Result<Said, String> {
    Ok(Said::Holds(Some(record.clone()), Some(revision.to_owned())))
}

fn written(revision: &str) -> Result<Said, String> {
    Ok(Said::Written(revision.to_owned()))
}

fn freeze(at_s: u64) -> Vec<Act> {
    vec![Act { at_s, by: "operator me".into(), order: Order::Freeze { reason: None } }]
}

#[tokio::test]
async fn the_lease_says_to_people_who_leads() {
    let world = World::new().await;
    let (mut store, first) = (world.store(), record(1, 1));
    assert_eq!(store.act(&Action::Read).await, Ok(Said::Holds(None, None)));
    assert_eq!(write(&mut store, None, &first).await, written("v1"));
    let made = world.lease();
    let spec = &made["spec"];
    assert_eq!(spec["holderIdentity"], "c1");
    assert_eq!(spec["leaseDurationSeconds"], 3);
    assert_eq!(spec["acquireTime"], "1970-01-01T00:00:01.000000Z");
    assert_eq!(spec["leaseTransitions"], 0);
    // What is another's stays.
    world
        .with(|cluster| cluster.held.as_mut().unwrap()["metadata"]["labels"] = json!({ "a": "b" }));
    assert_eq!(write(&mut store, Some("v1"), &first).await, written("v2"));
    let renewed = world.lease();
    assert_ne!(renewed["spec"]["renewTime"], spec["renewTime"]);
    assert_eq!(renewed["spec"]["leaseTransitions"], 0);
    assert_eq!(renewed["metadata"]["labels"]["a"], "b");
    // Another process takes it over, and a store that has seen nothing yet knows how often that was done.
    let mut second = record(2, 2);
    assert_eq!(write(&mut world.store(), Some("v2"), &second).await, written("v3"));
    let taken = world.lease();
    assert_eq!(taken["spec"]["holderIdentity"], "c2");
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
    second.released = true;
    assert_eq!(write(&mut store, Some("v3"), &second).await, written("v4"));
    assert_eq!(world.lease()["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn what_another_wrote_is_said_and_stays() {
    let world = World::new().await;
    let (mut a, mut b) = (world.store(), world.store());
    let (first, second) = (record(1, 1), record(2, 2));
    assert_eq!(write(&mut a, None, &first).await, written("v1"));
    assert_eq!(write(&mut b, None, &second).await, held(&first, "v1"));
    assert_eq!(write(&mut a, Some("v1"), &first).await, written("v2"));
    assert_eq!(write(&mut b, Some("v1"), &second).await, held(&first, "v2"));
    // It has seen the revision that it writes over, which is another's by now.
    assert_eq!(write(&mut a, Some("v2"), &first).await, written("v3"));
    assert_eq!(write(&mut b, Some("v2"), &second).await, held(&first, "v3"));
    let gone = world.cluster.lock().unwrap().held.take();
    assert_eq!(write(&mut a, Some("v3"), &first).await, Ok(Said::Holds(None, None)));
    assert!(world.cluster.lock().unwrap().held.is_none(), "nothing is made over what is gone");
    world.with(|cluster| cluster.rival = gone);
    assert_eq!(write(&mut b, None, &second).await, held(&first, "v4"));
}

#[tokio::test]
async fn what_is_done_without_an_answer_is_seen_at_the_next_question() {
    let world = World::new().await;
    let (mut store, own) = (world.store(), record(1, 1));
    world.with(|cluster| cluster.loses = true);
    let said = write(&mut store, None, &own).await.unwrap_err();
    assert!(said.contains("504") && said.contains("too late"), "{said}");
    world.with(|cluster| cluster.loses = false);
    assert_eq!(store.act(&Action::Read).await, held(&own, "v1"));
    assert_eq!(write(&mut store, Some("v1"), &own).await, written("v2"));
    world.with(|cluster| cluster.is_silent = true);
    let mut hasty = election::store(&world.wanted(Span::from_millis(200)).0).unwrap();
    let said = hasty.act(&Action::Read).await.unwrap_err();
    assert!(said.contains("no answer of the API server within 50 ms"), "{said}");
}

/// Others see by the revision that a leader lives. Kubernetes gives none where nothing changes.
#[tokio::test]
async fn what_changes_nothing_renews_nothing() {
    let world = World::new().await;
    let (mut store, own) = (world.store(), record(1, 1));
    assert_eq!(write(&mut store, None, &own).await, written("v1"));
    world.with(|cluster| cluster.is_idle = true);
    let said = write(&mut store, Some("v1"), &own).await.unwrap_err();
    assert!(said.contains("as it was") && said.contains("clock"), "{said}");
}

#[tokio::test]
async fn a_place_that_was_made_before_is_taken_and_another_programs_is_left() {
    let world = World::new().await;
    let (mut store, own) = (world.store(), record(1, 1));
    let place = |holder: Value| {
        let metadata = json!({ "name": "wm", "resourceVersion": "v0" });
        json!({ "metadata": metadata, "spec": { "holderIdentity": holder } })
    };
    world.with(|cluster| cluster.held = Some(place(json!("scheduler"))));
    let said = store.act(&Action::Read).await.unwrap_err();
    assert!(said.contains("held by scheduler") && said.contains("kubernetes.name"), "{said}");
    world.with(|cluster| cluster.held = Some(place(Value::Null)));
    assert_eq!(store.act(&Action::Read).await, Ok(Said::Holds(None, Some("v0".into()))));
    assert_eq!(write(&mut store, Some("v0"), &own).await, written("v1"));
}

#[tokio::test]
async fn the_leader_alone_keeps_orders_and_goes_on_leading() {
    let world = World::new().await;
    let (mut store, mut shelf) = (world.store(), world.store());
    let own = record(1, 1);
    assert_eq!(write(&mut store, None, &own).await, written("v1"));
    assert_eq!(shelf.standing().await, Ok(None));
    world.with(|cluster| cluster.conflicts = 2);
    shelf.keep(&own, &freeze(1)).await.unwrap();
    // The next renewal meets the leader's own record, and the one after it is over that.
    assert_eq!(write(&mut store, Some("v1"), &own).await, held(&own, "v2"));
    assert_eq!(write(&mut store, Some("v2"), &own).await, written("v3"));
    assert_eq!(shelf.standing().await, Ok(Some(freeze(1))));
    let other = record(2, 2);
    let said = shelf.keep(&other, &freeze(2)).await.unwrap_err();
    assert_eq!(said, "another controller leads");
    world.with(|cluster| cluster.conflicts = 100);
    let said = shelf.keep(&own, &freeze(2)).await.unwrap_err();
    assert!(said.contains("all the time"), "{said}");
    world.with(|cluster| cluster.conflicts = 0);
    // Who takes the Lease over has the orders with it.
    assert_eq!(write(&mut store, Some("v3"), &other).await, written("v4"));
    assert_eq!(shelf.standing().await, Ok(Some(freeze(1))));
    world.with(|cluster| {
        cluster.held.as_mut().unwrap()["metadata"]["annotations"][ORDERS] = json!("{");
    });
    let said = shelf.standing().await.unwrap_err();
    assert!(said.contains("watermaster/orders") && said.contains("remove it"), "{said}");
}

/// What a Lease has room for Kubernetes takes, and what is more is refused here.
#[tokio::test]
async fn more_orders_than_a_lease_has_room_for_are_refused() {
    let world = World::new().await;
    let (mut store, own) = (world.store(), record(1, 1));
    assert_eq!(write(&mut store, None, &own).await, written("v1"));
    let most = 240 << 10;
    let without = serde_json::to_string(&freeze(1)).unwrap().len();
    let of = |octets: usize| {
        let mut orders = freeze(1);
        orders[0].by.push_str(&"x".repeat(octets - without));
        orders
    };
    let said = store.keep(&own, &of(most + 1)).await.unwrap_err();
    assert!(said.contains("245761 octets") && said.contains("end some"), "{said}");
    store.keep(&own, &of(most)).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_renewed_in_its_file_is_shown_from_then_on() {
    let world = World::new().await;
    let mut store = world.store();
    store.act(&Action::Read).await.unwrap();
    world.with(|cluster| cluster.token = "two".to_owned());
    let said = store.act(&Action::Read).await.unwrap_err();
    let token = world.path("token");
    assert!(said.contains("401") && said.contains(token.to_str().unwrap()), "{said}");
    assert!(!said.contains("sesame"), "no token is told: {said}");
    std::fs::write(&token, "two").unwrap();
    store.act(&Action::Read).await.unwrap();
    for wrong in ["", "two\0"] {
        std::fs::write(&token, wrong).unwrap();
        let said = store.act(&Action::Read).await.unwrap_err();
        assert!(said.contains("kubernetes.token"), "{said}");
    }
}

#[tokio::test]
async fn refusals_are_told_with_what_to_do() {
    let world = World::new().await;
    let mut store = world.store();
    for (status, remedy) in [
        (StatusCode::FORBIDDEN, "grant get, create and patch of leases"),
        (StatusCode::TOO_MANY_REQUESTS, "not now"),
        (StatusCode::INTERNAL_SERVER_ERROR, "not now"),
        (StatusCode::SERVICE_UNAVAILABLE, "not now"),
    ] {
        world.with(|cluster| cluster.refuses = Some(status));
        let said = store.act(&Action::Read).await.unwrap_err();
        assert!(said.contains(status.as_str()) && said.contains(remedy), "{said}");
        assert!(said.contains("can't get the Lease traffic/wm"), "{said}");
    }
    world.with(|cluster| cluster.refuses = None);
    // Kubernetes says of a Lease that isn't there and of a namespace that isn't there the same, until one is made.
    let (mut wanted, mut of) = world.wanted(LEASE);
    of.namespace = Some("nowhere".into());
    wanted.store = settings::Store::Kubernetes(of);
    let mut store = election::store(&wanted).unwrap();
    assert_eq!(store.act(&Action::Read).await, Ok(Said::Holds(None, None)));
    let said = write(&mut store, None, &record(1, 1)).await.unwrap_err();
    assert!(said.contains("can't create") && said.contains("make the namespace"), "{said}");
}

#[test]
fn answers_that_are_no_lease_are_errors() {
    let good = |metadata: Value, spec: Value| json!({ "metadata": metadata, "spec": spec });
    let leader = |text: &str| json!({ "resourceVersion": "1", "annotations": { LEADER: text } });
    let beyond = Record { epoch: u64::MAX, ..record(1, 1) };
    let beyond = serde_json::to_string(&beyond).unwrap();
    for (answer, why) in [
        (json!(null), "no Lease"),
        (json!([[]]), "no Lease"),
        (json!({ "kind": "Status", "metadata": {} }), "no Lease"),
        (good(json!({ "resourceVersion": "" }), json!({})), "no metadata.resourceVersion"),
        (good(json!({ "resourceVersion": 1 }), json!({})), "no Lease"),
        (good(json!({ "resourceVersion": "1", "annotations": { "a": 1 } }), json!({})), "no Lease"),
        (
            good(json!({ "resourceVersion": "1" }), json!({ "leaseTransitions": 1_u64 << 40 })),
            "no Lease",
        ),
        (
            good(json!({ "resourceVersion": "1" }), json!({ "holderIdentity": "x\n" })),
            "held by x ,",
        ),
        (good(leader("{}"), json!({})), "holds something else"),
        (good(leader("{\"a\\nb\":1}"), json!({})), "holds something else"),
        (good(leader(&beyond), json!({})), "no agent obeys"),
    ] {
        let said = kubernetes::read(answer.to_string().as_bytes()).unwrap_err();
        assert!(said.contains(why) && said.lines().count() == 1, "{why}: {said}");
    }
    let octets: [&[u8]; 4] = [b"", b"\xff", b"{\"metadata\":", &b"[".repeat(100_000)];
    for octets in octets {
        kubernetes::read(octets).unwrap_err();
    }
    let empty = good(json!({ "resourceVersion": "1", "annotations": null }), json!({}));
    kubernetes::read(empty.to_string().as_bytes()).unwrap();
}

/// The next of `splitmix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Cuts, questions and answers that are lost, writes that come when nobody waits for them any more, orders between
/// renewals; the time is imagined, the Lease isn't.
#[tokio::test]
async fn two_never_lead_by_one_lease() {
    let (mut epochs, mut belated) = (0, 0);
    for seed in 0..6 {
        let world = World::new().await;
        let mut chance = seed;
        let mut one_in = |n: u64| next(&mut chance) < u64::MAX / n;
        let lease = Span::from_secs(2);
        let mut nodes = [1, 2].map(|process| {
            let Record { name, address, .. } = record(process, 1);
            let own = Candidate { name, address, process, lease };
            // Until when it is cut off, and when it asked for the last write that it was told of.
            (Election::new(own, 0), world.store(), Time::ZERO, Time::ZERO)
        });
        let mut led = BTreeSet::new();
        let mut now = Time::ZERO;
        for step in 0..1_000 {
            now += Span::from_millis(50);
            let late = world.cluster.lock().unwrap().late.len();
            if late > 0 && one_in(8) {
                let which = (0..late).find(|_| one_in(late as u64)).unwrap_or(0);
                belated += u64::from(world.cluster.lock().unwrap().catch_up(which));
            }
            for (election, store, cut, confirmed) in &mut nodes {
                if one_in(200) {
                    *cut = now + Span::from_secs(3);
                }
                let delays = one_in(10);
                world.with(|cluster| cluster.delays = delays);
                let leader = election.leads(now).and(election.leader().cloned());
                if let Some(leader) = leader.filter(|_| *cut < now && one_in(20)) {
                    // Another may have taken it over before this one learns of it.
                    let _ = store.keep(&leader, &freeze(step)).await;
                }
                if election.deadline().is_none_or(|due| due > now) {
                    continue;
                }
                let Some(action) = election.poll(now, step) else { continue };
                let is_asked = *cut < now && !one_in(20);
                let said = if is_asked { store.act(&action).await.ok() } else { None };
                let said = said.filter(|_| !one_in(20));
                if matches!(said, Some(Said::Written(_))) {
                    *confirmed = now;
                }
                election.heard(now, said);
            }
            for (election, .., confirmed) in &nodes {
                // Others wait for a lease.
                let in_time = election.leads(now).is_none() || now < *confirmed + lease;
                assert!(in_time, "seed {seed}, step {step}: one leads on without a write");
            }
            let leading = nodes.iter().filter_map(|(election, ..)| election.leads(now));
            let leading: Vec<_> = leading.map(|(epoch, _)| epoch).collect();
            assert!(leading.len() <= 1, "seed {seed}, step {step}: {leading:?} lead");
            led.extend(leading);
        }
        epochs += led.len();
    }
    assert!(epochs > 6, "{epochs} offices prove nothing");
    assert!(belated > 0, "nothing was written late");
}

#[tokio::test]
async fn the_api_server_is_known_by_its_authority() {
    let world = World::new().await;
    let certify = |folder: &Path| {
        let identity = Identity { role: Role::Controller, name: "api".into() };
        let order = certs::Order { identity, reached_by: vec!["127.0.0.1".into()] };
        certs::make(folder, &[order], true).unwrap();
    };
    let (ours, others) = (world.path("ours"), world.path("others"));
    certify(&ours);
    certify(&others);
    let chain = CertificateDer::pem_file_iter(ours.join("controller-api.crt")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(ours.join("controller-api.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let router = world.router();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = TowerToHyperService::new(router);
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let (mut wanted, mut of) = world.wanted(LEASE);
    of.access.address = Some(format!("https://{at}").parse().unwrap());
    // The authority is renewed in its file, too.
    std::fs::copy(others.join("ca.crt"), &of.access.ca).unwrap();
    wanted.store = settings::Store::Kubernetes(of.clone());
    let mut store = election::store(&wanted).unwrap();
    let said = store.act(&Action::Read).await.unwrap_err();
    assert!(said.contains("certificate"), "{said}");
    std::fs::copy(ours.join("ca.crt"), &of.access.ca).unwrap();
    assert_eq!(store.act(&Action::Read).await, Ok(Said::Holds(None, None)));
    std::fs::remove_file(&of.access.ca).unwrap();
    let said = election::store(&wanted).map(drop).unwrap_err();
    assert!(said.contains("ca.crt"), "{said}");
}

/// A whole controller is elected, and what it is ordered stands in the Lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_leads_by_a_lease() {
    let world = World::new().await;
    let text = format!(
        "state = \"state\"\n[listen]\nsocket = \"controller.sock\"\n\
         [election]\nname = \"c1\"\naddress = \"https://10.0.0.1:7443\"\n\
         [election.kubernetes]\nname = \"wm\"\nnamespace = \"traffic\"\naddress = \"{}\"\ntoken = \"token\"\n\
         [policy]\nname = \"tcp\"\n[topology]\nkind = \"star\"\nhosts = 2\n\
         access = {{ capacity = \"1 Gbit/s\", delay = \"1 us\", buffer = \"100 packets\" }}\n\
         [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n",
        world.address
    );
    let file = world.path("controller.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::create_dir(world.path("state")).unwrap();
    controller::check(&file).unwrap();
    let socket = Address::Unix(world.path("controller.sock"));
    let ordered = async {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "it is never elected");
            tokio::time::sleep(Duration::from_millis(20)).await;
            let Ok(mut client) = Client::connect(&socket, None).await else { continue };
            let body = json!({ "type": "freeze" }).to_string().into_bytes();
            let asked = client.ask(Method::POST, "/v1/orders", body).await;
            if let Ok((status, said)) = asked
                && status.is_success()
            {
                break serde_json::from_slice::<Value>(&said).unwrap();
            }
        }
    };
    let said = tokio::select! {
        ended = controller::run(&file, Arc::default(), || ()) => panic!("it has ended: {ended:?}"),
        said = ordered => said,
    };
    assert!(said["warning"].is_null(), "{said}");
    let lease = world.lease();
    assert_eq!(lease["spec"]["holderIdentity"], "c1");
    let orders = lease["metadata"]["annotations"][ORDERS].as_str().unwrap().to_owned();
    assert!(orders.contains("\"type\":\"freeze\""), "{orders}");
}
