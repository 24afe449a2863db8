//! Three controllers that agree by a Lease, before a real API server of Kubernetes with an etcd of its own: the leader is
//! killed. `make kubernetes` builds the API server and runs this.
#![allow(clippy::unwrap_used)] // a test may panic

mod process;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use protocol::application::Leader;
use rustls::ClientConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::wait::until;
use wire::certs;
use wire::client::{Address, Client};
use wire::identity::{Identity, Role};
use wire::tls;

/// Token, user, number and groups: who may do all, and the controllers.
const TOKENS: &str = "open,admin,1,\"system:masters\"\nsesame,watermaster,2\n";
const ADMIN: &str = "Bearer open";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A process that ends with this.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that are free now.
fn ports<const N: usize>() -> [u16; N] {
    // Each is held until all are known.
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.each_ref().map(|listener| listener.local_addr().unwrap().port())
}

/// An API server, and controllers that ask it.
struct World {
    // They end first.
    controllers: [Option<Running>; 3],
    _servers: [Running; 2],
    address: Address,
    tls: Arc<ClientConfig>,
    folder: TempDir,
}

impl World {
    async fn up() -> Option<Self> {
        let Some(program) = std::env::var_os("KUBE_APISERVER") else {
            testing::needs::skipped("KUBE_APISERVER names no kube-apiserver; run make kubernetes");
            return None;
        };
        if Command::new("etcd").arg("--version").output().is_err() {
            testing::needs::skipped("there is no etcd; install etcd-server");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let [client, peer, secure] = ports();
        let at = |port: u16| format!("http://127.0.0.1:{port}");
        let etcd = Running::start(
            Command::new("etcd").args([
                format!("--data-dir={}", path("etcd")),
                format!("--listen-client-urls={}", at(client)),
                format!("--advertise-client-urls={}", at(client)),
                format!("--listen-peer-urls={}", at(peer)),
                format!("--initial-advertise-peer-urls={}", at(peer)),
                format!("--initial-cluster=default={}", at(peer)),
            ]),
            &folder.path().join("etcd.log"),
        );
        let identity = Identity { role: Role::Controller, name: "api".into() };
        let order = certs::Order { identity, reached_by: vec!["127.0.0.1".into()] };
        certs::make(&folder.path().join("certs"), &[order], false).unwrap();
        fs::write(path("tokens.csv"), TOKENS).unwrap();
        fs::write(path("token"), "sesame\n").unwrap();
        let (certificate, key) =
            (path("certs/controller-api.crt"), path("certs/controller-api.key"));
        let api = Running::start(
            Command::new(program).args([
                format!("--etcd-servers={}", at(client)),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                format!("--secure-port={secure}"),
                format!("--cert-dir={}", path("made")),
                format!("--tls-cert-file={certificate}"),
                format!("--tls-private-key-file={key}"),
                format!("--token-auth-file={}", path("tokens.csv")),
                "--authorization-mode=RBAC".to_owned(),
                // Nothing runs here that has a service account, and nobody asks for a service; it wants both.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-signing-key-file={key}"),
                format!("--service-account-key-file={certificate}"),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
            ]),
            &folder.path().join("api.log"),
        );
        let world = Self {
            controllers: [None, None, None],
            _servers: [api, etcd],
            address: format!("https://127.0.0.1:{secure}").parse().unwrap(),
            tls: Arc::new(tls::anonymous(&folder.path().join("certs/ca.crt")).unwrap()),
            folder,
        };
        until("the API server listens", async || world.ask(Method::GET, "/readyz", None).await)
            .await;
        until("the API server is ready", async || {
            let (status, _) = world.ask(Method::GET, "/readyz", None).await?;
            status.is_success().then_some(())
        })
        .await;
        Some(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Asks the API server as who may do all; `None`: no answer.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(StatusCode, Value)> {
        let mut client = Client::connect(&self.address, Some(&self.tls)).await.ok()?;
        let bearer = HeaderValue::from_static(ADMIN);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let (status, said) = client.ask_with(method, path, headers, body).await.ok()?;
        Some((status, serde_json::from_slice(&said).unwrap_or_default()))
    }

    /// Makes an object of Kubernetes.
    async fn make(&self, path: &str, object: Value) {
        until(&format!("{path} takes {object}"), async || {
            let (status, _) = self.ask(Method::POST, path, Some(&object)).await?;
            (status.is_success() || status == StatusCode::CONFLICT).then_some(())
        })
        .await;
    }

    /// What docs/high-availability.md says that controllers need.
    async fn allow(&self) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "traffic" } });
        self.make("/api/v1/namespaces", namespace).await;
        let (version, metadata) = (format!("{RBAC}/v1"), json!({ "name": "election" }));
        let group = json!(["coordination.k8s.io"]);
        let role = json!({
            "apiVersion": version, "kind": "Role", "metadata": metadata,
            "rules": [
                {
                    "apiGroups": group, "resources": ["leases"], "resourceNames": ["watermaster"],
                    "verbs": ["get", "patch"],
                },
                { "apiGroups": group, "resources": ["leases"], "verbs": ["create"] },
            ],
        });
        let of = format!("/apis/{version}/namespaces/traffic");
        self.make(&format!("{of}/roles"), role).await;
        let binding = json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": "election" },
            "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": "watermaster" }],
        });
        self.make(&format!("{of}/rolebindings"), binding).await;
    }

    /// The Lease; `None`: there is none.
    async fn lease(&self) -> Option<Value> {
        let path = "/apis/coordination.k8s.io/v1/namespaces/traffic/leases/watermaster";
        let (status, lease) = self.ask(Method::GET, path, None).await?;
        status.is_success().then_some(lease)
    }

    fn launch(&mut self, at: usize) {
        let folder = self.path(&format!("c{at}"));
        fs::create_dir_all(folder.join("state")).unwrap();
        let text = format!(
            "state = \"state\"\n[listen]\nsocket = \"controller.sock\"\n\
             [election]\nname = \"c{at}\"\naddress = \"https://10.0.1.{at}:7443\"\nlease = \"5 s\"\n\
             [election.kubernetes]\nnamespace = \"traffic\"\naddress = \"{}\"\n\
             token = \"../token\"\nca = \"../certs/ca.crt\"\n\
             [policy]\nname = \"tcp\"\n[topology]\nkind = \"star\"\nhosts = 2\n\
             access = {{ capacity = \"1 Gbit/s\", delay = \"1 us\", buffer = \"100 packets\" }}\n\
             [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n",
            self.address
        );
        let file = folder.join("controller.toml");
        fs::write(&file, text).unwrap();
        // This program again, as a daemon.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(process::ARGUMENTS).env(process::CONFIG, &file);
        let log = self.path(&format!("c{at}.log"));
        self.controllers[at] = Some(Running::start(&mut command, &log));
    }

    /// What a controller answers; `None`: it doesn't, or refuses.
    async fn told(&self, at: usize, method: Method, path: &str, body: &str) -> Option<Value> {
        let socket = Address::Unix(self.path(&format!("c{at}/controller.sock")));
        let mut client = Client::connect(&socket, None).await.ok()?;
        let (status, said) = client.ask(method, path, body.as_bytes().to_vec()).await.ok()?;
        if status.is_success() { serde_json::from_slice(&said).ok() } else { None }
    }

    /// Whom a controller takes for the leader.
    async fn follows(&self, at: usize) -> Option<Leader> {
        let told = self.told(at, Method::GET, "/v1/leader", "").await?;
        serde_json::from_value(told).ok()
    }

    /// Who leads under an epoch above this one, as the Lease says too, and under which.
    async fn leader(&self, above: u64) -> Option<(usize, u64)> {
        for at in 0..self.controllers.len() {
            let Some(leader) = self.follows(at).await.filter(|leader| leader.here) else {
                continue;
            };
            let lease = self.lease().await?;
            let is_held = lease["spec"]["holderIdentity"] == format!("c{at}");
            return (leader.epoch > above && is_held).then_some((at, leader.epoch));
        }
        None
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for name in ["etcd", "api", "c0", "c1", "c2"] {
            let said = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            let _ = writeln!(std::io::stderr(), "{name}:\n{last}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kube-apiserver: make kubernetes"]
async fn another_leads_by_a_real_lease_when_the_leader_is_killed() {
    let Some(mut world) = World::up().await else { return };
    world.allow().await;
    (0..3).for_each(|at| world.launch(at));
    let mut epoch = 0;
    let mut last = 0;
    for killed in 0..3 {
        (last, epoch) = until("one leads", async || world.leader(epoch).await).await;
        if killed == 0 {
            until("an order is kept in the Lease", async || {
                let freeze = "{\"type\":\"freeze\"}";
                let said = world.told(last, Method::POST, "/v1/orders", freeze).await?;
                said["warning"].is_null().then_some(())
            })
            .await;
        }
        until("the order stands", async || {
            let orders = world.told(last, Method::GET, "/v1/orders", "").await?;
            (orders["standing"][0]["order"]["type"] == "freeze").then_some(())
        })
        .await;
        let lease = world.lease().await.unwrap();
        let passed = lease["spec"]["leaseTransitions"].as_u64().unwrap();
        assert!(passed >= killed, "{lease}");
        if killed < 2 {
            world.controllers[last] = None;
        }
    }
    for at in 0..3 {
        if at == last {
            continue;
        }
        world.launch(at);
        until("it follows", async || {
            let leader = world.follows(at).await?;
            (!leader.here && leader.name == Some(format!("c{last}"))).then_some(())
        })
        .await;
    }
    until("the same one leads on", async || {
        (world.leader(0).await? == (last, epoch)).then_some(())
    })
    .await;
}
