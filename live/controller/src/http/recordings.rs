//! Recordings that operators keep.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answers::{Named, Wrong, json, may_order, may_see_all};
use super::queries::in_json;
use crate::hub::{Admission, Ending, Hub};
use crate::ledger::Pin;
use crate::recordings::{Listed, PinError, Recordings};

/// What is recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AllRecordings {
    /// By name.
    recordings: Vec<Listed>,
    /// What of an order could not be written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// `GET /v1/recordings`: those that are there.
pub async fn list(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let recordings = recorded(&hub)?;
    let asks = admission.asks();
    let _turn = asks.turn(usize::MAX).await;
    let listed =
        tokio::task::spawn_blocking(move || recordings.list()).await.map_err(|_| Ending)?;
    in_json(&asks, &AllRecordings { recordings: listed.map_err(wrong)?, warning: None })
}

/// `PUT /v1/recordings/{recording}/pin`: it is kept.
pub async fn pin(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(recording): Named<String>,
) -> Result<Response, Wrong> {
    change(hub, &admission, recording, true).await
}

/// `DELETE /v1/recordings/{recording}/pin`: it isn't any more.
pub async fn unpin(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(recording): Named<String>,
) -> Result<Response, Wrong> {
    change(hub, &admission, recording, false).await
}

async fn change(
    hub: Arc<Hub>,
    admission: &Admission,
    name: String,
    keep: bool,
) -> Result<Response, Wrong> {
    may_order(admission)?;
    let recordings = recorded(&hub)?;
    let by = admission.who();
    let ledger = Arc::clone(&hub.ledger).lock_owned().await;
    // Also where who asked goes away: what is done is written down.
    let changed = tokio::task::spawn_blocking(move || {
        let done = if keep { recordings.pin(&name) } else { recordings.unpin(&name) };
        let answer = done.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
        tracing::info!(by, recording = name, keep, answer, "order");
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let recording = &*name;
        let order = if keep { Pin::Pin { recording } } else { Pin::Unpin { recording } };
        let warning = ledger.note_pin((at_s, &by), &order, &answer);
        done.and_then(|()| recordings.list())
            .map(|recordings| AllRecordings { recordings, warning })
    });
    changed.await.map_err(|_| Ending)?.map(|all| json(&all)).map_err(wrong)
}

fn recorded(hub: &Hub) -> Result<Recordings, Wrong> {
    let nothing = || {
        let reason = "nothing is recorded; add a [recorder] to the controller's configuration";
        Wrong::new(StatusCode::UNPROCESSABLE_ENTITY, "recorder", reason)
    };
    hub.recordings.clone().ok_or_else(nothing)
}

fn wrong(error: PinError) -> Wrong {
    let status = match error {
        PinError::Unknown(_) => StatusCode::NOT_FOUND,
        PinError::TooMuch(..) | PinError::Headless(_) | PinError::Loose(_) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        PinError::File { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Wrong::new(status, "recording", error.to_string())
}
