//! Results as Parquet: `flows.parquet` has a row per policy and flow, `jobs.parquet` one per policy
//! and job; `docs/metrics.md` lists the columns. A policy is a row group. The file's key-value
//! metadata say where the rows come from ([`Origin`]).

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use engine::{FlowRecord, JobRecord};
use model::{NodeId, Topology};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use units::{Bytes, Span, Time};

use crate::files::{WriteError, write_whole};
use crate::result::{Origin, Run};

const FLOWS: &str = "message flows {
    REQUIRED BYTE_ARRAY scenario (STRING);
    REQUIRED BYTE_ARRAY policy (STRING);
    REQUIRED INT64 seed (INTEGER(64, false));
    REQUIRED INT64 flow;
    REQUIRED INT64 job;
    REQUIRED BYTE_ARRAY src (STRING);
    REQUIRED BYTE_ARRAY dst (STRING);
    OPTIONAL INT64 size_bytes;
    REQUIRED INT64 delivered_bytes;
    REQUIRED DOUBLE start_s;
    OPTIONAL DOUBLE end_s;
    REQUIRED INT64 retransmissions_count;
    REQUIRED INT64 timeouts_count;
    REQUIRED INT64 limits_count;
    OPTIONAL DOUBLE first_limit_s;
}";

const JOBS: &str = "message jobs {
    REQUIRED BYTE_ARRAY scenario (STRING);
    REQUIRED BYTE_ARRAY policy (STRING);
    REQUIRED INT64 seed (INTEGER(64, false));
    REQUIRED INT64 job;
    OPTIONAL BYTE_ARRAY class (STRING);
    REQUIRED DOUBLE arrival_s;
    OPTIONAL INT64 size_bytes;
    OPTIONAL DOUBLE end_s;
    OPTIONAL DOUBLE jct_s;
}";

/// A table whose rows are of all runs, those of a run together.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name and values of each column, all of one length.
    pub columns: Vec<(String, Column)>,
}

/// The flows of `runs`, with the columns of `flows.parquet`.
pub fn flows(origin: &Origin, topology: &Topology, runs: &[Run]) -> Table {
    table(FLOWS, origin, runs, |run| flow_columns(topology, &run.outcome.flows))
}

/// The jobs of `runs`, with the columns of `jobs.parquet`.
pub fn jobs(origin: &Origin, runs: &[Run]) -> Table {
    table(JOBS, origin, runs, |run| job_columns(&run.outcome.jobs))
}

fn table(
    schema: &str,
    origin: &Origin,
    runs: &[Run],
    columns: impl Fn(&Run) -> Vec<Column>,
) -> Table {
    let mut all: Vec<Column> = Vec::new();
    for run in runs {
        let own = with_origin(origin, run, columns(run));
        if all.is_empty() {
            all.extend(own);
        } else {
            all.iter_mut().zip(own).for_each(|(column, more)| column.append(more));
        }
    }
    let schema = parse_message_type(schema).expect("the schema is a constant");
    let names = schema.get_fields().iter().map(|field| field.name().to_owned());
    Table { columns: names.zip(all).collect() }
}

/// Writes `flows.parquet` and `jobs.parquet` into the directory `into`, which exists.
///
/// # Errors
/// A file that can't be written; no part of it is left.
pub fn write(
    into: &Path,
    origin: &Origin,
    topology: &Topology,
    runs: &[Run],
) -> Result<(), WriteError> {
    let flows = |run: &Run| flow_columns(topology, &run.outcome.flows);
    file(&into.join("flows.parquet"), FLOWS, origin, runs, flows)?;
    let jobs = |run: &Run| job_columns(&run.outcome.jobs);
    file(&into.join("jobs.parquet"), JOBS, origin, runs, jobs)
}

/// The values of a column, in row order; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Integer(Vec<Option<i64>>),
    /// Real numbers.
    Real(Vec<Option<f64>>),
    /// UTF-8.
    Text(Vec<Option<ByteArray>>),
}

impl Column {
    /// Puts the values of a column of the same kind behind these; those of another are left out.
    fn append(&mut self, more: Self) {
        match (self, more) {
            (Self::Integer(values), Self::Integer(more)) => values.extend(more),
            (Self::Real(values), Self::Real(more)) => values.extend(more),
            (Self::Text(values), Self::Text(more)) => values.extend(more),
            (Self::Integer(_) | Self::Real(_) | Self::Text(_), _) => {}
        }
    }
}

/// The columns of a run, behind those that say where it comes from.
fn with_origin(origin: &Origin, run: &Run, own: Vec<Column>) -> impl Iterator<Item = Column> {
    let rows = match own.first() {
        Some(Column::Integer(values)) => values.len(),
        _ => 0,
    };
    let common = [
        Column::Text(vec![text(&origin.scenario); rows]),
        Column::Text(vec![text(&run.policy); rows]),
        Column::Integer(vec![Some(origin.seed.cast_signed()); rows]),
    ];
    common.into_iter().chain(own)
}

fn file(
    path: &Path,
    schema: &str,
    origin: &Origin,
    runs: &[Run],
    columns: impl Fn(&Run) -> Vec<Column>,
) -> Result<(), WriteError> {
    write_whole(path, |file| -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties(origin)))?;
        for run in runs {
            write_group(&mut writer, with_origin(origin, run, columns(run)))?;
        }
        writer.close()?;
        Ok(())
    })
}

fn properties(origin: &Origin) -> WriterProperties {
    let about = [
        ("watermaster.version", &origin.version),
        ("watermaster.world", &origin.world),
        ("watermaster.random", &origin.random),
    ];
    let about = about.map(|(key, value)| KeyValue::new(key.to_owned(), value.clone()));
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(about.to_vec()))
        .build()
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: impl Iterator<Item = Column>,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        match column {
            Column::Integer(values) => write_column::<Int64Type, _>(&mut group, &values)?,
            Column::Real(values) => write_column::<DoubleType, _>(&mut group, &values)?,
            Column::Text(values) => write_column::<ByteArrayType, _>(&mut group, &values)?,
        }
    }
    group.close()?;
    Ok(())
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, W>,
    values: &[Option<T::T>],
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than the schema has".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    // A definition level says whether a row has a value; required columns ignore it.
    let levels: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
    let present: Vec<T::T> = values.iter().flatten().cloned().collect();
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

fn text(value: &str) -> Option<ByteArray> {
    Some(ByteArray::from(value))
}

/// `None` when endless.
fn size(bytes: Bytes) -> Option<i64> {
    i64::try_from(bytes.get()).ok()
}

fn flow_columns(topology: &Topology, flows: &[FlowRecord]) -> Vec<Column> {
    let integer =
        |value: fn(&FlowRecord) -> Option<i64>| Column::Integer(flows.iter().map(value).collect());
    let real =
        |value: fn(&FlowRecord) -> Option<f64>| Column::Real(flows.iter().map(value).collect());
    let node = |end: fn(&FlowRecord) -> NodeId| {
        let names = flows.iter().map(|flow| text(&topology.node_name(end(flow))));
        Column::Text(names.collect())
    };
    vec![
        integer(|f| Some(f.id.0.into())),
        integer(|f| Some(f.job.0.into())),
        node(|f| f.src),
        node(|f| f.dst),
        integer(|f| size(f.size)),
        integer(|f| size(f.delivered).or(Some(i64::MAX))),
        real(|f| Some(f.start.as_secs_f64())),
        real(|f| f.end.map(Time::as_secs_f64)),
        integer(|f| Some(f.retransmissions.into())),
        integer(|f| Some(f.timeouts.into())),
        integer(|f| Some(f.limits_set.into())),
        real(|f| {
            let first = f.limits.iter().find(|(_, limit)| limit.is_some());
            first.map(|(time, _)| time.as_secs_f64())
        }),
    ]
}

fn job_columns(jobs: &[JobRecord]) -> Vec<Column> {
    let real =
        |value: fn(&JobRecord) -> Option<f64>| Column::Real(jobs.iter().map(value).collect());
    let classes = jobs.iter().map(|job| job.class);
    vec![
        Column::Integer(jobs.iter().map(|job| Some(job.id.0.into())).collect()),
        Column::Text(classes.map(|class| class.and_then(|c| text(c.name()))).collect()),
        real(|job| Some(job.arrival.as_secs_f64())),
        Column::Integer(jobs.iter().map(|job| size(job.size)).collect()),
        real(|job| job.end.map(Time::as_secs_f64)),
        real(|job| job.completion().map(Span::as_secs_f64)),
    ]
}
