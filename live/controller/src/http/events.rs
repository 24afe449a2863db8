//! What happened lately.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;

use super::answers::{Asked, Wrong, json, may_see_all};
use super::queries::LONGEST_WAIT;
use crate::hub::{Admission, Hub};
use crate::journal::{Entry, KEPT};

/// Which events are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Those after this number.
    after: Option<u64>,
    /// The latest of them, at most so many.
    most: Option<usize>,
    /// Seconds to wait for one.
    wait: Option<u64>,
}

/// Events.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Events {
    /// In the order in which they happened.
    events: Vec<Entry>,
}

/// `GET /v1/events`: the latest, or those after a number, as soon as there is one.
pub async fn events(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Asked(Which { after, most, wait }): Asked<Which>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let (after, most) = (after.unwrap_or(0), most.unwrap_or(KEPT));
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or(0)).min(LONGEST_WAIT);
    let mut latest = hub.measures.journal.latest();
    tokio::select! {
        // What is there by then is the answer.
        _ = timeout_at(until.into(), latest.wait_for(|latest| *latest > after)) => {}
        () = hub.stopped() => {}
    }
    Ok(json(&Events { events: hub.measures.journal.after(after, most) }))
}
