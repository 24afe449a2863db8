//! What daemons and commands share to talk to one another:
//!
//! - [`certs`] makes certificates, [`tls`] reads them, [`identity`] says whom one names;
//! - [`client`] asks a controller over HTTP, by TLS, TCP or a Unix socket;
//! - [`controllers`] finds the one that leads, of several;
//! - [`settings`] reads where controllers are and which certificates to show;
//! - [`delivery`] brings an application's declarations to a controller;
//! - [`kubernetes`] asks the API server of Kubernetes, as a pod does;
//! - [`lines`] reads and writes lines of JSON on a connection that both ends write to;
//! - [`clock`] is the one clock: monotonic.
#![forbid(unsafe_code)]

pub mod certs;
pub mod client;
pub mod clock;
pub mod controllers;
pub mod delivery;
pub mod identity;
pub mod kubernetes;
pub mod lines;
pub mod settings;
pub mod tls;

/// What an agent asks a connection to become, in the header `Upgrade`: reports upwards and commands
/// downwards, each a line of JSON.
pub const EXCHANGE: &str = "watermaster-agent/1";

/// A connection, whatever carries it.
pub trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for T {}
