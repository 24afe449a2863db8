//! `GET /metrics`: what Prometheus scrapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use control::{Answers, Counters, Status};

use super::answers::{Wrong, may_see_all};
use crate::hub::{Admission, Hub, Role};

pub async fn metrics(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let (counters, status, leads) = match &hub.role {
        Role::Leads { .. } => {
            let both = |answers: &Answers<'_>| (answers.counters(), answers.status());
            let asked = hub.ask(&hub.operators, both).await?;
            (asked.0, asked.1, true)
        }
        Role::Follows { standing, .. } => {
            let epoch = standing.borrow().leader.as_ref().map_or(0, |leader| leader.epoch);
            (Counters::default(), Status { epoch, ..Status::default() }, false)
        }
    };
    let connections = hub.connections();
    let text = hub
        .measures
        .encode(&counters, &status, leads, connections)
        .map_err(|error| Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
