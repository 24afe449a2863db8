//! The SWIM trace format: one Hadoop job per line.
//!
//! Six fields between tabs: job, submit time in s, gap to the previous submit in s, and the octets
//! of map input, shuffle and output (Chen, Ganapathi, Griffith and Katz, "The Case for Evaluating
//! MapReduce Performance Using Workload Suites", MASCOTS 2011; public as SWIMProjectUCB/SWIM).
//! The gap repeats what the submit times say: it must be a number, and is not used.
//! Submit times never go back in the published traces; here they must not.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use units::{Bytes, Span, Time};

use crate::TraceError;
use crate::error::MOST_BYTES;
use crate::lines::{Lines, shown};

/// Latest submit time: 10⁹ s, 31 years.
pub const LATEST_S: u64 = 1_000_000_000;

/// One job of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the trace.
    pub job: String,
    /// Submit time.
    pub submit: Time,
    /// Read by its maps.
    pub map_input: Bytes,
    /// Moved from maps to reduces.
    pub shuffle: Bytes,
    /// Written by its reduces.
    pub output: Bytes,
}

/// Reads a trace, one job at a time; ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    last: Time,
    ended: bool,
}

impl Reader<BufReader<File>> {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// A path that doesn't exist, is a directory, or may not be read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Lines::open(path).map(Self::from_lines)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the trace from `input`, which errors call `file`.
    pub fn new(input: R, file: &str) -> Self {
        Self::from_lines(Lines::new(input, file.to_owned()))
    }

    const fn from_lines(lines: Lines<R>) -> Self {
        Self { lines, last: Time::ZERO, ended: false }
    }

    fn entry(&mut self) -> Result<Option<Entry>, TraceError> {
        let Some(line) = self.lines.next()? else {
            return Ok(None);
        };
        let mut fields = line.text.split('\t');
        let (
            Some(job),
            Some(submit),
            Some(gap),
            Some(map_input),
            Some(shuffle),
            Some(output),
            None,
        ) = (
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
        )
        else {
            return Err(line.fail(
                None,
                format!(
                    "found {} fields in {}; write job, submit time, gap, map input, shuffle and \
                     output with a tab between them",
                    line.text.split('\t').count(),
                    shown(line.text)
                ),
            ));
        };
        let submitted = line.integer("submit time (s)", submit, LATEST_S)?;
        line.integer("gap (s)", gap, LATEST_S)?;
        let bytes = |field, text| line.integer(field, text, MOST_BYTES).map(Bytes::new);
        let entry = Entry {
            job: job.to_owned(),
            submit: Time::ZERO + Span::from_secs(submitted),
            map_input: bytes("map input (B)", map_input)?,
            shuffle: bytes("shuffle (B)", shuffle)?,
            output: bytes("output (B)", output)?,
        };
        if entry.submit < self.last {
            let message = format!(
                "{submitted} s is before the previous line's; sort the trace by submit time"
            );
            return Err(line.fail(Some("submit time (s)"), message));
        }
        self.last = entry.submit;
        Ok(Some(entry))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let entry = self.entry().transpose();
        self.ended = !matches!(entry, Some(Ok(_)));
        entry
    }
}
