//! Several controllers, of which one leads: finds that one, and hears when another does.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use protocol::application::Leader;
use rustls::ClientConfig;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::{Address, Client, ClientError};

/// Most controllers that may be named.
pub const MOST: usize = 16;
/// How long a controller that follows may keep a question for the leader, when one is sought and when one is there.
const SEEKING: Duration = Duration::from_secs(2);
const WATCHING: Duration = Duration::from_secs(30);
/// How much longer an answer may take than that.
const LATE: Duration = Duration::from_secs(2);
/// Between two attempts at a controller that doesn't answer, the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Where controllers are, and which of them leads as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    addresses: Vec<Address>,
    /// The one that leads, and its epoch; 0 until it has said it.
    at: usize,
    epoch: u64,
}

impl From<Address> for Controllers {
    fn from(address: Address) -> Self {
        Self { addresses: vec![address], at: 0, epoch: 0 }
    }
}

impl Controllers {
    /// Those at `addresses`, one at least, [`MOST`] at most.
    pub fn new(addresses: Vec<Address>) -> Option<Self> {
        let is_some = (1..=MOST).contains(&addresses.len());
        is_some.then_some(Self { addresses, at: 0, epoch: 0 })
    }

    /// All of them.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Has others in the place of these; whether the one that was connected to last is among them, which is known as
    /// before then.
    pub fn change(&mut self, others: Self) -> bool {
        let at = others.addresses.iter().position(|address| address == self.leader());
        let epoch = at.map_or(0, |_| self.epoch);
        *self = Self { at: at.unwrap_or(0), epoch, ..others };
        at.is_some()
    }

    /// The one that was connected to last.
    pub fn leader(&self) -> &Address {
        &self.addresses[self.at]
    }

    /// The one that was connected to last leads under this epoch.
    pub const fn led_under(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Connects to the one that leads, or to the only one there is. While nobody leads it waits, for `patience` at
    /// most.
    ///
    /// # Errors
    /// None leads or answers.
    pub async fn connect(
        &mut self,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> Result<Client, ClientError> {
        if let [only] = &self.addresses[..] {
            self.epoch = 0;
            return Client::connect(only, tls).await;
        }
        let until = Instant::now() + patience;
        let mut sought = JoinSet::new();
        for (at, address) in self.addresses.iter().enumerate() {
            let (address, tls, epoch) = (address.clone(), tls.cloned(), self.epoch);
            sought.spawn(async move { (at, seek(&address, tls.as_ref(), epoch, until).await) });
        }
        // Whoever is slow is left alone once one leads.
        let mut said = vec![String::new(); self.addresses.len()];
        let mut finally = Vec::new();
        while let Some(found) = sought.join_next().await {
            match found {
                Ok((at, Ok((client, epoch)))) => {
                    (self.at, self.epoch) = (at, epoch);
                    return Ok(client);
                }
                Ok((at, Err(ClientError::Leaderless(why)))) => said[at] = why,
                Ok((at, Err(error))) => {
                    said[at] = error.to_string();
                    finally.extend(Some(error).filter(ClientError::is_final));
                }
                Err(_) => {}
            }
        }
        if finally.len() == self.addresses.len() {
            return Err(finally.remove(0));
        }
        Err(ClientError::Leaderless(said.join("; ")))
    }

    /// Waits until another controller says that one of a higher epoch leads; for ever with one alone, and where nobody
    /// has told yet under which epoch that leads.
    pub async fn moved(&self, tls: Option<&Arc<ClientConfig>>) {
        let mut watched = JoinSet::new();
        for (at, address) in self.addresses.iter().enumerate() {
            if at != self.at && self.epoch > 0 {
                let (address, tls, epoch) = (address.clone(), tls.cloned(), self.epoch);
                watched.spawn(async move { watch(&address, tls.as_ref(), epoch).await });
            }
        }
        while let Some(ended) = watched.join_next().await {
            if ended.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// Pauses that grow, and differ: who lost the same controller must not come back at the same moment.
struct Pauses(Duration);

impl Pauses {
    const fn new() -> Self {
        Self(PAUSES.0)
    }

    fn next(&mut self) -> Duration {
        let chance = RandomState::new().hash_one(()) % 1024;
        let pause = self.0.mul_f64(0.5 + chance as f64 / 1024.0);
        self.0 = (self.0 * 2).min(PAUSES.1);
        pause
    }
}

async fn ask(client: &mut Client, after: u64, wait: Duration) -> Result<Leader, ClientError> {
    let path = format!("/v1/leader?after={after}&wait={}", wait.as_secs());
    let late = |_| ClientError::Refused {
        status: StatusCode::REQUEST_TIMEOUT,
        said: "no answer in good time".to_owned(),
    };
    let said = timeout(wait + LATE, client.get(&path)).await.map_err(late)??;
    serde_json::from_slice(&said).map_err(|error| ClientError::Answer(error.to_string()))
}

/// A connection to the controller at `address` once it leads, and its epoch; or why there was none in the end.
async fn seek(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    mut after: u64,
    until: Instant,
) -> Result<(Client, u64), ClientError> {
    let mut pauses = Pauses::new();
    let mut why = ClientError::Leaderless(format!("{address} does not answer"));
    loop {
        let asked = timeout_at(until, async {
            let mut client = Client::connect(address, tls).await?;
            let leader = ask(&mut client, after, SEEKING).await?;
            Ok::<_, ClientError>(if !leader.here {
                (None, leader)
            } else if client.is_closed() {
                (Some(Client::connect(address, tls).await?), leader)
            } else {
                (Some(client), leader)
            })
        });
        let pause = match asked.await {
            Ok(Ok((Some(client), leader))) => return Ok((client, leader.epoch)),
            Ok(Ok((None, leader))) => {
                why = ClientError::Leaderless(format!("{address} follows"));
                // Nobody may lead any more whom it names: next it answers when another does.
                after = after.max(leader.epoch);
                PAUSES.0 / 2
            }
            Ok(Err(error)) if error.is_final() => return Err(error),
            Ok(Err(error)) => {
                why = error;
                pauses.next()
            }
            Err(_) => return Err(why),
        };
        if timeout_at(until, sleep(pause)).await.is_err() {
            return Err(why);
        }
    }
}

/// Ends when the controller at `address` says that one of a higher epoch leads.
async fn watch(address: &Address, tls: Option<&Arc<ClientConfig>>, epoch: u64) {
    let mut pauses = Pauses::new();
    loop {
        let Ok(mut client) = Client::connect(address, tls).await else {
            sleep(pauses.next()).await;
            continue;
        };
        while let Ok(leader) = ask(&mut client, epoch, WATCHING).await {
            pauses = Pauses::new();
            if leader.epoch > epoch {
                return;
            }
            if client.is_closed() {
                break;
            }
        }
        sleep(pauses.next()).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::thread::{self, JoinHandle};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// One that follows and knows of a leader: it answers the first question at once. Where it is, and what it is asked.
    fn follower(epoch: u64) -> (SocketAddr, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let asked = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let read = stream.read(&mut asked).unwrap_or(0);
            let body = format!("{{\"epoch\":{epoch},\"here\":false}}");
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            String::from_utf8_lossy(&asked[..read]).into_owned()
        });
        (at, asked)
    }

    fn address(at: SocketAddr) -> Address {
        format!("http://{at}").parse().unwrap()
    }

    #[tokio::test]
    async fn a_controller_that_joins_the_list_moves_nobody() {
        let (other, asked) = follower(7);
        let one: Address = "http://127.0.0.1:9".parse().unwrap();
        let mut controllers = Controllers::from(one.clone());
        let both = Controllers::new(vec![one, address(other)]).unwrap();
        assert!(controllers.change(both), "it stays");
        let moved = timeout(Duration::from_millis(300), controllers.moved(None));
        assert!(moved.await.is_err(), "nothing was asked that could have been answered");
        let _ = std::net::TcpStream::connect(other);
        asked.join().unwrap();
    }

    /// What was known of an earlier office of the same is over with it.
    #[tokio::test]
    async fn one_that_was_alone_is_left_where_another_leads_after_it() {
        let leads = TcpListener::bind("127.0.0.1:0").unwrap();
        let (other, asked) = follower(8);
        let both = vec![address(leads.local_addr().unwrap()), address(other)];
        let mut controllers = Controllers { addresses: both.clone(), at: 0, epoch: 5 };
        assert!(controllers.change(Controllers::from(both[0].clone())), "it stays");
        let _client = controllers.connect(None, PATIENCE).await.unwrap();
        assert_eq!(controllers.epoch, 0, "it has not told yet");
        controllers.led_under(7);
        assert!(controllers.change(Controllers::new(both).unwrap()), "it stays");
        timeout(PATIENCE, controllers.moved(None)).await.expect("another leads");
        let asked = asked.join().unwrap();
        assert!(asked.contains("after=7&"), "{asked}");
    }
}
