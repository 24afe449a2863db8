//! Results as Parquet: `flows.parquet` has a row per policy and flow, `jobs.parquet` one per policy
//! and job; `docs/metrics.md` lists the columns. A policy is a row group. The file's key-value
//! metadata say where the rows come from ([`Origin`]).

use std::iter;
use std::path::Path;
use std::sync::Arc;

use engine::{FlowRecord, JobRecord, Record, Records};
use model::{NodeId, Topology};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
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
    table(FLOWS, origin, runs, &flow_fields(topology), |run| &run.outcome.flows)
}

/// The jobs of `runs`, with the columns of `jobs.parquet`.
pub fn jobs(origin: &Origin, runs: &[Run]) -> Table {
    table(JOBS, origin, runs, &job_fields(), |run| &run.outcome.jobs)
}

fn table<T: Record>(
    schema: &str,
    origin: &Origin,
    runs: &[Run],
    fields: &[Field<'_, T>],
    records: impl Fn(&Run) -> &Records<T>,
) -> Table {
    let mut all: Vec<Column> = Vec::new();
    for run in runs {
        let common = common(origin, run);
        let own = common.iter().chain(fields).map(|field| field.column(records(run)));
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
    let (path, fields) = (into.join("flows.parquet"), flow_fields(topology));
    file(&path, FLOWS, origin, runs, &fields, |run| &run.outcome.flows)?;
    let (path, fields) = (into.join("jobs.parquet"), job_fields());
    file(&path, JOBS, origin, runs, &fields, |run| &run.outcome.jobs)
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

/// What a record has in a column.
type Of<'a, T, V> = Box<dyn Fn(&T) -> Option<V> + 'a>;

/// What records have in a column.
enum Values<'a, T, V> {
    /// Each its own.
    Own(Of<'a, T, V>),
    /// All the same.
    Common(V),
}

impl<T: Record, V: Clone> Values<'_, T, V> {
    fn of<'r>(&'r self, records: &'r Records<T>) -> Box<dyn Iterator<Item = Option<V>> + 'r> {
        match self {
            Self::Own(of) => Box::new(records.iter().map(move |record| of(&record))),
            Self::Common(value) => Box::new(iter::repeat_n(Some(value.clone()), records.len())),
        }
    }
}

/// How a column gets its values from records.
enum Field<'a, T> {
    Integer(Values<'a, T, i64>),
    Real(Values<'a, T, f64>),
    Text(Values<'a, T, ByteArray>),
}

impl<'a, T: Record> Field<'a, T> {
    fn integer(of: impl Fn(&T) -> Option<i64> + 'a) -> Self {
        Self::Integer(Values::Own(Box::new(of)))
    }

    fn real(of: impl Fn(&T) -> Option<f64> + 'a) -> Self {
        Self::Real(Values::Own(Box::new(of)))
    }

    fn text(of: impl Fn(&T) -> Option<ByteArray> + 'a) -> Self {
        Self::Text(Values::Own(Box::new(of)))
    }

    fn column(&self, records: &Records<T>) -> Column {
        match self {
            Self::Integer(values) => Column::Integer(values.of(records).collect()),
            Self::Real(values) => Column::Real(values.of(records).collect()),
            Self::Text(values) => Column::Text(values.of(records).collect()),
        }
    }

    fn write(
        &self,
        records: &Records<T>,
        into: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        match self {
            Self::Integer(values) => write_values::<Int64Type>(values.of(records), into),
            Self::Real(values) => write_values::<DoubleType>(values.of(records), into),
            Self::Text(values) => write_values::<ByteArrayType>(values.of(records), into),
        }
    }
}

/// Rows that are written at once: a multiple of what the encoder takes at once (1024), so that pages end where
/// they would if all were.
const BATCH: usize = 1 << 14;

/// The columns that say where the rows of a run come from.
fn common<T>(origin: &Origin, run: &Run) -> [Field<'static, T>; 3] {
    let text = |value: &str| Field::Text(Values::Common(ByteArray::from(value)));
    let seed = Field::Integer(Values::Common(origin.seed.cast_signed()));
    [text(&origin.scenario), text(&run.policy), seed]
}

fn file<T: Record>(
    path: &Path,
    schema: &str,
    origin: &Origin,
    runs: &[Run],
    fields: &[Field<'_, T>],
    records: impl Fn(&Run) -> &Records<T>,
) -> Result<(), WriteError> {
    write_whole(path, |file| -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties(origin)))?;
        for run in runs {
            let mut group = writer.next_row_group()?;
            for field in common(origin, run).iter().chain(fields) {
                let missing = || ParquetError::General("more columns than the schema has".into());
                let mut column = group.next_column()?.ok_or_else(missing)?;
                field.write(records(run), &mut column)?;
                column.close()?;
            }
            group.close()?;
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

/// Writes a column, so many rows at a time that memory doesn't grow with them.
fn write_values<T: DataType>(
    values: impl Iterator<Item = Option<T::T>>,
    into: &mut SerializedColumnWriter<'_>,
) -> Result<(), ParquetError> {
    let mut values = values.peekable();
    while values.peek().is_some() {
        let batch: Vec<Option<T::T>> = values.by_ref().take(BATCH).collect();
        // A definition level says whether a row has a value; required columns ignore it.
        let levels: Vec<i16> = batch.iter().map(|v| i16::from(v.is_some())).collect();
        let present: Vec<T::T> = batch.into_iter().flatten().collect();
        into.typed::<T>().write_batch(&present, Some(&levels), None)?;
    }
    Ok(())
}

fn text(value: &str) -> Option<ByteArray> {
    Some(ByteArray::from(value))
}

/// `None` when endless.
fn size(bytes: Bytes) -> Option<i64> {
    i64::try_from(bytes.get()).ok()
}

fn flow_fields(topology: &Topology) -> [Field<'_, FlowRecord>; 12] {
    let node = |end: fn(&FlowRecord) -> NodeId| {
        Field::text(move |flow: &FlowRecord| text(&topology.node_name(end(flow))))
    };
    [
        Field::integer(|f: &FlowRecord| Some(f.id.0.into())),
        Field::integer(|f: &FlowRecord| Some(f.job.0.into())),
        node(|f| f.src),
        node(|f| f.dst),
        Field::integer(|f: &FlowRecord| size(f.size)),
        Field::integer(|f: &FlowRecord| size(f.delivered).or(Some(i64::MAX))),
        Field::real(|f: &FlowRecord| Some(f.start.as_secs_f64())),
        Field::real(|f: &FlowRecord| f.end.map(Time::as_secs_f64)),
        Field::integer(|f: &FlowRecord| Some(f.retransmissions.into())),
        Field::integer(|f: &FlowRecord| Some(f.timeouts.into())),
        Field::integer(|f: &FlowRecord| Some(f.limits_set.into())),
        Field::real(|f: &FlowRecord| {
            let first = f.limits.iter().find(|(_, limit)| limit.is_some());
            first.map(|(time, _)| time.as_secs_f64())
        }),
    ]
}

fn job_fields() -> [Field<'static, JobRecord>; 6] {
    [
        Field::integer(|job: &JobRecord| Some(job.id.0.into())),
        Field::text(|job: &JobRecord| job.class.and_then(|class| text(class.name()))),
        Field::real(|job: &JobRecord| Some(job.arrival.as_secs_f64())),
        Field::integer(|job: &JobRecord| size(job.size)),
        Field::real(|job: &JobRecord| job.end.map(Time::as_secs_f64)),
        Field::real(|job: &JobRecord| job.completion().map(Span::as_secs_f64)),
    ]
}
