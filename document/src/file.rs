//! Reading a document's file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::DocumentError;

/// What errors call the file at `path`, and what is in it: at most `most` octets.
///
/// # Errors
/// It can't be read, is too large, or isn't UTF-8.
pub fn text_of(path: &Path, most: u64) -> Result<(String, String), DocumentError> {
    let file = path.display().to_string();
    let wrong = |what: String| DocumentError::new(&file, "", what);
    let unreadable = |error| wrong(format!("can't be read: {error}; check path and permissions"));
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(unreadable)?;
    opened.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(wrong(format!("is larger than {most} bytes; is it the right file?")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| wrong("isn't UTF-8; is it the right file?".to_owned()))?;
    Ok((file, text))
}
