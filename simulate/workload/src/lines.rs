//! Reading a trace line by line: bounded, and exact about what is wrong with a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::TraceError;

/// Longest line, its end included; the longest of the published traces has 2 kB.
pub(crate) const LONGEST: u64 = 1 << 20;

/// The lines of a trace.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    file: String,
    number: u64,
    octets: Vec<u8>,
}

impl Lines<BufReader<File>> {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let fail = |message: String| TraceError {
            file: path.display().to_string(),
            line: None,
            field: None,
            message,
        };
        let metadata = std::fs::metadata(path)
            .map_err(|error| fail(format!("{error}; give the path of a trace file")))?;
        if metadata.is_dir() {
            let remedy = "this is a directory; give the path of the trace file in it";
            return Err(fail(remedy.to_owned()));
        }
        let file = File::open(path)
            .map_err(|error| fail(format!("{error}; make the file readable for this user")))?;
        Ok(Self::new(BufReader::new(file), path.display().to_string()))
    }
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, which errors call `file`.
    pub(crate) const fn new(input: R, file: String) -> Self {
        Self { input, file, number: 0, octets: Vec::new() }
    }

    /// The next line without its end, or `None` after the last one.
    ///
    /// Every line must end with a line feed: a file that was cut in its last number would
    /// otherwise be read as a wrong number.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.octets.clear();
        self.number += 1;
        let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.octets);
        let line = Line { file: &self.file, number: self.number, text: "" };
        match read {
            Err(error) => return Err(line.fail(None, format!("{error}; check the file"))),
            Ok(0) => return Ok(None),
            Ok(_) => {}
        }
        let Some(octets) = self.octets.strip_suffix(b"\n") else {
            let message = if self.octets.len() as u64 == LONGEST {
                format!("the line is longer than {LONGEST} octets; is this a trace file?")
            } else {
                "the file is cut within this line; fetch it anew, or end the line if it is whole"
                    .to_owned()
            };
            return Err(line.fail(None, message));
        };
        let octets = octets.strip_suffix(b"\r").unwrap_or(octets);
        match std::str::from_utf8(octets) {
            Ok(text) => Ok(Some(Line { text, ..line })),
            Err(_) => Err(line.fail(None, "the line is not UTF-8 text; is this a trace file?")),
        }
    }

    /// An error at the line read last; after the last line, where the next one would be.
    pub(crate) fn fail_here(&self, message: String) -> TraceError {
        TraceError { file: self.file.clone(), line: Some(self.number), field: None, message }
    }
}

/// One line and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    file: &'a str,
    number: u64,
    /// The line without its end.
    pub(crate) text: &'a str,
}

impl Line<'_> {
    /// An error in `field` of this line.
    pub(crate) fn fail(
        &self,
        field: Option<&'static str>,
        message: impl Into<String>,
    ) -> TraceError {
        TraceError {
            file: self.file.to_owned(),
            line: Some(self.number),
            field,
            message: message.into(),
        }
    }

    /// Reads a whole number from 0 to `most`.
    pub(crate) fn integer(
        &self,
        field: &'static str,
        text: &str,
        most: u64,
    ) -> Result<u64, TraceError> {
        let value = text.bytes().try_fold(0u64, |value, digit| {
            if !digit.is_ascii_digit() {
                return None;
            }
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        match value {
            Some(value) if !text.is_empty() && value <= most => Ok(value),
            _ => Err(self.no_number(field, text, "a whole number", most)),
        }
    }

    /// Reads a decimal number from 0 to `most` with at most nine decimals, as a multiple of 10⁻⁹.
    pub(crate) fn decimal(
        &self,
        field: &'static str,
        text: &str,
        most: u64,
    ) -> Result<u128, TraceError> {
        const PLACES: usize = 9;
        let fail = || self.no_number(field, text, "a number with at most nine decimals", most);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if fraction.is_empty() || fraction.len() > PLACES {
            return Err(fail());
        }
        let scale = 1_000_000_000;
        let whole = self.integer(field, whole, most).map_err(|_| fail())?;
        let fraction = format!("{fraction:0<PLACES$}");
        let fraction = self.integer(field, &fraction, scale).map_err(|_| fail())?;
        let value = u128::from(whole) * u128::from(scale) + u128::from(fraction);
        if value > u128::from(most) * u128::from(scale) {
            return Err(fail());
        }
        Ok(value)
    }

    /// Reads a real number from 0 to `most`.
    pub(crate) fn real(
        &self,
        field: &'static str,
        text: &str,
        most: u64,
    ) -> Result<f64, TraceError> {
        match text.parse::<f64>() {
            Ok(value) if value >= 0.0 && value <= most as f64 => Ok(value),
            _ => Err(self.no_number(field, text, "a number", most)),
        }
    }

    fn no_number(&self, field: &'static str, text: &str, what: &str, most: u64) -> TraceError {
        let digits = text.strip_prefix('-').unwrap_or("");
        let found = if text.is_empty() {
            "nothing is there".to_owned()
        } else if digits.starts_with(|c: char| c.is_ascii_digit()) {
            format!("{} is negative", shown(text))
        } else {
            format!("found {}", shown(text))
        };
        let remedy = format!("{found}; write {what} from 0 to {most}");
        self.fail(Some(field), remedy)
    }
}

/// Text of a trace as an error repeats it: quoted, escaped, and cut so that hostile input can't
/// flood a terminal or a log.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
