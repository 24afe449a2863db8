//! The way of declarations to a controller: connections, requests and answers for a
//! [`protocol::client::Client`], which knows what to say when.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Method;
use protocol::application::{Declaration, Health, Outcome, Problem, Refused};
use protocol::client::{Action, Client, PATIENCE};
use rustls::ClientConfig;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use units::{Span, Time};

use crate::client::Client as Http;
use crate::controllers::Controllers;

/// How often is looked whether the connection stands.
const LOOK: Duration = Duration::from_millis(200);
const MOVED: &str = "another controller leads";
/// How long what waits is still delivered when the application has ended.
const LAST: Duration = Duration::from_secs(2);

/// How long a controller that leads is sought.
const SEEKING: Duration = Duration::from_secs(10);

/// What an application and the delivery of its declarations share.
#[derive(Debug, Default)]
pub struct Shared {
    client: Mutex<Client>,
    /// Something was declared, or the application has ended.
    news: Notify,
    ended: AtomicBool,
}

impl Shared {
    /// The client, which knows what becomes of declarations.
    pub fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The application declares something.
    pub fn declare(&self, declaration: Declaration) {
        self.client().declare(declaration);
        self.news.notify_one();
    }

    /// Nothing more will be declared.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.news.notify_one();
    }
}

/// Delivers until the application has ended, and then what waits.
pub struct Delivery {
    shared: Arc<Shared>,
    controllers: Controllers,
    /// What it shows controllers that are reached by TLS.
    tls: Option<Arc<ClientConfig>>,
    /// Ends when another controller leads.
    moved: Moved,
    /// Where declarations go.
    path: String,
    start: Instant,
    chance: RandomState,
    http: Option<Http>,
}

type Moved = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the client wants, with all that it takes.
enum Request {
    Connect,
    Health,
    Declare(Vec<u8>),
}

impl Delivery {
    /// For `application`, to whichever of `controllers` leads.
    pub fn new(shared: Arc<Shared>, application: &str, controllers: Controllers) -> Self {
        let path = format!("/v1/applications/{application}/declarations");
        // Applications that lose the same controller must not come back at the same moment.
        let chance = RandomState::new();
        let moved: Moved = Box::pin(std::future::pending());
        let start = Instant::now();
        Self { shared, controllers, tls: None, moved, path, start, chance, http: None }
    }

    /// With the certificates that controllers with TLS want.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { tls, ..self }
    }

    /// Any number.
    fn chance(&self) -> u32 {
        u32::try_from(self.chance.hash_one(self.start.elapsed()) >> 32).unwrap_or(0)
    }

    fn now(&self) -> Time {
        let elapsed = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Runs until nothing more will be declared and all has been said, or can't be for some time.
    pub async fn run(mut self) {
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
        self.moved = Box::pin(std::future::pending());
        let why = format!("{}: {why}", self.controllers.leader());
        self.shared.client().lost(self.now(), &why, self.chance());
    }

    /// Waits for news, or until the client wants something; looks after the connection.
    async fn wait(&mut self) {
        let now = self.now();
        let due = self.shared.client().deadline().map_or(Span::from_secs(1), |at| at.since(now));
        let wait = Duration::from_nanos(due.as_nanos()).min(LOOK);
        // News that came before counts as well.
        tokio::select! {
            _ = timeout(wait, self.shared.news.notified()) => {}
            () = &mut self.moved => return self.lose(MOVED),
        }
        if self.http.as_ref().is_some_and(Http::is_closed) {
            self.lose("the controller closed the connection");
        }
    }

    async fn carry_out(&mut self, request: Request) -> Result<(), String> {
        match request {
            Request::Connect => {
                let http = self.controllers.connect(self.tls.as_ref(), SEEKING).await;
                self.http = Some(http.map_err(|error| error.to_string())?);
                let (controllers, tls) = (self.controllers.clone(), self.tls.clone());
                self.moved = Box::pin(async move { controllers.moved(tls.as_ref()).await });
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
                let (now, chance) = (self.now(), self.chance());
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
        let asked = tokio::select! {
            asked = timeout(patience, http.ask(method, path, body)) => asked,
            () = &mut self.moved => return Err(MOVED.to_owned()),
        };
        match asked {
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
