//! Times and texts of NumPy's structured arrays, whose members are numbers, as people write them.

use holdall::npy::DESCR_KEYWORD;
use holdall::schema::date_of;
use serde_json::Value;

/// What the numbers of a member are in NumPy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Characters, with zeros behind them.
    Characters,
    /// Bytes, the same.
    Bytes,
    /// A time, in so many of a unit since 1970.
    Time(i128, String),
    /// The time between two.
    Span(i128, String),
}

/// What each of these members of a schema, which is JSON, is in NumPy, where it is more than its numbers.
pub(super) fn meanings(schema: &str, members: &[String]) -> Vec<Option<Meaning>> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let of = |member: &String| {
        let member =
            member.split('.').try_fold(&schema, |at, name| at.get("properties")?.get(name));
        Meaning::from_descr(member?.get(DESCR_KEYWORD)?.as_str()?)
    };
    members.iter().map(of).collect()
}

impl Meaning {
    /// Of a type by NumPy's name: `<U5`, `|S3`, `<M8[25us]`.
    fn from_descr(descr: &str) -> Option<Meaning> {
        let name = descr.trim_start_matches(['<', '>', '|', '=']);
        let unit = |of: &str| {
            let inside = of.strip_prefix('[')?.strip_suffix(']')?;
            let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
            let (count, unit) = inside.split_at_checked(digits)?;
            // NumPy's fit into 31 bits.
            let count: u32 = if count.is_empty() { 1 } else { count.parse().ok()? };
            Some((i128::from(count), unit.to_owned()))
        };
        match name.split_at_checked(2) {
            Some(("M8", of)) => unit(of).map(|(count, unit)| Meaning::Time(count, unit)),
            Some(("m8", of)) => unit(of).map(|(count, unit)| Meaning::Span(count, unit)),
            _ if name.starts_with('U') => Some(Meaning::Characters),
            _ if name.starts_with('S') => Some(Meaning::Bytes),
            _ => None,
        }
    }

    /// What a member says, which is JSON, as text; nothing where it says nothing of the kind.
    pub(super) fn text(&self, json: &str) -> Option<String> {
        match self {
            Meaning::Characters => {
                let chars = codes(json)?.into_iter().map(char::from_u32);
                chars.collect::<Option<String>>()
            }
            Meaning::Bytes => {
                let bytes = codes(json)?.into_iter().map(|code| u8::try_from(code).ok());
                String::from_utf8(bytes.collect::<Option<_>>()?).ok()
            }
            Meaning::Time(count, unit) => match json.parse::<i64>().ok()? {
                i64::MIN => Some("NaT".to_owned()),
                n => time(i128::from(n).checked_mul(*count)?, unit),
            },
            Meaning::Span(count, unit) => match json.parse::<i64>().ok()? {
                i64::MIN => Some("NaT".to_owned()),
                n => Some(format!("{} {unit}", i128::from(n).checked_mul(*count)?)),
            },
        }
    }
}

/// Numbers of a list, without the zeros behind them.
fn codes(json: &str) -> Option<Vec<u32>> {
    let mut codes: Vec<u32> = serde_json::from_str(json).ok()?;
    let len = codes.iter().rposition(|code| *code != 0).map_or(0, |last| last + 1);
    codes.truncate(len);
    Some(codes)
}

/// So many of a unit since 1970, as NumPy writes it: no finer than the unit.
fn time(n: i128, unit: &str) -> Option<String> {
    // How many of it are a second, and how many digits behind the point they take; how many seconds it is.
    let (per_second, digits, seconds) = match unit {
        "Y" => return Some(year(1970 + n)),
        "M" => {
            return Some(format!("{}-{:02}", year(1970 + n.div_euclid(12)), n.rem_euclid(12) + 1));
        }
        "W" => return date(n * 7),
        "D" => return date(n),
        "h" => (1, 0, 3600),
        "m" => (1, 0, 60),
        "s" => (1, 0, 1),
        "ms" => (1_000, 3, 1),
        "us" | "μs" => (1_000_000, 6, 1),
        "ns" => (1_000_000_000, 9, 1),
        "ps" => (1_000_000_000_000, 12, 1),
        "fs" => (1_000_000_000_000_000, 15, 1),
        "as" => (1_000_000_000_000_000_000, 18, 1),
        _ => return None,
    };
    let second = n.div_euclid(per_second) * seconds;
    let fraction = n.rem_euclid(per_second);
    let (day, of_day) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    let mut out = format!("{}T{:02}", date(day)?, of_day / 3600);
    if unit != "h" {
        out.push_str(&format!(":{:02}", of_day / 60 % 60));
    }
    if !matches!(unit, "h" | "m") {
        out.push_str(&format!(":{:02}", of_day % 60));
    }
    if digits > 0 {
        out.push_str(&format!(".{fraction:0digits$}"));
    }
    Some(out)
}

/// Four characters at least, a sign among them.
fn year(n: i128) -> String {
    format!("{n:04}")
}

/// So many days since 1970; nothing where NumPy itself cannot count them.
fn date(days: i128) -> Option<String> {
    let (own, month, day) = date_of(i64::try_from(days).ok()?);
    Some(format!("{}-{month:02}-{day:02}", year(own.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_texts_are_as_numpy_writes_them() {
        for (descr, json, wanted) in [
            ("<M8[D]", "19782", Some("2024-02-29")),
            ("<M8[D]", "-1", Some("1969-12-31")),
            ("<M8[Y]", "-1971", Some("-001")),
            ("<M8[M]", "-1", Some("1969-12")),
            ("<M8[W]", "1", Some("1970-01-08")),
            ("<M8[2h]", "5", Some("1970-01-01T10")),
            ("<M8[m]", "-1", Some("1969-12-31T23:59")),
            ("<M8[s]", "951782400", Some("2000-02-29T00:00:00")),
            ("<M8[us]", "-1", Some("1969-12-31T23:59:59.999999")),
            ("<M8[25us]", "-9223372036854775808", Some("NaT")),
            ("<M8[D]", "[1,2]", None),
            ("<m8[25us]", "-4", Some("-100 us")),
            ("<U5", "[104,233,0,120,0]", Some("hé\0x")),
            ("|S3", "[97,98,0]", Some("ab")),
            ("|S3", "[255,98,0]", None),
        ] {
            let meaning = Meaning::from_descr(descr).unwrap();
            assert_eq!(meaning.text(json).as_deref(), wanted, "{descr} {json}");
        }
        assert_eq!(Meaning::from_descr("|V3"), None);
        assert_eq!(Meaning::from_descr(&format!("<M8[{}Y]", i128::MAX)), None);
        let schema = r#"{"properties": {"at": {"properties": {"t": {"numpy.descr": "|S2"}}}}}"#;
        let found = meanings(schema, &["at.t".to_owned(), "at".to_owned()]);
        assert_eq!(found, [Some(Meaning::Bytes), None]);
    }
}
