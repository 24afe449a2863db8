//! Reading and writing big-endian structures, and lists of them, without copying.
//!
//! Everything that a peer can send passes through [`Reader`], which can't read past its end, and
//! [`List`], which demands that every item takes at least one byte. So no decoder can loop or grow.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use units::Span;

/// Why bytes are not an OpenFlow message: the structure, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The innermost structure that could not be read.
    pub part: Part,
    /// What is wrong with it.
    pub fault: Fault,
}

/// The structure in which a fault was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The message header or a fixed part of a message.
    Message,
    /// A match, or a field in it.
    Match,
    /// An action.
    Action,
    /// An instruction.
    Instruction,
    /// A bucket of a group.
    Bucket,
    /// A band of a meter.
    Band,
    /// An entry of a multipart request or reply.
    Multipart,
    /// A queue or one of its properties.
    Queue,
    /// An element of a hello.
    Hello,
}

/// What is wrong with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end before the structure does.
    Truncated,
    /// A length field is below the structure's least size, beyond its container or unaligned.
    Length,
    /// A version that isn't 1.3.
    Version,
    /// A type that this crate doesn't know.
    Type,
}

impl Malformed {
    pub(crate) const fn new(part: Part, fault: Fault) -> Self {
        Self { part, fault }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Message => "message",
            Part::Match => "match",
            Part::Action => "action",
            Part::Instruction => "instruction",
            Part::Bucket => "group bucket",
            Part::Band => "meter band",
            Part::Multipart => "multipart entry",
            Part::Queue => "queue description",
            Part::Hello => "hello element",
        };
        let fault = match self.fault {
            Fault::Truncated => "ends too early",
            Fault::Length => "has an impossible length",
            Fault::Version => "is not of OpenFlow 1.3",
            Fault::Type => "has an unknown type",
        };
        write!(f, "{part} {fault}")
    }
}

impl core::error::Error for Malformed {}

/// What is left to read of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    part: Part,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(rest: &'a [u8], part: Part) -> Self {
        Self { rest, part }
    }

    pub(crate) const fn fault(&self, fault: Fault) -> Malformed {
        Malformed::new(self.part, fault)
    }

    /// The same bytes, read as another structure.
    pub(crate) const fn part(&mut self, part: Part) -> &mut Self {
        self.part = part;
        self
    }

    pub(crate) const fn kind(&self) -> Part {
        self.part
    }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(self.fault(Fault::Truncated))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.take(count).map(|_| ())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(self.fault(Fault::Truncated))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// The structure that starts here and says, at `offset`, that it has so many bytes: all of
    /// them, at least `least`, a multiple of `align`.
    pub(crate) fn sized(
        &mut self,
        offset: usize,
        least: usize,
        align: usize,
    ) -> Result<Self, Malformed> {
        let mut at = *self;
        at.skip(offset)?;
        let length = usize::from(at.u16()?);
        if length < least || length > self.len() || !length.is_multiple_of(align) {
            return Err(self.fault(Fault::Length));
        }
        Ok(Self::new(self.take(length)?, self.part))
    }
}

/// A structure that stands in lists. Implemented by the structures of this crate alone.
pub trait Item<'a>: Copy {
    #[doc(hidden)]
    const PART: Part;
    #[doc(hidden)]
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed>;
    #[doc(hidden)]
    fn encode(&self, out: &mut Vec<u8>);
}

/// A list of structures: either borrowed values, or bytes that were checked when they arrived and
/// are read again at each iteration. Neither allocates.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    content: Content<'a, T>,
}

#[derive(Clone, Copy)]
enum Content<'a, T> {
    Items(&'a [T]),
    Wire(&'a [u8], PhantomData<T>),
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// A list of nothing.
    pub const EMPTY: Self = Self { content: Content::Items(&[]) };

    /// A list of these items.
    pub const fn of(items: &'a [T]) -> Self {
        Self { content: Content::Items(items) }
    }

    /// All that `from` has left, as items.
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let bytes = from.rest();
        let mut items = Reader::new(bytes, T::PART);
        while items.len() > 0 {
            let before = items.len();
            T::decode(&mut items)?;
            if items.len() >= before {
                return Err(items.fault(Fault::Length));
            }
        }
        Ok(Self { content: Content::Wire(bytes, PhantomData) })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for item in self.iter() {
            item.encode(out);
        }
    }

    /// The items in order.
    pub fn iter(&self) -> Iter<'a, T> {
        match self.content {
            Content::Items(items) => Iter { items, wire: Reader::new(&[], T::PART) },
            Content::Wire(bytes, _) => Iter { items: &[], wire: Reader::new(bytes, T::PART) },
        }
    }

    /// True when there are no items.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<'a, T: Item<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Item<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The items of a [`List`].
#[derive(Clone, Debug)]
pub struct Iter<'a, T> {
    items: &'a [T],
    wire: Reader<'a>,
}

impl<'a, T: Item<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some((first, rest)) = self.items.split_first() {
            self.items = rest;
            return Some(*first);
        }
        if self.wire.len() == 0 {
            return None;
        }
        // The bytes were read without error before.
        T::decode(&mut self.wire).ok()
    }
}

/// Appends zeros.
pub(crate) fn pad(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}

/// Appends a structure and writes its length in bytes `offset` bytes after its start, then pads it
/// to a multiple of `align` bytes; the length counts the padding when `counted`.
///
/// A length that doesn't fit belongs to a message that doesn't fit either, which
/// [`Message::encode`](crate::Message::encode) refuses.
pub(crate) fn sized(
    out: &mut Vec<u8>,
    offset: usize,
    align: usize,
    counted: bool,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    write(out);
    let bare = out.len() - start;
    pad(out, bare.next_multiple_of(align) - bare);
    let length = if counted { out.len() - start } else { bare };
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    out[start + offset..start + offset + 2].copy_from_slice(&length.to_be_bytes());
}

/// Appends values, big-endian.
macro_rules! put {
    ($out:expr, $($value:expr),+ $(,)?) => {
        { $($crate::wire::Plain::put($value, $out);)+ }
    };
}
pub(crate) use put;

/// A value of fixed size.
pub(crate) trait Plain: Copy {
    fn get(from: &mut Reader<'_>) -> Result<Self, Malformed>;
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! plain_integer {
    ($($integer:ty),+) => {
        $(impl Plain for $integer {
            fn get(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.array().map(Self::from_be_bytes)
            }

            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        })+
    };
}
plain_integer!(u8, u16, u32, u64);

impl<const N: usize> Plain for [u8; N] {
    fn get(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array()
    }

    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self);
    }
}

impl Plain for [u32; 4] {
    fn get(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok([from.u32()?, from.u32()?, from.u32()?, from.u32()?])
    }

    fn put(self, out: &mut Vec<u8>) {
        for number in self {
            number.put(out);
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Seconds and the nanoseconds beyond them, as in every statistic that has a duration.
impl Plain for Span {
    fn get(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        // All ones, for a duration that a switch doesn't know, become the longest one.
        let (seconds, nanos) = (from.u32()?, u64::from(from.u32()?).min(NS_PER_S - 1));
        Ok(Self::from_nanos(u64::from(seconds) * NS_PER_S + nanos))
    }

    fn put(self, out: &mut Vec<u8>) {
        let seconds = u32::try_from(self.as_nanos() / NS_PER_S).unwrap_or(u32::MAX);
        // What remains of a division by 10⁹ is below 2³².
        #[allow(clippy::cast_possible_truncation)]
        let nanos = (self.as_nanos() % NS_PER_S) as u32;
        put!(out, seconds, nanos);
    }
}

/// What a message or a multipart says, to its end.
pub(crate) trait Body<'a>: Sized {
    fn decode_body(from: &mut Reader<'a>) -> Result<Self, Malformed>;
    fn encode_body(&self, out: &mut Vec<u8>);
}

impl<'a, T: Plain> Body<'a> for T {
    fn decode_body(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Self::get(from)
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        self.put(out);
    }
}

impl<'a, T: Item<'a>> Body<'a> for List<'a, T> {
    fn decode_body(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Self::decode(from)
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

/// A structure of fixed size: its fields in the order of the wire, each with the padding after it.
macro_rules! plain {
    ($(#[$doc:meta])* $name:ident in $part:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty $(, pad $pad:literal)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl $crate::wire::Plain for $name {
            fn get(from: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::Malformed> {
                Ok(Self {
                    $($field: {
                        let value = $crate::wire::Plain::get(from)?;
                        $(from.skip($pad)?;)?
                        value
                    },)*
                })
            }

            fn put(self, out: &mut alloc::vec::Vec<u8>) {
                $($crate::wire::Plain::put(self.$field, out); $($crate::wire::pad(out, $pad);)?)*
            }
        }

        impl<'a> $crate::wire::Item<'a> for $name {
            const PART: $crate::wire::Part = $crate::wire::Part::$part;

            fn decode(from: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::Malformed> {
                $crate::wire::Plain::get(from)
            }

            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $crate::wire::Plain::put(*self, out);
            }
        }
    };
}
pub(crate) use plain;

/// A structure that ends with a match or a list: its fields of fixed size in the order of the wire, each with the
/// padding after it, then these. One that stands in lists says, at an offset, how long it is, of at least so many
/// bytes; `lead` are those before its first field.
macro_rules! growing {
    ($(#[$doc:meta])* $name:ident $(in $part:ident, length at $at:literal, least $least:literal, lead $lead:literal)? {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty $(, pad $pad:literal)?;)*
    } $(match { $(#[$match_doc:meta])* $matched:ident; })?
    $(list { $(#[$list_doc:meta])* $list:ident: $item:ty; })?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> {
            $($(#[$field_doc])* pub $field: $kind,)*
            $($(#[$match_doc])* pub $matched: $crate::oxm::Match<'a>,)?
            $($(#[$list_doc])* pub $list: $crate::wire::List<'a, $item>,)?
        }

        impl<'a> $crate::wire::Body<'a> for $name<'a> {
            fn decode_body(from: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::Malformed> {
                Ok(Self {
                    $($field: {
                        let value = $crate::wire::Plain::get(from)?;
                        $(from.skip($pad)?;)?
                        value
                    },)*
                    $($matched: $crate::oxm::Match::decode_match(from)?,)?
                    $($list: $crate::wire::List::decode(from)?,)?
                })
            }

            fn encode_body(&self, out: &mut alloc::vec::Vec<u8>) {
                $($crate::wire::Plain::put(self.$field, out); $($crate::wire::pad(out, $pad);)?)*
                $(self.$matched.encode_match(out);)?
                $(self.$list.encode(out);)?
            }
        }

        $(impl<'a> $crate::wire::Item<'a> for $name<'a> {
            const PART: $crate::wire::Part = $crate::wire::Part::$part;

            fn decode(from: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::Malformed> {
                let from = &mut from.part(Self::PART).sized($at, $least, 8)?;
                from.skip($lead)?;
                $crate::wire::Body::decode_body(from)
            }

            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $crate::wire::sized(out, $at, 8, true, |out| {
                    $crate::wire::pad(out, $lead);
                    $crate::wire::Body::encode_body(self, out);
                });
            }
        })?
    };
}
pub(crate) use growing;

/// An integer on the wire whose values have names; a value without one is kept as it is.
macro_rules! code {
    ($(#[$doc:meta])* $name:ident($integer:ident) {
        $($(#[$value_doc:meta])* $value:ident = $number:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number on the wire.
            pub $integer
        );

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*
        }

        impl $crate::wire::Plain for $name {
            fn get(from: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::Malformed> {
                $crate::wire::Plain::get(from).map(Self)
            }

            fn put(self, out: &mut alloc::vec::Vec<u8>) {
                self.0.put(out);
            }
        }
    };
}
pub(crate) use code;
