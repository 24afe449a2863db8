//! Reading a document's file.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::DocumentError;

/// What errors call the file at `path`, and its text of at most `most` octets.
///
/// # Errors
/// The file can't be read, is larger, or isn't UTF-8.
pub fn text_of(path: &Path, most: u64) -> Result<(String, String), DocumentError> {
    let file = path.display().to_string();
    let wrong = |what: &str| DocumentError::new(&file, "", what);
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => wrong("there is no such file; check the path"),
        ErrorKind::IsADirectory => wrong("is a directory; name a file in it"),
        ErrorKind::PermissionDenied => wrong("may not be read; grant the permission"),
        _ => wrong(&format!("can't be read: {error}")),
    };
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(unreadable)?;
    opened.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(wrong(&format!("is larger than {most} bytes; is it the right file?")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(&format!("isn't UTF-8 from byte {at} on; is it the right file?"))
    })?;
    Ok((file, text))
}
