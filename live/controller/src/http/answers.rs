//! Answers of every kind: what was asked for, or one object that says what is wrong and what to do.

use std::time::Instant;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::application::{Problem, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::identity::Role;

use crate::hub::{Admission, Ending};

/// Something is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub status: StatusCode,
    pub problem: Problem,
}

impl Wrong {
    pub fn new(status: StatusCode, field: &str, reason: impl Into<String>) -> Self {
        let (field, reason) = (field.to_owned(), reason.into());
        Self { status, problem: Problem { field, reason } }
    }
}

impl From<Ending> for Wrong {
    fn from(_: Ending) -> Self {
        let reason = "the controller is ending; ask again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "", reason)
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        with_status(self.status, json(&Refused { error: self.problem }))
    }
}

/// What stands in a request's path.
pub struct Named<T>(pub T);

/// What a request's path is followed by, behind a question mark.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Wrong;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Wrong> {
        let read = Path::from_request_parts(parts, state).await;
        let wrong = |error: PathRejection| Wrong::new(error.status(), "path", error.body_text());
        read.map(|Path(named)| Self(named)).map_err(wrong)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Wrong;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Wrong> {
        let read = Query::from_request_parts(parts, state).await;
        let wrong = |error: QueryRejection| {
            let reason = format!("{}; /v1/openapi.json tells what can be asked", error.body_text());
            Wrong::new(error.status(), "query", reason)
        };
        read.map(|Query(asked)| Self(asked)).map_err(wrong)
    }
}

/// An answer with its status, and a second to wait where that helps.
pub fn with_status(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A value as JSON.
pub fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// No such path.
pub async fn nowhere() -> Wrong {
    let reason = "there is nothing here; /v1/openapi.json tells what there is";
    Wrong::new(StatusCode::NOT_FOUND, "path", reason)
}

/// A path, but not this method.
pub async fn no_method() -> Wrong {
    let reason = "can't be used here; /v1/openapi.json tells what can";
    Wrong::new(StatusCode::METHOD_NOT_ALLOWED, "method", reason)
}

/// Whether the peer may act as `name` in a role. Who came by the Unix socket, or without TLS where
/// the configuration allows it, may.
pub fn may_act(admission: &Admission, role: Role, name: &str) -> Result<(), Wrong> {
    match admission.identity() {
        None => Ok(()),
        Some(identity) if identity.role == role && identity.name == name => Ok(()),
        Some(identity) => {
            admission.forbidden(&format_args!("to act as {role} {name}"), Instant::now());
            let reason = format!("you are {identity}; show a certificate of {role} {name}");
            Err(Wrong::new(StatusCode::FORBIDDEN, role.name(), reason))
        }
    }
}

/// Whether the peer may give orders. Without TLS anybody on the machine comes by the network, and nobody is told apart.
pub fn may_order(admission: &Admission) -> Result<(), Wrong> {
    match admission.identity() {
        None if admission.is_local() => Ok(()),
        None => {
            admission.forbidden(&"an order", Instant::now());
            let reason = "nobody proves here who they are; use the controller's Unix socket (listen.socket), or add a \
                          [tls] table to its configuration and show a certificate of an operator";
            Err(Wrong::new(StatusCode::FORBIDDEN, Role::Operator.name(), reason))
        }
        Some(identity) if identity.role == Role::Operator => Ok(()),
        Some(identity) => {
            admission.forbidden(&"an order", Instant::now());
            let only_reads = if identity.role == Role::Viewer { ", who may only read" } else { "" };
            let reason =
                format!("you are {identity}{only_reads}; show a certificate of an operator");
            Err(Wrong::new(StatusCode::FORBIDDEN, Role::Operator.name(), reason))
        }
    }
}

/// Whether the peer sees everything, or only its own.
pub fn sees_all(admission: &Admission) -> bool {
    let role = admission.identity().map(|identity| identity.role);
    matches!(role, None | Some(Role::Operator | Role::Viewer))
}

/// Whether the peer may see everything.
pub fn may_see_all(admission: &Admission) -> Result<(), Wrong> {
    match admission.identity() {
        Some(identity) if !sees_all(admission) => {
            admission.forbidden(&"what is all tenants'", Instant::now());
            let reason =
                format!("you are {identity}; show a certificate of an operator or a viewer");
            Err(Wrong::new(StatusCode::FORBIDDEN, "operator", reason))
        }
        _ => Ok(()),
    }
}
