//! What applications declare.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::BodyExt as _;
use protocol::application::{Declaration, Outcome, Problem};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::identity::Role;

use super::answers::{Named, Wrong, json, may_act, with_status};
use crate::hub::{Admission, Ending, Hub};
use crate::owner::{Event, Request};
use crate::tenant::{Full, Held, Tenant, Who};

/// How long a request's body may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fields of a declaration that are looked at for the one at fault, and octets of one for which they are: it is
/// read again without each.
const MOST_FIELDS: usize = 16;
const MOST_OCTETS: usize = 16 << 10;
/// A body of so many octets is parsed on a thread of its own.
const LONG: usize = 16 << 10;
/// Bodies of so many octets are parsed one at a time, whoever sends them: together they would take all processors.
const LONGEST: usize = 64 << 10;
static PARSING: Semaphore = Semaphore::const_new(1);
/// Most octets that are read beyond a request's bound.
const DRAINED: usize = 64 << 20;

/// `POST /v1/applications/{application}/declarations`: one declaration or a list of them, taken in
/// order, each for itself. Answered by 200 where all were taken, 422 where some were refused, 429
/// where the rest has to wait.
pub async fn declare(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(application): Named<String>,
    body: Body,
) -> Result<Response, Wrong> {
    if let Err(wrong) = permitted(&admission, &application) {
        // Whatever becomes of the body: the answer says what is wrong.
        let _ = timeout(PATIENCE, read(body, 0, &hub.operators)).await;
        return Err(wrong);
    }
    let bounds = hub.bounds();
    let own = admission.declares_as(&application);
    let (bytes, _held) = match take(body, bounds.request, &own).await {
        // The rest has to wait, and that is all of it.
        Err(Wrong {
            status: StatusCode::TOO_MANY_REQUESTS,
            problem: Problem { field, reason },
        }) => {
            let (name, _) = admission.speaks_for(&application);
            admission.refused(&name, None, &field, &reason);
            let (epoch, rest) = (hub.role.epoch(), Some(0));
            let outcome = Outcome { epoch, rest, reason: Some(reason), ..Outcome::default() };
            return Ok(answered(&outcome));
        }
        taken => taken?,
    };
    // What is parsed waits for the machine: no more of it is parsed than may wait.
    let _turn = own.turn(bytes.len()).await;
    let declared = parsed(bytes, bounds.declarations)
        .await?
        .map_err(|problem| Wrong { status: StatusCode::BAD_REQUEST, problem })?;
    let (application, tenant) = admission.speaks_for(&application);
    let (sender, answer) = oneshot::channel();
    let name = Arc::clone(&application);
    hub.tell(&tenant, Event::Declared(Request::new(application, declared, sender))).await?;
    let outcome = answer.await.map_err(|_| Ending)?;
    if let Some(first) = outcome.refused.first() {
        admission.refused(&name, Some(outcome.refused.len()), &first.field, &first.reason);
    }
    Ok(answered(&outcome))
}

fn answered(outcome: &Outcome) -> Response {
    let status = if outcome.rest.is_some() {
        StatusCode::TOO_MANY_REQUESTS
    } else if outcome.refused.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    with_status(status, json(outcome))
}

/// `DELETE /v1/applications/{application}`: it is leaving; what it declared ends after the grace.
pub async fn leave(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    Named(application): Named<String>,
) -> Result<StatusCode, Wrong> {
    permitted(&admission, &application)?;
    let application: Arc<str> = application.into();
    let own = hub.tenants.of(Who::Application(Arc::clone(&application)));
    hub.tell(&own, Event::ApplicationGone(application)).await?;
    Ok(StatusCode::ACCEPTED)
}

/// A body of at most `most` octets. One that is longer or finds no room is read as well: who still writes doesn't read the
/// answer, and on a Unix socket loses it when the connection ends.
/// It takes room of `tenant`, until what comes with it is dropped.
async fn read(mut body: Body, most: usize, tenant: &Arc<Tenant>) -> Result<(Vec<u8>, Held), Wrong> {
    let full =
        |full: Full| Wrong::new(StatusCode::TOO_MANY_REQUESTS, "application", full.to_string());
    let mut kept = tenant.hold_request(0).map(|held| (Vec::new(), held));
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let ended =
            |error| Wrong::new(StatusCode::BAD_REQUEST, "body", format!("ended early: {error}"));
        let Ok(octets) = frame.map_err(ended)?.into_data() else { continue };
        length += octets.len();
        if length > most.saturating_add(DRAINED) {
            break;
        }
        if length <= most
            && let Ok((read, held)) = &mut kept
        {
            match held.grow(octets.len()) {
                Ok(()) => read.extend_from_slice(&octets),
                Err(full) => kept = Err(full),
            }
        }
    }
    if length > most {
        let reason = format!("is longer than {most} bytes; send several requests");
        return Err(Wrong::new(StatusCode::PAYLOAD_TOO_LARGE, "body", reason));
    }
    kept.map_err(full)
}

fn permitted(admission: &Admission, application: &str) -> Result<(), Wrong> {
    if !model::is_name(application) {
        return Err(Wrong::new(StatusCode::BAD_REQUEST, "application", model::NO_NAME));
    }
    may_act(admission, Role::Application, application)
}

/// The declarations in a body. A long one is parsed on a thread of its own, so that the system lets others go
/// meanwhile, and the longest one after another.
async fn parsed(
    bytes: Vec<u8>,
    most: usize,
) -> Result<Result<Vec<Result<Declaration, Problem>>, Problem>, Ending> {
    if bytes.len() < LONG {
        return Ok(declarations(&bytes, most));
    }
    let alone = match bytes.len() {
        LONGEST.. => Some(PARSING.acquire().await.map_err(|_| Ending)?),
        _ => None,
    };
    let parse = move || {
        // Until it is done, also where who sent it has gone.
        let _alone = alone;
        declarations(&bytes, most)
    };
    spawn_blocking(parse).await.map_err(|_| Ending)
}

/// The declarations in a body: one object, or a list of at most `most`. What is no declaration has its
/// place in the list.
///
/// # Errors
/// The body is no JSON or has more: the field at fault, and what is wrong with it.
pub fn declarations(
    body: &[u8],
    most: usize,
) -> Result<Vec<Result<Declaration, Problem>>, Problem> {
    let few = |number: usize| {
        let reason = || format!("has {number} declarations; send at most {most}");
        let wrong = (number > most).then(|| Problem { field: "body".to_owned(), reason: reason() });
        wrong.map_or(Ok(()), Err)
    };
    // Nearly always all can be read: then the text is gone through once.
    if let Ok(all) = one_or_list::<Declaration>(body) {
        few(all.len())?;
        return Ok(all.into_iter().map(Ok).collect());
    }
    let parts = one_or_list::<&RawValue>(body).map_err(|error| problem(None, &error))?;
    few(parts.len())?;
    let declaration = |part: &RawValue| {
        if !part.get().starts_with('{') {
            return Err(wrong("body", "is no JSON object"));
        }
        let read = serde_json::from_str(part.get());
        read.map_err(|error| problem(Some(part.get()), &error))
    };
    Ok(parts.into_iter().map(declaration).collect())
}

fn one_or_list<'a, T: Deserialize<'a>>(body: &'a [u8]) -> serde_json::Result<Vec<T>> {
    let first = body.iter().find(|octet| !octet.is_ascii_whitespace());
    if first == Some(&b'[') {
        serde_json::from_slice(body)
    } else {
        serde_json::from_slice(body).map(|one| vec![one])
    }
}

/// A request's body of at most `most` octets, in good time.
pub(super) async fn take(
    body: Body,
    most: usize,
    tenant: &Arc<Tenant>,
) -> Result<(Vec<u8>, Held), Wrong> {
    let late = "took too long; send it faster";
    let late = |_| Wrong::new(StatusCode::REQUEST_TIMEOUT, "body", late);
    timeout(PATIENCE, read(body, most, tenant)).await.map_err(late)?
}

/// Of the whole body, or of a declaration in it.
fn problem(declaration: Option<&str>, error: &serde_json::Error) -> Problem {
    let said = error.to_string();
    let field = missing(&said).or_else(|| declaration.and_then(|text| at_fault(text, &said)));
    let field: String = field.unwrap_or_else(|| "body".to_owned()).chars().take(60).collect();
    wrong(&field, &plain(&said.chars().take(400).collect::<String>()))
}

fn wrong(field: &str, what: &str) -> Problem {
    let reason = format!("{what}; /v1/openapi.json tells the form of declarations");
    Problem { field: field.to_owned(), reason }
}

/// What the reader of JSON says, without words of the language that it is written in.
pub(super) fn plain(said: &str) -> String {
    let mut said = said.to_owned();
    for (begins, plain) in
        [("unknown variant ", "unknown word "), ("EOF while parsing ", "ends within ")]
    {
        if let Some(rest) = said.strip_prefix(begins) {
            said = format!("{plain}{rest}");
        }
    }
    // Its own words come last: what it quotes stands before them.
    for (own, plain) in [
        (", expected struct ", ", expected an object"),
        (", expected enum ", ", expected an object"),
        (", expected a sequence", ", expected a list"),
        (", expected a map", ", expected an object"),
        (", expected u16", ", expected a whole number from 0 to 65535"),
        (", expected u32", ", expected a whole number, 0 or more, of 32 bits at most"),
        (", expected u", ", expected a whole number, 0 or more"),
    ] {
        if let Some((before, after)) = said.rsplit_once(own) {
            let rest = after.find(' ').map_or("", |at| &after[at..]);
            said = format!("{before}{plain}{rest}");
        }
    }
    said
}

/// The field that is missing, or that nobody knows, where that is what is wrong.
pub(super) fn missing(said: &str) -> Option<String> {
    let what = said.strip_prefix("missing field `").or(said.strip_prefix("unknown field `"))?;
    what.split('`').next().map(str::to_owned)
}

/// The field of a declaration for which it is refused. Its reader doesn't tell, for it has to know the type before
/// the others: it is the one without which something else is wrong, or nothing.
fn at_fault(text: &str, said: &str) -> Option<String> {
    if said.starts_with("unknown variant") {
        return Some("type".to_owned());
    }
    if text.len() > MOST_OCTETS {
        return None;
    }
    let Ok(Value::Object(whole)) = serde_json::from_str(text) else {
        return None;
    };
    let is_at_fault = |name: &&String| {
        let mut rest = whole.clone();
        rest.remove(*name);
        let read = serde_json::from_value::<Declaration>(Value::Object(rest));
        read.map_or_else(|error| missing(&error.to_string()).as_ref() == Some(*name), |_| true)
    };
    whole.keys().take(MOST_FIELDS).filter(|name| *name != "type").find(is_at_fault).cloned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use axum::response::IntoResponse as _;
    use hyper::body::{Bytes, Frame};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::hub::tests::hub;
    use crate::journal::{Journal, Noting};
    use crate::settings::Bounds;

    /// While another is parsed a long body waits, and a shorter one doesn't.
    #[tokio::test(start_paused = true)]
    async fn the_longest_bodies_are_parsed_one_at_a_time() {
        let blank = |octets: usize| {
            let mut body = vec![b' '; octets];
            (body[0], body[octets - 1]) = (b'[', b']');
            parsed(body, 1)
        };
        let other = PARSING.acquire().await.unwrap();
        assert_eq!(blank(LONGEST - 1).await.unwrap(), Ok(vec![]));
        // The clock stands still while anything is parsed.
        assert!(timeout(PATIENCE, blank(LONGEST)).await.is_err());
        drop(other);
        assert_eq!(blank(LONGEST).await.unwrap(), Ok(vec![]));
    }

    /// So many frames of 64 KiB, until they are read.
    struct Frames(Arc<AtomicUsize>);

    impl hyper::body::Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let left = self.0.load(Ordering::Relaxed);
            Poll::Ready(left.checked_sub(1).map(|left| {
                self.0.store(left, Ordering::Relaxed);
                Ok(Frame::data(vec![b' '; 64 << 10].into()))
            }))
        }
    }

    /// Its client hears that it shall wait, also over the Unix socket: one that writes on doesn't.
    #[tokio::test]
    async fn a_body_that_finds_no_memory_is_read_and_has_to_wait() {
        let journal = Arc::new(Journal::default());
        let subscriber = tracing_subscriber::registry().with(Noting(Arc::clone(&journal)));
        let _noting = tracing::subscriber::set_default(subscriber);
        let (hub, _kept) = hub(1 << 20);
        hub.set_bounds(Bounds { request: 8 << 20, ..hub.bounds() });
        for (is_local, frames, status) in [(false, 64, 429), (true, 64, 429), (false, 256, 413)] {
            let admission = Arc::new(hub.admit(is_local, None).unwrap());
            let left = Arc::new(AtomicUsize::new(frames));
            let body = Body::new(Frames(Arc::clone(&left)));
            let named = Named("a".to_owned());
            let answer = declare(State(Arc::clone(&hub)), Extension(admission), named, body);
            let answer = answer.await.unwrap_or_else(Wrong::into_response);
            assert_eq!((answer.status().as_u16(), left.load(Ordering::Relaxed)), (status, 0));
            if status == 429 {
                assert_eq!(answer.headers()["retry-after"], "1");
                let said = answer.into_body().collect().await.unwrap().to_bytes();
                let outcome: Outcome = serde_json::from_slice(&said).unwrap();
                assert_eq!((outcome.taken, outcome.epoch, outcome.rest), (0, 1, Some(0)));
                assert!(outcome.reason.unwrap().contains("limits.memory"));
            }
        }
        assert_eq!(hub.tenants.of(Who::Application("a".into())).held(), 0);
        let told = journal.after(0, 9);
        let told = told.iter().find(|entry| entry.message == "declarations refused").unwrap();
        assert!(
            told.fields["application"] == "a" && told.fields["reason"].contains("limits.memory")
        );
    }
}
