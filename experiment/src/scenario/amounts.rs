//! Amounts and files that workloads name, within their bounds.

use std::path::{Path, PathBuf};

use document::DocumentError;
use document::fields::{Value, between};
use units::{Bytes, Span};

type Read<T> = Result<T, DocumentError>;

/// Longest time.
const LONGEST: Span = Span::from_secs(3_600_000);
/// Most octets: a petabyte.
const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);

/// At least one.
pub(super) fn count(value: &Value<'_>) -> Read<u32> {
    value.integer(1..=u32::MAX)
}

/// At least one octet.
pub(super) fn bytes(value: &Value<'_>) -> Read<Bytes> {
    between(value, Bytes::new(1), LARGEST)
}

/// At most [`LONGEST`].
pub(super) fn span(value: &Value<'_>) -> Read<Span> {
    between(value, Span::ZERO, LONGEST)
}

/// The path of a file, looked up from `folder`.
pub(super) fn file(value: &Value<'_>, folder: &Path) -> Read<PathBuf> {
    let text = value.text()?;
    if text.is_empty() || text.contains('\0') {
        return Err(value.error("is no path; name a file"));
    }
    Ok(folder.join(text))
}
