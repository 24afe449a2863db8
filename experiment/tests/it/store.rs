//! The Parquet files, read back with the crate's own row reader.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::by_hand::*;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use units::Bytes;
use watermaster_experiment::store;

/// A directory of its own for a test, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("watermaster-store-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

fn rows(path: &Path) -> Vec<Row> {
    open(path).get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1
}

fn text(value: &str) -> Field {
    Field::Str(value.into())
}

#[test]
fn rows_come_back_as_they_were() {
    let into = Scratch::new("rows");
    let mut smsf = by_hand();
    smsf.flows.at_mut(3).size = Bytes::MAX;
    smsf.jobs.at_mut(3).size = Bytes::MAX;
    smsf.jobs.at_mut(3).class = None;
    let runs = [run("tcp", by_hand_baseline()), run("smsf", smsf)];
    store::write(&into.0, &origin(), &three_hosts(), &runs).unwrap();
    assert_eq!(into.names(), ["flows.parquet", "jobs.parquet"]);

    let flows = rows(&into.0.join("flows.parquet"));
    let jobs = rows(&into.0.join("jobs.parquet"));
    assert_eq!((flows.len(), jobs.len()), (8, 8));
    for (row, run, n) in (0..8).map(|i| (i, &runs[i / 4], i % 4)) {
        let (got, flow) = (&flows[row], run.outcome.flows.at(n));
        let size = if flow.size == Bytes::MAX {
            Field::Null
        } else {
            Field::Long(flow.size.get().cast_signed())
        };
        let seconds = |time: units::Time| Field::Double(time.as_secs_f64());
        let expected = [
            ("scenario", text("by-hand")),
            ("policy", text(&run.policy)),
            ("seed", Field::ULong(7)),
            ("flow", Field::Long(flow.id.0.into())),
            ("job", Field::Long(flow.job.0.into())),
            ("src", text(if n == 3 { "h2" } else { "h0" })),
            ("dst", text("h1")),
            ("size_bytes", size),
            ("delivered_bytes", Field::Long(flow.delivered.get().cast_signed())),
            ("start_s", seconds(flow.start)),
            ("end_s", flow.end.map_or(Field::Null, seconds)),
            ("retransmissions_count", Field::Long(flow.retransmissions.into())),
            ("timeouts_count", Field::Long(flow.timeouts.into())),
            ("limits_count", Field::Long(flow.limits_set.into())),
            ("first_limit_s", flow.limits.first().map_or(Field::Null, |(at, _)| seconds(*at))),
        ];
        assert_eq!(got.len(), expected.len());
        for (name, value) in expected {
            assert_eq!(field(got, name), &value, "{name} of row {row}");
        }

        let (got, job) = (&jobs[row], run.outcome.jobs.at(n));
        assert_eq!(field(got, "class"), &job.class.map_or(Field::Null, |c| text(c.name())));
        assert_eq!(field(got, "arrival_s"), &seconds(job.arrival));
        let jct =
            job.end.map_or(Field::Null, |end| Field::Double(end.since(job.arrival).as_secs_f64()));
        assert_eq!(field(got, "jct_s"), &jct);
        assert_eq!(field(got, "end_s"), &job.end.map_or(Field::Null, seconds));
        let endless = job.size == Bytes::MAX;
        assert_eq!(field(got, "size_bytes") == &Field::Null, endless);
    }
}

/// Rows are written some at a time; these are more than go at once.
#[test]
fn many_rows_come_back_in_order() {
    let into = Scratch::new("many");
    let flows = (0..20_000).map(|id: u32| {
        let start = u64::from(id);
        flow(id, id / 2, 1_000, start, (!id.is_multiple_of(3)).then_some(start + 1))
    });
    let outcome = engine::Outcome { flows: flows.collect(), ..engine::Outcome::default() };
    let runs = [run("tcp", outcome)];
    store::write(&into.0, &origin(), &three_hosts(), &runs).unwrap();
    let got = rows(&into.0.join("flows.parquet"));
    assert_eq!(got.len(), 20_000);
    for (row, flow) in got.iter().zip(&runs[0].outcome.flows) {
        assert_eq!(field(row, "flow"), &Field::Long(flow.id.0.into()));
        assert_eq!(field(row, "job"), &Field::Long(flow.job.0.into()));
        let end = flow.end.map_or(Field::Null, |end| Field::Double(end.as_secs_f64()));
        assert_eq!(field(row, "end_s"), &end);
    }
}

#[test]
fn a_file_says_where_it_comes_from() {
    let into = Scratch::new("origin");
    store::write(&into.0, &origin(), &three_hosts(), &[run("tcp", by_hand())]).unwrap();
    let reader = open(&into.0.join("jobs.parquet"));
    let about = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let value = |key: &str| about.iter().find(|kv| kv.key == key).unwrap().value.clone();
    assert_eq!(value("watermaster.version").as_deref(), Some("0.1.0"));
    assert_eq!(value("watermaster.world").as_deref(), Some("packet"));
    assert_eq!(value("watermaster.random"), Some(origin().random));
}

#[test]
fn equal_results_give_equal_bytes() {
    let bytes = |name| {
        let into = Scratch::new(name);
        store::write(&into.0, &origin(), &three_hosts(), &[run("tcp", by_hand())]).unwrap();
        (
            fs::read(into.0.join("flows.parquet")).unwrap(),
            fs::read(into.0.join("jobs.parquet")).unwrap(),
        )
    };
    assert!(bytes("once") == bytes("twice"));
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let into = Scratch::new("fails");
    // A directory stands where the file should go, so that the last step fails.
    fs::create_dir(into.0.join("flows.parquet")).unwrap();
    let error =
        store::write(&into.0, &origin(), &three_hosts(), &[run("tcp", by_hand())]).unwrap_err();
    assert!(error.to_string().contains("flows.parquet"), "{error}");
    assert_eq!(into.names(), ["flows.parquet"]);

    let missing = into.0.join("missing");
    assert!(store::write(&missing, &origin(), &three_hosts(), &[]).is_err());
}

#[test]
fn no_rows_are_a_file_too() {
    let into = Scratch::new("empty");
    store::write(&into.0, &origin(), &three_hosts(), &[run("tcp", engine::Outcome::default())])
        .unwrap();
    assert!(rows(&into.0.join("flows.parquet")).is_empty());
}
