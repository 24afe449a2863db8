//! Lines of JSON, one value each. An empty line is a sign of life.

use std::io::ErrorKind;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Who has said nothing for so long gives a sign of life.
pub const ALIVE: Duration = Duration::from_secs(5);

/// Why a line could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The connection failed, or ended within a line.
    #[error("the connection failed: {}", crate::tls::why_lost(.0))]
    Io(#[from] std::io::Error),
    /// The line is longer than the bound.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// The line isn't what it should be.
    #[error("a line is not as this version writes it; run both ends in one version ({0})")]
    Json(#[from] serde_json::Error),
}

/// Reads the lines of a connection.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    most: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of at most `most` octets.
    pub const fn new(reader: R, most: usize) -> Self {
        Self { reader, line: Vec::new(), most }
    }

    /// The next value; `None` at the end of the connection. An empty line gives `Some(None)`.
    ///
    /// May be cancelled: what was read of a line stays.
    ///
    /// # Errors
    /// A broken connection, a line that is too long or not the value expected.
    #[allow(clippy::option_option)] // the end, a sign of life, a value
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Option<T>>, LineError> {
        let room = (self.most + 1).saturating_sub(self.line.len());
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        match (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await {
            // A process that ends takes no leave of TLS; a line that is cut short is told below.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            read => drop(read?),
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') {
            if self.line.len() > self.most {
                return Err(LineError::TooLong(self.most));
            }
            return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let line = self.line.trim_ascii();
        let value = if line.is_empty() { Ok(None) } else { serde_json::from_slice(line).map(Some) };
        self.line.clear();
        Ok(Some(value?))
    }
}

/// Appends `value` as a line.
///
/// # Errors
/// A value that JSON can't express.
pub fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *out, value)?;
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, BufReader, ReadBuf};

    use super::*;

    /// What TLS says when its peer is gone without a word.
    struct Gone;

    impl AsyncRead for Gone {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(ErrorKind::UnexpectedEof.into()))
        }
    }

    /// Messages have no fields that one end alone knows: both are of one version.
    #[tokio::test]
    async fn what_another_version_says_is_called_that() {
        let said = b"{\"type\":\"applied\",\"epoch\":1,\"sequence\":1,\"more\":0}\n";
        let mut lines = Lines::new(BufReader::new(&said[..]), 99);
        let error = lines.next::<protocol::agent::Report>().await.unwrap_err().to_string();
        assert!(error.contains("run both ends in one version (unknown field `more`"), "{error}");
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_has_ended_unless_within_a_line() {
        for (said, whole) in [("1\n\n", true), ("1\n\n2", false)] {
            let mut lines = Lines::new(BufReader::new(said.as_bytes().chain(Gone)), 9);
            assert_eq!(lines.next::<u8>().await.unwrap(), Some(Some(1)));
            assert_eq!(lines.next::<u8>().await.unwrap(), Some(None));
            match lines.next::<u8>().await {
                Ok(end) => assert!(whole && end.is_none()),
                Err(error) => assert!(!whole && matches!(error, LineError::Io(_)), "{error}"),
            }
        }
    }
}
