//! A recording, for the page: how the controller stood at some instants, and what was said and decided.

use ::page::film::{About, Film, Frame, Happening, Kind, Link, Recording};
use control::record::{Content, Record};
use control::{Answers, Input};
use model::Severity;
use protocol::agent::Report;
use units::{Rate, Span, Time};

/// Frames at most: when there are more, every second one goes and the others come half as often.
const FRAMES: usize = 240;
/// Between the first ones.
const FIRST: Span = Span::from_millis(100);
/// Flows of a frame, and those of which the reason is kept.
const FLOWS: usize = 100;
const REASONS: usize = 20;
/// Happenings that are kept; of those beyond it is said how many they are.
const HAPPENINGS: usize = 20_000;
/// Longest text of one, characters.
const LONGEST: usize = 300;

/// Watches a replay.
#[derive(Default)]
pub(crate) struct Camera {
    film: Recording,
    every: Option<Span>,
    next: Option<Time>,
}

impl Camera {
    /// After a record; `lines` are what was said to the controller (`true`) and by it, in words.
    pub(crate) fn see(
        &mut self,
        record: &Record,
        lines: impl Iterator<Item = (bool, String)>,
        answers: &Answers<'_>,
    ) {
        let kind = kind(record);
        for (said, text) in lines {
            self.happens(record.at, if said { kind } else { Kind::Decision }, &text);
        }
        if self.next.is_none_or(|next| record.at >= next) {
            let every = *self.every.get_or_insert(FIRST);
            let frame = self.frame(record.at, answers);
            self.film.frames.push(frame);
            self.next = Some(record.at + every);
            if self.film.frames.len() > FRAMES {
                let mut number = 0;
                self.film.frames.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.every = Some(every * 2);
            }
        }
    }

    fn happens(&mut self, at: Time, kind: Kind, text: &str) {
        if self.film.happenings.len() == HAPPENINGS {
            self.film.left_out += 1;
            return;
        }
        let text =
            text.chars().take(LONGEST).map(|c| if control::is_control(c) { '\u{fffd}' } else { c });
        self.film.happenings.push(Happening { at_ns: at.as_nanos(), kind, text: text.collect() });
    }

    fn frame(&mut self, at: Time, answers: &Answers<'_>) -> Frame {
        let status = answers.status();
        let about = &mut self.film.about;
        // Links are only ever added.
        for link in status.links.iter().skip(about.links.len()) {
            about.links.push(Link {
                from: link.from.clone(),
                to: link.to.clone(),
                capacity_bps: link.capacity_bps.as_bps(),
            });
        }
        about.switches = status.switches.iter().map(|switch| switch.name.clone()).collect();
        let loads = status.links.iter().enumerate().filter(|(_, link)| link.flows > 0 || !link.up);
        let loads = loads.map(|(number, link)| {
            let (measured, limited) =
                (link.measured_bps.map(Rate::as_bps), link.limited_bps.as_bps());
            (number, measured, limited, link.flows, link.up)
        });
        let flows = answers.flows(FLOWS);
        let all: usize = status.applications.iter().map(|known| known.flows).sum();
        let why = flows.iter().take(REASONS).map(|flow| {
            let found = answers.explain_flow(&flow.application, &flow.job, &flow.flow);
            found.map(|found| found.why).unwrap_or_default()
        });
        Frame {
            at_ns: at.as_nanos(),
            policy: status.policy,
            problems: status.problems,
            loads: loads.collect(),
            applications: status.applications,
            jobs: answers.jobs(None),
            why: why.collect(),
            more: all.saturating_sub(flows.len()),
            flows,
        }
    }

    /// What was seen.
    pub(crate) fn film(mut self, title: String, epoch: u64, command: String) -> Film {
        let about = &mut self.film.about;
        let switches = std::mem::take(&mut about.switches);
        let links = std::mem::take(&mut about.links);
        let terms = vec![("Epoch".to_owned(), epoch.to_string())];
        *about = About { title, subtitle: String::new(), command, about: terms, switches, links };
        Film::Recording(self.film)
    }
}

fn kind(record: &Record) -> Kind {
    let Content::Input(input) = &record.content else { return Kind::News };
    match input.as_input() {
        Input::Reported(_, Report::Congested { severity: Severity::Recovered, .. }) => Kind::News,
        Input::Reported(_, Report::Congested { .. }) => Kind::Congestion,
        Input::Reported(_, Report::Failed { .. } | Report::Stale { .. })
        | Input::SwitchGone(_)
        | Input::AgentGone(_)
        | Input::Unreadable(_) => Kind::Trouble,
        _ => Kind::News,
    }
}
