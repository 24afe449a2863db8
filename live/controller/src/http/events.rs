//! What happened lately.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;

use super::answers::{Asked, Wrong, may_see_all};
use super::queries::{LONGEST_WAIT, in_json};
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
    let asks = admission.asks();
    let _turn = asks.turn(usize::MAX).await;
    in_json(&asks, &Events { events: hub.measures.journal.after(after, most) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use axum::http::StatusCode;
    use tracing_subscriber::layer::SubscriberExt as _;
    use wire::identity::Role;

    use super::*;
    use crate::hub::tests::{admitted, hub};
    use crate::journal::Noting;

    /// Answers that a viewer doesn't read take its own room, and an operator's is another.
    #[tokio::test]
    async fn events_take_room_of_who_asks() {
        let (hub, _kept) = hub(4_000);
        let journal = Arc::clone(&hub.measures.journal);
        let subscriber = tracing_subscriber::registry().with(Noting(journal));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(text = "x".repeat(500), "happened");
        });
        let [viewer, operator] =
            [Role::Viewer, Role::Operator].map(|role| Arc::new(admitted(&hub, role, "eyes")));
        let ask = async |admission: &Arc<Admission>| {
            let which = Asked(Which { after: None, most: None, wait: None });
            events(State(Arc::clone(&hub)), Extension(Arc::clone(admission)), which).await
        };
        let mut unread = Vec::new();
        let refused = loop {
            match ask(&viewer).await {
                Ok(answer) => unread.push(answer),
                Err(refused) => break refused,
            }
            assert!(unread.len() < 99, "it may leave whatever it likes unread");
        };
        assert_eq!((refused.status, unread.len()), (StatusCode::TOO_MANY_REQUESTS, 3));
        assert!(ask(&operator).await.is_ok());
        drop(unread);
        assert!(ask(&viewer).await.is_ok());
    }
}
