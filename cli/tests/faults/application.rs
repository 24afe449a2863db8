//! An application that declares flows, keeps its connection, and says all again when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::Method;
use protocol::Connection;
use serde_json::{Value, json};
use wire::client::{Address, Client, ClientError};

/// Between two signs of life, and between two attempts to connect.
const BEAT: Duration = Duration::from_millis(200);

pub struct Application {
    /// How often all was declared.
    told: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Application {
    /// Declares a job with these connections as its flows, in their order, to whoever listens.
    pub fn start(controller: &Address, connections: &[Connection]) -> Self {
        let mut declared = vec![json!({ "type": "job_start", "job": "work" })];
        declared.extend(connections.iter().zip(1_u32..).map(|(connection, flow)| {
            let bytes = 1_u64 << 40;
            json!({ "type": "flow_request", "job": "work", "flow": flow.to_string(), "bytes": bytes, "connection": connection })
        }));
        let (told, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, halt, controller) = (Arc::clone(&told), Arc::clone(&stop), controller.clone());
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                while !halt.load(Ordering::Relaxed) {
                    // Whatever breaks it, it comes again.
                    let _ = speak(&controller, &declared, &count, &halt).await;
                    tokio::time::sleep(BEAT).await;
                }
            });
        });
        Self { told, stop, thread: Some(thread) }
    }

    /// How often all was declared.
    pub fn told(&self) -> u32 {
        self.told.load(Ordering::Relaxed)
    }
}

async fn speak(
    controller: &Address,
    declared: &[Value],
    told: &AtomicU32,
    halt: &AtomicBool,
) -> Result<(), ClientError> {
    let mut client = Client::connect(controller, None).await?;
    let path = "/v1/applications/faults/declarations";
    let body = Value::from(declared).to_string().into_bytes();
    let (status, said) = client.ask(Method::POST, path, body).await?;
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&said));
    told.fetch_add(1, Ordering::Relaxed);
    while !halt.load(Ordering::Relaxed) {
        tokio::time::sleep(BEAT).await;
        client.get("/v1/health").await?;
    }
    Ok(())
}

impl Drop for Application {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
