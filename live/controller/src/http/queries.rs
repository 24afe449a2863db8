//! How everything stands, and why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use control::Status;
use protocol::application::Health;
use serde::{Deserialize, Serialize};
use units::Rate;
use wire::identity::Role;

use super::answers::{Wrong, json, may_act, may_see_all};
use crate::hub::{Admission, Hub};
use crate::metrics::Recording;

type Answer = Result<Response, Wrong>;

/// Flows that are told of unless more are asked for.
const FLOWS: usize = 1_000;

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
    #[serde(flatten)]
    status: Status,
}

pub async fn status(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Answer {
    may_see_all(&admission)?;
    let mut status = hub.ask(|answers| answers.status()).await?;
    status.problems.extend(hub.measures.long_turn(Instant::now()));
    let recorder = hub.measures.recorder();
    if let Recording::Stopped(why) = &recorder {
        status.problems.push(format!("the recorder has stopped: {why}"));
    }
    Ok(json(&ControllerStatus {
        version: env!("CARGO_PKG_VERSION"),
        connections: hub.connections(),
        recorder: recorder.name(),
        status,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Most {
    most: Option<usize>,
}

pub async fn flows(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Query(Most { most }): Query<Most>,
) -> Answer {
    may_see_all(&admission)?;
    let most = most.unwrap_or(FLOWS).min(1_000_000);
    Ok(json(&hub.ask(move |answers| answers.flows(most)).await?))
}

/// A job in a list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JobStatus {
    /// Its application.
    application: String,
    /// Its name there.
    job: String,
    /// Flows that it has now.
    flows: usize,
    /// Those for which the policy wants a rate.
    limited: usize,
    /// What was measured of them, payload.
    measured_bps: Rate,
}

pub async fn jobs(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Answer {
    may_see_all(&admission)?;
    let (jobs, flows) = hub.ask(|answers| (answers.jobs(), answers.flows(usize::MAX))).await?;
    let jobs = jobs.into_iter().map(|name| {
        let (application, job) = name.clone();
        let (flows, limited, measured_bps) = (0, 0, Rate::ZERO);
        (name, JobStatus { application, job, flows, limited, measured_bps })
    });
    let mut jobs: BTreeMap<(String, String), JobStatus> = jobs.collect();
    for flow in flows {
        // One that nobody declared has no job.
        let Some(job) = jobs.get_mut(&(flow.application, flow.job)) else { continue };
        job.flows += 1;
        job.limited += usize::from(flow.intended_bps.is_some());
        let measured = flow.measured_bps.unwrap_or(Rate::ZERO);
        job.measured_bps =
            Rate::from_bps(job.measured_bps.as_bps().saturating_add(measured.as_bps()));
    }
    Ok(json(&jobs.into_values().collect::<Vec<_>>()))
}

/// An application may ask about its own.
fn may_ask(admission: &Admission, application: &str) -> Result<(), Wrong> {
    may_see_all(admission)
        .or_else(|wrong| may_act(admission, Role::Application, application).map_err(|_| wrong))
}

pub async fn explain_job(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Path((application, job)): Path<(String, String)>,
) -> Answer {
    may_ask(&admission, &application)?;
    let found = hub.ask(move |answers| answers.explain_job(&application, &job)).await?;
    found.map(|found| json(&found)).ok_or_else(|| unknown("job"))
}

pub async fn explain_flow(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Path((application, job, flow)): Path<(String, String, String)>,
) -> Answer {
    may_ask(&admission, &application)?;
    let found = hub.ask(move |answers| answers.explain_flow(&application, &job, &flow)).await?;
    found.map(|found| json(&found)).ok_or_else(|| unknown("flow"))
}

fn unknown(what: &str) -> Wrong {
    let reason = "is not known, or has ended; /v1/jobs and /v1/flows list what there is";
    Wrong::new(StatusCode::NOT_FOUND, what, reason)
}

/// Anybody who may connect may ask whether it works; the answer went through the machine.
pub async fn health(State(hub): State<Arc<Hub>>) -> Answer {
    let counters = hub.ask(|answers| answers.counters()).await?;
    hub.measures.asked.fetch_add(1, Ordering::Relaxed);
    Ok(json(&Health { epoch: hub.epoch, declared: counters.declarations }))
}

pub async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], super::OPENAPI).into_response()
}
