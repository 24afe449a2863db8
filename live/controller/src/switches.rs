//! OpenFlow connections: bytes in, bytes out. What they mean is the machine's business.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncReadExt as _;
use wire::Stream;
use wire::identity::Role;
use wire::tls::why_lost;

use crate::http::REVOKED;
use crate::hub::{Admission, Hub};
use crate::listen::{Certificates, From, Listener, identify};
use crate::outlet::outlet;
use crate::owner::Event;
use crate::seldom::Each;
use crate::tenant::Who;

/// Most octets handed over at once.
const CHUNK: usize = 64 << 10;

/// Accepts switches until the daemon ends.
pub async fn serve(listener: Arc<Listener>, certificates: Option<Certificates>, hub: Arc<Hub>) {
    // Anybody can fail to come in, as fast as they like.
    let ending = Arc::new(Each::default());
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hub.stopped() => return,
        };
        let (certificates, hub) = (certificates.clone(), Arc::clone(&hub));
        let (ending, proves) = (Arc::clone(&ending), certificates.is_some());
        tokio::spawn(async move {
            let mut by = None;
            let ended = match admitted(stream, from, certificates, &hub, &mut by).await {
                Ok(Some((stream, admission))) => connection(stream, &admission, &hub).await,
                Ok(None) => Ok(()),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = ended
                && let Some(untold) = ending.tell(from.apart(proves, by.as_deref()), Instant::now())
            {
                tracing::warn!(%from, by, reason, untold, "switch connection ended");
            }
        });
    }
}

/// A switch that comes in; `by` whom, as far as that is proved. `None`: it had to give way to others.
async fn admitted(
    stream: Box<dyn Stream>,
    from: From,
    certificates: Option<Certificates>,
    hub: &Arc<Hub>,
    by: &mut Option<String>,
) -> Result<Option<(Box<dyn Stream>, Admission)>, String> {
    let proved = identify(stream, from, certificates.as_ref(), &hub.strangers).await?;
    let Some((stream, peer)) = proved else { return Ok(None) };
    let identity = peer.as_ref().map(|peer| &peer.identity);
    *by = identity.map(ToString::to_string);
    if let Some(identity) = identity.filter(|identity| identity.role != Role::Switch) {
        return Err(format!("{identity} is no switch"));
    }
    Ok(Some((stream, hub.admit(false, peer)?)))
}

/// Its connection until it ends.
async fn connection(
    stream: Box<dyn Stream>,
    admission: &Admission,
    hub: &Hub,
) -> Result<(), String> {
    let name = admission.identity().map(|identity| identity.name.clone());
    let channel = hub.channel();
    let (outlet, drain) = outlet();
    let (mut reader, writer) = tokio::io::split(stream);
    let tenant = hub.tenants.of(Who::Switch(channel.0));
    if hub.tell(&tenant, Event::SwitchConnected(channel, name, outlet)).await.is_err() {
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
            let event = Event::SwitchBytes(channel, bytes);
            if hub.tell_in_turn(&tenant, read, event).await.is_err() {
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
    let _ = hub.tell(&tenant, Event::SwitchGone(channel)).await;
    ended
}
