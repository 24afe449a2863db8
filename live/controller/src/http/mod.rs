//! HTTP with JSON: northbound, agents and questions, under `/v1`. `openapi.json` describes it.

mod agents;
mod answers;
mod applications;
#[cfg(test)]
mod description;
mod events;
mod leader;
mod measured;
pub mod orders;
mod queries;
mod recordings;
mod site;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{delete, get, post, put};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;
use wire::Stream;

use crate::hub::{Hub, Role};
use crate::listen::{Certificates, From, Listener, identify};
use crate::seldom::Each;
use answers::Wrong;

pub use applications::declarations;

/// How long a connection may be silent between requests, or take over a request's head.
const IDLE: Duration = Duration::from_nanos(protocol::client::IDLE.as_nanos());

/// How long one for whom there is no place may take to ask, so that it is told why; and so many at once.
const TOLD: Duration = Duration::from_secs(1);
static TELLING: Semaphore = Semaphore::const_new(64);

/// Why a connection ends whose certificate was good when it began.
pub const REVOKED: &str = "its certificate has been revoked";

/// The description that is served. Its schemas are those of the Rust types: `description.rs`.
pub const OPENAPI: &str = include_str!("../../openapi.json");

fn router(hub: &Arc<Hub>) -> Router {
    if matches!(hub.role, Role::Follows { .. }) {
        return Router::new()
            .route("/v1/leader", get(leader::leader))
            .route("/v1/openapi.json", get(queries::openapi))
            .route("/metrics", get(measured::metrics))
            .fallback(leader::elsewhere)
            .with_state(Arc::clone(hub));
    }
    Router::new()
        .route("/v1/applications/{application}/declarations", post(applications::declare))
        .route("/v1/applications/{application}", delete(applications::leave))
        .route("/v1/applications/{application}/flows", get(queries::flows_of))
        .route("/v1/applications/{application}/jobs", get(queries::jobs_of))
        .route("/v1/agents/{agent}/exchange", get(agents::exchange))
        .route("/v1/orders", get(orders::standing).post(orders::give))
        .route("/v1/events", get(events::events))
        .route("/v1/recordings", get(recordings::list))
        .route("/v1/recordings/{recording}/pin", put(recordings::pin).delete(recordings::unpin))
        .route("/v1/status", get(queries::status))
        .route("/v1/flows", get(queries::flows))
        .route("/v1/jobs", get(queries::jobs))
        .route("/v1/explain/{application}/{job}", get(queries::explain_job))
        .route("/v1/explain/{application}/{job}/{flow}", get(queries::explain_flow))
        .route("/v1/health", get(queries::health))
        .route("/v1/leader", get(leader::leader))
        .route("/v1/openapi.json", get(queries::openapi))
        .route("/metrics", get(measured::metrics))
        .fallback(answers::nowhere)
        .method_not_allowed_fallback(answers::no_method)
        // Handlers bound their bodies themselves, by a limit that can change.
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(hub))
}

/// Accepts connections until the daemon ends. With `any_name` a host may be called as others like, for strangers are let
/// in anyway.
pub async fn serve(
    listener: Arc<Listener>,
    certificates: Option<Certificates>,
    any_name: bool,
    hub: Arc<Hub>,
) {
    let router = router(&hub);
    // Anybody can have connections fail, as fast as they like.
    let failing = Arc::new(Each::default());
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hub.stopped() => return,
        };
        let (certificates, hub, router) = (certificates.clone(), Arc::clone(&hub), router.clone());
        let (failing, proves) = (Arc::clone(&failing), certificates.is_some());
        tokio::spawn(async move {
            let mut by = None;
            tokio::select! {
                ended = connection(stream, (from, any_name), certificates, &hub, router, &mut by) => {
                    if let Err(reason) = ended
                        && let Some(untold) =
                            failing.tell(from.apart(proves, by.as_deref()), Instant::now())
                    {
                        tracing::warn!(%from, by, reason, untold, "connection ended");
                    }
                }
                () = hub.stopped() => {}
            }
        });
    }
}

/// A connection until it ends; `by` whom, as far as that is proved.
async fn connection(
    stream: Box<dyn Stream>,
    (from, any_name): (From, bool),
    certificates: Option<Certificates>,
    hub: &Arc<Hub>,
    router: Router,
    by: &mut Option<String>,
) -> Result<(), String> {
    let proved = identify(stream, from, certificates.as_ref(), &hub.strangers).await?;
    let Some((stream, peer)) = proved else { return Ok(()) };
    *by = peer.as_ref().map(|peer| peer.identity.to_string());
    let is_by_loopback = from.0.is_some_and(|from| from.ip().to_canonical().is_loopback());
    let by_address = peer.is_none() && is_by_loopback && !any_name;
    let admission = match hub.admit(from.0.is_none(), peer) {
        Ok(admission) => Arc::new(admission),
        Err(full) => {
            turn_away(stream, full).await;
            return Err(full.to_owned());
        }
    };
    let own = Arc::clone(&admission);
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        let foreign = site::foreign(request.method(), request.headers(), by_address);
        if let Some(wrong) = &foreign {
            admission.forbidden(
                &format_args!("for another site: {}", wrong.problem.field),
                Instant::now(),
            );
        }
        request.extensions_mut().insert(Arc::clone(&admission));
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(match foreign {
                Some(wrong) => wrong.into_response(),
                None => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(64)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    tokio::pin!(served);
    let mut is_forgotten = false;
    let served = loop {
        tokio::select! {
            ended = &mut served => break ended,
            () = own.revoked() => return Err(REVOKED.to_owned()),
            () = own.forgotten(), if !is_forgotten => {
                // What is under way is answered.
                served.as_mut().graceful_shutdown();
                is_forgotten = true;
            }
        }
    };
    match served {
        // A peer that goes away or says nothing for long is no news.
        Err(error) if error.is_timeout() || error.is_incomplete_message() => Ok(()),
        Err(error) if error.is_parse() => Err(format!("it does not speak HTTP: {error}")),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells one for whom there is no place why.
async fn turn_away(stream: Box<dyn Stream>, why: &'static str) {
    let Ok(_place) = TELLING.try_acquire() else { return };
    let service = service_fn(move |_: Request<Incoming>| async move {
        let wrong = Wrong::new(StatusCode::SERVICE_UNAVAILABLE, "connections", why);
        let mut response = wrong.into_response();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Ok::<_, Infallible>(response)
    });
    let told = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(8 << 10)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever becomes of it.
    let _ = timeout(TOLD, told).await;
}
