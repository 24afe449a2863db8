//! What a command writes goes over nothing that it reads, and over nothing else that isn't its own, unless it is told to.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::failure::Failure;

/// So many octets say what a file is.
const ENOUGH: u64 = 4096;

/// Refuses to write a file, which `option` names, over one of those that are `read`, whatever they are called.
pub(crate) fn spare<'a>(
    option: &str,
    file: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let found = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let Some(target) = found(file) else { return Ok(()) };
    match read.into_iter().find(|one| found(one) == Some(target)) {
        Some(one) => Err(Failure::misused(format_args!(
            "{option}: {} would be written over {}, which is read; name another place",
            file.display(),
            one.display()
        ))),
        None => Ok(()),
    }
}

/// What a file begins with, where something is lost when it is written over.
pub(crate) fn begins(file: &Path) -> Option<Vec<u8>> {
    let found = fs::metadata(file).ok()?;
    let holds = found.is_file() && found.len() > 0;
    holds.then(|| {
        let mut begins = Vec::new();
        let read = File::open(file).and_then(|file| file.take(ENOUGH).read_to_end(&mut begins));
        // What can't be read is nobody's own.
        read.map_or_else(|_| Vec::new(), |_| begins)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn nothing_that_is_read_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let [own, link, hard, other] =
            ["own", "link", "hard", "other"].map(|name| folder.path().join(name));
        fs::write(&own, "read").unwrap();
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        fs::hard_link(&own, &hard).unwrap();
        for file in [&own, &link, &hard, &folder.path().join("./own")] {
            let refused = spare("--out", file, [&*other, &*own]);
            assert!(refused.unwrap_err().into_text().contains("which is read"), "{file:?}");
        }
        for file in [&other, &folder.path().join("none")] {
            assert!(spare("--out", file, [&*own]).is_ok(), "{file:?}");
        }
        assert_eq!((begins(&own), begins(&other)), (Some(b"read".to_vec()), None));
    }
}
