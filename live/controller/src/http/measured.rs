//! `GET /metrics`: what Prometheus scrapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use control::Answers;

use super::answers::{Wrong, may_see_all};
use crate::hub::{Admission, Hub};

pub async fn metrics(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let both = |answers: &Answers<'_>| (answers.counters(), answers.status());
    let (counters, status) = hub.ask(&hub.operators, both).await?;
    let connections = hub.connections();
    let text = hub
        .measures
        .encode(&counters, &status, connections)
        .map_err(|error| Wrong::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
