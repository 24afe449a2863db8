//! What memcached answers, without I/O.

use bytes::{Buf, Bytes, BytesMut};

use crate::command::Form;

/// Longest line of an answer, octets.
const LONGEST_LINE: usize = 4096;
/// Largest value that memcached can have, octets.
const LARGEST: usize = 1 << 30;
/// What ends a quiet answer.
const NO_OP: &[u8] = b"MN\r\n";

/// Why what a server says can't be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// A line without end.
    #[error("a line of its answer is too long")]
    Line,
    /// Anything else.
    #[error("its answer is not memcached's")]
    Strange,
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `VALUE`: the key, and what follows it: flags, size and value.
    Value(Bytes, Bytes),
    /// A value beyond the bound: its key, unless a meta command was answered, and how many octets follow that are to be
    /// passed over.
    Large(Bytes, usize),
    /// The end of values.
    End,
    /// An answer as it is, or an error in the place of values.
    Whole(Bytes),
}

type Next = Result<Option<Answer>, AnswerError>;

/// Takes the next part of an answer with values of at most `item` octets, to `get` or its kin, out of `buffer`; `None`
/// until more has come.
pub fn values(buffer: &mut BytesMut, item: usize) -> Next {
    let Some(end) = end_of_line(buffer)? else { return Ok(None) };
    let line = &buffer[..end - 2];
    if line == b"END" {
        buffer.advance(end);
        return Ok(Some(Answer::End));
    }
    if !line.starts_with(b"VALUE ") {
        return is_error(line)
            .then(|| Some(Answer::Whole(buffer.split_to(end).freeze())))
            .ok_or(AnswerError::Strange);
    }
    let mut words = line.split(|octet| *octet == b' ').skip(1);
    let key = words.next().filter(|key| !key.is_empty()).ok_or(AnswerError::Strange)?.len();
    let size = number(words.nth(1).ok_or(AnswerError::Strange)?)?;
    if size > item {
        let mut line = buffer.split_to(end).freeze();
        line.advance(b"VALUE ".len());
        return Ok(Some(Answer::Large(line.split_to(key), size + 2)));
    }
    let Some(mut octets) = value(buffer, end, size)? else { return Ok(None) };
    octets.advance(b"VALUE ".len());
    let key = octets.split_to(key);
    octets.advance(1);
    Ok(Some(Answer::Value(key, octets)))
}

/// Takes a whole answer of another command out of `buffer`; `None` until more has come.
pub fn whole(buffer: &mut BytesMut, form: Form, item: usize) -> Next {
    let Some(end) = end_of_line(buffer)? else { return Ok(None) };
    let line = &buffer[..end - 2];
    if form == Form::Quiet && line == b"MN" {
        buffer.advance(end);
        return Ok(Some(Answer::Whole(Bytes::new())));
    }
    let octets = if form != Form::Line && line.starts_with(b"VA ") {
        let size = line[3..].split(|octet| *octet == b' ').next().unwrap_or_default();
        let size = number(size)?;
        if size > item {
            buffer.advance(end);
            let more = if form == Form::Quiet { NO_OP.len() } else { 0 };
            return Ok(Some(Answer::Large(Bytes::new(), size + 2 + more)));
        }
        // The value is looked at in place: what is quiet ends with one line more.
        if buffer.len() < end + size + 2 {
            return Ok(None);
        }
        end + size + 2
    } else {
        end
    };
    if octets > end && &buffer[octets - 2..octets] != b"\r\n" {
        return Err(AnswerError::Strange);
    }
    if form != Form::Quiet {
        return Ok(Some(Answer::Whole(buffer.split_to(octets).freeze())));
    }
    match buffer.get(octets..octets + NO_OP.len()) {
        None => Ok(None),
        Some(NO_OP) => {
            let answer = buffer.split_to(octets).freeze();
            buffer.advance(NO_OP.len());
            Ok(Some(Answer::Whole(answer)))
        }
        // An error answered the line, or its value was taken for a line.
        Some(_) => Err(AnswerError::Strange),
    }
}

fn is_error(line: &[u8]) -> bool {
    line == b"ERROR" || line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR")
}

fn end_of_line(buffer: &[u8]) -> Result<Option<usize>, AnswerError> {
    let seen = &buffer[..buffer.len().min(LONGEST_LINE)];
    match seen.iter().position(|octet| *octet == b'\n') {
        Some(end) if end > 0 && seen[end - 1] == b'\r' => Ok(Some(end + 1)),
        Some(_) => Err(AnswerError::Strange),
        None if buffer.len() >= LONGEST_LINE => Err(AnswerError::Line),
        None => Ok(None),
    }
}

fn number(size: &[u8]) -> Result<usize, AnswerError> {
    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse::<usize>().ok());
    size.filter(|size| *size <= LARGEST).ok_or(AnswerError::Strange)
}

/// A line that ends at `end` and the value of `size` after it.
fn value(buffer: &mut BytesMut, end: usize, size: usize) -> Result<Option<Bytes>, AnswerError> {
    let all = end + size + 2;
    if buffer.len() < all {
        return Ok(None);
    }
    if &buffer[all - 2..all] != b"\r\n" {
        return Err(AnswerError::Strange);
    }
    Ok(Some(buffer.split_to(all).freeze()))
}
