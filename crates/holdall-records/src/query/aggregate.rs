//! Aggregates of groups of records: `count(at)`, `sum(stars)`, `min(stars)`, `max(stars)`, `mean(stars)`,
//! `std(stars)`.

use super::order::{Key, Member};
use super::reader::{MemberReader, MemberValue};
use crate::rules::AGGREGATE;
use crate::{Record, Records};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_schema::{Accessor, Kind};

/// A parsed aggregate.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    name: String,
    part: Accessor,
    function: Function,
}

#[derive(Debug, Clone)]
enum Function {
    /// The number of records that have the member.
    Count,
    Sum(MemberReader),
    Mean(MemberReader),
    Std(MemberReader),
    Min(Member),
    Max(Member),
}

/// The value of an aggregate for the records of one group so far.
#[derive(Debug, Clone)]
pub(super) enum Accumulator {
    Count(u64),
    /// The sum of integers is exact.
    Integers {
        sum: i128,
        count: u64,
    },
    Floats {
        sum: Sum,
        count: u64,
    },
    /// Welford's algorithm.
    Spread {
        count: u64,
        mean: f64,
        squares: f64,
    },
    /// The smallest or largest value and its JSON text.
    Extreme(Option<(Key, String)>),
}

/// A sum of floats that keeps what rounding loses (Neumaier).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    sum: f64,
    lost: f64,
}

impl Aggregate {
    /// Parses an aggregate, such as `sum(stars)`.
    ///
    /// # Errors
    /// Returns [`AGGREGATE`] for another text, or a member of another kind; and the errors of [`Records::accessor`] and
    /// [`Records::order`].
    pub(super) fn new(records: &Records, text: &str) -> Result<Aggregate> {
        let text = text.trim();
        let wrong = || {
            let message = format!(
                "`{}`: expected `FUNCTION(MEMBER)` with count, sum, min, max, mean or std, as in `mean(stars)`",
                text.escaped()
            );
            AGGREGATE.broken(message)
        };
        let (function, rest) = text.split_once('(').ok_or_else(wrong)?;
        let path = rest.strip_suffix(')').ok_or_else(wrong)?.trim();
        if path.is_empty() {
            return Err(wrong());
        }
        let part = records.accessor(path)?;
        let function = match function.trim().to_ascii_lowercase().as_str() {
            "count" => Function::Count,
            "sum" => Function::Sum(number(records, &part, path)?),
            "mean" => Function::Mean(number(records, &part, path)?),
            "std" => Function::Std(number(records, &part, path)?),
            "min" => Function::Min(Member::new(records, path)?),
            "max" => Function::Max(Member::new(records, path)?),
            _ => return Err(wrong()),
        };
        Ok(Aggregate { name: text.to_owned(), part, function })
    }

    /// Returns the text that the aggregate was parsed from.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the accessor of the member.
    pub(super) fn part(&self) -> &Accessor {
        &self.part
    }

    /// Returns the value for no records.
    pub(super) fn start(&self) -> Accumulator {
        match &self.function {
            Function::Count => Accumulator::Count(0),
            Function::Min(_) | Function::Max(_) => Accumulator::Extreme(None),
            Function::Std(_) => Accumulator::Spread { count: 0, mean: 0.0, squares: 0.0 },
            Function::Sum(number) | Function::Mean(number) => match number {
                MemberReader::Float(_) => Accumulator::Floats { sum: Sum::default(), count: 0 },
                _ => Accumulator::Integers { sum: 0, count: 0 },
            },
        }
    }

    /// Adds the value of a record. A record without the member changes nothing, and neither does NaN for `min` and
    /// `max`.
    ///
    /// # Errors
    /// Returns the errors of [`Record::get`] and [`Record::string`].
    pub(super) fn add(&self, to: &mut Accumulator, record: &Record<'_>) -> Result<()> {
        let (member, is_max) = match &self.function {
            Function::Count => {
                if let Accumulator::Count(count) = to
                    && record.is_present(&self.part)?
                {
                    *count += 1;
                }
                return Ok(());
            }
            Function::Sum(number) | Function::Mean(number) | Function::Std(number) => {
                if let Some(found) = number.value(record, &self.part)? {
                    to.add(&found);
                }
                return Ok(());
            }
            Function::Min(member) => (member, false),
            Function::Max(member) => (member, true),
        };
        let Accumulator::Extreme(best) = to else { return Ok(()) };
        let key = member.key(record)?;
        let is_better = match best {
            _ if key.is_absent_or_nan() => false,
            None => true,
            Some((best, _)) => {
                let order = key.compare(best, false);
                if is_max { order.is_gt() } else { order.is_lt() }
            }
        };
        if is_better && let Some(part) = record.part(&self.part)? {
            *best = Some((key, part.to_json()?));
        }
        Ok(())
    }

    /// Returns the value as JSON text; `None` if no record has the member.
    pub(super) fn finish(&self, found: Accumulator) -> Option<String> {
        let is_mean = matches!(self.function, Function::Mean(_));
        match found {
            Accumulator::Count(count) => Some(count.to_string()),
            Accumulator::Extreme(best) => best.map(|(_, text)| text),
            Accumulator::Integers { count: 0, .. }
            | Accumulator::Floats { count: 0, .. }
            | Accumulator::Spread { count: 0, .. } => None,
            Accumulator::Integers { sum, count } if is_mean => {
                Some(float(sum as f64 / count as f64))
            }
            Accumulator::Integers { sum, .. } => Some(sum.to_string()),
            Accumulator::Floats { sum, count } => {
                Some(float(if is_mean { sum.value() / count as f64 } else { sum.value() }))
            }
            Accumulator::Spread { count, squares, .. } => {
                Some(float((squares / count as f64).sqrt()))
            }
        }
    }
}

impl Accumulator {
    fn add(&mut self, found: &MemberValue<'_>) {
        let float = match found {
            MemberValue::Integer(integer) => *integer as f64,
            MemberValue::Float(float) => *float,
            // `number` refuses texts.
            MemberValue::Text(_) => return,
        };
        match (self, found) {
            (Accumulator::Integers { sum, count }, MemberValue::Integer(integer)) => {
                // The sum of 2^64 integers of 64 bits fits.
                *sum = sum.saturating_add(*integer);
                *count += 1;
            }
            (Accumulator::Floats { sum, count }, _) => {
                sum.add(float);
                *count += 1;
            }
            (Accumulator::Spread { count, mean, squares }, _) => {
                *count += 1;
                let before = float - *mean;
                *mean += before / *count as f64;
                *squares += before * (float - *mean);
            }
            _ => {}
        }
    }
}

impl Sum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        let (large, small) = if self.sum.abs() >= x.abs() { (self.sum, x) } else { (x, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    fn value(self) -> f64 {
        // Infinities and NaN leave no meaningful rest.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// Returns the reader of a number or a Boolean, which is 0 or 1.
fn number(records: &Records, part: &Accessor, path: &str) -> Result<MemberReader> {
    let ty = records.schema().ty(part.ty());
    let is_number = matches!(ty.kind, Kind::Scalar(_)) && ty.meaning.is_none();
    MemberReader::new(records, part)
        .filter(|read| {
            use MemberReader::{Bool, Float, Integer};
            is_number && matches!(read, Integer(_) | Float(_) | Bool(_))
        })
        .ok_or_else(|| {
            let (path, kind) = (path.escaped(), ty.kind.as_str());
            AGGREGATE.broken(format!(
                "`{path}` is a `TypeDef:{kind}`: `sum`, `mean` and `std` need numbers or Booleans, not times or names"
            ))
        })
}

/// Returns the JSON text of a number, in the form that records have.
fn float(x: f64) -> String {
    match x {
        x if x.is_nan() => r#"{"$float":"nan"}"#.to_owned(),
        f64::INFINITY => r#"{"$float":"inf"}"#.to_owned(),
        f64::NEG_INFINITY => r#"{"$float":"-inf"}"#.to_owned(),
        x => serde_json::Number::from_f64(x).map_or_else(String::new, |n| n.to_string()),
    }
}
