//! What clients say: memcached's text and meta commands (memcached's `doc/protocol.txt`), without I/O.

use bytes::{Buf, Bytes, BytesMut};

/// Longest key, octets, as memcached has it.
const LONGEST_KEY: usize = 250;
/// Longest command line but for those with many keys, octets, as memcached has it.
const LONGEST_LINE: usize = 2048;

/// Bounds on what a client may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most keys of a command.
    pub keys: usize,
    /// Largest value, octets.
    pub item: usize,
}

/// What a server is to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One line.
    Line,
    /// What a meta command is answered with: a line, after `VA` with a value.
    Meta,
    /// The same or nothing, then `MN`.
    Quiet,
}

/// How a key is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `get`.
    Get,
    /// `gets`.
    Gets,
    /// `mg`, with its flags as they are; quiet ones say nothing of a key that is not there.
    Meta(Bytes),
}

impl Verb {
    /// Whether a meta command has the flag `q`.
    pub fn is_quiet(flags: &[u8]) -> bool {
        flags.split(u8::is_ascii_whitespace).any(|flag| flag == b"q")
    }
}

/// A key that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The key.
    pub key: Bytes,
    /// How.
    pub verb: Verb,
}

impl Query {
    /// Whether it can stand in a line of memcached's protocol.
    pub fn is_plain(&self) -> bool {
        let flags = match &self.verb {
            Verb::Get | Verb::Gets => return is_key(&self.key),
            Verb::Meta(flags) => flags,
        };
        flags.len() <= LONGEST_LINE && flags.iter().all(|octet| *octet >= b' ') && is_key(&self.key)
    }
}

/// What can be done to a key that has several copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The same at every copy.
    All,
    /// Copies would differ afterwards, or the answer depends on which was asked.
    One,
}

/// A command for the server of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The key.
    pub key: Bytes,
    /// What the server is told.
    pub octets: Bytes,
    /// What it answers with.
    pub form: Form,
    /// Whether the client wants to hear nothing.
    pub is_silent: bool,
    /// Which copies it is for.
    pub spread: Spread,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `get` and `gets`: values, then `END`.
    Get(Vec<Query>),
    /// `mg`.
    Meta(Query),
    /// `gat` and `gats`: each key is asked for at its server with this beginning of a line.
    Touch(Bytes, Vec<Bytes>),
    /// For one key's server.
    Pass(Pass),
    /// `flush_all`, for every server, and whether the client wants to hear nothing.
    Flush(Bytes, bool),
    /// `mn`.
    NoOp,
    /// `version`.
    Version,
    /// `stats`, with what.
    Stats(Bytes),
    /// Answered with a fixed line, or with nothing.
    Said(&'static str),
    /// `quit`.
    Quit,
    /// Nothing that follows can be understood: this is said, and the connection ends.
    Fatal(&'static str),
}

const ERROR: &str = "ERROR\r\n";
const FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
const CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
const LONG: &str = "CLIENT_ERROR line too long\r\n";
const MANY: &str = "CLIENT_ERROR too many keys\r\n";
const BINARY: &str = "CLIENT_ERROR the binary protocol is not supported\r\n";
const BASE64: &str = "CLIENT_ERROR keys in base64 are not supported\r\n";
const REFUSED: &str = "CLIENT_ERROR not supported by a gathering front end\r\n";

/// Reads commands from what a client sends.
#[derive(Debug)]
pub struct Parser {
    bounds: Bounds,
    /// Octets of a value too large that are still to come.
    skip: usize,
    /// What was looked through for the end of a line.
    seen: usize,
}

impl Parser {
    /// For a new connection.
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, skip: 0, seen: 0 }
    }

    /// Most octets that wait in `buffer` before a command is whole or refused.
    pub const fn most(&self) -> usize {
        let keys = LONGEST_LINE + self.bounds.keys * (LONGEST_KEY + 1);
        let value = LONGEST_LINE + self.bounds.item + 2;
        if keys > value { keys } else { value }
    }

    /// Takes the next command out of `buffer`; `None` until more has come.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Command> {
        if self.skip > 0 {
            let gone = self.skip.min(buffer.len());
            buffer.advance(gone);
            self.skip -= gone;
            if self.skip > 0 {
                return None;
            }
        }
        if buffer.first() == Some(&0x80) {
            return Some(Command::Fatal(BINARY));
        }
        let many = buffer.starts_with(b"get") || buffer.starts_with(b"gat");
        let most = if many { self.most() } else { LONGEST_LINE };
        let end = buffer[self.seen.min(buffer.len())..].iter().position(|octet| *octet == b'\n');
        let Some(end) = end.map(|end| end + self.seen).filter(|end| *end < most) else {
            self.seen = buffer.len();
            return (end.is_some() || buffer.len() >= most).then_some(Command::Fatal(LONG));
        };
        self.seen = 0;
        let line = &buffer[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut words = line.split(|octet| *octet == b' ').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let words: Vec<&[u8]> = words.take(self.bounds.keys + 2).collect();
        let value = match value_of(&name, &words) {
            None => None,
            Some(Err(said)) => {
                buffer.advance(end + 1);
                return Some(Command::Said(said));
            }
            Some(Ok(size)) if size > self.bounds.item => {
                buffer.advance(end + 1);
                self.skip = size.saturating_add(2);
                // What is silent is told too, as memcached does.
                return Some(Command::Said(LARGE));
            }
            Some(Ok(size)) => {
                if buffer.len() < end + 1 + size + 2 {
                    self.seen = end;
                    return None;
                }
                if &buffer[end + 1 + size..end + 1 + size + 2] != b"\r\n" {
                    return Some(Command::Fatal(CHUNK));
                }
                Some(end + 1..end + 1 + size + 2)
            }
        };
        let command = self.read(&name, &words, value.clone().map(|range| &buffer[range]));
        buffer.advance(value.map_or(end + 1, |range| range.end));
        Some(command)
    }

    fn read(&self, name: &[u8], words: &[&[u8]], value: Option<&[u8]>) -> Command {
        match name {
            b"get" | b"gets" => match self.keys(words) {
                Ok(keys) => {
                    let verb = if name == b"get" { Verb::Get } else { Verb::Gets };
                    let query = |key| Query { key, verb: verb.clone() };
                    Command::Get(keys.into_iter().map(query).collect())
                }
                Err(said) => Command::Said(said),
            },
            b"gat" | b"gats" => {
                let Some((time, keys)) = words.split_first() else { return Command::Said(ERROR) };
                if !is_number(time) {
                    return Command::Said("CLIENT_ERROR invalid exptime argument\r\n");
                }
                match self.keys(keys) {
                    Ok(keys) => Command::Touch([name, b" ", time].concat().into(), keys),
                    Err(said) => Command::Said(said),
                }
            }
            b"mg" | b"ms" | b"md" | b"ma" | b"me" => meta(name, words, value),
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
                store(name, words, value)
            }
            b"delete" | b"touch" | b"incr" | b"decr" => change(name, words),
            b"flush_all" => {
                let (words, is_silent) = silent(words);
                match words {
                    [] => Command::Flush(Bytes::from_static(b"flush_all\r\n"), is_silent),
                    [delay] if is_number(delay) => {
                        let line = [b"flush_all ", *delay, b"\r\n"].concat();
                        Command::Flush(line.into(), is_silent)
                    }
                    _ => Command::Said(FORMAT),
                }
            }
            b"mn" => Command::NoOp,
            b"version" => Command::Version,
            b"stats" => Command::Stats(Bytes::copy_from_slice(words.first().unwrap_or(&&b""[..]))),
            b"verbosity" => match silent(words) {
                (_, true) => Command::Said(""),
                ([_, ..], _) => Command::Said("OK\r\n"),
                _ => Command::Said(ERROR),
            },
            b"quit" => Command::Quit,
            b"shutdown" | b"slabs" | b"lru" | b"lru_crawler" | b"watch" | b"cache_memlimit"
            | b"refresh_certs" | b"debug" | b"extstore" => Command::Said(REFUSED),
            _ => Command::Said(ERROR),
        }
    }

    fn keys(&self, words: &[&[u8]]) -> Result<Vec<Bytes>, &'static str> {
        match words {
            [] => Err(ERROR),
            keys if keys.len() > self.bounds.keys => Err(MANY),
            keys if keys.iter().all(|key| is_key(key)) => {
                Ok(keys.iter().map(|key| Bytes::copy_from_slice(key)).collect())
            }
            _ => Err(FORMAT),
        }
    }
}

/// How large a value follows the line; `None` where none does.
fn value_of(name: &[u8], words: &[&[u8]]) -> Option<Result<usize, &'static str>> {
    let place = match name {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => 3,
        b"ms" => 1,
        _ => return None,
    };
    let Some(size) = words.get(place) else { return Some(Err(ERROR)) };
    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse::<usize>().ok());
    // As far as memcached reads it too.
    Some(size.filter(|size| *size <= i32::MAX as usize).ok_or(FORMAT))
}

fn is_key(key: &[u8]) -> bool {
    (1..=LONGEST_KEY).contains(&key.len()) && key.iter().all(|octet| *octet > b' ' && *octet != 127)
}

fn is_number(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// The words without `noreply` at their end, and whether it was there.
fn silent<'a, 'b>(words: &'a [&'b [u8]]) -> (&'a [&'b [u8]], bool) {
    match words.split_last() {
        Some((&b"noreply", rest)) => (rest, true),
        _ => (words, false),
    }
}

fn line(name: &[u8], words: &[&[u8]], value: Option<&[u8]>) -> Bytes {
    let mut octets = BytesMut::from(name);
    for word in words {
        octets.extend_from_slice(b" ");
        octets.extend_from_slice(word);
    }
    octets.extend_from_slice(b"\r\n");
    octets.extend_from_slice(value.unwrap_or_default());
    octets.freeze()
}

fn store(name: &[u8], words: &[&[u8]], value: Option<&[u8]>) -> Command {
    let (words, is_silent) = silent(words);
    let numbers = if name == b"cas" { 4 } else { 3 };
    let [key, given @ ..] = words else { return Command::Said(ERROR) };
    if !is_key(key) || given.len() != numbers || !given.iter().all(|word| is_number(word)) {
        return Command::Said(FORMAT);
    }
    Command::Pass(Pass {
        key: Bytes::copy_from_slice(key),
        octets: line(name, words, value),
        form: Form::Line,
        is_silent,
        spread: if name == b"set" { Spread::All } else { Spread::One },
    })
}

fn change(name: &[u8], words: &[&[u8]]) -> Command {
    let (words, is_silent) = silent(words);
    let [key, given @ ..] = words else { return Command::Said(ERROR) };
    let is_whole = match name {
        // A time of zero is what old clients add.
        b"delete" => given.is_empty() || given == [b"0"],
        _ => given.len() == 1,
    };
    if !is_whole {
        return Command::Said(if name == b"delete" { DELETE } else { ERROR });
    }
    if !is_key(key) {
        return Command::Said(FORMAT);
    }
    Command::Pass(Pass {
        key: Bytes::copy_from_slice(key),
        octets: line(name, words, None),
        form: Form::Line,
        is_silent,
        spread: if matches!(name, b"delete" | b"touch") { Spread::All } else { Spread::One },
    })
}

const DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";

fn meta(name: &[u8], words: &[&[u8]], value: Option<&[u8]>) -> Command {
    let [key, given @ ..] = words else { return Command::Said(ERROR) };
    if !is_key(key) || given.len() > 64 {
        return Command::Said(FORMAT);
    }
    let flags = if name == b"ms" { &given[1..] } else { given };
    if flags.contains(&&b"b"[..]) {
        return Command::Said(BASE64);
    }
    let key = Bytes::copy_from_slice(key);
    let is_quiet = flags.contains(&&b"q"[..]);
    // What changes an item is said once, to its own server.
    let changes = |flag: &&[u8]| matches!(flag.first(), Some(b'N' | b'R' | b'T' | b'E'));
    if name == b"mg" && !flags.iter().any(changes) {
        return Command::Meta(Query { key, verb: Verb::Meta(flags.join(&b' ').into()) });
    }
    // A mode, a condition or a wish for what only one server knows makes copies differ.
    let differs = |flag: &&&[u8]| matches!(flag.first(), Some(b'M' | b'C' | b'E' | b'I' | b'c'));
    let is_same = matches!(name, b"ms" | b"md") && !flags.iter().any(|flag| differs(&flag));
    let mut octets = BytesMut::from(&line(name, words, value)[..]);
    if is_quiet {
        octets.extend_from_slice(b"mn\r\n");
    }
    Command::Pass(Pass {
        key,
        octets: octets.freeze(),
        form: if is_quiet { Form::Quiet } else { Form::Meta },
        is_silent: false,
        spread: if is_same { Spread::All } else { Spread::One },
    })
}
