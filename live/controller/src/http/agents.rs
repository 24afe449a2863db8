//! Agents: one connection each, upgraded to lines of JSON. Upwards come reports, downwards commands;
//! an empty line is a sign of life. The connection ends with the one who ends it first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol::agent::{self, Report};
use tokio::io::BufReader;
use tokio::time::timeout;
use wire::EXCHANGE;
use wire::identity::Role;
use wire::lines::{LineError, Lines};

use super::REVOKED;
use super::answers::{Named, Wrong, may_act};
use crate::hub::{Admission, Hub};
use crate::outlet::outlet;
use crate::owner::Event;
use crate::tenant::Who;

const SILENCE: Duration = Duration::from_nanos(agent::SILENCE.as_nanos());
/// How long an agent may take to hear why its connection is closed.
const FAREWELL: Duration = Duration::from_secs(1);
/// What a report counts as, in octets: so few of an agent's wait for the machine.
const REPORT: usize = 8 << 10;

/// `GET /v1/agents/{agent}/exchange` with `Upgrade: watermaster-agent/1`.
pub async fn exchange(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(agent): Named<String>,
    mut request: Request,
) -> Result<Response, Wrong> {
    if !model::is_name(&agent) {
        return Err(Wrong::new(StatusCode::BAD_REQUEST, "agent", model::NO_NAME));
    }
    may_act(&admission, Role::Agent, &agent)?;
    if request.headers().get(UPGRADE).is_none_or(|asked| asked != EXCHANGE) {
        let reason = format!("is missing; send Connection: upgrade and Upgrade: {EXCHANGE}");
        return Err(Wrong::new(StatusCode::UPGRADE_REQUIRED, "Upgrade", reason));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        tokio::select! {
            ended = converse(upgraded, &agent, &hub, &admission) => {
                if let Err(reason) = ended {
                    tracing::warn!(agent, reason, "agent connection ended");
                }
            }
            () = hub.stopped() => {}
        }
        // The connection counts until here.
        drop(admission);
    });
    let headers = [
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static(EXCHANGE)),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

async fn converse(
    upgraded: Upgraded,
    agent: &str,
    hub: &Hub,
    admission: &Admission,
) -> Result<(), String> {
    let channel = hub.channel();
    let (outlet, drain) = outlet();
    let (reader, writer) = tokio::io::split(TokioIo::new(upgraded));
    let tenant = hub.tenants.of(Who::Agent(agent.into()));
    if hub.tell(&tenant, Event::AgentConnected(channel, agent.to_owned(), outlet)).await.is_err() {
        return Ok(());
    }
    let receive = async {
        let mut lines = Lines::new(BufReader::new(reader), hub.bounds().line());
        loop {
            let next = timeout(SILENCE, lines.next::<Report>()).await;
            let next = next.map_err(|_| "it has been silent for too long".to_owned())?;
            let next = next.inspect_err(|error| {
                if !matches!(error, LineError::Io(_)) {
                    hub.measures.unreadable(Instant::now(), agent, &error.to_string());
                }
            });
            match next.map_err(|error| error.to_string())? {
                None => return Err("the agent closed it".to_owned()),
                Some(None) => {}
                Some(Some(report)) => {
                    let event = Event::Reported(channel, report);
                    if hub.tell_in_turn(&tenant, REPORT, event).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    };
    let sending = drain.run_lines(writer);
    tokio::pin!(sending);
    let (ended, still_sends) = tokio::select! {
        ended = receive => (ended, true),
        sent = &mut sending => (sent.map_err(|error| error.to_string()), false),
        () = admission.revoked() => (Err(REVOKED.to_owned()), true),
    };
    // There may be no machine any more to tell.
    let _ = hub.tell(&tenant, Event::AgentGone(channel, ended.clone().err())).await;
    if still_sends {
        // The last word is why it ends; who is gone doesn't hear it.
        let _ = timeout(FAREWELL, sending).await;
    }
    ended
}
