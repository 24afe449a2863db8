//! Declarations on their way to a controller: one connection that is kept open, as
//! `docs/operating.md` asks of applications. When it breaks, or the controller begins anew, all that
//! still holds is said again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::{Method, StatusCode};
use protocol::application::Declaration;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};
use wire::client::{Address, Client};

/// Declarations that may wait for the controller; what comes then is lost.
pub(crate) const MOST_WAITING: usize = 1 << 16;
/// Most declarations of a request, and most octets.
const MOST_AT_ONCE: usize = 1000;
const MOST_OCTETS: usize = 512 << 10;
/// How long the controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Something is said at least so often, lest the controller take the connection for dead.
const ALIVE: Duration = Duration::from_secs(20);
/// How often is looked whether the connection stands.
const LOOK: Duration = Duration::from_millis(200);
/// Between two attempts.
const REST: Duration = Duration::from_millis(100);
/// What waits when nobody will say more is tried so often.
const LAST_ATTEMPTS: u32 = 20;

/// What became of the declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Taken by the controller.
    pub taken: u64,
    /// Not taken.
    pub lost: u64,
    /// Observations that the messages have no words for.
    pub unspoken: u64,
    /// Connections that were made; more than one says that some broke.
    pub connections: u64,
    /// Why some were not taken: the first time.
    pub fault: Option<String>,
}

impl Account {
    pub(crate) fn lose(&mut self, why: String) {
        self.lost += 1;
        self.fault.get_or_insert(why);
    }

    /// In a line for people.
    pub fn line(&self) -> String {
        let Self { taken, lost, unspoken, connections, fault } = self;
        let mut line = format!("controller and agent: {taken} declarations taken");
        if *lost > 0 {
            line += &format!(", {lost} NOT TAKEN");
        }
        if *unspoken > 0 {
            line += &format!(", {unspoken} observations that no message tells");
        }
        if *connections > 1 {
            line += &format!(", over {connections} connections");
        }
        line + &fault.as_ref().map(|fault| format!("; {fault}")).unwrap_or_default()
    }
}

/// Changes an account that several share.
pub(crate) fn note(account: &Mutex<Account>, change: impl FnOnce(&mut Account)) {
    change(&mut account.lock().unwrap_or_else(PoisonError::into_inner));
}

/// What holds of all that was said, job by job, in the order it was said.
#[derive(Default)]
struct Ledger(BTreeMap<String, Vec<Declaration>>);

impl Ledger {
    fn enter(&mut self, declaration: Declaration) {
        match &declaration {
            Declaration::JobComplete { job } => {
                self.0.remove(job);
            }
            Declaration::FlowComplete { job, flow: over } => {
                let stays = |said: &Declaration| match said {
                    Declaration::FlowRequest { flow, .. } => flow != over,
                    _ => true,
                };
                if let Some(said) = self.0.get_mut(job) {
                    said.retain(stays);
                }
            }
            // Of samples only the last one counts, and the next comes soon.
            Declaration::Streams { .. } => {}
            Declaration::JobStart { job }
            | Declaration::TaskHost { job, .. }
            | Declaration::Size { job, .. }
            | Declaration::FlowRequest { job, .. } => {
                self.0.entry(job.clone()).or_default().push(declaration);
            }
        }
    }
}

/// Delivers what comes until nobody can say anything any more.
pub(crate) async fn deliver(
    mut waiting: Receiver<Declaration>,
    controller: Address,
    path: String,
    account: Arc<Mutex<Account>>,
) {
    let mut ledger = Ledger::default();
    let mut unsaid = VecDeque::new();
    let alive = Instant::now();
    let mut line = Line { controller, path, client: None, alive, account };
    let (mut again, mut attempts) = (0, 0);
    loop {
        if unsaid.is_empty() && line.client.is_some() {
            match timeout(LOOK, waiting.recv()).await {
                Ok(Some(first)) => unsaid.push_back(first),
                Ok(None) => return,
                Err(_) => line.look().await,
            }
        }
        while unsaid.len() < MOST_WAITING
            && let Ok(next) = waiting.try_recv()
        {
            unsaid.push_back(next);
        }
        let is_new = line.client.is_none();
        if is_new && !line.connect().await {
            let over = waiting.is_closed();
            attempts += u32::from(over);
            if over && (unsaid.is_empty() || attempts > LAST_ATTEMPTS) {
                note(&line.account, |account| account.lost += unsaid.len() as u64);
                return;
            }
            tokio::time::sleep(REST).await;
            continue;
        }
        if is_new {
            let mut all: VecDeque<_> =
                std::mem::take(&mut ledger.0).into_values().flatten().collect();
            again += all.len();
            all.append(&mut unsaid);
            unsaid = all;
        }
        let mut taken = 0;
        line.say(&mut unsaid, |declaration| {
            taken += 1;
            ledger.enter(declaration);
        })
        .await;
        // What was said again isn't counted again.
        let counted = taken - taken.min(again);
        again -= taken - counted;
        note(&line.account, |account| account.taken += counted as u64);
    }
}

/// The connection, when there is one.
struct Line {
    controller: Address,
    path: String,
    client: Option<Client>,
    /// When something was said last.
    alive: Instant,
    account: Arc<Mutex<Account>>,
}

impl Line {
    async fn connect(&mut self) -> bool {
        match Client::connect(&self.controller, None).await {
            Ok(client) => {
                self.client = Some(client);
                note(&self.account, |account| account.connections += 1);
                true
            }
            Err(error) => {
                note(&self.account, |account| {
                    account.fault.get_or_insert_with(|| error.to_string());
                });
                false
            }
        }
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Option<(StatusCode, String)> {
        let client = self.client.as_mut()?;
        self.alive = Instant::now();
        let why = match timeout(PATIENCE, client.ask(method, path, body)).await {
            Ok(Ok((status, said))) => {
                return Some((status, String::from_utf8_lossy(&said).into_owned()));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the controller doesn't answer".to_owned(),
        };
        self.client = None;
        note(&self.account, |account| {
            account.fault.get_or_insert_with(|| format!("{}: {why}", self.controller));
        });
        None
    }

    /// Sees whether the connection stands, and shows now and then that it is in use.
    async fn look(&mut self) {
        if self.client.as_ref().is_some_and(Client::is_closed) {
            self.client = None;
        } else if self.alive.elapsed() > ALIVE {
            // A failure leaves no connection.
            let _ = self.ask(Method::GET, "/v1/health", Vec::new()).await;
        }
    }

    /// Says what there is; `taken` hears what the controller has taken. Where the connection breaks,
    /// what was not answered is still there.
    async fn say(
        &mut self,
        unsaid: &mut VecDeque<Declaration>,
        mut taken: impl FnMut(Declaration),
    ) {
        while !unsaid.is_empty() {
            let (count, body) = body(unsaid);
            let path = self.path.clone();
            let Some((status, said)) = self.ask(Method::POST, &path, body).await else {
                return;
            };
            let answer: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
            let good = match answer["taken"].as_u64() {
                Some(good) => usize::try_from(good).unwrap_or(count).min(count),
                None if status.is_success() => count,
                None => 0,
            };
            unsaid.drain(..good).for_each(&mut taken);
            if status == StatusCode::TOO_MANY_REQUESTS {
                tokio::time::sleep(REST).await;
            } else if !status.is_success()
                && let Some(refused) = unsaid.pop_front()
            {
                self.refused(&refused, status, &said);
            }
        }
    }

    fn refused(&self, refused: &Declaration, status: StatusCode, said: &str) {
        // A controller that begins anew doesn't know what ends.
        let ends =
            matches!(refused, Declaration::JobComplete { .. } | Declaration::FlowComplete { .. });
        let again = |account: &Account| account.connections > 1;
        let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
        note(&self.account, |account| {
            if !(ends && again(account)) {
                account.lose(format!("the controller answers {status}: {said}"));
            }
        });
    }
}

/// The first declarations as a list, as many as go into a request.
fn body(unsaid: &VecDeque<Declaration>) -> (usize, Vec<u8>) {
    let mut body = vec![b'['];
    let mut count = 0;
    for declaration in unsaid.iter().take(MOST_AT_ONCE) {
        let separator = usize::from(count > 0);
        let before = body.len();
        body.extend(std::iter::repeat_n(b',', separator));
        // A value of plain texts and numbers can always be written.
        let _ = serde_json::to_writer(&mut body, declaration);
        if count > 0 && body.len() > MOST_OCTETS {
            body.truncate(before);
            break;
        }
        count += 1;
    }
    body.push(b']');
    (count, body)
}
