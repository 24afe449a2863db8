//! How everything stands, and why.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use control::question::{ExplainFlow, ExplainJob, Flows, FlowsOf, Jobs, Overview, Question};
use control::{FlowExplanation, JobExplanation, Status};
use protocol::application::{Health, Leader};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::{sleep_until, timeout_at};
use wire::identity::Role;

use super::answers::{Asked, Named, Wrong, json, may_act, may_see_all, sees_all};
use crate::hub::{self, Admission, Hub};
use crate::metrics::{Recording, SOON, ending, now_s};
use crate::tenant::{Full, Held, Tenant};

type Answer = Result<Response, Wrong>;

/// Flows that are told of unless more are asked for.
const FLOWS: usize = 1_000;
/// Most flows that an answer tells of, and about as many octets as that takes where each has a connection or two.
const MOST: usize = 5_000;
const ANSWER: usize = 2 << 20;
/// How long who follows something may wait for a change, and how long what changes then is gathered.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// So many peers whose certificates end soon are named.
const MOST_ENDING: usize = 16;

/// How everything stands.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ControllerStatus {
    /// The program's version.
    version: &'static str,
    /// Connections now.
    connections: usize,
    /// `off`, `on`, or `stopped`.
    recorder: &'static str,
    /// The election, where there are several controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<Leader>,
    #[serde(flatten)]
    status: Status,
}

pub async fn status(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Answer {
    may_see_all(&admission)?;
    let asks = admission.asks();
    let _turn = asks.turn(usize::MAX).await;
    let mut status = hub.ask_in_parts(&asks, Overview::default()).await?;
    status.problems.extend(hub.measures.long_turn(Instant::now()));
    status.problems.extend(hub.measures.last_unreadable(Instant::now()));
    status.problems.extend(hub.measures.reload_failed());
    status.problems.extend(hub.strangers.problem(Instant::now()));
    status.problems.extend(hub.measures.ending(now_s()));
    let soon = hub.ending(now_s() + SOON);
    let told = soon.iter().take(MOST_ENDING).map(|(ends, who)| ending(who, *ends, now_s()));
    status.problems.extend(told);
    if let Some(more) = soon.len().checked_sub(MOST_ENDING + 1) {
        status.problems.push(format!("certificates of {} more end soon", more + 1));
    }
    status.problems.extend(hub.unwritten());
    let recorder = hub.measures.recorder();
    if let Recording::Stopped(why) = &recorder {
        status.problems.push(format!("the recorder has stopped: {why}"));
    }
    let leader = match &hub.role {
        hub::Role::Leads { elected: Some((standing, _)), .. } => {
            let standing = standing.borrow();
            if let Some(fault) = &standing.fault {
                status.problems.push(format!("the elections' store: {fault}"));
            }
            Some(standing.told(true))
        }
        _ => None,
    };
    // Some repeat what agents and switches said.
    for problem in &mut status.problems {
        *problem = control::harmless(problem);
    }
    let status = ControllerStatus {
        version: env!("CARGO_PKG_VERSION"),
        connections: hub.connections(),
        recorder: recorder.name(),
        leader,
        status,
    };
    in_json(&asks, &status)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Most {
    most: Option<usize>,
}

pub async fn flows(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Asked(Most { most }): Asked<Most>,
) -> Answer {
    may_see_all(&admission)?;
    let most = most.unwrap_or(FLOWS).min(MOST);
    answer(&hub, &admission.asks(), Flows::new(most), Some, "flows").await
}

pub async fn jobs(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Answer {
    may_see_all(&admission)?;
    answer(&hub, &admission.asks(), Jobs::new(None), Some, "jobs").await
}

pub async fn jobs_of(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(application): Named<String>,
) -> Answer {
    may_ask(&admission, &application)?;
    let asks = admission.asks_as(&application);
    answer(&hub, &asks, Jobs::new(Some(&application)), Some, "application").await
}

/// What an application asks of its flows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    most: Option<usize>,
    /// The version of an answer that it has.
    after: Option<u64>,
    /// Seconds that it waits for another.
    wait: Option<u64>,
}

/// The flows of an application, and what is wanted of them; as soon as that is another version than the one that is
/// named, or when the wait is over.
pub async fn flows_of(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(application): Named<String>,
    Asked(Follow { most, after, wait }): Asked<Follow>,
) -> Answer {
    may_ask(&admission, &application)?;
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or(0)).min(LONGEST_WAIT);
    let mut changes = hub.changes();
    let asks = admission.asks_as(&application);
    let name: Arc<str> = application.into();
    while let Some(after) = after {
        changes.mark_unchanged();
        let of = Arc::clone(&name);
        if hub.ask(&asks, move |answers| answers.version(&of)).await? != after {
            break;
        }
        match timeout_at(until.into(), changes.changed()).await {
            // What follows from one cause comes in several turns, and who asks again at once asks too often.
            Ok(Ok(())) => sleep_until((Instant::now() + PAUSE).min(until).into()).await,
            Ok(Err(_)) => return Err(hub::Ending.into()),
            Err(_) => break,
        }
    }
    let most = most.unwrap_or(FLOWS).min(MOST);
    answer(&hub, &asks, FlowsOf::new(&name, most), Some, "application").await
}

/// An application may ask about its own.
fn may_ask(admission: &Admission, application: &str) -> Result<(), Wrong> {
    if sees_all(admission) { Ok(()) } else { may_act(admission, Role::Application, application) }
}

pub async fn explain_job(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named((application, job)): Named<(String, String)>,
) -> Answer {
    may_ask(&admission, &application)?;
    let (asks, all) = (admission.asks_as(&application), sees_all(&admission));
    let told = move |found: Option<JobExplanation>| {
        let mut found = found?;
        if !all {
            let flows = std::mem::take(&mut found.flows).into_iter();
            found.flows = flows.map(FlowExplanation::without_others).collect();
        }
        Some(found)
    };
    answer(&hub, &asks, ExplainJob::new(&application, &job), told, "job").await
}

pub async fn explain_flow(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named((application, job, flow)): Named<(String, String, String)>,
) -> Answer {
    may_ask(&admission, &application)?;
    let (asks, all) = (admission.asks_as(&application), sees_all(&admission));
    let told = move |found: Option<FlowExplanation>| {
        found.map(|found| if all { found } else { found.without_others() })
    };
    answer(&hub, &asks, ExplainFlow::new(&application, &job, &flow), told, "flow").await
}

/// Asks the machine, and says as JSON what is `told` of the answer: one long answer of a tenant at a time, and as much on
/// its way as the tenant has room for. A long one is written on a thread of its own, so that the system lets others go
/// meanwhile.
async fn answer<Q, T>(
    hub: &Hub,
    asks: &Arc<Tenant>,
    question: Q,
    told: impl FnOnce(Q::Answer) -> Option<T> + Send,
    what: &'static str,
) -> Answer
where
    Q: Question<Answer: Send + 'static> + Send + 'static,
    T: Serialize + Send + 'static,
{
    let _turn = asks.turn(usize::MAX).await;
    // Who reads none of it is not asked for more.
    asks.hold(ANSWER).map(drop).map_err(full)?;
    let found = told(hub.ask_in_parts(asks, question).await?).ok_or_else(|| unknown(what))?;
    let written = spawn_blocking(move || serde_json::to_vec(&found)).await;
    on_its_way(asks, written.map_err(|_| hub::Ending)?.map_err(unsaid)?, "application/json")
}

/// An answer that takes room of who asked until it is handed to the system.
pub(super) fn on_its_way(asks: &Arc<Tenant>, body: Vec<u8>, kind: &'static str) -> Answer {
    let held = asks.hold(body.len()).map_err(full)?;
    let body = Bytes::from_owner(OnItsWay { body, _held: held });
    Ok(([(CONTENT_TYPE, kind)], body).into_response())
}

/// The same of an answer that is short enough to be written as JSON here.
pub(super) fn in_json<T: Serialize>(asks: &Arc<Tenant>, answer: &T) -> Answer {
    on_its_way(asks, serde_json::to_vec(answer).map_err(unsaid)?, "application/json")
}

fn full(full: Full) -> Wrong {
    Wrong::new(StatusCode::TOO_MANY_REQUESTS, "memory", full.to_string())
}

pub(super) fn unsaid(error: impl std::fmt::Display) -> Wrong {
    Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string())
}

/// An answer takes room until the last octet is handed to the system.
struct OnItsWay {
    body: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for OnItsWay {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn unknown(what: &str) -> Wrong {
    let reason = "is not known, or has ended; /v1/jobs and /v1/flows list what there is";
    Wrong::new(StatusCode::NOT_FOUND, what, reason)
}

/// Anybody who may connect may ask whether it works; the answer went through the machine.
pub async fn health(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Answer {
    let counters = hub.ask(&admission.asks(), |answers| answers.counters()).await?;
    hub.measures.asked.fetch_add(1, Ordering::Relaxed);
    Ok(json(&Health { epoch: hub.role.epoch(), declared: counters.declarations }))
}

pub async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], super::OPENAPI).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use tokio::sync::{mpsc, watch};
    use tokio::task::yield_now;
    use units::Time;

    use super::*;
    use crate::http::measured::metrics;
    use crate::hub::tests::admitted;
    use crate::ledger::Ledger;
    use crate::owner::tests::controller;
    use crate::owner::{Event, Said};
    use crate::settings::Bounds;

    /// Each holds what flows add up to until it is answered.
    #[tokio::test]
    async fn a_tenant_has_one_long_answer_made_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, mut said) = mpsc::channel(4);
        let (_stop, stopped) = watch::channel(false);
        let (_change, changes) = watch::channel(0);
        let role = hub::Role::Leads { epoch: 1, elected: None };
        let (measures, ledger) = (Arc::default(), Ledger::of(folder.path()));
        let hub = Hub::new(tell, Bounds::default(), measures, role, ledger, changes, stopped);
        let hub = Arc::new(hub);
        let operator = Extension(Arc::new(admitted(&hub, Role::Operator, "me")));
        let asked = [
            tokio::spawn(status(State(Arc::clone(&hub)), operator.clone())),
            tokio::spawn(metrics(State(Arc::clone(&hub)), operator.clone())),
            tokio::spawn(jobs(State(Arc::clone(&hub)), operator)),
        ];
        let controller = controller();
        // The metrics ask for counters, too.
        for _ in 0..4 {
            let Some(Said { event: Event::Ask(mut question), .. }) = said.recv().await else {
                panic!("something is asked")
            };
            // Whoever may ask has done so by then.
            for _ in 0..9 {
                yield_now().await;
            }
            assert!(said.try_recv().is_err(), "the others wait");
            while !question(&controller.at(Time::ZERO)) {}
        }
        for asked in asked {
            assert!(asked.await.unwrap().is_ok());
        }
    }
}
