//! The front end's connections to hubs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::message::{Found, Message};
use crate::pool::{Budget, Fault, Record};

/// Messages that wait for a hub at most; one that can't keep up counts as lost.
const MOST_WAITING: usize = 4096;

/// What came of an object.
pub(crate) type Outcome = Result<Option<Record>, Fault>;

/// What a request hears of hubs.
#[derive(Debug)]
pub(crate) enum Event {
    /// A server's hub brought these objects, in frames of so many octets.
    Objects(u32, usize, Vec<(u32, Outcome)>),
    /// A server's hub is gone.
    Lost(u32),
}

/// By request: who hears, and what values count in.
type Listeners = Arc<Mutex<HashMap<u64, (mpsc::UnboundedSender<Event>, Budget)>>>;

/// What every connection needs to know.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) front: u64,
    pub(crate) placement: u64,
    pub(crate) patience: Duration,
    pub(crate) most: usize,
}

pub(crate) struct Hubs {
    links: Vec<Option<mpsc::Sender<Bytes>>>,
    listeners: Listeners,
}

impl Hubs {
    /// Connections to the hubs of servers, in their order, made when they are needed.
    pub(crate) fn start(
        addresses: impl Iterator<Item = Option<SocketAddr>>,
        terms: &Terms,
    ) -> Self {
        let listeners = Listeners::default();
        let start = |(server, address): (u32, Option<SocketAddr>)| {
            let (to, messages) = mpsc::channel(MOST_WAITING);
            let link = Link {
                server,
                address: address?,
                terms: terms.clone(),
                listeners: Arc::clone(&listeners),
            };
            tokio::spawn(link.run(messages));
            Some(to)
        };
        let links = (0..).zip(addresses).map(start).collect();
        Self { links, listeners }
    }

    /// What hubs bring for a request, counted in `budget`.
    pub(crate) fn listen(&self, request: u64, budget: &Budget) -> Listening {
        let (to, events) = mpsc::unbounded_channel();
        lock(&self.listeners).insert(request, (to, budget.clone()));
        Listening { request, events, listeners: Arc::clone(&self.listeners) }
    }

    /// Sends a message to a server's hub; `false` when it can't be.
    pub(crate) fn send(&self, server: u32, message: &Message) -> bool {
        let link = self.links.get(server as usize).and_then(Option::as_ref);
        link.is_some_and(|link| link.try_send(message.frame()).is_ok())
    }
}

/// A request's ear, until it is dropped.
pub(crate) struct Listening {
    request: u64,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    listeners: Listeners,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.listeners).remove(&self.request);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Link {
    server: u32,
    address: SocketAddr,
    terms: Terms,
    listeners: Listeners,
}

impl Link {
    async fn run(self, mut messages: mpsc::Receiver<Bytes>) {
        while let Some(first) = messages.recv().await {
            let why = match timeout(self.terms.patience, TcpStream::connect(self.address)).await {
                Err(_) => "no connection in time".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Ok(Ok(stream)) => self.serve(stream, first, &mut messages).await,
            };
            tracing::warn!("hub at {}: {why}", self.address);
            // What was meant for the one that is gone means nothing to its successor.
            while messages.try_recv().is_ok() {}
            for (to, _) in lock(&self.listeners).values() {
                let _ = to.send(Event::Lost(self.server));
            }
        }
    }

    async fn serve(
        &self,
        mut stream: TcpStream,
        first: Bytes,
        messages: &mut mpsc::Receiver<Bytes>,
    ) -> String {
        let _ = stream.set_nodelay(true);
        let (mut read, mut write) = stream.split();
        let (front, placement) = (self.terms.front, self.terms.placement);
        let hello = Message::Hello { front, placement, is_front: true }.frame();
        let writing = async {
            write.write_all(&hello).await?;
            let mut next = Some(first);
            while let Some(frame) = next.take() {
                write.write_all(&frame).await?;
                next = messages.recv().await;
            }
            Ok::<_, std::io::Error>("nobody asks any more".to_owned())
        };
        let reading = async {
            let mut buffer = BytesMut::new();
            loop {
                if read.read_buf(&mut buffer).await? == 0 {
                    return Ok::<_, std::io::Error>("closed".to_owned());
                }
                loop {
                    let before = buffer.len();
                    match Message::read(&mut buffer, self.terms.most) {
                        Err(error) => return Ok(error.to_string()),
                        Ok(None) => break,
                        Ok(Some(Message::Objects(request, found))) => {
                            self.deliver(request, before - buffer.len(), found);
                        }
                        Ok(Some(Message::Refused(why))) => return Ok(why),
                        Ok(Some(_)) => return Ok("it speaks out of turn".to_owned()),
                    }
                }
            }
        };
        let why = tokio::select! { why = writing => why, why = reading => why };
        why.unwrap_or_else(|error| error.to_string())
    }

    fn deliver(&self, request: u64, octets: usize, found: Vec<(u32, Found)>) {
        let listeners = lock(&self.listeners);
        let Some((to, budget)) = listeners.get(&request) else { return };
        let outcome = |found| match found {
            Found::Answer(None) => Ok(None),
            // The frame that it came in is not kept for it.
            Found::Answer(Some(octets)) => {
                Record::new(Bytes::copy_from_slice(&octets), budget).map(Some)
            }
            Found::Failed(why) => Err(why.into()),
        };
        let objects = found.into_iter().map(|(object, found)| (object, outcome(found))).collect();
        let _ = to.send(Event::Objects(self.server, octets, objects));
    }
}
