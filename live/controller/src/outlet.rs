//! What waits to be sent to a peer, bounded in octets.
//!
//! A peer that doesn't read is cut off: nothing said to it is left out of a stream that goes on. It
//! may come back, and is told anew how everything stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::lines::ALIVE;

/// Most octets that may wait for a peer.
const MOST: usize = 16 << 20;

/// What a message takes of that: half at most, so that a peer of which so much stands that one message is longer hears
/// it all the same, and what comes behind it.
const fn counted(length: usize) -> usize {
    if length < MOST / 2 { length } else { MOST / 2 }
}

/// Octets that are sent in one go.
const BATCH: usize = 64 << 10;
/// How long a peer may take to read what was sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// The end that puts in.
#[derive(Debug)]
pub struct Outlet {
    sender: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// The end that sends.
#[derive(Debug)]
pub struct Drain {
    receiver: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// Both ends.
pub fn outlet() -> (Outlet, Drain) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Outlet { sender, waiting: Arc::clone(&waiting) }, Drain { receiver, waiting })
}

impl Outlet {
    /// Has `bytes` sent; false where the peer must be cut off: it doesn't read, or has gone.
    pub fn send(&self, bytes: Vec<u8>) -> bool {
        let length = counted(bytes.len());
        if self.waiting.fetch_add(length, Ordering::Relaxed).saturating_add(length) > MOST {
            return false;
        }
        self.sender.send(bytes).is_ok()
    }
}

impl Drain {
    /// Sends until the other end is closed and all is sent.
    ///
    /// # Errors
    /// A broken connection, or a peer that doesn't read.
    pub async fn run(mut self, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
        while let Some(bytes) = self.receiver.recv().await {
            self.send(bytes, &mut to).await?;
        }
        to.shutdown().await
    }

    /// The same to a peer that reads lines; an empty one goes out when nothing else has for a while.
    ///
    /// # Errors
    /// A broken connection, or a peer that doesn't read.
    pub async fn run_lines(mut self, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
        loop {
            match timeout(ALIVE, self.receiver.recv()).await {
                Ok(Some(bytes)) => self.send(bytes, &mut to).await?,
                Ok(None) => return to.shutdown().await,
                Err(_) => write(b"\n", &mut to).await?,
            }
        }
    }

    /// Sends `first` and what waits behind it.
    async fn send(
        &mut self,
        first: Vec<u8>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let mut taken = counted(first.len());
        let mut batch = first;
        while batch.len() < BATCH {
            let Ok(bytes) = self.receiver.try_recv() else { break };
            taken += counted(bytes.len());
            batch.extend_from_slice(&bytes);
        }
        write(&batch, to).await?;
        self.waiting.fetch_sub(taken, Ordering::Relaxed);
        Ok(())
    }
}

async fn write(bytes: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let sent = timeout(PATIENCE, async {
        to.write_all(bytes).await?;
        to.flush().await
    });
    sent.await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn what_waits_for_a_peer_that_does_not_read_is_bounded() {
        let (outlet, _drain) = outlet();
        assert!((0..16).all(|_| outlet.send(vec![0; MOST / 16])));
        assert!(!outlet.send(vec![0]));
    }

    #[tokio::test]
    async fn a_message_longer_than_all_that_may_wait_is_told_and_what_follows() {
        let (outlet, drain) = outlet();
        let waiting = Arc::clone(&outlet.waiting);
        assert!(outlet.send(vec![0; 2 * MOST]) && outlet.send(vec![0]));
        drop(outlet);
        let mut heard = Vec::new();
        drain.run(&mut heard).await.unwrap();
        assert_eq!((heard.len(), waiting.load(Ordering::Relaxed)), (2 * MOST + 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_lines_hears_a_sign_of_life_and_no_other_does() {
        for is_lines in [true, false] {
            let (ours, mut theirs) = tokio::io::duplex(100);
            let (outlet, drain) = outlet();
            let run = async move {
                if is_lines { drain.run_lines(ours).await } else { drain.run(ours).await }
            };
            let sending = tokio::spawn(run);
            // It is measured from what was sent last, in the middle of a pause.
            tokio::time::sleep(ALIVE / 2).await;
            assert!(outlet.send(b"{}\n".to_vec()));
            let mut read = [0; 3];
            theirs.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"{}\n");
            let began = Instant::now();
            let next = timeout(ALIVE * 3, theirs.read_u8()).await;
            if is_lines {
                assert_eq!(next.expect("it is silent").unwrap(), b'\n');
                assert!(began.elapsed().abs_diff(ALIVE) <= Duration::from_millis(2));
                assert_eq!(theirs.read_u8().await.unwrap(), b'\n');
            } else {
                assert!(next.is_err(), "{next:?}");
            }
            assert_eq!(outlet.waiting.load(Ordering::Relaxed), 0);
            drop(outlet);
            sending.await.unwrap().unwrap();
        }
    }
}
