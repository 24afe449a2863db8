//! Reading and writing a number with its unit.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// Unit names with their size in the quantity's base unit.
pub(crate) type Units = &'static [(&'static str, u64)];

/// Why a quantity could not be read; the message names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    /// What it should be, with its article.
    what: &'static str,
    units: Units,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NoNumber,
    Negative,
    NoUnit,
    WrongUnit,
    TooLarge,
    NotWhole,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, what, units, fault } = self;
        match fault {
            Fault::NoNumber => write!(f, "\"{text}\" is not {what}: it has no number")?,
            Fault::Negative => write!(f, "\"{text}\" is not {what}: it is below zero")?,
            Fault::NoUnit => write!(f, "\"{text}\" is not {what}: it has no unit")?,
            Fault::WrongUnit => write!(f, "\"{text}\" is not {what}: its unit is unknown")?,
            Fault::TooLarge => write!(f, "\"{text}\" is larger than {what} can be")?,
            Fault::NotWhole => {
                return write!(
                    f,
                    "\"{text}\" is not a whole number of {}; use a smaller unit",
                    units[0].0
                );
            }
        }
        write!(f, "; write a number and one of")?;
        for (i, (name, _)) in units.iter().enumerate() {
            write!(f, "{} {name}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for ParseUnitError {}

/// Reads `text` as decimal number and unit, exactly: no floating point is involved.
pub(crate) fn quantity(
    text: &str,
    what: &'static str,
    units: Units,
) -> Result<u64, ParseUnitError> {
    let fail = |fault| ParseUnitError { text: shown(text), what, units, fault };
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !whole.contains(|c: char| c.is_ascii_digit()) || fraction.contains('.') {
        let below = trimmed.strip_prefix('-').map(str::trim_start);
        let is_below = below.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        return Err(fail(if is_below { Fault::Negative } else { Fault::NoNumber }));
    }
    if unit.is_empty() {
        return Err(fail(Fault::NoUnit));
    }
    let &(_, scale) =
        units.iter().find(|(name, _)| *name == unit).ok_or_else(|| fail(Fault::WrongUnit))?;

    let mut value: u128 = 0;
    for digit in whole.bytes().filter(u8::is_ascii_digit) {
        value = value * 10 + u128::from(digit - b'0');
        if value > u128::from(u64::MAX) {
            return Err(fail(Fault::TooLarge));
        }
    }
    value *= u128::from(scale);
    let mut place = u128::from(scale);
    for digit in fraction.bytes().filter(u8::is_ascii_digit) {
        let digit = u128::from(digit - b'0');
        if digit != 0 && !place.is_multiple_of(10) {
            return Err(fail(Fault::NotWhole));
        }
        place /= 10;
        value += digit * place;
    }
    u64::try_from(value).map_err(|_| fail(Fault::TooLarge))
}

/// The text as an error repeats it: cut, so that hostile input can't flood a terminal or a log.
fn shown(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

/// Writes `value` in the first unit that divides it, else in `base`.
pub(crate) fn write_quantity(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
    base: &str,
) -> fmt::Result {
    match units.iter().find(|(_, scale)| value != 0 && value.is_multiple_of(*scale)) {
        Some((name, scale)) => write!(f, "{} {name}", value / scale),
        None => write!(f, "{value} {base}"),
    }
}
