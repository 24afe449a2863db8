//! Cumulative distributions of flow or message sizes, from files of two kinds.
//!
//! * `bytes,cdf` per line, as opera-sim (TritonNetworking/opera-sim) publishes web search (DCTCP),
//!   data mining (VL2) and Hadoop (Roy et al. 2015): sizes between two points are interpolated.
//! * The mean on line 1, then `bytes cdf` per line, as HomaSimulation (PlatformLab/HomaSimulation)
//!   digitised the message sizes of Roy et al.: only the listed sizes occur. That reading is the one that
//!   gives the means which these files state; interpolation falls up to 5 % short of them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use units::Bytes;

use crate::TraceError;
use crate::error::MOST_BYTES;
use crate::lines::{Line, Lines, shown};

/// Most points in one distribution.
pub const MOST_POINTS: usize = 1 << 20;
/// Largest part by which a stated mean may differ from that of the points.
pub const MEAN_TOLERANCE: f64 = 0.01;

/// What lies between two points of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Every size, with even probability.
    Interpolated,
    /// Nothing: the sizes of the points are all there are.
    Nothing,
}

/// A cumulative distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// Size in octets and the probability of that size or less; both rise, the last is 1.
    points: Vec<(f64, f64)>,
    between: Between,
}

impl Cdf {
    /// Reads the file at `path`, of either kind: a comma in the first line tells.
    ///
    /// # Errors
    /// As [`Cdf::read`]; a path that doesn't exist, is a directory, or may not be read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let lines: Lines<BufReader<File>> = Lines::open(path)?;
        Self::from_lines(lines)
    }

    /// Reads a distribution of either kind from `input`, which errors call `file`.
    ///
    /// # Errors
    /// A line that isn't a point; sizes that don't rise or probabilities that fall; a last
    /// probability other than 1; a stated mean that the points don't have.
    pub fn read<R: BufRead>(input: R, file: &str) -> Result<Self, TraceError> {
        Self::from_lines(Lines::new(input, file.to_owned()))
    }

    fn from_lines<R: BufRead>(mut lines: Lines<R>) -> Result<Self, TraceError> {
        let mut cdf = Self { points: Vec::new(), between: Between::Interpolated };
        let mut stated = None;
        let Some(first) = lines.next()? else {
            let message = "the file is empty; write one `bytes,cdf` per line";
            return Err(lines.fail_here(message.to_owned()));
        };
        if first.text.contains(',') {
            cdf.add(first)?;
        } else {
            cdf.between = Between::Nothing;
            stated = Some(first.real("mean", first.text.trim(), MOST_BYTES)?);
        }
        while let Some(line) = lines.next()? {
            cdf.add(line)?;
        }
        match cdf.points.last() {
            Some((_, 1.0)) => {}
            last => {
                let last = last.map_or(0.0, |(_, probability)| *probability);
                return Err(lines.fail_here(format!(
                    "the file ends at cdf {last}; the last line's must be 1: fetch the file anew"
                )));
            }
        }
        if let Some(stated) = stated {
            let mean = cdf.mean();
            if (mean - stated).abs() > MEAN_TOLERANCE * mean {
                let message = format!(
                    "line 1 states the mean {stated}, and the points have {mean}; correct one"
                );
                return Err(lines.fail_here(message));
            }
        }
        Ok(cdf)
    }

    fn add(&mut self, line: Line<'_>) -> Result<(), TraceError> {
        let (size, probability) = match self.between {
            Between::Interpolated => line.text.split_once(','),
            Between::Nothing => line.text.trim().split_once(|c: char| c.is_ascii_whitespace()),
        }
        .ok_or_else(|| {
            let message = format!("found {}; write bytes and cdf", shown(line.text));
            line.fail(None, message)
        })?;
        let octets = line.integer("bytes", size.trim(), MOST_BYTES)? as f64;
        let probability = line.real("cdf", probability.trim(), 1)?;
        let (last_octets, last_probability) = self.points.last().copied().unwrap_or((0.0, 0.0));
        if octets <= last_octets {
            let message = format!("{octets} is not above the line before ({last_octets}); sort it");
            return Err(line.fail(Some("bytes"), message));
        }
        if probability < last_probability {
            let message = format!(
                "{probability} is below the line before ({last_probability}); a cdf never falls"
            );
            return Err(line.fail(Some("cdf"), message));
        }
        if self.points.len() == MOST_POINTS {
            let message = format!("it is point {}; leave some out", MOST_POINTS + 1);
            return Err(line.fail(None, message));
        }
        self.points.push((octets, probability));
        Ok(())
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether it has no points; a distribution that was read has at least one.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// What lies between the points.
    pub const fn between(&self) -> Between {
        self.between
    }

    /// Mean size in octets.
    pub fn mean(&self) -> f64 {
        let mut before = self.points.first().map_or((0.0, 0.0), |first| (first.0, 0.0));
        let terms = self.points.iter().map(|&point| {
            let typical = match self.between {
                Between::Interpolated => f64::midpoint(before.0, point.0),
                Between::Nothing => point.0,
            };
            let term = typical * (point.1 - before.1);
            before = point;
            term
        });
        terms.sum()
    }

    /// The smallest size whose cumulative probability reaches `probability`, between 0 and 1;
    /// rounded to the nearest octet, at least one.
    pub fn quantile(&self, probability: f64) -> Bytes {
        let above = self.points.partition_point(|point| point.1 < probability);
        let Some(&(size, upto)) = self.points.get(above).or(self.points.last()) else {
            return Bytes::new(1);
        };
        let below = above.checked_sub(1).and_then(|below| self.points.get(below));
        match (self.between, below) {
            (Between::Interpolated, Some(&(smaller, from))) if upto > from => {
                let part = ((probability - from) / (upto - from)).min(1.0);
                whole(smaller + part * (size - smaller))
            }
            _ => whole(size),
        }
    }
}

/// The nearest whole number of octets, at least one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
pub(crate) fn whole(octets: f64) -> Bytes {
    Bytes::new((octets.round() as u64).max(1))
}
