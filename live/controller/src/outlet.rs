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

/// Most octets that may wait for a peer.
const MOST: usize = 16 << 20;
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
        let length = bytes.len();
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
        let mut batch = Vec::new();
        while let Some(bytes) = self.receiver.recv().await {
            batch.clear();
            batch.extend_from_slice(&bytes);
            while batch.len() < BATCH {
                let Ok(bytes) = self.receiver.try_recv() else { break };
                batch.extend_from_slice(&bytes);
            }
            let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
            timeout(PATIENCE, async {
                to.write_all(&batch).await?;
                to.flush().await
            })
            .await
            .map_err(late)??;
            self.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        }
        to.shutdown().await
    }
}
