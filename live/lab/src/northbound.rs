//! The policy of a lab whose policy is elsewhere: it passes on what applications declare to a
//! controller, in the messages of [`protocol::application`], and decides nothing.
//!
//! Declarations go from a thread of their own, so that the traffic never waits for the controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use model::{Declared, Directives, FlowId, Network, NodeId, Observation, StreamSample};
use policy::Policy;
use protocol::Connection;
use protocol::client;
use protocol::translate::{Names, Translator};
use units::Time;
use wire::client::Address;
use wire::delivery::{Delivery, Shared};

use crate::{Directory, Error};

/// Passes declarations on.
#[derive(Debug)]
pub struct Northbound {
    directory: Directory,
    translator: Arc<Mutex<Translator>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What became of the declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// What the controller took and refused.
    pub client: client::Account,
    /// Declarations that still wait.
    pub waiting: usize,
    /// Observations that the messages have no words for.
    pub unspoken: u64,
}

impl Account {
    /// In a line for people.
    pub fn line(&self) -> String {
        let client::Account { taken, later, connections, fault, .. } = &self.client;
        // Who has waited until the end of a run waits in vain.
        let lost = self.client.lost() + self.waiting as u64;
        let mut line = format!("controller and agent: {taken} declarations taken");
        if lost > 0 {
            line += &format!(", {lost} NOT TAKEN");
        }
        if *later > 0 {
            line += &format!(", {later} refused at first, for want of room");
        }
        if self.unspoken > 0 {
            line += &format!(", {} observations that no message tells", self.unspoken);
        }
        if *connections > 1 {
            line += &format!(", over {connections} connections");
        }
        line + &fault.as_ref().map(|fault| format!("; {fault}")).unwrap_or_default()
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
        let shared = Arc::<Shared>::default();
        let refuse = |error| Error::Control(format!("the system refuses: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(refuse)?;
        let delivery = Delivery::new(Arc::clone(&shared), application, controller.into());
        let thread = std::thread::Builder::new().name("northbound".to_owned());
        let thread = thread.spawn(move || runtime.block_on(delivery.run())).map_err(refuse)?;
        Ok(Self { directory, translator: Arc::default(), shared, thread: Some(thread) })
    }

    /// The samples of flows that it has declared and that are open.
    pub(crate) fn own(&self, samples: &[StreamSample]) -> Vec<StreamSample> {
        let translator = lock(&self.translator);
        let own = samples.iter().filter(|sample| translator.connection(sample.flow).is_some());
        own.copied().collect()
    }

    /// In a world, what waits at a sender is what its kernel has too.
    fn leave_out_kernel(&self, sample: &mut StreamSample) {
        let written = sample.sender_queue + sample.delivered;
        sample.sender_queue = written - self.directory.taken(sample.flow).min(written);
    }

    /// Tells, whenever it is asked, what became of the declarations.
    pub fn account(&self) -> impl Fn() -> Account + use<> {
        let (shared, translator) = (Arc::clone(&self.shared), Arc::clone(&self.translator));
        move || {
            let unspoken = lock(&translator).unspoken();
            let client = shared.client();
            Account { client: client.account().clone(), waiting: client.waiting(), unspoken }
        }
    }
}

fn lock(translator: &Mutex<Translator>) -> MutexGuard<'_, Translator> {
    translator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the controller knows the lab.
struct Known<'a> {
    network: &'a Network,
    directory: &'a Directory,
}

impl Names for Known<'_> {
    fn host(&self, host: NodeId) -> Option<String> {
        Some(self.network.topology().nodes().get(host.index())?.name.clone())
    }

    fn connection(&self, flow: FlowId, _: (NodeId, NodeId)) -> Option<Connection> {
        self.directory.get(flow)
    }
}

impl Policy for Northbound {
    fn observe(&mut self, _: Time, network: &Network, seen: &Observation) {
        // The controller has instruments of its own.
        let Observation::Declared(declared) = seen else { return };
        let mut declared = declared.clone();
        if let Declared::Streams(samples) = &mut declared {
            samples.iter_mut().for_each(|sample| self.leave_out_kernel(sample));
        }
        let names = Known { network, directory: &self.directory };
        for declaration in lock(&self.translator).translate(&declared, &names) {
            self.shared.declare(declaration);
        }
    }

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}
}

/// What waits is still delivered.
impl Drop for Northbound {
    fn drop(&mut self) {
        self.shared.end();
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
    use std::time::{Duration, Instant};

    use model::build::{Access, star};
    use model::{Buffer, Declared, JobId, LinkSpec, NodeId, StreamSample, TaskId};
    use protocol::Processes;
    use protocol::application::Declaration;
    use units::{Bytes, Rate, Span};

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

    /// Answers declarations with `status`, so many times on a connection before it closes it, on one
    /// connection after another; gives what they said until nobody holds the sender any more.
    fn controller(status: &'static str, each: usize) -> (Address, Heard) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut answered = 0;
                while answered < each
                    && let Some((first, body)) = request(&mut reader)
                {
                    let said: Vec<Declaration> = serde_json::from_slice(&body).unwrap_or_default();
                    let (status, text) = if first.starts_with("GET /v1/health ") {
                        ("200 OK", r#"{"epoch":1,"declared":0}"#.to_owned())
                    } else {
                        answered += 1;
                        (status, format!(r#"{{"taken":{},"epoch":1}}"#, said.len()))
                    };
                    let length = text.len();
                    let answer =
                        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{text}");
                    // Before the answer: who has it may look at once.
                    if !said.is_empty() && heard.send((first, said)).is_err() {
                        return;
                    }
                    // A client that has gone asks again.
                    let _ = reader.get_mut().write_all(answer.as_bytes());
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

    fn until(holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(120), "it takes too long");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_applications_declare_reaches_the_controller_by_addresses() {
        let (address, hear) = controller("200 OK", usize::MAX);
        let directory = Directory::default();
        let (source, destination) = ("10.0.0.1:10000", "10.0.0.2:5001");
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let taken = directory.enter(FlowId(0), source, destination);
        taken.add(700);
        let mut northbound = Northbound::new("shuffle", address, directory).unwrap();
        let account = northbound.account();
        let (job, flow, [src, dst]) = (JobId(7), FlowId(0), [NodeId(1), NodeId(2)]);
        let size = Bytes::new(1000);
        speak(&mut northbound, Declared::JobStart { job, application: "".into() });
        speak(&mut northbound, Declared::TaskHost { job, task: TaskId(3), host: src });
        let reduces = vec![(TaskId(4), size)];
        speak(&mut northbound, Declared::Size { job, map: TaskId(3), reduces });
        speak(&mut northbound, Declared::FlowRequest { job, flow, src, dst, size });
        // Samples that no controller hears are left out.
        until(|| account().client.taken == 4);
        let (delivered, sender_queue) = (Bytes::new(10), Bytes::new(900));
        let sample = StreamSample { flow, delivered, sender_queue, ..StreamSample::default() };
        speak(&mut northbound, Declared::Streams(vec![sample]));
        until(|| account().client.taken == 5);
        speak(&mut northbound, Declared::FlowComplete { job, flow });
        speak(&mut northbound, Declared::JobComplete { job });
        drop(northbound);
        let client = client::Account { taken: 7, connections: 1, ..client::Account::default() };
        assert_eq!(account(), Account { client, ..Account::default() });
        let said: Vec<_> = hear.try_iter().collect();
        assert!(said.iter().all(|(first, _)| {
            first == "POST /v1/applications/shuffle/declarations HTTP/1.1\r\n"
        }));
        let said: Vec<Declaration> = said.into_iter().flat_map(|(_, batch)| batch).collect();
        let job = || "7".to_owned();
        let connection = Connection { source, destination };
        assert_eq!(said[1], Declaration::TaskHost { job: job(), task: 3, host: "h0".into() });
        let request = Declaration::FlowRequest {
            job: job(),
            flow: "0".into(),
            connection,
            processes: Processes::default(),
            bytes: Some(size),
        };
        assert_eq!(said[3], request);
        let Declaration::Streams { job: of, samples } = &said[4] else { panic!("{said:?}") };
        assert_eq!((of, samples[0].delivered_bytes), (&job(), Bytes::new(10)));
        // 910 were written, and the socket has taken 700 of them.
        assert_eq!(samples[0].sender_queue_bytes, Bytes::new(210));
        assert_eq!(said[6], Declaration::JobComplete { job: job() });
    }

    #[test]
    fn a_controller_that_comes_back_hears_what_still_holds() {
        let (address, hear) = controller("200 OK", 1);
        let mut northbound = Northbound::new("a", address, Directory::default()).unwrap();
        let next = || hear.recv_timeout(Duration::from_secs(10)).unwrap().1;
        let start = |job| Declaration::JobStart { job: format!("{job}") };
        for job in [1, 2] {
            speak(&mut northbound, Declared::JobStart { job: JobId(job), application: "".into() });
        }
        let mut said = next();
        while said.len() < 2 {
            // Each time the connection ends, and what was said is said again.
            said = next();
        }
        assert_eq!(said, [start(1), start(2)]);
        speak(&mut northbound, Declared::JobComplete { job: JobId(1) });
        speak(&mut northbound, Declared::JobStart { job: JobId(3), application: "".into() });
        // Though nothing more is said, the one that has lost the connection hears all again.
        while said != [start(2), start(3)] {
            said = next();
        }
    }

    #[test]
    fn a_controller_that_refuses_or_is_gone_is_told_of() {
        let (address, _hear) = controller("403 Forbidden", usize::MAX);
        let gone = Address::Unix("/nonexistent/socket".into());
        for (address, why) in [(address, "answers 403"), (gone, "No such file")] {
            let mut northbound = Northbound::new("a", address, Directory::default()).unwrap();
            let account = northbound.account();
            speak(&mut northbound, Declared::JobStart { job: JobId(1), application: "".into() });
            drop(northbound);
            let account = account();
            assert_eq!((account.client.taken, account.waiting), (0, 1));
            assert!(account.line().contains(", 1 NOT TAKEN") && account.line().contains(why));
        }
    }
}
