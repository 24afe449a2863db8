//! What operators order.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::operator::{Act, Order, Orders};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::answers::{Wrong, json, may_order, may_see_all};
use super::applications::{missing, plain, take};
use super::queries::in_json;
use crate::hub::{Admission, Ending, Hub, Role};
use crate::ledger::Ledger;
use crate::owner::Event;

/// How long to wait before what could not be written down is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// A clock that somebody sets is looked at again after this time.
const CLOCK: Duration = Duration::from_secs(30);
/// Longest order, in octets.
const MOST: usize = 16 << 10;

/// `GET /v1/orders`: those that stand.
pub async fn standing(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
) -> Result<Response, Wrong> {
    may_see_all(&admission)?;
    let asks = admission.asks();
    let standing = hub.ask(&asks, |answers| answers.orders()).await?;
    in_json(&asks, &Orders { standing, warning: hub.unwritten() })
}

/// `POST /v1/orders`: an order. Answered when it is carried out and written down, by what stands then.
pub async fn give(
    State(hub): State<Arc<Hub>>,
    Extension(admission): Extension<Arc<Admission>>,
    body: Body,
) -> Result<Response, Wrong> {
    may_order(&admission)?;
    let bytes = take(body, MOST, &hub.operators).await?.0;
    let order = read(&bytes)?;
    let act = Act { at_s: now_s(), by: admission.who(), order };
    // Also where who asked goes away: what is carried out is written down.
    let carried_out = tokio::spawn(async move {
        // One after another: what is written down last is what stands.
        let ledger = Arc::clone(&hub.ledger).lock_owned().await;
        carry_out(&hub, ledger, act).await
    });
    carried_out.await.map_err(|_| Ending)?.map(|orders| json(&orders))
}

/// The order in a body.
fn read(body: &[u8]) -> Result<Order, Wrong> {
    let wrong = |field: &str, what: &str| {
        let reason = format!("{what}; /v1/openapi.json tells the form of orders");
        Wrong::new(StatusCode::BAD_REQUEST, field, reason)
    };
    // Its reader would take a list as well, of the fields in their order.
    if body.trim_ascii_start().first().is_some_and(|octet| *octet != b'{') {
        return Err(wrong("body", "is no JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let said: String = error.to_string().chars().take(400).collect();
        let field = match missing(&said) {
            None if said.starts_with("unknown variant") => "type".to_owned(),
            field => field.unwrap_or_else(|| "body".to_owned()),
        };
        wrong(&field, &plain(&said))
    })
}

async fn carry_out(
    hub: &Arc<Hub>,
    ledger: OwnedMutexGuard<Ledger>,
    act: Act,
) -> Result<Orders, Wrong> {
    let is_retried = hub.unwritten().is_some();
    let (sender, answer) = oneshot::channel();
    hub.tell(&hub.operators, Event::Ordered(act.clone(), sender)).await?;
    let became = answer.await.map_err(|_| Ending)?;
    tracing::info!(
        by = act.by,
        order = serde_json::to_string(&act.order).unwrap_or_default(),
        refused = became.as_ref().err().map(tracing::field::display),
        "order"
    );
    if became.is_ok()
        && let Order::Cancel { application, .. }
        | Order::Evict { application }
        | Order::Block { application, .. } = &act.order
    {
        hub.forget(application);
    }
    let noted = tokio::task::spawn_blocking(move || {
        let refused = became.as_ref().err().map(ToString::to_string);
        let standing = became.as_deref().map_err(|_| refused.as_deref().unwrap_or_default());
        let warning = ledger.note(&act, standing);
        (became, warning, ledger)
    });
    // Held until all is written.
    let (became, mut warning, _ledger) = noted.await.map_err(|_| Ending)?;
    if let Ok(standing) = &became {
        hub.ends.send_replace(first_end(standing));
    }
    if let (Ok(standing), Role::Leads { elected: Some((_, shelf)), .. }) = (&became, &hub.role)
        && let Err(why) = shelf.keep(standing).await
    {
        warning = Some(format!("{why}; it is done here, but the next leader doesn't know of it"));
    }
    if let Some(warning) = &warning {
        tracing::error!(warning, "an order is not written down");
        if !is_retried && hub.unwritten().is_some() {
            tokio::spawn(write_later(Arc::clone(hub)));
        }
    }
    let wrong = |refusal: control::Refusal| {
        Wrong::new(StatusCode::UNPROCESSABLE_ENTITY, refusal.field, refusal.reason)
    };
    became.map(|standing| Orders { standing, warning }).map_err(wrong)
}

/// When the first of these orders ends by itself, in seconds since 1970.
pub fn first_end(standing: &[Act]) -> Option<u64> {
    standing.iter().filter_map(Act::ends_s).min()
}

/// Ends the orders that stand for a time, as an operator would.
pub async fn end_in_time(hub: Arc<Hub>) {
    let mut ends = hub.ends.subscribe();
    loop {
        let Some(end_s) = *ends.borrow_and_update() else {
            if ends.changed().await.is_err() {
                return;
            }
            continue;
        };
        let left = Duration::from_secs(end_s.saturating_sub(now_s())).min(CLOCK);
        if !left.is_zero() {
            // Another may end before.
            let _ = timeout(left, ends.changed()).await;
            continue;
        }
        let Ok(standing) = hub.ask(&hub.operators, |answers| answers.orders()).await else {
            return;
        };
        let mut is_refused = false;
        let is_over = |act: &Act| act.ends_s().is_some_and(|ends| ends <= now_s());
        for act in standing.into_iter().filter(is_over) {
            let ledger = Arc::clone(&hub.ledger).lock_owned().await;
            // Another may have taken its place.
            let Ok(standing) = hub.ask(&hub.operators, |answers| answers.orders()).await else {
                return;
            };
            if standing.contains(&act)
                && let Some(order) = act.order.ends_by()
            {
                let by = "the controller: its time is over".into();
                let ended = carry_out(&hub, ledger, Act { at_s: now_s(), by, order }).await;
                is_refused |= ended.is_err();
            }
        }
        if is_refused {
            // It would be at once.
            tokio::time::sleep(CLOCK).await;
        }
        let Ok(standing) = hub.ask(&hub.operators, |answers| answers.orders()).await else {
            return;
        };
        hub.ends.send_replace(first_end(&standing));
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Tries until what stands is written, or another says what stands.
pub async fn write_later(hub: Arc<Hub>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = hub.stopped() => return,
        }
        let ledger = Arc::clone(&hub.ledger).lock_owned().await;
        let tried = tokio::task::spawn_blocking(move || ledger.again()).await;
        if tried.unwrap_or(true) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use tokio::sync::{mpsc, watch};
    use units::{Rate, Time};

    use super::*;
    use crate::owner::tests::controller;

    /// So often the machine here refuses, before it gives in.
    const REFUSED: usize = 3;

    /// Ends whatever stands for a time, and never asks again at once where that is refused.
    #[tokio::test(start_paused = true)]
    async fn an_order_whose_end_is_refused_is_ended_later() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, mut said) = mpsc::channel(4);
        let (stop, stopped) = watch::channel(false);
        let role = Role::Leads { epoch: 1, elected: None };
        let (_change, changes) = watch::channel(0);
        let ledger = Ledger::of(folder.path());
        let bounds = crate::settings::Bounds::default();
        let hub = Arc::new(Hub::new(tell, bounds, Arc::default(), role, ledger, changes, stopped));
        let order = Order::Limit {
            application: "a".into(),
            job: None,
            rate_bps: Rate::from_mbps(1),
            lasts_s: Some(1),
            reason: None,
        };
        let stands = Act { at_s: 1, by: "me".into(), order };
        let mut controller = controller();
        let input = control::Input::Ordered { act: &stands, again: true };
        controller.observe(Time::ZERO, input).unwrap();
        hub.ends.send_replace(first_end(std::slice::from_ref(&stands)));
        let began = tokio::time::Instant::now();
        let ending = tokio::spawn(end_in_time(Arc::clone(&hub)));
        let mut refused = 0;
        while refused < REFUSED {
            match said.recv().await.unwrap().event {
                Event::Ask(mut question) => while !question(&controller.at(Time::ZERO)) {},
                Event::Ordered(act, answer) => {
                    assert_eq!(act.order, Order::Unlimit { application: "a".into(), job: None });
                    refused += 1;
                    let refusal =
                        control::Refusal { field: "job", reason: "no".into(), busy: false };
                    answer.send(Err(refusal)).unwrap();
                }
                _ => panic!("nobody says anything else"),
            }
        }
        assert!(
            began.elapsed() >= CLOCK * u32::try_from(REFUSED - 1).unwrap(),
            "{:?}",
            began.elapsed()
        );
        drop(stop);
        ending.abort();
    }
}
