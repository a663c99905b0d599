//! The meaning of a kind's values, which keywords next to the kind state: texts that are stored as
//! numbers, times in units, names of values.

use crate::calendar::{date_of, day_of};
use crate::kinds::{Kind, Len, Scalar, Type, TypeId};
use std::fmt::Write as _;
use std::sync::Arc;

/// The keyword with NumPy's name of a type.
const DESCR: &str = "numpy.descr";
/// The keyword with the names of values.
const ENUM: &str = "hdf5.enum";
/// The keyword with the precision and the scale of decimal numbers, and the one of maps.
const DECIMAL: &str = "arrow.decimal";
const MAP: &str = "arrow.map";
/// The largest number of digits of a decimal number.
const MAX_DIGITS: u8 = 38;
/// The text of a time or a duration that is not one.
const NAT: &str = "NaT";

/// The meaning of the numbers of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// Code points of a text, with zeros at the end.
    Characters,
    /// Bytes of a text, with zeros at the end.
    Bytes,
    /// A time since 1970, as a multiple of a unit.
    Time(u32, TimeUnit),
    /// A duration, likewise.
    Span(u32, TimeUnit),
    /// Numbers with names, sorted by name.
    Names(Vec<(Arc<str>, i128)>),
    /// A text that is a decimal number: the digits in all, and those after the point.
    Decimal(u8, u8),
    /// An array of structs of two members, each of which is a key with its value.
    Map,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TimeUnit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Picoseconds,
    Femtoseconds,
    Attoseconds,
}

/// The names of units in NumPy.
const UNITS: [(&str, TimeUnit); 14] = [
    ("Y", TimeUnit::Years),
    ("M", TimeUnit::Months),
    ("W", TimeUnit::Weeks),
    ("D", TimeUnit::Days),
    ("h", TimeUnit::Hours),
    ("m", TimeUnit::Minutes),
    ("s", TimeUnit::Seconds),
    ("ms", TimeUnit::Milliseconds),
    ("us", TimeUnit::Microseconds),
    ("μs", TimeUnit::Microseconds),
    ("ns", TimeUnit::Nanoseconds),
    ("ps", TimeUnit::Picoseconds),
    ("fs", TimeUnit::Femtoseconds),
    ("as", TimeUnit::Attoseconds),
];

impl TimeUnit {
    /// Returns the unit's name in NumPy.
    pub fn as_str(self) -> &'static str {
        UNITS.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Returns how many of a unit of at most a second make a second, and the digits of a fraction; otherwise the number
    /// of seconds in the unit. `None` for weeks and longer units, and for days.
    fn clock(self) -> Option<(i128, usize, i128)> {
        Some(match self {
            TimeUnit::Hours => (1, 0, 3600),
            TimeUnit::Minutes => (1, 0, 60),
            TimeUnit::Seconds => (1, 0, 1),
            TimeUnit::Milliseconds => (1_000, 3, 1),
            TimeUnit::Microseconds => (1_000_000, 6, 1),
            TimeUnit::Nanoseconds => (1_000_000_000, 9, 1),
            TimeUnit::Picoseconds => (1_000_000_000_000, 12, 1),
            TimeUnit::Femtoseconds => (1_000_000_000_000_000, 15, 1),
            TimeUnit::Attoseconds => (1_000_000_000_000_000_000, 18, 1),
            _ => return None,
        })
    }
}

impl Meaning {
    /// Returns what the keywords of a node say about values of its kind.
    pub(crate) fn from_keywords(
        node: &serde_json::Map<String, serde_json::Value>,
        kind: &Kind,
        types: &[Type],
    ) -> Option<Meaning> {
        if let (Some(names), Kind::Scalar(scalar)) = (node.get(ENUM), kind) {
            integer_width(*scalar)?;
            let name = |(name, value): (&String, &serde_json::Value)| {
                let value = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from))?;
                Some((name.as_str().into(), value))
            };
            let mut names: Vec<(Arc<str>, i128)> =
                names.as_object()?.iter().map(name).collect::<Option<_>>()?;
            holdall_collections::sort_by(&mut names, |(a, _), (b, _)| a.cmp(b));
            return Some(Meaning::Names(names));
        }
        if let (Some(decimal), Kind::String) = (node.get(DECIMAL), kind) {
            let part = |at| u8::try_from(decimal.get(at)?.as_u64()?).ok();
            let (digits, scale): (u8, u8) = (part(0)?, part(1)?);
            return (scale <= digits && digits <= MAX_DIGITS)
                .then_some(Meaning::Decimal(digits, scale));
        }
        if let (Some(serde_json::Value::Bool(true)), Kind::Array(array)) = (node.get(MAP), kind) {
            let item = usize::try_from(array.items.0).ok().and_then(|at| types.get(at))?;
            let Kind::Struct(pair) = &item.kind else { return None };
            let is_pair = pair.members.len() == 2 && pair.members.first()?.presence.is_none();
            return (is_pair && matches!(array.len, Len::Variable { .. })).then_some(Meaning::Map);
        }
        let meaning = Meaning::from_descr(node.get(DESCR)?.as_str()?)?;
        let items = |scalar: Scalar| {
            let Kind::Array(array) = kind else { return false };
            let item: Option<&Type> =
                usize::try_from(array.items.0).ok().and_then(|at| types.get(at));
            matches!(array.len, Len::Fixed(_))
                && item.is_some_and(
                    |item| matches!(&item.kind, Kind::Scalar(found) if *found == scalar),
                )
        };
        let fits = match &meaning {
            Meaning::Characters => items(Scalar::Uint32),
            Meaning::Bytes => items(Scalar::Uint8),
            Meaning::Time(..) | Meaning::Span(..) => matches!(kind, Kind::Scalar(Scalar::Int64)),
            Meaning::Names(_) | Meaning::Decimal(..) | Meaning::Map => false,
        };
        fits.then_some(meaning)
    }

    /// Returns the meaning of NumPy's type of this name: `<U5`, `|S3`, `<M8[25us]`.
    pub fn from_descr(descr: &str) -> Option<Meaning> {
        let name = descr.trim_start_matches(['<', '>', '|', '=']);
        let unit = |unit_text: &str| {
            let inside = unit_text.strip_prefix('[')?.strip_suffix(']')?;
            let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
            let (count, unit) = inside.split_at_checked(digits)?;
            let count: u32 = if count.is_empty() { 1 } else { count.parse().ok()? };
            let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
            Some((count, *unit)).filter(|(count, _)| *count > 0)
        };
        match name.split_at_checked(2) {
            Some(("M8", unit_text)) => {
                unit(unit_text).map(|(count, unit)| Meaning::Time(count, unit))
            }
            Some(("m8", unit_text)) => {
                unit(unit_text).map(|(count, unit)| Meaning::Span(count, unit))
            }
            _ if name.starts_with('U') => Some(Meaning::Characters),
            _ if name.starts_with('S') => Some(Meaning::Bytes),
            _ => None,
        }
    }

    /// Returns `true` if values are stored as numbers, which have a text.
    pub fn is_numeric(&self) -> bool {
        !matches!(self, Meaning::Decimal(..) | Meaning::Map)
    }

    /// Returns the text of a value, which has these bytes in a record; `None` if it has none: a number without a name,
    /// bytes that are not UTF-8, a time beyond all calendars.
    pub fn text(&self, kind: &Kind, bytes: &[u8]) -> Option<String> {
        match self {
            Meaning::Characters => {
                let codes: Vec<u32> =
                    bytes.as_chunks::<4>().0.iter().map(|code| u32::from_le_bytes(*code)).collect();
                let len = codes.iter().rposition(|code| *code != 0);
                let codes = codes.get(..len.map_or(0, |at| at.saturating_add(1)))?;
                codes.iter().map(|code| char::from_u32(*code)).collect()
            }
            Meaning::Bytes => Some(std::str::from_utf8(unpadded(bytes)).ok()?.to_owned()),
            Meaning::Time(count, unit) => match long(bytes)? {
                i64::MIN => Some(NAT.to_owned()),
                n => time(i128::from(n).checked_mul((*count).into())?, *unit),
            },
            Meaning::Span(count, unit) => match long(bytes)? {
                i64::MIN => Some(NAT.to_owned()),
                n => {
                    let n = i128::from(n).checked_mul((*count).into())?;
                    Some(format!("{n} {}", unit.as_str()))
                }
            },
            Meaning::Names(names) => {
                let n = integer(kind, bytes)?;
                names.iter().find(|(_, value)| *value == n).map(|(name, _)| (**name).to_owned())
            }
            Meaning::Decimal(..) | Meaning::Map => None,
        }
    }

    /// Returns the integer that a text means: a time, a duration, the name of a value, or a decimal number in units of
    /// its last digit.
    pub fn parse(&self, text: &str) -> Option<i128> {
        let whole = |n: i128, count: u32| {
            let count = i128::from(count);
            (n.checked_rem(count)? == 0).then_some(())?;
            let n = n.checked_div(count)?;
            i64::try_from(n).ok().filter(|n| *n > i64::MIN).map(i128::from)
        };
        match self {
            Meaning::Time(..) | Meaning::Span(..) if text == NAT => Some(i64::MIN.into()),
            Meaning::Time(count, unit) => whole(parse_time(text, *unit)?, *count),
            Meaning::Span(count, unit) => {
                let number = match text.split_once(' ') {
                    Some((number, name)) => (name == unit.as_str()).then_some(number)?,
                    None => text,
                };
                whole(number.parse().ok()?, *count)
            }
            Meaning::Names(names) => {
                names.iter().find(|(name, _)| **name == *text).map(|(_, value)| *value)
            }
            Meaning::Decimal(_, scale) => decimal(text, *scale),
            Meaning::Characters | Meaning::Bytes | Meaning::Map => None,
        }
    }

    /// Writes a text into the zeroed bytes of a value; `None` if it does not mean one.
    pub(crate) fn encode(&self, kind: &Kind, text: &str, out: &mut [u8]) -> Option<()> {
        match self {
            Meaning::Characters => {
                let mut places = out.as_chunks_mut::<4>().0.iter_mut();
                for c in text.chars() {
                    *places.next()? = u32::from(c).to_le_bytes();
                }
            }
            Meaning::Bytes => out.get_mut(..text.len())?.copy_from_slice(text.as_bytes()),
            Meaning::Time(..) | Meaning::Span(..) | Meaning::Names(_) => {
                let n = self.parse(text)?.to_le_bytes();
                let own = n.get(..out.len())?;
                out.copy_from_slice(own);
                // A name may have a value that is out of the range of its kind.
                (integer(kind, out) == self.parse(text)).then_some(())?;
            }
            Meaning::Decimal(..) | Meaning::Map => return None,
        }
        Some(())
    }

    /// Returns what a text should be, for messages.
    pub fn expected(&self) -> &'static str {
        match self {
            Meaning::Characters | Meaning::Bytes => "a string that is short enough",
            Meaning::Time(..) => {
                "a time, as `2024-05-01T12:00`, with no smaller unit than that of its type"
            }
            Meaning::Span(..) => "a duration, as `90 s`, in the unit of its type",
            Meaning::Names(_) => "the name of a value",
            Meaning::Decimal(..) => "a decimal number",
            Meaning::Map => "a list of keys and values",
        }
    }
}

/// Returns the bytes before the zeros at the end.
pub(crate) fn unpadded(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at.saturating_add(1));
    bytes.get(..len).unwrap_or_default()
}

/// Parses a decimal number, in units of its last digit.
fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (scale, fraction) = (usize::from(scale), fraction.trim_end_matches('0'));
    let all = format!("{whole}{fraction:0<scale$}");
    let is_number = !digits.trim_matches('.').is_empty() && all.bytes().all(|b| b.is_ascii_digit());
    (is_number && fraction.len() <= scale).then_some(())?;
    format!("0{all}").parse::<i128>().ok()?.checked_mul(sign)
}

fn long(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(*bytes.first_chunk()?))
}

/// Returns the bytes of an integer of this kind, and whether it has a sign.
fn integer_width(scalar: Scalar) -> Option<(u32, bool)> {
    Some(match scalar {
        Scalar::Int8 => (1, true),
        Scalar::Int16 => (2, true),
        Scalar::Int32 => (4, true),
        Scalar::Int64 => (8, true),
        Scalar::Uint8 => (1, false),
        Scalar::Uint16 => (2, false),
        Scalar::Uint32 => (4, false),
        Scalar::Uint64 => (8, false),
        _ => return None,
    })
}

fn integer(kind: &Kind, bytes: &[u8]) -> Option<i128> {
    let Kind::Scalar(scalar) = kind else { return None };
    let (width, is_signed) = integer_width(*scalar)?;
    let mut all = [0; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unused = 64u32.checked_sub(width.checked_mul(8)?)?;
    let bits = u64::from_le_bytes(all);
    Some(match is_signed {
        true => bits.checked_shl(unused)?.cast_signed().checked_shr(unused)?.into(),
        false => bits.into(),
    })
}

/// Formats a time since 1970 as NumPy does, with the precision of the unit.
fn time(n: i128, unit: TimeUnit) -> Option<String> {
    match unit {
        TimeUnit::Years => return Some(year(n.checked_add(1970)?)),
        TimeUnit::Months => {
            let (years, month) = (n.checked_div_euclid(12)?, n.checked_rem_euclid(12)?);
            let month = month.checked_add(1)?;
            return Some(format!("{}-{month:02}", year(years.checked_add(1970)?)));
        }
        TimeUnit::Weeks => return date(n.checked_mul(7)?),
        TimeUnit::Days => return date(n),
        _ => {}
    }
    let (per_second, digits, seconds) = unit.clock()?;
    let second = n.checked_div_euclid(per_second)?.checked_mul(seconds)?;
    let fraction = n.checked_rem_euclid(per_second)?;
    let (day, of_day) = (second.checked_div_euclid(86_400)?, second.checked_rem_euclid(86_400)?);
    let mut out = format!("{}T{:02}", date(day)?, of_day.checked_div(3600)?);
    let minutes = of_day.checked_div(60)?.checked_rem(60)?;
    if unit != TimeUnit::Hours {
        let _ = write!(out, ":{minutes:02}");
    }
    if !matches!(unit, TimeUnit::Hours | TimeUnit::Minutes) {
        let _ = write!(out, ":{:02}", of_day.checked_rem(60)?);
    }
    if digits > 0 {
        let _ = write!(out, ".{fraction:0digits$}");
    }
    Some(out)
}

/// At least four characters, including a sign.
fn year(n: i128) -> String {
    format!("{n:04}")
}

/// Formats days since 1970; `None` if they are out of NumPy's range.
fn date(days: i128) -> Option<String> {
    let (own, month, day) = date_of(i64::try_from(days).ok()?);
    Some(format!("{}-{month:02}-{day:02}", year(own.into())))
}

/// Parses a time of at most the precision of the unit, as a number of units since 1970. Parts that are missing at the
/// end are the least: `2024` is the start of that year.
fn parse_time(text: &str, unit: TimeUnit) -> Option<i128> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let (sign, digits) = match date.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, date),
    };
    let mut parts = digits.split('-');
    let mut part = |least: u8| match parts.next() {
        None => Some(i32::from(least)),
        Some(part) if part.bytes().all(|b| b.is_ascii_digit()) => part.parse::<i32>().ok(),
        Some(_) => None,
    };
    let (own_year, month, day) = (part(1)?.checked_mul(sign)?, part(1)?, part(1)?);
    parts.next().is_none().then_some(())?;
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    let days = i128::from(day_of(own_year, month, day)?);
    let (seconds, fraction) = match clock {
        None => (0, ""),
        Some(clock) => {
            let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
            let mut seconds = 0i128;
            let mut all = whole.split(':');
            for most in [24i128, 60, 60] {
                let n = match all.next() {
                    Some(part) if part.len() == 2 => part.parse::<u8>().ok()?.into(),
                    Some(_) => return None,
                    None => 0,
                };
                (n < most).then_some(())?;
                seconds = seconds.checked_mul(60)?.checked_add(n)?;
            }
            all.next().is_none().then_some((seconds, fraction))?
        }
    };
    let exact =
        |n: i128, by: i128| (n.checked_rem_euclid(by)? == 0).then(|| n.checked_div_euclid(by))?;
    let is_midnight = seconds == 0 && fraction.bytes().all(|b| b == b'0');
    let Some((per_second, places, each)) = unit.clock() else {
        is_midnight.then_some(())?;
        let months = || {
            let years = i128::from(own_year).checked_sub(1970)?;
            years.checked_mul(12)?.checked_add(i128::from(month).checked_sub(1)?)
        };
        return match unit {
            TimeUnit::Years if (month, day) == (1, 1) => exact(months()?, 12),
            TimeUnit::Months if day == 1 => months(),
            TimeUnit::Weeks => exact(days, 7),
            TimeUnit::Days => Some(days),
            _ => None,
        };
    };
    let second = days.checked_mul(86_400)?.checked_add(seconds)?;
    let digits = fraction.trim_end_matches('0');
    (digits.len() <= places && fraction.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    let fraction: i128 = format!("{digits:0<places$}0").parse().ok()?;
    let units = exact(second, each)?.checked_mul(per_second)?;
    units.checked_add(fraction.checked_div(10)?)
}

/// Sets the meaning of a type.
pub(crate) fn set(types: &mut [Type], id: TypeId, meaning: Option<Meaning>) {
    if let Some(meaning) = meaning
        && let Some(ty) = usize::try_from(id.0).ok().and_then(|at| types.get_mut(at))
    {
        ty.meaning = Some(Arc::new(meaning));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_and_texts_are_as_numpy_writes_them() {
        let long = Kind::Scalar(Scalar::Int64);
        for (descr, n, wanted) in [
            ("<M8[D]", 19782i64, Some("2024-02-29")),
            ("<M8[D]", -1, Some("1969-12-31")),
            ("<M8[Y]", -1971, Some("-001")),
            ("<M8[Y]", 30, Some("2000")),
            ("<M8[M]", -1, Some("1969-12")),
            ("<M8[W]", 1, Some("1970-01-08")),
            ("<M8[2h]", 5, Some("1970-01-01T10")),
            ("<M8[m]", -1, Some("1969-12-31T23:59")),
            ("<M8[s]", 951_782_400, Some("2000-02-29T00:00:00")),
            ("<M8[us]", -1, Some("1969-12-31T23:59:59.999999")),
            ("<M8[as]", 1, Some("1970-01-01T00:00:00.000000000000000001")),
            ("<M8[25us]", i64::MIN, Some("NaT")),
            ("<m8[25us]", -4, Some("-100 us")),
            ("<m8[Y]", 2, Some("2 Y")),
            ("<M8", 1, None),
            ("<M8[xs]", 1, None),
        ] {
            let meaning = Meaning::from_descr(descr);
            let text = meaning.as_ref().and_then(|meaning| meaning.text(&long, &n.to_le_bytes()));
            assert_eq!(text.as_deref(), wanted, "{descr} {n}");
            let (Some(meaning), Some(text)) = (meaning, text) else { continue };
            assert_eq!(meaning.parse(&text), Some(n.into()), "{descr} {text}");
        }
        let time = |text: &str| Meaning::from_descr("<M8[s]").unwrap().parse(text);
        assert_eq!(time("2024-05-01T12:00"), Some(1_714_564_800));
        assert_eq!(time("2024-05-01 12:00:00Z"), Some(1_714_564_800));
        assert_eq!(time("2024"), Some(1_704_067_200));
        for wrong in ["", "x", "2024-13", "2024-05-01T25", "2024-05-01T12:00:00.5", "2024-05-01-01"]
        {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_are_padded_with_zeros() {
        let list = Kind::Scalar(Scalar::Uint8);
        let mut out = [0; 12];
        Meaning::Characters.encode(&list, "hé", &mut out).unwrap();
        assert_eq!(out, [104, 0, 0, 0, 233, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Meaning::Characters.text(&list, &out).unwrap(), "hé");
        assert_eq!(Meaning::Characters.encode(&list, "four", &mut [0; 12]), None);
        assert_eq!(Meaning::Characters.text(&list, &[0, 0xd8, 0, 0]), None);
        assert_eq!(Meaning::Bytes.text(&list, b"ab\0c\0\0").unwrap(), "ab\0c");
        assert_eq!(Meaning::Bytes.text(&list, &[0xff]), None);
        let decimal = |text: &str| Meaning::Decimal(9, 2).parse(text);
        assert_eq!(
            ["12.34", "-0.05", "7", ".5", "1.500", "0"].map(decimal),
            [1234, -5, 700, 50, 150, 0].map(Some)
        );
        assert_eq!(["", "-", ".", "1.234", "1e3", "x", "1.-1"].map(decimal), [None; 7]);
        let names = Meaning::Names(vec![("a".into(), -1), ("b".into(), 300)]);
        let byte = Kind::Scalar(Scalar::Int8);
        assert_eq!(names.text(&byte, &[255]).unwrap(), "a");
        assert_eq!(names.text(&byte, &[1]), None);
        assert_eq!(names.encode(&byte, "b", &mut [0]), None);
        let mut out = [0];
        names.encode(&byte, "a", &mut out).unwrap();
        assert_eq!(out, [255]);
    }
}
