//! The hub beside a memcached server: it collects from its rack, packs, and passes on.

mod job;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::front::{StartError, accept};
use crate::hubs::Outcome;
use crate::message::{Found, Message};
use crate::pool::{Budget, Record, Server};
use crate::settings::Settings;
use job::{Event, Job};

/// Packets that wait for a front end or a parent at most.
const PACKETS: usize = 64;
/// Events that wait for a request at most; the connection that brings more waits.
const EVENTS: usize = 64;
/// How long who connects may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);
/// What messages have besides one value, octets.
const AROUND: usize = 1 << 20;

/// The state of a hub.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) servers: Vec<Server>,
    placement: u64,
    pub(crate) budget: Budget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fronts: HashMap<u64, mpsc::Sender<Bytes>>,
    /// By front end and server.
    parents: HashMap<(u64, u32), mpsc::Sender<Bytes>>,
    jobs: HashMap<(u64, u64), mpsc::Sender<Event>>,
}

/// A hub that listens.
pub struct Hub {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Hub {
    /// The hub of the server `name`.
    ///
    /// # Errors
    /// It has none, or its address is taken.
    pub async fn start(settings: Settings, name: &str) -> Result<Self, StartError> {
        let own = settings.servers.iter().find(|server| server.name == name);
        let listen =
            own.and_then(|own| own.hub).ok_or_else(|| StartError::NoHub(name.to_owned()))?;
        let listener =
            TcpListener::bind(listen).await.map_err(|error| StartError::Listen(listen, error))?;
        let budget = Budget::new(settings.memory);
        let item = settings.bounds.item;
        let start =
            |server: &crate::settings::Server| Server::start(&server.name, server.address, item);
        let servers = settings.servers.iter().map(start).collect();
        let placement = settings.placement();
        let shared = Shared { settings, servers, placement, budget, state: Mutex::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system doesn't say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves front ends and hubs below it, for good.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(self.shared.settings.clients));
        loop {
            let stream = accept(&self.listener).await;
            // Who finds no place sees a hub that is gone.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                if let Err(error) = shared.serve(stream).await {
                    tracing::info!("a connection ends: {error}");
                }
                drop(place);
            });
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, front: u64, request: u64) {
        self.state().jobs.remove(&(front, request));
    }

    /// Where objects of a front end's requests go: to a parent, or to itself.
    pub(crate) fn way(
        self: &Arc<Self>,
        front: u64,
        parent: Option<u32>,
    ) -> Option<mpsc::Sender<Bytes>> {
        let mut state = self.state();
        let Some(parent) = parent else { return state.fronts.get(&front).cloned() };
        let address = self.settings.servers.get(parent as usize)?.hub?;
        if let Some(to) = state.parents.get(&(front, parent)).filter(|to| !to.is_closed()) {
            return Some(to.clone());
        }
        let (to, packets) = mpsc::channel(PACKETS);
        state.parents.insert((front, parent), to.clone());
        tokio::spawn(Arc::clone(self).climb(front, parent, address, packets));
        Some(to)
    }

    /// The connection to a parent, until it is lost or its front end has gone.
    async fn climb(
        self: Arc<Self>,
        front: u64,
        parent: u32,
        address: SocketAddr,
        mut packets: mpsc::Receiver<Bytes>,
    ) {
        let climbing = async {
            let mut stream = timeout(self.settings.patience, TcpStream::connect(address)).await??;
            stream.set_nodelay(true)?;
            let hello = Message::Hello { front, placement: self.placement, is_front: false };
            stream.write_all(&hello.frame()).await?;
            while let Some(packet) = packets.recv().await {
                timeout(self.settings.deadline, stream.write_all(&packet)).await??;
            }
            Ok::<_, io::Error>(())
        };
        if let Err(error) = climbing.await {
            tracing::warn!("hub at {address}: {error}");
        }
        packets.close();
        self.state().parents.remove(&(front, parent));
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let first = timeout(GREETING, self.next(&mut read, &mut buffer)).await??;
        let Some(Message::Hello { front, placement, is_front }) = first else { return Ok(()) };
        if placement != self.placement {
            let why =
                "its configuration has other servers or racks than the front end's".to_owned();
            write.write_all(&Message::Refused(why).frame()).await?;
            return write.shutdown().await;
        }
        if !is_front {
            return self.listen(front, false, &mut read, &mut buffer).await;
        }
        let (to, mut packets) = mpsc::channel::<Bytes>(PACKETS);
        self.state().fronts.insert(front, to.clone());
        let writing = async {
            while let Some(packet) = packets.recv().await {
                write.write_all(&packet).await?;
            }
            Ok(())
        };
        let ended = tokio::select! {
            ended = writing => ended,
            ended = self.listen(front, true, &mut read, &mut buffer) => ended,
        };
        let mut state = self.state();
        // It may have come back meanwhile.
        if state.fronts.get(&front).is_some_and(|current| current.same_channel(&to)) {
            state.fronts.remove(&front);
            state.jobs.retain(|(owner, _), _| *owner != front);
            state.parents.retain(|(owner, _), _| *owner != front);
        }
        ended
    }

    async fn next(
        &self,
        read: &mut OwnedReadHalf,
        buffer: &mut BytesMut,
    ) -> io::Result<Option<Message>> {
        loop {
            let most = self.settings.bounds.item + AROUND;
            match Message::read(buffer, most) {
                Err(error) => return Err(io::Error::other(error)),
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
            }
            if read.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn listen(
        self: &Arc<Self>,
        front: u64,
        is_front: bool,
        read: &mut OwnedReadHalf,
        buffer: &mut BytesMut,
    ) -> io::Result<()> {
        while let Some(message) = self.next(read, buffer).await? {
            let (request, event) = match message {
                Message::Objects(request, found) if !is_front => {
                    let outcome = |found| -> Outcome {
                        match found {
                            Found::Answer(None) => Ok(None),
                            Found::Answer(Some(octets)) => {
                                Record::new(Bytes::copy_from_slice(&octets), &self.budget).map(Some)
                            }
                            Found::Failed(why) => Err(why.into()),
                        }
                    };
                    let found = found.into_iter().map(|(object, found)| (object, outcome(found)));
                    (request, Event::Relay(found.collect()))
                }
                Message::Gather { request, parent, speed, packed, patience, wanted }
                    if is_front =>
                {
                    let patience = Duration::from_millis(u64::from(patience));
                    (request, Event::Gather { parent, speed, packed, patience, wanted })
                }
                Message::Speed(request, speed) if is_front => (request, Event::Speed(speed)),
                Message::Cancel(request, objects) if is_front => (request, Event::Cancel(objects)),
                Message::Parent(request, parent, objects) if is_front => {
                    (request, Event::Parent(parent, objects))
                }
                Message::End(request) if is_front => (request, Event::End),
                _ => return Err(io::Error::other("it speaks out of turn")),
            };
            let Some(to) = self.job(front, request, &event) else { continue };
            // A request that has just ended hears no more.
            let _ = to.send(event).await;
        }
        Ok(())
    }

    /// The request that an event is for, begun if the event begins one; `None` when there are too many.
    fn job(
        self: &Arc<Self>,
        front: u64,
        request: u64,
        event: &Event,
    ) -> Option<mpsc::Sender<Event>> {
        let mut state = self.state();
        let jobs = state.jobs.len();
        match state.jobs.entry((front, request)) {
            Entry::Occupied(entry) => Some(entry.get().clone()),
            Entry::Vacant(entry) => {
                let begins = matches!(event, Event::Gather { .. } | Event::Relay(_));
                if !begins || jobs >= self.settings.requests {
                    return None;
                }
                let (to, events) = mpsc::channel(EVENTS);
                entry.insert(to.clone());
                tokio::spawn(Job::new(Arc::clone(self), front, request).run(events));
                Some(to)
            }
        }
    }
}
