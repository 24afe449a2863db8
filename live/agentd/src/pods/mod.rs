//! Which pod of Kubernetes a connection's control group belongs to: groups have the uid of their pod in their path, and
//! the API server lists the pods of the node with their names. Without an answer of it connections have no pod, and all
//! else goes on.

mod groups;
mod list;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::backoff::Backoff;
use protocol::kubernetes::is_object;
use rand::RngExt as _;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use wire::kubernetes::{ApiServer, in_time, plain};

use crate::duration;
use crate::settings::Kubernetes;

pub use list::{ByUid, read};

/// How often the API server is asked.
const EVERY: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer than a controller it is spared after it has failed: up to a minute.
const SPARED: u64 = 12;
/// Most octets of an answer: of a pod the API server tells some 10 kB.
const MOST_ANSWER: usize = 16 << 20;

/// The pods of a node, which it asks for again and again as long as it is there.
pub struct Pods {
    /// What the API server said last.
    told: watch::Receiver<ByUid>,
    /// Where control groups are mounted.
    root: PathBuf,
    /// By the inode of the control group; nothing: it is no pod's, or of one that isn't listed yet.
    named: HashMap<u64, Option<Arc<str>>>,
    asking: JoinHandle<()>,
}

impl Pods {
    /// Begins to ask. Within a runtime.
    ///
    /// # Errors
    /// It isn't known whom to ask, or for which node.
    pub fn follow(wanted: &Kubernetes, root: PathBuf) -> Result<Self, String> {
        let (node, server) = (node(wanted)?, ApiServer::new(&wanted.access, MOST_ANSWER)?);
        let (tell, told) = watch::channel(ByUid::new());
        let asking = tokio::spawn(ask_on(server, node, tell));
        Ok(Self { told, root, named: HashMap::new(), asking })
    }

    /// Looks up the pods of control groups, by their inodes. It looks for groups anew where one wasn't there before; what
    /// it knows of others stays until the next list, as a sample and what has ended ask for different ones in turn.
    pub fn look_up(&mut self, groups: impl Iterator<Item = u64> + Clone) {
        let Self { told, named, root, .. } = self;
        let is_told = told.has_changed().unwrap_or(false);
        if !is_told && groups.clone().all(|group| named.contains_key(&group)) {
            return;
        }
        if is_told || named.len() > groups::MOST {
            named.clear();
        }
        let known = told.borrow_and_update();
        if !known.is_empty() {
            let of_pods = groups::of_pods(root);
            named.extend(of_pods.iter().map(|(group, uid)| (*group, known.get(&**uid).cloned())));
        }
        for group in groups {
            named.entry(group).or_insert(None);
        }
    }

    /// The pod of a control group that was looked up.
    pub fn of(&self, group: u64) -> Option<&str> {
        self.named.get(&group)?.as_deref()
    }
}

#[cfg(test)]
impl Pods {
    /// One control group of a pod, and nobody is asked. Within a runtime.
    pub fn of_group(group: u64, name: &str) -> Self {
        let named = HashMap::from([(group, Some(Arc::from(name)))]);
        let (_, told) = watch::channel(ByUid::new());
        Self { told, root: PathBuf::new(), named, asking: tokio::spawn(async {}) }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// Whether the API server can be asked, as far as this machine knows.
///
/// # Errors
/// What is missing.
pub fn check(wanted: &Kubernetes) -> Result<(), String> {
    node(wanted)?;
    ApiServer::new(&wanted.access, MOST_ANSWER)?.check()
}

/// What the cluster calls the node that this agent is on.
fn node(wanted: &Kubernetes) -> Result<String, String> {
    let node = wanted.node.clone().or_else(|| std::env::var("NODE_NAME").ok());
    let node = node.ok_or(
        "kubernetes.node is missing, and there is no NODE_NAME in the environment; write what the cluster calls this \
         node",
    )?;
    // It becomes part of a question.
    if !is_object(&node) {
        return Err(format!("\"{}\" is no node; write kubernetes.node", plain(&node)));
    }
    Ok(node)
}

/// The pods of a node.
async fn ask(server: &mut ApiServer, node: &str, patience: Duration) -> Result<ByUid, String> {
    // As the API server has it in memory: nothing hangs on the last moment.
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&resourceVersion=0");
    let (status, body) = in_time(patience, server.get(&path)).await?;
    if !status.is_success() {
        let what = format!("list the pods of {node}");
        let remedy = match status.as_u16() {
            403 => "grant list of pods to who has the token",
            _ => "",
        };
        return Err(server.refused(&what, status, &body, remedy));
    }
    let node = node.to_owned();
    // It may be long, and this thread has a kernel to attend to.
    let read = spawn_blocking(move || read(&body, &node)).await;
    read.unwrap_or_else(|error| Err(format!("a list of pods can't be read: {error}")))
}

/// Asks again and again, and tells what is answered.
async fn ask_on(mut server: ApiServer, node: String, tell: watch::Sender<ByUid>) {
    let (mut backoff, mut failing) = (Backoff::default(), None);
    loop {
        let wait = match ask(&mut server, &node, PATIENCE).await {
            Ok(known) => {
                if failing.take().is_some() {
                    tracing::info!(pods = known.len(), "the pods of this node are told again");
                }
                tell.send_replace(known);
                backoff.reset();
                EVERY
            }
            Err(reason) => {
                if failing.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "the pods of this node aren't told; all else goes on");
                }
                failing = Some(reason);
                duration(backoff.wait(rand::rng().random()) * SPARED)
            }
        };
        tokio::time::sleep(wait).await;
    }
}
