//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Why a result file couldn't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write {}: {source}; make room there, or name a place that may be written to", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system or the encoder.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Lets `fill` write the file `path`: under another name in the same directory, renamed when it is
/// complete and removed when it isn't.
///
/// # Errors
/// The system's or those of `fill`; `path` is then as it was before.
pub(crate) fn write_whole<E>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), WriteError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // Two threads, or programs of two machines, may write the same file.
    let drawn = RandomState::new().hash_one(());
    name.push(format!(".{}-{drawn:016x}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = create(&partial, fill).and_then(|()| Ok(fs::rename(&partial, path)?));
    written.map_err(|source| {
        // The file may not exist; the error to report is the first one.
        let _ = fs::remove_file(&partial);
        WriteError { path: path.to_owned(), source }
    })
}

fn create<E>(
    partial: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut file = BufWriter::new(File::create(partial)?);
    fill(&mut file).map_err(Into::into)?;
    file.into_inner().map_err(io::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn many_may_write_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        write_whole(&path, |file| file.write_all(b"the same")).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read(&path).unwrap(), b"the same");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
