//! The way of declarations to a controller: connections, requests and answers for a
//! [`protocol::client::Client`], which knows what to say when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::random::Stream;
use hyper::Method;
use protocol::application::{Declaration, Health, Outcome, Problem, Refused};
use protocol::client::{Action, Client, PATIENCE};
use rand::RngExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use units::{Span, Time};
use wire::client::{Address, Client as Http};

/// How often is looked whether the connection stands.
const LOOK: Duration = Duration::from_millis(200);
/// How long what waits is still delivered when the application has ended.
const LAST: Duration = Duration::from_secs(2);

/// What the application and the delivery share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    client: Mutex<Client>,
    /// Something was declared, or the application has ended.
    news: Notify,
    ended: AtomicBool,
}

impl Shared {
    pub(crate) fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn declare(&self, declaration: Declaration) {
        self.client().declare(declaration);
        self.news.notify_one();
    }

    /// Nothing more will be declared.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.news.notify_one();
    }
}

/// Delivers until the application has ended, and then what waits.
pub(crate) struct Delivery {
    shared: Arc<Shared>,
    controller: Address,
    /// Where declarations go.
    path: String,
    start: Instant,
    chance: Stream,
    http: Option<Http>,
}

/// What the client wants, with all that it takes.
enum Request {
    Connect,
    Health,
    Declare(Vec<u8>),
}

impl Delivery {
    pub(crate) fn new(shared: Arc<Shared>, application: &str, controller: Address) -> Self {
        let path = format!("/v{}/applications/{application}/declarations", protocol::VERSION);
        // Applications that lose the same controller must not come back at the same moment.
        let chance = Stream::named(std::process::id().into(), application);
        Self { shared, controller, path, start: Instant::now(), chance, http: None }
    }

    fn now(&self) -> Time {
        let elapsed = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Runs until nothing more will be declared and all has been said, or can't be for some time.
    pub(crate) async fn run(mut self) {
        let mut leave = None;
        loop {
            let request = self.shared.client().poll(self.now()).map(|action| match action {
                Action::Connect => Request::Connect,
                Action::Health => Request::Health,
                // Plain texts and numbers can always be written.
                Action::Declare(said) => {
                    Request::Declare(serde_json::to_vec(&said).unwrap_or_default())
                }
            });
            match request {
                Some(request) => {
                    if let Err(why) = self.carry_out(request).await {
                        self.lose(&why);
                    }
                }
                None => self.wait().await,
            }
            if self.shared.ended.load(Ordering::Acquire) {
                let leave = *leave.get_or_insert_with(|| Instant::now() + LAST);
                if self.shared.client().is_settled() || Instant::now() >= leave {
                    return;
                }
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.http = None;
        let why = format!("{}: {why}", self.controller);
        self.shared.client().lost(self.now(), &why, self.chance.random());
    }

    /// Waits for news, or until the client wants something; looks after the connection.
    async fn wait(&mut self) {
        let now = self.now();
        let due = self.shared.client().deadline().map_or(Span::from_secs(1), |at| at.since(now));
        let wait = Duration::from_nanos(due.as_nanos()).min(LOOK);
        // News that came before counts as well.
        let _ = timeout(wait, self.shared.news.notified()).await;
        if self.http.as_ref().is_some_and(Http::is_closed) {
            self.lose("the controller closed the connection");
        }
    }

    async fn carry_out(&mut self, request: Request) -> Result<(), String> {
        match request {
            Request::Connect => {
                let http = Http::connect(&self.controller, None).await;
                self.http = Some(http.map_err(|error| error.to_string())?);
                self.shared.client().connected(self.now());
            }
            Request::Health => {
                let (_, said) = self.ask(Method::GET, "/v1/health", Vec::new()).await?;
                let health: Health = read(&said)?;
                self.shared.client().healthy(self.now(), health.epoch);
            }
            Request::Declare(body) => {
                let path = self.path.clone();
                let (status, said) = self.ask(Method::POST, &path, body).await?;
                let (now, chance) = (self.now(), self.chance.random());
                if matches!(status, 200 | 422 | 429) {
                    let outcome: Outcome = read(&said)?;
                    self.shared.client().answered(now, &outcome, chance);
                } else {
                    let refused: Result<Refused, String> = read(&said);
                    let problem = refused.map_or_else(
                        |reason| Problem { field: String::new(), reason },
                        |refused| refused.error,
                    );
                    self.shared.client().refused(now, status, &problem, chance);
                }
            }
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, hyper::body::Bytes), String> {
        let http = self.http.as_mut().ok_or("no connection")?;
        let patience = Duration::from_nanos(PATIENCE.as_nanos());
        match timeout(patience, http.ask(method, path, body)).await {
            Ok(Ok((status, said))) => Ok((status.as_u16(), said)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the controller doesn't answer".to_owned()),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(said: &[u8]) -> Result<T, String> {
    serde_json::from_slice(said)
        .map_err(|error| format!("the controller's answer can't be read: {error}"))
}
