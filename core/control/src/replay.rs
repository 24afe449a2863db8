//! What happened, once more.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::config::Config;
use crate::controller::{Change, Controller};
use crate::message::Output;
use crate::record::{Record, Records};

/// A number that stands for all outputs so far: FNV-1a (64 bit) of each as text, with a line's end.
/// It finds out differences; it is no protection against anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in outputs, in their order.
    pub fn update(&mut self, outputs: &[Output]) {
        for output in outputs {
            // Writing into a number can't fail.
            let _ = writeln!(self, "{output:?}");
        }
    }

    /// The number.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl core::fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

/// How a replay went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Records that were replayed.
    pub records: u64,
    /// Outputs that came.
    pub outputs: u64,
    /// Digest of all outputs.
    pub digest: Digest,
    /// Digests in the record that were found again.
    pub confirmed: u64,
    /// The first record, counted from 0, whose digest differs.
    pub differs: Option<u64>,
    /// Bytes after the last whole record.
    pub left: usize,
}

/// Replays records. `configure` makes a configuration from the owner's form of it; `heard` is called
/// with every record and what came of it.
///
/// # Errors
/// A record that can't be read, a configuration that can't be made, or inputs before a beginning;
/// the text says where.
pub fn replay(
    bytes: &[u8],
    mut configure: impl FnMut(&[u8]) -> Result<Config, String>,
    mut heard: impl FnMut(&Record, &[Output]),
) -> Result<Replay, String> {
    let mut replay = Replay::default();
    let mut controller: Option<Controller> = None;
    let mut out = Vec::new();
    let mut records = Records::new(bytes);
    for record in &mut records {
        let record = record.map_err(|error| error.to_string())?;
        out.clear();
        match (&record, &mut controller) {
            (Record::Started { at, epoch, config }, _) => {
                let made = Controller::new(configure(config)?, *epoch, *at);
                controller = Some(made.map_err(|error| error.to_string())?);
                replay.digest = Digest::default();
            }
            (_, None) => return Err("the record does not begin with a controller's start".into()),
            (Record::Changed { at, config }, Some(controller)) => {
                controller.reconfigure(*at, Change::from(configure(config)?));
                controller.decide(&mut out);
            }
            (Record::Heard { at, heard }, Some(controller)) => {
                // A refusal is not an output, and follows from the inputs.
                let _ = controller.observe(*at, heard.as_input());
                controller.decide(&mut out);
            }
            (Record::Digest(digest), Some(_)) => {
                if *digest == replay.digest.value() {
                    replay.confirmed += 1;
                } else {
                    replay.differs.get_or_insert(replay.records);
                }
            }
        }
        replay.outputs += out.len() as u64;
        replay.digest.update(&out);
        heard(&record, &out);
        replay.records += 1;
    }
    replay.left = records.left();
    Ok(replay)
}
