//! What clients say: memcached's text and meta commands (memcached's `doc/protocol.txt`), without I/O.

use std::str::FromStr;

use bytes::{Buf, Bytes, BytesMut};

/// Longest key, octets, as memcached has it.
const LONGEST_KEY: usize = 250;
/// Longest command line but for those with many keys, octets, as memcached has it.
const LONGEST_LINE: usize = 2048;
/// Most flags of a meta command, as memcached has it for `ms`. Others may have one more there.
const MOST_FLAGS: usize = 16;
/// Longest flag, octets, as memcached has it for `O`.
const LONGEST_FLAG: usize = 32;
/// Longest number, octets: memcached takes more zeros, which only make lines longer.
const LONGEST_NUMBER: usize = 20;

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
    /// Whether a meta command has the flag `q`: memcached looks at the first octet alone.
    pub fn is_quiet(flags: &[u8]) -> bool {
        flags.split(|octet| *octet == b' ').any(|flag| flag.first() == Some(&b'q'))
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
    /// Whether memcached takes it for what it is, and answers once.
    pub fn is_plain(&self) -> bool {
        let is_read = match &self.verb {
            Verb::Get | Verb::Gets => true,
            Verb::Meta(flags) => {
                are_flags(flags.split(|octet| *octet == b' ').filter(|word| !word.is_empty()))
            }
        };
        is_read && is_key(&self.key)
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
    /// A value above the bound, which is passed over. The key, where its old value is to go.
    Large(Option<Bytes>),
    /// Answered with a fixed line, or with nothing.
    Said(&'static str),
    /// `quit`.
    Quit,
    /// Nothing that follows can be understood: this is said, and the connection ends.
    Fatal(&'static str),
}

const ERROR: &str = "ERROR\r\n";
const FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
/// What is said of a value above the bound.
pub const LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
const CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
const LONG: &str = "CLIENT_ERROR line too long\r\n";
const MANY: &str = "CLIENT_ERROR too many keys\r\n";
const BINARY: &str = "CLIENT_ERROR the binary protocol is not supported\r\n";
const TIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";
const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
const FLAGS: &str = "CLIENT_ERROR too many, invalid or duplicate flags\r\n";
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
        let name = words.next().unwrap_or_default();
        let words: Vec<&[u8]> = words.take(self.bounds.keys.max(MOST_FLAGS) + 3).collect();
        let value = match value_of(name, &words) {
            None => None,
            Some(Err(said)) => {
                buffer.advance(end + 1);
                return Some(Command::Said(said));
            }
            Some(Ok(size)) if size > self.bounds.item => {
                let command = match self.read(name, &words, Some(&[])) {
                    // As memcached does: who stored it means the old value no more. What is silent is told too.
                    Command::Pass(pass) => {
                        Command::Large(matches!(name, b"set" | b"ms").then_some(pass.key))
                    }
                    refused => refused,
                };
                buffer.advance(end + 1);
                self.skip = size.saturating_add(2);
                return Some(command);
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
        let command = self.read(name, &words, value.clone().map(|range| &buffer[range]));
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
                if !is::<i32>(time) {
                    return Command::Said(TIME);
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
                    [delay] if is::<i32>(delay) => {
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
    (1..=LONGEST_KEY).contains(&key.len()) && is_text(key)
}

/// Whether a word is a number as memcached reads it. What it can't read it answers by an error, and takes the value that
/// follows for a command.
fn is<T: FromStr>(word: &[u8]) -> bool {
    word.len() <= LONGEST_NUMBER
        && std::str::from_utf8(word).is_ok_and(|word| word.parse::<T>().is_ok())
}

/// Whether a flag has behind its first octet what memcached reads there.
fn is_flag(flag: &[u8]) -> bool {
    let [first, rest @ ..] = flag else { return false };
    let is_read = match first {
        b'N' | b'R' | b'T' => is::<i32>(rest),
        b'F' => is::<u32>(rest),
        b'C' | b'D' | b'E' | b'J' => is::<u64>(rest),
        b'M' => rest.len() == 1,
        _ => true,
    };
    is_read && flag.len() <= LONGEST_FLAG && is_text(flag)
}

/// Whether these are flags as memcached reads them: by their first octets, which differ.
fn are_flags<'a>(flags: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut seen = [false; 127];
    flags.enumerate().all(|(place, flag)| {
        let first = flag.first().and_then(|first| seen.get_mut(usize::from(*first)));
        let is_new = first.is_some_and(|seen| !std::mem::replace(seen, true));
        place < MOST_FLAGS && is_new && is_flag(flag)
    })
}

fn is_text(word: &[u8]) -> bool {
    word.iter().all(|octet| *octet > b' ' && *octet != 127)
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
    // The size has been read already.
    let [key, flags, time, _, more @ ..] = words else { return Command::Said(FORMAT) };
    let is_whole = match more {
        [unique] => name == b"cas" && is::<u64>(unique),
        more => name != b"cas" && more.is_empty(),
    };
    if !is_whole || !is_key(key) || !is::<u32>(flags) || !is::<i32>(time) {
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
    let refused = match (name, given) {
        // A time of zero is what old clients add.
        (b"delete", [] | [b"0"]) => None,
        (b"delete", _) => Some(DELETE),
        (b"touch", [time]) => (!is::<i32>(time)).then_some(TIME),
        (_, [delta]) => (!is::<u64>(delta)).then_some(DELTA),
        _ => Some(ERROR),
    };
    if let Some(said) = refused {
        return Command::Said(said);
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
    if !is_key(key) {
        return Command::Said(FORMAT);
    }
    let flags = if name == b"ms" { &given[1..] } else { given };
    if !are_flags(flags.iter().copied()) {
        return Command::Said(FLAGS);
    }
    let has_one_of =
        |some: &[u8]| flags.iter().any(|flag| flag.first().is_some_and(|f| some.contains(f)));
    if has_one_of(b"b") {
        return Command::Said(BASE64);
    }
    let key = Bytes::copy_from_slice(key);
    let is_quiet = has_one_of(b"q");
    // What changes an item is said once, to its own server.
    if name == b"mg" && !has_one_of(b"NRTE") {
        return Command::Meta(Query { key, verb: Verb::Meta(flags.join(&b' ').into()) });
    }
    // A mode, a condition or a wish for what only one server knows makes copies differ.
    let is_same = matches!(name, b"ms" | b"md") && !has_one_of(b"MCEIc");
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
