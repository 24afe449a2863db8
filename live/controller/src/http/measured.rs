//! `GET /metrics`: what Prometheus scrapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use control::question::Overview;
use control::{Counters, Status};

use super::answers::{Wrong, may_see_all};
use super::queries::{on_its_way, unsaid};
use crate::hub::{Admission, Hub, Role};

pub async fn metrics(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let asks = admission.asks();
    let _turn = asks.turn(usize::MAX).await;
    let (counters, status, leads) = match &hub.role {
        Role::Leads { .. } => {
            let status = hub.ask_in_parts(&asks, Overview::default()).await?;
            (hub.ask(&asks, |answers| answers.counters()).await?, status, true)
        }
        Role::Follows { standing, .. } => {
            let epoch = standing.borrow().leader.as_ref().map_or(0, |leader| leader.epoch);
            (Counters::default(), Status { epoch, ..Status::default() }, false)
        }
    };
    let connections = hub.connections();
    let text = hub.measures.encode(&counters, &status, leads, connections).map_err(unsaid)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    on_its_way(&asks, text.into_bytes(), kind)
}
