//! The coflow-benchmark trace format: one coflow per line.
//!
//! Line 1: ports, coflows. Then per coflow: id, arrival in ms, number of mappers, the port of each,
//! number of reducers, and `port:megabytes` of each, with spaces between them (public as
//! coflow/coflow-benchmark). Ports count from 0.
//!
//! A megabyte is 2²⁰ octets, as the benchmark's own simulator reads it (coflow/coflowsim,
//! `CoflowBenchmarkTraceProducer`). That simulator also takes 2³⁰ bit/s for a gigabit: to compare
//! with it give ports that rate.
//!
//! The trace knows how much each reducer receives, not from whom: the benchmark spreads it evenly
//! over the mappers, and so do we, with [`apportion`].

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use model::{Flow, Job, JobId, Network, NodeId, TaskId, Terms};
use units::{Bytes, Span, Time};

use crate::lines::{Line, Lines, shown};
use crate::{MOST_FLOWS, ParameterError, TraceError, apportion, load};

/// Octets in the trace's megabyte.
pub const MEGABYTE: u64 = 1 << 20;
/// Latest arrival: 10¹² ms, 31 years.
pub const LATEST_MS: u64 = 1_000_000_000_000;
/// Most megabytes for one reducer, an exabyte.
pub const MOST_MEGABYTES: u64 = 1 << 40;
/// Most ports, and most coflows, in one trace.
pub const MOST: u64 = 1 << 22;
/// Most transfers in one coflow; the largest of the published trace has 21,170.
pub const MOST_TRANSFERS: usize = 1 << 22;

/// One coflow of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coflow {
    /// Its number in the trace.
    pub id: u64,
    /// When it arrives.
    pub arrival: Time,
    /// The port of each mapper; at least one.
    pub mappers: Vec<u32>,
    /// The port of each reducer and what it receives, rounded to the nearest octet; at least one.
    pub reducers: Vec<(u32, Bytes)>,
}

impl Coflow {
    /// Every transfer as (mapper, reducer, size), reducer by reducer, by position in the lists.
    /// Those between equal ports and those of no octets are among them.
    pub fn transfers(&self) -> impl Iterator<Item = (usize, usize, Bytes)> + '_ {
        let even = vec![1; self.mappers.len()];
        let reducers = self.reducers.iter().enumerate();
        reducers.flat_map(move |(reducer, (_, size))| {
            let shares = apportion(*size, &even).into_iter().enumerate();
            shares.map(move |(mapper, share)| (mapper, reducer, share))
        })
    }

    /// The coflow as a job from senders to receivers, port 0 being the first of each. Transfers
    /// within a host and those of no octets are left out; `None` when none remains.
    fn job(&self, id: JobId, senders: &[NodeId], receivers: &[NodeId]) -> Option<Job> {
        let flows: Vec<Flow> = self
            .transfers()
            .filter_map(|(mapper, reducer, size)| {
                let src = senders[self.mappers[mapper] as usize];
                let dst = receivers[self.reducers[reducer].0 as usize];
                (src != dst && size > Bytes::ZERO).then(|| Flow {
                    src,
                    dst,
                    from: task(mapper),
                    to: task(self.mappers.len() + reducer),
                    size,
                    offset: Span::ZERO,
                })
            })
            .collect();
        (!flows.is_empty()).then_some(Job {
            id,
            arrival: self.arrival,
            class: None,
            terms: Terms::default(),
            flows,
        })
    }
}

/// A line of [`crate::lines::LONGEST`] octets lists fewer tasks than a `u32` counts.
#[allow(clippy::cast_possible_truncation)]
const fn task(position: usize) -> TaskId {
    TaskId(position as u32)
}

/// The coflows of a trace that make jobs, in memory by their tasks: an hour of them has several hundred
/// thousand flows. Each becomes a job when that is asked for.
#[derive(Clone, Debug)]
pub struct Coflows {
    coflows: Vec<Coflow>,
    senders: Vec<NodeId>,
    receivers: Vec<NodeId>,
    size: Bytes,
}

impl Coflows {
    /// Reads the trace, of which each port is one of `senders` and one of `receivers`. Where these are the same
    /// hosts, transfers within a port are left out, and a coflow of only such transfers makes no job; where
    /// they differ, such transfers cross the network like any other.
    ///
    /// # Errors
    /// A trace with more ports than hosts, its own errors, and more than [`MOST_FLOWS`] flows in all.
    pub fn read<R: BufRead>(
        mut reader: Reader<R>,
        senders: &[NodeId],
        receivers: &[NodeId],
    ) -> Result<Self, TraceError> {
        let (ports, hosts) = (reader.ports(), senders.len().min(receivers.len()));
        if ports as usize > hosts {
            let message = format!(
                "the trace has {ports} ports and the network {hosts} hosts; give it a host for each \
                 port"
            );
            let error = reader.lines.fail_here(message);
            return Err(TraceError { line: Some(1), field: Some(PORTS), ..error });
        }
        let (mut coflows, mut size, mut flows) = (Vec::new(), Bytes::ZERO, 0);
        while let Some(coflow) = reader.next().transpose()? {
            // Jobs get their numbers when they are asked for.
            let Some(job) = coflow.job(JobId(0), senders, receivers) else {
                continue;
            };
            flows += job.flows.len() as u64;
            if flows > MOST_FLOWS {
                let message = format!("up to here it makes over {MOST_FLOWS} flows; shorten it");
                return Err(reader.lines.fail_here(message));
            }
            size += job.size();
            coflows.push(coflow);
        }
        let (senders, receivers) = (senders.to_vec(), receivers.to_vec());
        Ok(Self { coflows, senders, receivers, size })
    }

    /// Payload of all jobs.
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// The jobs by arrival, each made when its turn comes.
    pub fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        let coflows = (0u32..).zip(&self.coflows);
        coflows.filter_map(move |(id, own)| own.job(JobId(id), &self.senders, &self.receivers))
    }

    /// Moves their arrivals so that they offer `load` to `network`, as [`load::calibrate`] does.
    ///
    /// # Errors
    /// Those of [`load::calibrate`].
    pub fn calibrate(&mut self, network: &Network, load: f64) -> Result<(), ParameterError> {
        let factor = load::factor(network, self.jobs(), load)?;
        load::stretch(self.coflows.iter_mut().map(|coflow| &mut coflow.arrival), factor);
        Ok(())
    }
}

const PORTS: &str = "ports";

/// Reads a trace, one coflow at a time; ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    ports: u32,
    coflows: u64,
    read: u64,
    last: Time,
    ended: bool,
}

impl Reader<BufReader<File>> {
    /// Opens the trace at `path` and reads its first line.
    ///
    /// # Errors
    /// A path that doesn't exist, is a directory, or may not be read; a bad first line.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Lines::open(path).and_then(Self::from_lines)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the trace from `input`, which errors call `file`, up to its first line.
    ///
    /// # Errors
    /// A bad first line.
    pub fn new(input: R, file: &str) -> Result<Self, TraceError> {
        Self::from_lines(Lines::new(input, file.to_owned()))
    }

    fn from_lines(mut lines: Lines<R>) -> Result<Self, TraceError> {
        let Some(line) = lines.next()? else {
            let message = "the file is empty; its first line gives ports and coflows";
            return Err(lines.fail_here(message.to_owned()));
        };
        let mut words = Words::of(line);
        let ports = words.number(PORTS, MOST)?;
        let coflows = words.number("coflows", MOST)?;
        words.end()?;
        Ok(Self {
            lines,
            ports,
            coflows: u64::from(coflows),
            read: 0,
            last: Time::ZERO,
            ended: false,
        })
    }

    /// Number of ports that the trace says it uses.
    pub const fn ports(&self) -> u32 {
        self.ports
    }

    /// Number of coflows that the first line announces.
    pub const fn coflows(&self) -> u64 {
        self.coflows
    }

    fn coflow(&mut self) -> Result<Option<Coflow>, TraceError> {
        let announced = self.coflows;
        let Some(line) = self.lines.next()? else {
            if self.read == announced {
                return Ok(None);
            }
            return Err(self.lines.fail_here(format!(
                "the file ends after {} coflows and line 1 announces {announced}; fetch it anew",
                self.read
            )));
        };
        if self.read == announced {
            let message = format!(
                "found {} after the {announced} coflows that line 1 announces; correct line 1",
                shown(line.text)
            );
            return Err(line.fail(None, message));
        }
        let mut words = Words::of(line);
        let id = line.integer("coflow id", words.next("coflow id")?, u64::MAX)?;
        let arrival = line.integer("arrival (ms)", words.next("arrival (ms)")?, LATEST_MS)?;
        let arrival = Time::ZERO + Span::from_millis(arrival);
        if arrival < self.last {
            let message = "it is before the previous line's; sort the trace by arrival";
            return Err(line.fail(Some("arrival (ms)"), message));
        }
        let mut mappers = Vec::new();
        for _ in 0..words.count("number of mappers")? {
            mappers.push(words.port("mapper port", self.ports)?);
        }
        let mut reducers = Vec::new();
        for _ in 0..words.count("number of reducers")? {
            reducers.push(words.reducer(self.ports)?);
        }
        words.end()?;
        if mappers.len().saturating_mul(reducers.len()) > MOST_TRANSFERS {
            let message =
                format!("it makes more than {MOST_TRANSFERS} transfers; split the coflow");
            return Err(line.fail(Some("number of reducers"), message));
        }
        self.last = arrival;
        self.read += 1;
        Ok(Some(Coflow { id, arrival, mappers, reducers }))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Coflow, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let coflow = self.coflow().transpose();
        self.ended = !matches!(coflow, Some(Ok(_)));
        coflow
    }
}

/// The words of a line, read from the left.
struct Words<'a> {
    line: Line<'a>,
    rest: std::str::SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn of(line: Line<'a>) -> Self {
        let rest = line.text.split_ascii_whitespace();
        Self { line, rest }
    }

    fn next(&mut self, field: &'static str) -> Result<&'a str, TraceError> {
        self.rest.next().ok_or_else(|| {
            let message = "the line ends before it; is the file cut, or a number of tasks wrong?";
            self.line.fail(Some(field), message)
        })
    }

    fn number(&mut self, field: &'static str, most: u64) -> Result<u32, TraceError> {
        let word = self.next(field)?;
        let number = self.line.integer(field, word, most.min(u64::from(u32::MAX)))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// A number of tasks, at least one. It bounds nothing: a list is as long as what is read.
    fn count(&mut self, field: &'static str) -> Result<u32, TraceError> {
        match self.number(field, MOST)? {
            0 => Err(self.line.fail(Some(field), "found 0; a coflow has at least one")),
            count => Ok(count),
        }
    }

    fn port(&mut self, field: &'static str, ports: u32) -> Result<u32, TraceError> {
        let word = self.next(field)?;
        self.port_in(field, word, ports)
    }

    fn port_in(&self, field: &'static str, text: &str, ports: u32) -> Result<u32, TraceError> {
        let port = self.line.integer(field, text, u64::from(u32::MAX))?;
        match u32::try_from(port) {
            Ok(port) if port < ports => Ok(port),
            _ => {
                let message = format!(
                    "found {port}; line 1 announces {ports} ports, which count from 0: correct one"
                );
                Err(self.line.fail(Some(field), message))
            }
        }
    }

    fn reducer(&mut self, ports: u32) -> Result<(u32, Bytes), TraceError> {
        let word = self.next("reducer port:megabytes")?;
        let Some((port, megabytes)) = word.split_once(':') else {
            let message = format!("found {}; write it as 12:3.5", shown(word));
            return Err(self.line.fail(Some("reducer port:megabytes"), message));
        };
        let port = self.port_in("reducer port", port, ports)?;
        let field = "reducer megabytes";
        const BILLION: u128 = 1_000_000_000;
        let nanos = self.line.decimal(field, megabytes, MOST_MEGABYTES)?;
        let bytes = (nanos * u128::from(MEGABYTE) + BILLION / 2) / BILLION;
        // At most 2⁶⁰.
        let bytes = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        Ok((port, bytes))
    }

    fn end(&mut self) -> Result<(), TraceError> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => {
                let message = format!(
                    "found {} after the last field; is a number of tasks wrong?",
                    shown(word)
                );
                Err(self.line.fail(None, message))
            }
        }
    }
}
