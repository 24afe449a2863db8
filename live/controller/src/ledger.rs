//! What the daemon keeps of operators' orders, in its state directory: those that stand, for the next start, and
//! a line about each that was given.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use protocol::operator::Act;
use serde::Serialize;
use tokio::sync::watch;

/// Longest file of standing orders that is written and read, in octets. With names of 256 characters, as they are by
/// default, all that can stand is half as long.
const MOST_STANDING: u64 = 8 << 20;
/// The end of the year 9999, in seconds since 1970.
const MOST_SECONDS: u64 = 253_402_300_799;
/// So many octets are kept free for the next change of what stands, which a full disk doesn't stop while it fits.
const ROOM: usize = 16 << 10;
/// The log goes on in a new file when it has so many octets, and so many full ones are kept.
const MOST_LOG: u64 = 4 << 20;
const KEPT: u32 = 7;
/// Held by who writes what stands: those of a role that has just ended may do so still.
static WRITING: Mutex<()> = Mutex::new(());

/// Standing orders that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {why}; correct it, or remove it: then no order of an operator stands any more", file.display()
)]
pub struct LedgerError {
    file: PathBuf,
    why: String,
}

/// Orders that stand and could not be written.
#[derive(Debug)]
pub struct Unwritten {
    standing: Vec<Act>,
    /// Why, and what follows.
    pub why: String,
}

/// The orders of a state directory.
#[derive(Debug)]
pub struct Ledger {
    directory: PathBuf,
    most: u64,
    unwritten: watch::Sender<Option<Unwritten>>,
}

#[derive(Serialize)]
struct Line<'a, O> {
    at_s: u64,
    by: &'a str,
    order: &'a O,
    answer: &'a str,
}

/// To keep a recording, or to let it go.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Pin<'a> {
    /// It is kept.
    Pin {
        /// Its name.
        recording: &'a str,
    },
    /// It isn't any more.
    Unpin {
        /// Its name.
        recording: &'a str,
    },
}

impl Ledger {
    /// That of a state directory, in which room is kept.
    pub fn of(state: &Path) -> Self {
        let ledger = Self {
            directory: state.to_owned(),
            most: MOST_LOG,
            unwritten: watch::Sender::new(None),
        };
        let writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write(&ledger.beside(), b"") {
            tracing::warn!(
                file = %ledger.beside().display(), %error, "no room is kept for orders: make room before the next"
            );
        }
        drop(writing);
        ledger
    }

    fn beside(&self) -> PathBuf {
        self.directory.join("orders.new")
    }

    fn standing_file(&self) -> PathBuf {
        self.directory.join("orders.json")
    }

    /// The orders that stood when the last controller ended.
    ///
    /// # Errors
    /// The file can't be read, or holds something else.
    pub fn standing(&self) -> Result<Vec<Act>, LedgerError> {
        let file = self.standing_file();
        let wrong = |why: String| LedgerError { file: file.clone(), why };
        match fs::metadata(&file) {
            Ok(kind) if !kind.is_file() => return Err(wrong("is no file".to_owned())),
            Ok(kind) if kind.len() > MOST_STANDING => {
                return Err(wrong(format!("is longer than {MOST_STANDING} bytes")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(wrong(error.to_string())),
        }
        let text = fs::read(&file).map_err(|error| wrong(error.to_string()))?;
        let acts: Vec<Act> =
            serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let late = |act: &&Act| act.at_s > MOST_SECONDS;
        match acts.iter().find(late) {
            Some(act) => Err(wrong(format!("at_s: {} is no time of ours", act.at_s))),
            None => Ok(acts),
        }
    }

    /// Writes down what became of an order, and what stands if it was carried out. What of that fails is told.
    pub fn note(&self, act: &Act, became: Result<&[Act], &str>) -> Option<String> {
        if let Ok(standing) = became {
            self.write_down(standing);
        }
        let kept = self.unwritten.borrow().as_ref().map(|unwritten| unwritten.why.clone());
        let kept = kept.filter(|_| became.is_ok());
        let answer = became.err().unwrap_or("done");
        let line = Line { at_s: act.at_s, by: &act.by, order: &act.order, answer };
        let logged = self.logged(&line);
        let failed: Vec<String> = kept.into_iter().chain(logged).collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    }

    fn write_down(&self, standing: &[Act]) {
        let unwritten = self.keep(standing).err().map(|error| {
            let file = self.standing_file();
            let why = format!(
                "{}: {error}; what operators ordered is done, but a restart undoes it",
                file.display()
            );
            Unwritten { standing: standing.to_vec(), why }
        });
        self.unwritten.send_replace(unwritten);
    }

    /// Writes down what stands by the word of several controllers' store, if that isn't written here: for the day on
    /// which the store is lost or not asked any more. That it fails is logged the first time.
    pub fn copy(&self, standing: &[Act]) {
        let failed = self.unwritten.borrow().is_some();
        if !failed && self.standing().is_ok_and(|known| known == standing) {
            return;
        }
        self.write_down(standing);
        if let Some(unwritten) = &*self.unwritten.borrow()
            && !failed
        {
            tracing::error!(why = unwritten.why, "the orders that stand are not written down here");
        }
    }

    /// What could not be written, as it becomes and ends.
    pub fn unwritten(&self) -> watch::Receiver<Option<Unwritten>> {
        self.unwritten.subscribe()
    }

    /// Tries again to write what could not be written; whether all is.
    pub fn again(&self) -> bool {
        let unwritten = self.unwritten.borrow();
        let done = unwritten.as_ref().is_none_or(|of| self.keep(&of.standing).is_ok());
        drop(unwritten);
        if done {
            self.unwritten.send_replace(None);
        }
        done
    }

    /// Writes down what became of an order about recordings, which is the daemon's own to carry out. What of that
    /// fails is told.
    pub fn note_pin(&self, (at_s, by): (u64, &str), pin: &Pin<'_>, answer: &str) -> Option<String> {
        self.logged(&Line { at_s, by, order: pin, answer })
    }

    fn logged<O: Serialize>(&self, line: &Line<'_, O>) -> Option<String> {
        self.log(line).err().map(|error| {
            let file = self.log_file(0);
            format!("{}: {error}; the order is in the daemon's own log alone", file.display())
        })
    }

    /// Writes the standing orders, durably and at once or not at all, where room was kept for them; and keeps room for
    /// the next.
    fn keep(&self, standing: &[Act]) -> io::Result<()> {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = self.beside();
        let text = serde_json::to_vec_pretty(standing)?;
        if text.len() as u64 > MOST_STANDING {
            let reason = format!("all that stands is longer than {MOST_STANDING} bytes; end some");
            return Err(io::Error::other(reason));
        }
        write(&beside, &text)?;
        fs::rename(&beside, self.standing_file())?;
        File::open(&self.directory)?.sync_all()?;
        if let Err(error) = write(&beside, b"") {
            tracing::warn!(
                file = %beside.display(), %error, "no room is kept for the next order: make room"
            );
        }
        Ok(())
    }

    /// The file that is written to, or that with this age.
    fn log_file(&self, age: u32) -> PathBuf {
        match age {
            0 => self.directory.join("audit.jsonl"),
            age => self.directory.join(format!("audit.{age}.jsonl")),
        }
    }

    fn log<O: Serialize>(&self, line: &Line<'_, O>) -> io::Result<()> {
        let file = self.log_file(0);
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let length = fs::metadata(&file).map_or(0, |kind| kind.len());
        if length > 0 && length + text.len() as u64 > self.most {
            for age in (0..KEPT).rev() {
                match fs::rename(self.log_file(age), self.log_file(age + 1)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        let mut out = OpenOptions::new().create(true).read(true).append(true).open(&file)?;
        // A full disk, or a crash, may have left a part of a line.
        let mut last = [b'\n'];
        if out.seek(SeekFrom::End(-1)).is_ok() {
            out.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            text.insert(0, b'\n');
        }
        out.write_all(&text)?;
        out.sync_data()
    }
}

/// Writes over what is there, with blanks up to the room that is kept.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut padded = text.to_vec();
    padded.resize(text.len().max(ROOM), b' ');
    let mut out = OpenOptions::new().write(true).create(true).truncate(false).open(file)?;
    out.write_all(&padded)?;
    out.set_len(padded.len() as u64)?;
    out.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use protocol::operator::Order;

    use super::*;

    /// At a time that no clock can show.
    const LATE: &str = r#"[{"at_s":18446744073709551615,"by":"me","order":{"type":"freeze"}}]"#;

    fn act(order: Order) -> Act {
        Act { at_s: 7, by: "operator me".to_owned(), order }
    }

    #[test]
    fn what_stands_is_read_again_and_what_is_damaged_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(folder.path());
        assert_eq!(ledger.standing().unwrap(), []);
        let frozen = act(Order::Freeze { reason: Some("fire".to_owned()) });
        assert_eq!(ledger.note(&frozen, Ok(std::slice::from_ref(&frozen))), None);
        assert_eq!(ledger.standing().unwrap(), std::slice::from_ref(&frozen));
        // What was refused changes nothing.
        assert_eq!(ledger.note(&act(Order::Thaw {}), Err("type: no")), None);
        assert_eq!(ledger.standing().unwrap(), [frozen]);
        let log = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["answer"], "done");
        let thaw = serde_json::json!({
            "at_s": 7, "by": "operator me", "order": { "type": "thaw" }, "answer": "type: no"
        });
        assert_eq!(lines[1..], [thaw]);
        for damaged in ["", "[", "{}", "[{\"at_s\":1}]", LATE] {
            fs::write(folder.path().join("orders.json"), damaged).unwrap();
            let said = ledger.standing().unwrap_err().to_string();
            assert!(said.contains("orders.json: ") && said.contains("remove it"), "{said}");
        }
        fs::remove_file(folder.path().join("orders.json")).unwrap();
        fs::create_dir(folder.path().join("orders.json")).unwrap();
        assert!(ledger.standing().unwrap_err().to_string().contains("is no file"));
    }

    #[test]
    fn the_log_is_bounded_and_its_latest_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger { most: 300, ..Ledger::of(folder.path()) };
        for at_s in 0..100 {
            assert_eq!(ledger.note(&Act { at_s, ..act(Order::Thaw {}) }, Err("no")), None);
        }
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 9, "{files:?}");
        let is_log = |file: &&fs::DirEntry| file.path().extension().unwrap() == "jsonl";
        assert!(files.iter().filter(is_log).all(|file| file.metadata().unwrap().len() <= 300));
        let last = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        assert!(last.contains("\"at_s\":99"), "{last}");
    }

    /// A full disk takes a part of a line.
    #[test]
    fn a_line_begins_after_what_is_left_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(folder.path());
        let file = folder.path().join("audit.jsonl");
        fs::write(&file, "{\"at_s\":6,\"by").unwrap();
        for _ in 0..2 {
            assert_eq!(ledger.note(&act(Order::Thaw {}), Err("no")), None);
        }
        let log = fs::read_to_string(&file).unwrap();
        let lines: Vec<Option<serde_json::Value>> =
            log.lines().map(|line| serde_json::from_str(line).ok()).collect();
        assert!(matches!(&lines[..], [None, Some(_), Some(_)]), "{log}");
    }

    #[test]
    fn a_state_that_can_not_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let ledger = Ledger::of(&gone);
        let frozen = act(Order::Freeze { reason: None });
        let said = ledger.note(&frozen, Ok(std::slice::from_ref(&frozen))).unwrap();
        assert!(said.contains("a restart undoes it") && said.contains("audit.jsonl"), "{said}");
        // Who looks later is told, too, until it is written.
        assert!(!ledger.again());
        fs::create_dir(&gone).unwrap();
        assert!(ledger.again());
        assert!(ledger.unwritten().borrow().is_none());
        assert_eq!(ledger.standing().unwrap(), [frozen]);
    }

    /// What others ordered takes the place of what stood here, or none does; what stays is not written again.
    #[test]
    fn what_stands_elsewhere_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (here, again) = (Ledger::of(folder.path()), Ledger::of(folder.path()));
        let frozen = act(Order::Freeze { reason: None });
        let blocked = act(Order::Block { application: "a".into(), reason: None });
        here.note(&frozen, Ok(std::slice::from_ref(&frozen)));
        for elsewhere in [vec![frozen, blocked], vec![]] {
            again.copy(&elsewhere);
            assert_eq!(here.standing().unwrap(), elsewhere);
            // What is no file could not be replaced by one.
            let file = folder.path().join("orders.new");
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            again.copy(&elsewhere);
            assert!(again.unwritten().borrow().is_none());
            fs::remove_dir(&file).unwrap();
        }
        // What is damaged is mended.
        fs::write(folder.path().join("orders.json"), "[").unwrap();
        again.copy(&[]);
        assert_eq!(here.standing().unwrap(), []);
    }

    /// What is written takes the place of what kept it.
    #[test]
    fn room_is_kept_for_an_order() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(folder.path());
        let room = || fs::metadata(folder.path().join("orders.new")).unwrap().len();
        assert_eq!(room(), ROOM as u64);
        let frozen = act(Order::Freeze { reason: None });
        ledger.note(&frozen, Ok(std::slice::from_ref(&frozen)));
        let written = fs::metadata(folder.path().join("orders.json")).unwrap().len();
        assert_eq!((room(), written), (ROOM as u64, ROOM as u64));
        assert_eq!(ledger.standing().unwrap(), [frozen]);
    }
}
