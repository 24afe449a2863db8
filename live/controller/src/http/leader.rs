//! Who leads, of several controllers; and what those say that follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use protocol::application::Leader;
use serde::Deserialize;
use tokio::time::timeout_at;

use super::answers::{Asked, Wrong, json};
use crate::hub::{Ending, Hub, Role};

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// Who asks for the leader.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The epoch of a leader that it has, or has lost.
    after: Option<u64>,
    /// Seconds that it waits for another.
    wait: Option<u64>,
}

/// `GET /v1/leader`: who leads; with `after` and `wait` as soon as it is one of a higher epoch, or the one that is
/// asked. Anybody who may connect may ask.
pub async fn leader(
    State(hub): State<Arc<Hub>>,
    Asked(After { after, wait }): Asked<After>,
) -> Result<Response, Wrong> {
    let (standing, serving) = match &hub.role {
        Role::Leads { elected: Some((standing, _)), .. } => {
            return Ok(json(&standing.borrow().told(true)));
        }
        Role::Leads { epoch, elected: None } => {
            return Ok(json(&Leader { epoch: *epoch, here: true, ..Leader::default() }));
        }
        Role::Follows { standing, serving } => (standing.clone(), serving.clone()),
    };
    let (mut standing, mut serving) = (standing, serving);
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or(0)).min(LONGEST);
    loop {
        let here = serving.borrow_and_update().is_some();
        let (told, is_beginning) = {
            let standing = standing.borrow_and_update();
            (standing.told(here), standing.office.is_some())
        };
        let is_over = Instant::now() >= until;
        if here || is_over || (!is_beginning && told.epoch > after.unwrap_or(0)) {
            let mut answer = json(&told);
            // These connections end with the role.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Ok(answer);
        }
        let news = async {
            tokio::select! {
                changed = standing.changed() => changed,
                changed = serving.changed() => changed,
            }
        };
        if let Ok(Err(_)) = timeout_at(until.into(), news).await {
            return Err(Ending.into());
        }
    }
}

/// What one that follows answers to all else.
pub async fn elsewhere(State(hub): State<Arc<Hub>>, method: Method, uri: Uri) -> Wrong {
    let Role::Follows { standing, .. } = &hub.role else { return Ending.into() };
    let standing = standing.borrow();
    let reason = match (&standing.leader, &standing.fault) {
        (_, Some(fault)) => format!("this controller can't know who leads: {fault}"),
        (Some(leader), None) => {
            let (address, name, epoch) = (&leader.address, &leader.name, leader.epoch);
            let is_order = matches!(method, Method::POST | Method::PUT | Method::DELETE)
                && ["/v1/orders", "/v1/recordings/"].iter().any(|of| uri.path().starts_with(of));
            // It would refuse there what nobody proves.
            let ask = if is_order && address.starts_with("http://") {
                format!("without TLS order at the Unix socket on the machine of {address} ({name})")
            } else {
                format!("ask {address} ({name})")
            };
            format!("this controller follows; {ask}, which leads under epoch {epoch}")
        }
        (None, None) => "nobody leads yet; ask again in a moment".to_owned(),
    };
    Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "leader", reason)
}
