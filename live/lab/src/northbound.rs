//! The policy of a lab whose policy is elsewhere: it passes on what applications declare to a
//! controller, in the messages of [`protocol::application`], and decides nothing.
//!
//! Declarations go from a thread of their own, so that the traffic never waits for the controller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use model::{Declared, Directives, FlowId, JobId, Network, Observation, StreamSample};
use policy::Policy;
use protocol::application::{Declaration, Portion, StreamReport};
use tokio::sync::mpsc::{Sender, channel};
use units::{Bytes, Time};
use wire::client::Address;

use crate::delivery::{Account, MOST_WAITING, deliver, note};
use crate::{Directory, Error};

/// Passes declarations on.
pub struct Northbound {
    directory: Directory,
    /// The jobs of flows, which streams don't name.
    jobs: BTreeMap<FlowId, JobId>,
    queue: Option<Sender<Declaration>>,
    account: Arc<Mutex<Account>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Northbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Northbound").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Northbound {
    /// Speaks for `application` to `controller`, without TLS, of the flows in `directory`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(
        application: &str,
        controller: Address,
        directory: Directory,
    ) -> Result<Self, Error> {
        let (queue, waiting) = channel(MOST_WAITING);
        let account = Arc::new(Mutex::new(Account::default()));
        let path = format!("/v{}/applications/{application}/declarations", protocol::VERSION);
        let refuse = |error| Error::Control(format!("the system refuses: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(refuse)?;
        let delivery = deliver(waiting, controller, path, Arc::clone(&account));
        let thread = std::thread::Builder::new().name("northbound".to_owned());
        let thread = thread.spawn(move || runtime.block_on(delivery)).map_err(refuse)?;
        let (queue, thread) = (Some(queue), Some(thread));
        Ok(Self { directory, jobs: BTreeMap::new(), queue, account, thread })
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
            note(&self.account, |account| account.lose(fault));
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

    /// Samples of streams, job by job.
    fn streams(&mut self, samples: &[StreamSample]) {
        let mut by_job: BTreeMap<JobId, Vec<StreamReport>> = BTreeMap::new();
        for sample in samples {
            let Some(&job) = self.jobs.get(&sample.flow) else {
                self.unspoken();
                continue;
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

impl Policy for Northbound {
    fn observe(&mut self, _: Time, network: &Network, seen: &Observation) {
        match seen {
            Observation::Declared(declared) => self.declare(network, declared),
            // The controller has instruments of its own.
            Observation::Measured(_) | Observation::Tick => {}
        }
    }

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::Receiver;
    use std::time::Duration;

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

    type Heard = Receiver<(String, Vec<Declaration>)>;

    /// Answers requests with `status`, so many on a connection before it closes it, on one connection
    /// after another; gives what they said until nobody holds the sender any more.
    fn controller(status: &'static str, each: usize) -> (Address, Heard) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                for _ in 0..each {
                    let Some((first, body)) = request(&mut reader) else { break };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                    if heard.send((first, serde_json::from_slice(&body).unwrap())).is_err() {
                        return;
                    }
                }
            }
        });
        (Address::Tcp(address.to_string()), hear)
    }

    /// The first line and the body of the next request.
    fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok().filter(|count| *count > 0)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        Some((first, body))
    }

    fn speak(northbound: &mut Northbound, declared: Declared) {
        northbound.observe(Time::ZERO, &network(), &declared.into());
    }

    #[test]
    fn what_applications_declare_reaches_the_controller_by_addresses() {
        let (address, hear) = controller("202 Accepted", usize::MAX);
        let directory = Directory::default();
        let (source, destination) = ("10.0.0.1:10000", "10.0.0.2:5001");
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        directory.enter(FlowId(0), source, destination);
        let mut northbound = Northbound::new("shuffle", address, directory).unwrap();
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
        assert_eq!(account, Account { taken: 7, connections: 1, ..Account::default() });
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
    fn a_controller_that_begins_anew_hears_what_still_holds() {
        let (address, hear) = controller("202 Accepted", 1);
        let mut northbound = Northbound::new("a", address, Directory::default()).unwrap();
        let next = || hear.recv_timeout(Duration::from_secs(10)).unwrap().1;
        let start = |job| Declaration::JobStart { job: name(JobId(job)) };
        for job in [1, 2] {
            speak(&mut northbound, Declared::JobStart { job: JobId(job) });
        }
        let mut said = next();
        while said.len() < 2 {
            // One by one: each time the connection ends, and what was said is said again.
            said = next();
        }
        assert_eq!(said, [start(1), start(2)]);
        speak(&mut northbound, Declared::JobComplete { job: JobId(1) });
        speak(&mut northbound, Declared::JobStart { job: JobId(3) });
        // Though nothing more is said, the one that has lost the connection hears all again.
        while said != [start(2), start(3)] {
            said = next();
        }
    }

    #[test]
    fn a_controller_that_refuses_or_is_gone_is_told_of() {
        let (address, _hear) = controller("403 Forbidden", usize::MAX);
        let gone = Address::Unix("/nonexistent/socket".into());
        for (address, why) in [(address, "403 Forbidden"), (gone, "No such file")] {
            let mut northbound = Northbound::new("a", address, Directory::default()).unwrap();
            let account = northbound.account();
            speak(&mut northbound, Declared::JobStart { job: JobId(1) });
            drop(northbound);
            let account = account.lock().unwrap().clone();
            assert_eq!((account.taken, account.lost), (0, 1));
            assert!(account.fault.as_ref().unwrap().contains(why), "{account:?}");
        }
    }
}
