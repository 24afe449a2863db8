//! A recording once more.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use units::Span;

use crate::config::Config;
use crate::controller::{Change, Controller};
use crate::message::{Input, Output};
use crate::record::{Configuration, Content, Digest, Record, Records};

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
    /// Outputs.
    pub outputs: u64,
    /// From the start to the last record.
    pub lasted_ns: Span,
    /// Digests in the recording.
    pub digests: u64,
    /// The first of them that differs: so many outputs in.
    pub differs_after: Option<u64>,
    /// Whether the last record is truncated, as after a crash.
    pub truncated: bool,
    /// The digest of all outputs, in hexadecimal digits.
    pub digest: String,
}

/// Replays a recording: puts its inputs into a controller as its owner did, which has it decide after
/// each tick and each change of its configuration. `tell` is called with every record and what was
/// decided then.
///
/// # Errors
/// A record that can't be read, or a configuration; the text says where and why.
pub fn replay(
    bytes: &[u8],
    configure: &mut impl Configure,
    mut tell: impl FnMut(&Record, &[Output]),
) -> Result<Replay, String> {
    let mut records = Records::new(bytes).map_err(|error| error.to_string())?;
    let first = records.next().transpose().map_err(|error| error.to_string())?;
    let Some(Record { at: begun, content: Content::Started(epoch, configuration) }) = &first else {
        return Err("the recording does not begin with a controller's start".into());
    };
    let mut controller = Controller::new(configure.start(configuration)?, *epoch, *begun)
        .map_err(|error| error.to_string())?;
    let mut replay = Replay {
        epoch: *epoch,
        version: configuration.program.clone(),
        inputs: 0,
        refused: 0,
        outputs: 0,
        lasted_ns: Span::ZERO,
        digests: 0,
        differs_after: None,
        truncated: false,
        digest: String::new(),
    };
    let mut digest = Digest::default();
    let mut out = Vec::new();
    for record in &mut records {
        let record = record.map_err(|error| error.to_string())?;
        replay.lasted_ns = record.at.since(*begun);
        let decides = match &record.content {
            Content::Started(..) => return Err("the recording begins twice".into()),
            Content::Changed(configuration) => {
                controller.reconfigure(record.at, configure.change(configuration)?);
                true
            }
            Content::Input(input) => {
                let input = input.as_input();
                replay.inputs += 1;
                replay.refused += u64::from(controller.observe(record.at, input).is_err());
                input == Input::Tick
            }
            Content::Digest(recorded) => {
                replay.digests += 1;
                if *recorded != digest {
                    replay.differs_after.get_or_insert(recorded.outputs);
                }
                false
            }
        };
        if decides {
            controller.decide(&mut out);
        }
        digest.update(&out);
        tell(&record, &out);
        out.clear();
    }
    replay.truncated = records.is_truncated();
    replay.outputs = digest.outputs;
    replay.digest = format!("{:016x}", digest.value);
    Ok(replay)
}
