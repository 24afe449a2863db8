//! The policy of a lab whose policy is elsewhere: it passes on what applications declare to a
//! controller, in the messages of [`protocol::application`], and decides nothing.
//!
//! Declarations go from a thread of their own, so that the traffic never waits for the controller.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{Declared, Directives, FlowId, JobId, Network, Observation, StreamSample};
use policy::Policy;
use protocol::application::{Declaration, Portion, StreamReport};
use units::{Bytes, Time};

use crate::Directory;

/// Declarations that may wait for the controller; what comes then is lost.
const MOST_WAITING: usize = 1 << 16;
/// Most declarations of a request.
const MOST_AT_ONCE: usize = 1000;
/// How long the controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most octets of an answer that are kept to be shown.
const MOST_SHOWN: u64 = 500;

/// Where a controller listens, on this machine and without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address.
    Tcp(SocketAddr),
}

/// What became of the declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Taken by the controller.
    pub taken: u64,
    /// Not taken.
    pub lost: u64,
    /// Observations that the messages have no words for.
    pub unspoken: u64,
    /// Why some were not taken: the first time.
    pub fault: Option<String>,
}

/// Passes declarations on.
pub struct Northbound {
    directory: Directory,
    /// The jobs of flows, which streams don't name.
    jobs: BTreeMap<FlowId, JobId>,
    queue: Option<SyncSender<Declaration>>,
    account: Arc<Mutex<Account>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Northbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Northbound").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Northbound {
    /// Speaks for `application` to `controller` of the flows in `directory`.
    pub fn new(application: &str, controller: Controller, directory: Directory) -> Self {
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let account = Arc::new(Mutex::new(Account::default()));
        let path = format!("/v{}/applications/{application}/declarations", protocol::VERSION);
        let own = Arc::clone(&account);
        let thread = std::thread::spawn(move || deliver(&waiting, &controller, &path, &own));
        let (queue, thread) = (Some(queue), Some(thread));
        Self { directory, jobs: BTreeMap::new(), queue, account, thread }
    }

    /// What became of the declarations, now and later.
    pub fn account(&self) -> Arc<Mutex<Account>> {
        Arc::clone(&self.account)
    }

    fn say(&self, declaration: Declaration) {
        if let Some(queue) = &self.queue
            && queue.try_send(declaration).is_err()
        {
            let fault = "more declarations than the controller takes".to_owned();
            note(&self.account, |account| {
                account.lost += 1;
                account.fault.get_or_insert(fault);
            });
        }
    }

    fn unspoken(&self) {
        note(&self.account, |account| account.unspoken += 1);
    }

    fn declare(&mut self, network: &Network, declared: &Declared) {
        match declared {
            Declared::JobStart { job } => self.say(Declaration::JobStart { job: name(*job) }),
            Declared::JobComplete { job } => {
                self.say(Declaration::JobComplete { job: name(*job) });
            }
            Declared::TaskHost { job, task, host } => {
                let Some(node) = network.topology().nodes().get(host.index()) else { return };
                let host = node.name.clone();
                self.say(Declaration::TaskHost { job: name(*job), task: task.0, host });
            }
            Declared::Size { job, map, reduces } => {
                let portion = |(task, bytes): &(model::TaskId, Bytes)| Portion {
                    task: task.0,
                    bytes: *bytes,
                };
                let reduces = reduces.iter().map(portion).collect();
                self.say(Declaration::Size { job: name(*job), map: map.0, reduces });
            }
            Declared::FlowRequest { job, flow, size, .. } => {
                self.jobs.insert(*flow, *job);
                let Some(connection) = self.directory.get(*flow) else {
                    return self.unspoken();
                };
                let bytes = Some(*size).filter(|size| *size != Bytes::MAX);
                let (job, flow) = (name(*job), flow.0.into());
                self.say(Declaration::FlowRequest { job, flow, connection, bytes });
            }
            Declared::FlowComplete { job, flow } => {
                self.jobs.remove(flow);
                self.say(Declaration::FlowComplete { job: name(*job), flow: flow.0.into() });
            }
            Declared::Streams(samples) => self.streams(samples),
            Declared::Gather(_) => self.unspoken(),
        }
    }

    /// Samples of streams, job by job; one that was not announced before is announced now.
    fn streams(&mut self, samples: &[StreamSample]) {
        let mut by_job: BTreeMap<JobId, Vec<StreamReport>> = BTreeMap::new();
        for sample in samples {
            let job = match self.jobs.get(&sample.flow) {
                Some(job) => *job,
                None => {
                    let Some(connection) = self.directory.get(sample.flow) else {
                        self.unspoken();
                        continue;
                    };
                    let job = JobId(0);
                    self.jobs.insert(sample.flow, job);
                    let flow = sample.flow.0.into();
                    let job_name = name(job);
                    self.say(Declaration::FlowRequest {
                        job: job_name,
                        flow,
                        connection,
                        bytes: None,
                    });
                    job
                }
            };
            by_job.entry(job).or_default().push(StreamReport {
                flow: sample.flow.0.into(),
                delivered_bytes: sample.delivered,
                sender_queue_bytes: sample.sender_queue,
                receiver_queue_bytes: sample.receiver_queue,
            });
        }
        for (job, samples) in by_job {
            self.say(Declaration::Streams { job: name(job), samples });
        }
    }
}

/// What the controller is told a job is called.
fn name(job: JobId) -> String {
    format!("job{}", job.0)
}

fn note(account: &Mutex<Account>, change: impl FnOnce(&mut Account)) {
    change(&mut account.lock().unwrap_or_else(PoisonError::into_inner));
}

impl Policy for Northbound {
    fn observe(&mut self, _: Time, network: &Network, seen: &Observation, _: &mut Directives) {
        match seen {
            Observation::Declared(declared) => self.declare(network, declared),
            // The controller has instruments of its own.
            Observation::Measured(_) => {}
        }
    }
}

/// What waits is still delivered.
impl Drop for Northbound {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Its panic would be a defect that its own thread has told of.
            let _ = thread.join();
        }
    }
}

fn deliver(
    waiting: &Receiver<Declaration>,
    controller: &Controller,
    path: &str,
    account: &Mutex<Account>,
) {
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(MOST_AT_ONCE - 1));
        let done = serde_json::to_vec(&batch)
            .map_err(io::Error::from)
            .and_then(|body| post(controller, path, &body));
        let count = batch.len() as u64;
        note(account, |account| match done {
            Ok(()) => account.taken += count,
            Err(error) => {
                account.lost += count;
                account.fault.get_or_insert_with(|| format!("{controller:?}: {error}"));
            }
        });
    }
}

/// One `POST` on a connection of its own, which ends with the answer (RFC 9112, section 9.6).
fn post(controller: &Controller, path: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), body].concat();
    match controller {
        Controller::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            exchange(stream, &request)
        }
        Controller::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            exchange(stream, &request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<()> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(MOST_SHOWN).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
    match status {
        Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
        _ => {
            let said: String = text.chars().filter(|c| !c.is_control()).collect();
            Err(io::Error::other(format!("the controller answers: {said}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    use model::build::{Access, star};
    use model::{Buffer, LinkSpec, NodeId, TaskId};
    use units::{Rate, Span};

    use super::*;

    fn network() -> Network {
        let link = LinkSpec {
            capacity: Rate::from_mbps(100),
            delay: Span::ZERO,
            buffer: Buffer::Unlimited,
            mark: None,
        };
        Network::new(star(2, &Access { link, nic: Buffer::Unlimited }).unwrap())
    }

    /// Answers one request after another with `status`; gives what they said until nobody holds the
    /// sender any more.
    fn controller(status: &'static str) -> (Controller, Receiver<(String, Vec<Declaration>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let (mut first, mut length) = (String::new(), 0);
                reader.read_line(&mut first).unwrap();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.strip_prefix("Content-Length: ") {
                        length = value.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
                if heard.send((first, serde_json::from_slice(&body).unwrap())).is_err() {
                    break;
                }
            }
        });
        (Controller::Tcp(address), hear)
    }

    fn speak(northbound: &mut Northbound, declared: Declared) {
        let mut out = Directives::new();
        northbound.observe(Time::ZERO, &network(), &declared.into(), &mut out);
        assert_eq!(out, [], "others decide");
    }

    #[test]
    fn what_applications_declare_reaches_the_controller_by_addresses() {
        let (address, hear) = controller("202 Accepted");
        let directory = Directory::default();
        let (source, destination) = ("10.0.0.1:10000", "10.0.0.2:5001");
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        directory.enter(FlowId(0), source, destination);
        let mut northbound = Northbound::new("shuffle", address, directory);
        let account = northbound.account();
        let (job, flow, [src, dst]) = (JobId(7), FlowId(0), [NodeId(1), NodeId(2)]);
        let size = Bytes::new(1000);
        speak(&mut northbound, Declared::JobStart { job });
        speak(&mut northbound, Declared::TaskHost { job, task: TaskId(3), host: src });
        let reduces = vec![(TaskId(4), size)];
        speak(&mut northbound, Declared::Size { job, map: TaskId(3), reduces });
        speak(&mut northbound, Declared::FlowRequest { job, flow, src, dst, size });
        let sample = StreamSample { flow, delivered: Bytes::new(10), ..StreamSample::default() };
        speak(&mut northbound, Declared::Streams(vec![sample]));
        speak(&mut northbound, Declared::FlowComplete { job, flow });
        speak(&mut northbound, Declared::JobComplete { job });
        drop(northbound);
        let account = account.lock().unwrap().clone();
        assert_eq!(account, Account { taken: 7, ..Account::default() });
        let said: Vec<_> = hear.try_iter().collect();
        assert!(said.iter().all(|(first, _)| {
            first == "POST /v1/applications/shuffle/declarations HTTP/1.1\r\n"
        }));
        let said: Vec<Declaration> = said.into_iter().flat_map(|(_, batch)| batch).collect();
        let job = || "job7".to_owned();
        let connection = protocol::Connection { source, destination };
        assert_eq!(said[1], Declaration::TaskHost { job: job(), task: 3, host: "h0".into() });
        let request =
            Declaration::FlowRequest { job: job(), flow: 0, connection, bytes: Some(size) };
        assert_eq!(said[3], request);
        let Declaration::Streams { job: of, samples } = &said[4] else { panic!("{said:?}") };
        assert_eq!((of, samples[0].delivered_bytes), (&job(), Bytes::new(10)));
        assert_eq!(said[6], Declaration::JobComplete { job: job() });
    }

    #[test]
    fn a_controller_that_refuses_or_is_gone_is_told_of() {
        let (address, _hear) = controller("403 Forbidden");
        let gone = Controller::Unix("/nonexistent/socket".into());
        for (address, why) in [(address, "403 Forbidden"), (gone, "No such file")] {
            let mut northbound = Northbound::new("a", address, Directory::default());
            let account = northbound.account();
            speak(&mut northbound, Declared::JobStart { job: JobId(1) });
            drop(northbound);
            let account = account.lock().unwrap().clone();
            assert_eq!((account.taken, account.lost), (0, 1));
            assert!(account.fault.as_ref().unwrap().contains(why), "{account:?}");
        }
    }
}
