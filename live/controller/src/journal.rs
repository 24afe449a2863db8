//! The latest of what the daemon logs, for operators who ask over HTTP: who came, went and was refused, and why.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};

/// So many events are kept.
pub const KEPT: usize = 4_096;
/// Longest text of a field, in octets: it may repeat what a peer said.
const LONGEST: usize = 512;

/// What was logged once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    /// One more than that of the event before; after a restart they begin at 1.
    pub number: u64,
    /// Milliseconds since 1970, by the clock of the controller's machine.
    pub at_ms: u64,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: &'static str,
    /// What happened.
    pub message: String,
    /// Whom and what it concerns.
    pub fields: BTreeMap<String, String>,
}

/// Events of level `INFO` and above, the latest [`KEPT`]; whatever the log itself leaves out.
#[derive(Debug)]
pub struct Journal {
    kept: Mutex<Kept>,
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    latest: u64,
    entries: VecDeque<Entry>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { kept: Mutex::default(), latest: watch::Sender::new(0) }
    }
}

impl Journal {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, level: &'static str, message: String, fields: BTreeMap<String, String>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut kept = self.kept();
        kept.latest += 1;
        let number = kept.latest;
        if kept.entries.len() == KEPT {
            kept.entries.pop_front();
        }
        kept.entries.push_back(Entry { number, at_ms, level, message, fields });
        drop(kept);
        self.latest.send_replace(number);
    }

    /// Those after number `after`, the `most` latest of them at most.
    #[must_use]
    pub fn after(&self, after: u64, most: usize) -> Vec<Entry> {
        let kept = self.kept();
        let begin = kept.entries.partition_point(|entry| entry.number <= after);
        let begin = begin.max(kept.entries.len().saturating_sub(most));
        kept.entries.range(begin..).cloned().collect()
    }

    /// The number of the latest, as it changes.
    #[must_use]
    pub fn latest(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

/// Notes what is logged in a journal.
pub struct Noting(pub Arc<Journal>);

impl<S: tracing::Subscriber> Layer<S> for Noting {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        // Later levels are greater.
        if *event.metadata().level() > tracing::Level::INFO {
            return;
        }
        let mut said = Said::default();
        event.record(&mut said);
        self.0.note(event.metadata().level().as_str(), said.message, said.fields);
    }
}

#[derive(Default)]
struct Said {
    message: String,
    fields: BTreeMap<String, String>,
}

impl Said {
    fn put(&mut self, field: &Field, text: String) {
        let mut text = control::harmless(&text);
        text.truncate(text.floor_char_boundary(LONGEST));
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.insert(field.name().to_owned(), text);
        }
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn what_is_logged_is_kept_up_to_a_bound() {
        let journal = Arc::new(Journal::default());
        let subscriber = tracing_subscriber::registry().with(Noting(Arc::clone(&journal)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("not this");
            tracing::warn!(agent = "h1", left = 3_u64, reason = "x".repeat(600), "gone");
            for _ in 0..KEPT {
                tracing::info!("more");
            }
        });
        let all = journal.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number, all[0].message.as_str()), (KEPT, 2, "more"));
        assert_eq!(*journal.latest().borrow(), 1 + KEPT as u64);
        assert_eq!(journal.after(KEPT as u64, 9).len(), 1);
        assert_eq!(journal.after(0, 9).first().map(|entry| entry.number), Some(KEPT as u64 - 7));
        assert!(journal.after(u64::MAX, 9).is_empty());
    }

    #[test]
    fn an_event_has_its_fields_and_no_more_of_a_text_than_a_bound() {
        let journal = Arc::new(Journal::default());
        let subscriber = tracing_subscriber::registry().with(Noting(Arc::clone(&journal)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(agent = "h1", left = 3_u64, reason = "é".repeat(600), "gone");
        });
        let entry = &journal.after(0, 1)[0];
        assert_eq!((entry.level, entry.message.as_str()), ("WARN", "gone"));
        assert_eq!(entry.fields["agent"], "h1");
        assert_eq!(entry.fields["left"], "3");
        assert_eq!(entry.fields["reason"].len(), LONGEST);
    }
}
