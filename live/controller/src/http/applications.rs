//! What applications declare.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use protocol::application::{Declaration, Problem, Taken};
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::identity::Role;

use super::answers::{Wrong, json, may_act};
use crate::hub::{Admission, Hub};
use crate::owner::Event;

/// How long a request's body may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// `POST /v1/applications/{application}/declarations`: one declaration or a list of them, taken in
/// order. The first that is refused ends the request; those before it stand.
pub async fn declare(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Path(application): Path<String>,
    body: Body,
) -> Result<Response, Wrong> {
    permitted(&admission, &application)?;
    let bounds = hub.bounds();
    let read = timeout(PATIENCE, Limited::new(body, bounds.request).collect()).await;
    let late = "took too long; send it faster";
    let read = read.map_err(|_| Wrong::new(StatusCode::REQUEST_TIMEOUT, "body", late))?;
    let bytes = read.map_err(|error| {
        if error.is::<LengthLimitError>() {
            let reason = format!("is longer than {} bytes; send several requests", bounds.request);
            Wrong::new(StatusCode::PAYLOAD_TOO_LARGE, "body", reason)
        } else {
            Wrong::new(StatusCode::BAD_REQUEST, "body", format!("ended early: {error}"))
        }
    })?;
    let declared = declarations(&bytes.to_bytes(), bounds.declarations)
        .map_err(|(field, reason)| Wrong::new(StatusCode::BAD_REQUEST, &field, reason))?;
    let application = admission.speaks_for(&application);
    let (sender, answer) = oneshot::channel();
    hub.tell(Event::Declared(application, declared, sender)).await?;
    let answer = answer.await.map_err(|_| crate::hub::Ending)?;
    let (taken, epoch) = (answer.taken as u64, hub.epoch);
    let Some(refusal) = answer.refusal else { return Ok(json(&Taken { taken, epoch })) };
    let status = StatusCode::from_u16(refusal.status()).expect("a refusal is 422 or 429");
    let (field, reason) = (refusal.field.to_owned(), refusal.reason);
    let problem = Problem { field, reason, taken: Some(taken), epoch: Some(epoch) };
    Err(Wrong { status, problem })
}

/// `DELETE /v1/applications/{application}`: it is leaving; what it declared ends after the grace.
pub async fn leave(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Path(application): Path<String>,
) -> Result<StatusCode, Wrong> {
    permitted(&admission, &application)?;
    hub.tell(Event::ApplicationGone(application.into())).await?;
    Ok(StatusCode::ACCEPTED)
}

fn permitted(admission: &Admission, application: &str) -> Result<(), Wrong> {
    if !model::is_name(application) {
        let reason = "is no name; use 1 to 64 letters, digits, -, _ and .";
        return Err(Wrong::new(StatusCode::BAD_REQUEST, "application", reason));
    }
    may_act(admission, Role::Application, application)
}

/// The declarations in a body: one object, or a list of at most `most`.
///
/// # Errors
/// The field at fault, and what is wrong with it.
pub fn declarations(body: &[u8], most: usize) -> Result<Vec<Declaration>, (String, String)> {
    let first = body.iter().find(|octet| !octet.is_ascii_whitespace());
    let declared = if first == Some(&b'[') {
        serde_json::from_slice(body)
    } else {
        serde_json::from_slice(body).map(|one| vec![one])
    };
    let declared: Vec<Declaration> = declared.map_err(|error| {
        let said = error.to_string();
        // The reader quotes the field that it stumbled over.
        let quoted = said.split('`').nth(1).unwrap_or_default();
        let named = quoted.starts_with(|c: char| c.is_ascii_alphabetic());
        let field = if named { quoted.chars().take(60).collect() } else { "body".to_owned() };
        let said: String = said.chars().take(400).collect();
        (field, format!("{said}; /v1/openapi.json tells the form of declarations"))
    })?;
    if declared.len() > most {
        let reason = format!("has {} declarations; send at most {most}", declared.len());
        return Err(("body".to_owned(), reason));
    }
    Ok(declared)
}
