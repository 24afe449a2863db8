//! OpenFlow connections: bytes in, bytes out. What they mean is the machine's business.

use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use wire::Stream;
use wire::identity::Role;
use wire::tls::why_lost;

use crate::http::REVOKED;
use crate::hub::{Admission, Hub};
use crate::listen::{Certificates, Listener, identify};
use crate::outlet::outlet;
use crate::owner::Event;

/// Most octets handed over at once.
const CHUNK: usize = 64 << 10;

/// Accepts switches until the daemon ends.
pub async fn serve(listener: Arc<Listener>, certificates: Option<Certificates>, hub: Arc<Hub>) {
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hub.stopped() => return,
        };
        let Some(admission) = hub.admit(listener.is_local()) else {
            tracing::warn!(from, "switch refused: too many connections");
            continue;
        };
        let (certificates, hub) = (certificates.clone(), Arc::clone(&hub));
        tokio::spawn(async move {
            if let Err(reason) = connection(stream, certificates, admission, &hub).await {
                tracing::warn!(from, reason, "switch connection ended");
            }
        });
    }
}

async fn connection(
    stream: Box<dyn Stream>,
    certificates: Option<Certificates>,
    mut admission: Admission,
    hub: &Hub,
) -> Result<(), String> {
    let (stream, peer) = identify(stream, certificates.as_ref()).await?;
    let identity = peer.as_ref().map(|peer| &peer.identity);
    if let Some(identity) = identity.filter(|identity| identity.role != Role::Switch) {
        return Err(format!("{identity} is no switch"));
    }
    let name = identity.map(|identity| identity.name.clone());
    if !admission.identify(peer) {
        return Err("too many connections of this switch".to_owned());
    }
    let channel = hub.channel();
    let (outlet, drain) = outlet();
    let (mut reader, writer) = tokio::io::split(stream);
    if hub.tell(Event::SwitchConnected(channel, name, outlet)).await.is_err() {
        return Ok(());
    }
    let receive = async {
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match reader.read(&mut chunk).await {
                Ok(0) => return Err("the switch closed it".to_owned()),
                Ok(read) => read,
                Err(error) => return Err(why_lost(&error)),
            };
            let bytes = chunk.get(..read).unwrap_or_default().to_vec();
            if hub.tell(Event::SwitchBytes(channel, bytes)).await.is_err() {
                return Ok(());
            }
        }
    };
    let ended = tokio::select! {
        ended = receive => ended,
        sent = drain.run(writer) => sent.map_err(|error| why_lost(&error)),
        () = admission.revoked() => Err(REVOKED.to_owned()),
        () = hub.stopped() => Ok(()),
    };
    // There may be no machine any more to tell.
    let _ = hub.tell(Event::SwitchGone(channel)).await;
    ended
}
