//! A recording once more.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Display;

use serde::Serialize;
use units::Span;

use crate::config::Config;
use crate::controller::{Answers, Change, Controller};
use crate::message::{Input, Output};
use crate::record::{self, Configuration, Content, Digest, Record};

/// How the owner of a controller reads the configurations that it recorded.
pub trait Configure {
    /// The configuration of a controller that begins.
    ///
    /// # Errors
    /// Why it can't be read.
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String>;

    /// What changes when the configuration was read again.
    ///
    /// # Errors
    /// Why it can't be read.
    fn change(&mut self, recorded: &Configuration) -> Result<Change, String>;
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// The recorded controller's epoch.
    pub epoch: u64,
    /// The version of the program that recorded.
    pub version: String,
    /// Inputs.
    pub inputs: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Whether its end is there. Without it the controller was killed, or still runs, or the rest is cut off.
    pub ended: bool,
    /// Why what follows these inputs can't be read: where it is damaged, or what is missing.
    pub damaged: Option<String>,
    /// Outputs.
    pub outputs: u64,
    /// What the policy wanted, by number.
    pub directives: u64,
    /// From the start to the last record.
    pub lasted_ns: Span,
    /// Digests in the recording.
    pub digests: u64,
    /// The first of them that says that other inputs or configurations were recorded: so many records
    /// in.
    pub altered_after: Option<u64>,
    /// The first of them that says that other outputs were decided: so many outputs in.
    pub differs_after: Option<u64>,
    /// From the start to the last digest before which all is equal.
    pub verified_ns: Span,
    /// Outputs after that digest.
    pub unverified: u64,
    /// Directives after it.
    pub unverified_directives: u64,
    /// Refusals after it.
    pub unverified_refusals: u64,
    /// Records after it.
    pub unverified_records: u64,
    /// The digest of all outputs, in hexadecimal digits.
    pub digest: String,
}

/// Replays a recording: puts its inputs into a controller as its owner did, whose turn ends with each tick, and who has
/// it decide after each change of its configuration. `records` are those of all parts, without the
/// beginnings of later ones. `tell` is called with every record, what was decided then, and how the
/// controller answers after it. Where a later record can't be read, the replay ends before it and says so.
///
/// # Errors
/// A first record that can't be read, or a configuration; the text says where and why.
pub fn replay<E: Display>(
    records: impl IntoIterator<Item = Result<Record, E>>,
    configure: &mut impl Configure,
    mut tell: impl FnMut(&Record, &[Output], &Answers<'_>),
) -> Result<Replay, String> {
    let mut records = records.into_iter();
    let first = records.next().transpose().map_err(|error| error.to_string())?;
    let Some(Record { at: begun, content: Content::Started(epoch, configuration) }) = &first else {
        return Err(
            "the recording does not begin with a controller's start, or is cut within it".into()
        );
    };
    let mut controller = Controller::new(configure.start(configuration)?, *epoch, *begun)
        .map_err(|error| error.to_string())?;
    let mut replay = Replay {
        epoch: *epoch,
        version: configuration.program.clone(),
        inputs: 0,
        refused: 0,
        ended: false,
        damaged: None,
        outputs: 0,
        directives: 0,
        lasted_ns: Span::ZERO,
        digests: 0,
        altered_after: None,
        differs_after: None,
        verified_ns: Span::ZERO,
        unverified: 0,
        unverified_directives: 0,
        unverified_refusals: 0,
        unverified_records: 0,
        digest: String::new(),
    };
    let mut digest = Digest::default();
    let mut verified = Digest::default();
    let (mut written, mut out) = (Vec::new(), Vec::new());
    let too_long = |error: record::TooLong| error.to_string();
    record::write_started(*begun, *epoch, configuration, &mut written).map_err(too_long)?;
    digest.add_record(&written);
    for record in records {
        // What stands before the damage is as good as ever.
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                replay.damaged = Some(error.to_string());
                break;
            }
        };
        if replay.ended {
            replay.damaged = Some("records follow its end".into());
            break;
        }
        let at = record.at;
        replay.lasted_ns = at.since(*begun);
        written.clear();
        match &record.content {
            Content::Started(..) | Content::Continued(..) => {
                return Err("the recording begins a second time".into());
            }
            Content::Changed(configuration) => {
                record::write_changed(at, configuration, &mut written).map_err(too_long)?;
                digest.add_record(&written);
                controller.reconfigure(at, configure.change(configuration)?);
                controller.decide(&mut out);
            }
            Content::Input(input) => {
                let input = input.as_input();
                record::write_input(at, &input, &mut written).map_err(too_long)?;
                digest.add_record(&written);
                replay.inputs += 1;
                match input {
                    Input::Tick => controller.end_turn(at, &mut out),
                    input => replay.refused += u64::from(controller.observe(at, input).is_err()),
                }
            }
            Content::Digest(then) => {
                replay.digests += 1;
                if (then.records, then.recorded) != (digest.records, digest.recorded) {
                    replay.altered_after.get_or_insert(then.records);
                }
                let decided = |of: &Digest| (of.outputs, of.decided, of.judged);
                if decided(then) != decided(&digest) {
                    replay.differs_after.get_or_insert(then.outputs);
                }
                if (replay.altered_after, replay.differs_after) == (None, None) {
                    replay.verified_ns = replay.lasted_ns;
                    verified = digest;
                }
            }
            Content::Ended => replay.ended = true,
        }
        digest.add_outputs(&out, controller.judged());
        tell(&record, &out, &controller.at(at));
        out.clear();
    }
    replay.outputs = digest.outputs;
    replay.directives = digest.judged.directives;
    replay.unverified = digest.outputs - verified.outputs;
    replay.unverified_directives = digest.judged.directives - verified.judged.directives;
    replay.unverified_refusals = digest.judged.refusals - verified.judged.refusals;
    replay.unverified_records = digest.records - verified.records;
    replay.digest = format!("{:016x}", digest.decided.0);
    Ok(replay)
}
