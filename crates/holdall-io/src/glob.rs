//! Globs over tensor names: compiled into a small program, and matched in time proportional to the name.
//!
//! A glob is compiled into a list of steps, like a regular expression, and all alternatives are followed in parallel,
//! one character at a time. A name of `n` bytes takes at most `n` times the number of steps, and the number of steps is
//! limited, so no pattern and no name can make matching slow.

use crate::error::{PATTERN, SELECT};
use holdall_core::error::Escape as _;
use holdall_core::model::nearest;
use holdall_core::{Error, Remedy, Result};
use std::fmt;
use std::ops::RangeInclusive;

/// A pattern that must match a whole tensor name.
///
/// | in the pattern | matches |
/// | --- | --- |
/// | `*` | any number of characters, including none and dots |
/// | `?` | any one character |
/// | `[a-z_]`, `[!0-9]` | one character in the class, or not in it |
/// | `{attn,mlp}` | one of the alternatives, which may be patterns themselves |
/// | `{0..31}`, `{0..3,7}` | a number in the range, written without leading zeros |
/// | `{00..31}` | a number in the range, written with as many digits as the longer bound |
/// | `\` | the next character literally |
///
/// All other characters match themselves. A pattern also matches the name that is equal to its text, so that a name
/// with brackets can be pasted unchanged.
#[derive(Clone)]
pub struct Glob {
    text: String,
    steps: Vec<Step>,
    /// The common prefix of all matching names.
    prefix: String,
    /// Whether `prefix` is the whole pattern.
    plain: bool,
    stars: usize,
}

/// One step of a program. After a step that matches a character, matching continues at the next step.
#[derive(Debug, Clone)]
enum Step {
    Char(char),
    Any,
    Class {
        not: bool,
        ranges: Vec<RangeInclusive<char>>,
    },
    /// Continue at both steps; the first one is preferred.
    Split(u32, u32),
    Jump(u32),
    /// Record the current offset in the name: the start (even) or end (odd) of the numbered `*`.
    Mark(u32),
    Done,
}

/// The greatest length of a pattern in bytes.
const MAX_TEXT: usize = 16 << 10;
/// The greatest number of steps in a program, which bounds the time for each character of a name.
const MAX_STEPS: usize = 64 << 10;
/// The greatest nesting depth of braces.
const MAX_DEPTH: usize = 16;

impl Glob {
    /// Compiles a glob.
    ///
    /// # Errors
    /// Returns a `Misuse` error for an unclosed class or brace, an empty range, a `\` at the end, and for a pattern (other than a plain
    /// name) that is longer than 16 KiB or too complex.
    pub fn new(text: &str) -> Result<Glob> {
        if !text.contains(['*', '?', '[', '{', '\\']) {
            // A plain name may have any length, and needs no steps.
            let (text, prefix) = (text.to_owned(), text.to_owned());
            return Ok(Glob { text, steps: Vec::new(), prefix, plain: true, stars: 0 });
        }
        if text.len() > MAX_TEXT {
            let found = text.len();
            return Err(PATTERN
                .broken(format!("the pattern has {found} bytes, at most {MAX_TEXT} are allowed")));
        }
        let mut reader = Reader { text, rest: text.chars(), steps: Vec::new(), stars: 0, depth: 0 };
        reader.sequence()?;
        reader.push(Step::Done)?;
        let Reader { mut steps, stars, .. } = reader;
        let mut prefix = String::new();
        for step in &steps {
            match step {
                Step::Char(c) => prefix.push(*c),
                _ => break,
            }
        }
        let plain = matches!(steps.get(prefix.chars().count()), Some(Step::Done));
        steps.shrink_to_fit();
        Ok(Glob { text: text.to_owned(), steps, prefix, plain, stars })
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the only name that the pattern matches, if it has no wildcards.
    pub fn as_name(&self) -> Option<&str> {
        self.plain.then_some(&self.prefix)
    }

    /// Returns the number of `*`.
    pub(crate) fn stars(&self) -> usize {
        self.stars
    }

    /// Returns `true` if the pattern matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        if name == self.text {
            return true;
        }
        if self.plain {
            return name == self.prefix;
        }
        name.starts_with(&self.prefix) && self.walk(name, 0).is_some()
    }

    /// Returns the text that each `*` matches in `name`, in order, if the pattern matches the whole name. Each matches
    /// as little as possible, the first one first. A `*` in an alternative that was not used has an empty text.
    pub(crate) fn captures<'n>(&self, name: &'n str) -> Option<Vec<&'n str>> {
        if self.plain {
            return self.matches(name).then(Vec::new);
        }
        if !name.starts_with(&self.prefix) {
            return None;
        }
        let marks = self.walk(name, 2 * self.stars)?;
        let text = |pair: &[usize]| name.get(pair[0]..pair[1]).unwrap_or("");
        Some(marks.chunks_exact(2).map(text).collect())
    }

    /// Follows all alternatives of the program in parallel. Returns the first `marks` marks of the preferred one that
    /// matches the whole name, or `None`.
    fn walk(&self, name: &str, marks: usize) -> Option<Vec<usize>> {
        let mut now = Threads::new(self.steps.len(), marks);
        let mut next = Threads::new(self.steps.len(), marks);
        let mut todo = Vec::new();
        now.add(&self.steps, 0, 0, &vec![usize::MAX; marks], &mut todo);
        for (at, c) in name.char_indices() {
            if now.order.is_empty() {
                return None;
            }
            next.clear();
            let after = at + c.len_utf8();
            for (i, &step) in now.order.iter().enumerate() {
                let takes = match &self.steps[step as usize] {
                    Step::Char(wanted) => *wanted == c,
                    Step::Any => true,
                    Step::Class { not, ranges } => ranges.iter().any(|r| r.contains(&c)) != *not,
                    _ => false,
                };
                if takes {
                    let own = &now.marks[i * marks..(i + 1) * marks];
                    next.add(&self.steps, step + 1, after, own, &mut todo);
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
        let done = |&step: &u32| matches!(self.steps[step as usize], Step::Done);
        let i = now.order.iter().position(done)?;
        Some(now.marks[i * marks..(i + 1) * marks].to_vec())
    }

    /// Returns the error for a pattern that matches none of these names, with the most similar name if the pattern is a
    /// name.
    #[cold]
    pub(crate) fn matches_nothing<'a>(
        &self,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Error {
        let text = self.as_str().escaped();
        let e = SELECT.broken(format!("`{text}` matches none of {} tensors", names.len()));
        match self.as_name().and_then(|name| nearest(name, names)) {
            Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
            None => e.with_remedy(Remedy::ListNames),
        }
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Glob").field(&self.text).finish()
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The steps that wait for the next character, in order of preference, each with its marks.
struct Threads {
    order: Vec<u32>,
    /// The marks of each step in `order`, `width` for each.
    marks: Vec<usize>,
    width: usize,
    /// The round in which each step was last reached.
    seen: Vec<u32>,
    round: u32,
}

impl Threads {
    fn new(steps: usize, width: usize) -> Threads {
        Threads { order: Vec::new(), marks: Vec::new(), width, seen: vec![0; steps], round: 1 }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.marks.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.seen.fill(0);
            self.round = 1;
        }
    }

    /// Adds `first` and the steps that can be reached from it without a character, at byte `at` of the name.
    fn add(
        &mut self,
        steps: &[Step],
        first: u32,
        at: usize,
        marks: &[usize],
        todo: &mut Vec<(u32, Vec<usize>)>,
    ) {
        todo.push((first, marks.to_vec()));
        while let Some((step, mut marks)) = todo.pop() {
            if std::mem::replace(&mut self.seen[step as usize], self.round) == self.round {
                continue;
            }
            match &steps[step as usize] {
                Step::Jump(to) => todo.push((*to, marks)),
                Step::Split(a, b) => {
                    // Steps are popped from the end, so the preferred one is pushed last.
                    todo.push((*b, marks.clone()));
                    todo.push((*a, marks));
                }
                Step::Mark(n) => {
                    if let Some(mark) = marks.get_mut(*n as usize) {
                        *mark = at;
                    }
                    todo.push((step + 1, marks));
                }
                _ => {
                    self.order.push(step);
                    self.marks.extend_from_slice(&marks[..self.width]);
                }
            }
        }
    }
}

/// Compiles the text of a pattern into steps.
struct Reader<'a> {
    text: &'a str,
    rest: std::str::Chars<'a>,
    steps: Vec<Step>,
    stars: usize,
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        self.rest.next()
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    #[cold]
    fn broken(&self, what: impl fmt::Display) -> Error {
        PATTERN.broken(format!("in `{}`: {what}", self.text.escaped()))
    }

    fn push(&mut self, step: Step) -> Result<u32> {
        if self.steps.len() >= MAX_STEPS {
            return Err(self.broken("the pattern is too complex; split it into several"));
        }
        self.steps.push(step);
        Ok(self.steps.len() as u32 - 1)
    }

    /// Compiles up to the end, or inside braces up to the `,` or `}` that ends an alternative.
    fn sequence(&mut self) -> Result<()> {
        while let Some(c) = self.peek() {
            if self.depth > 0 && (c == ',' || c == '}') {
                break;
            }
            self.next();
            match c {
                '*' => self.star()?,
                '?' => drop(self.push(Step::Any)?),
                '[' => self.class()?,
                '{' => self.braces()?,
                '\\' => {
                    let plain = self.escaped()?;
                    self.push(Step::Char(plain))?;
                }
                plain => drop(self.push(Step::Char(plain))?),
            }
        }
        Ok(())
    }

    fn escaped(&mut self) -> Result<char> {
        self.next().ok_or_else(|| self.broken("nothing follows the last `\\`"))
    }

    fn star(&mut self) -> Result<()> {
        let mark = 2 * self.stars as u32;
        self.stars += 1;
        self.push(Step::Mark(mark))?;
        // The star ends as early as possible: leaving it is preferred.
        let split = self.push(Step::Jump(0))?;
        self.push(Step::Any)?;
        self.push(Step::Jump(split))?;
        self.steps[split as usize] = Step::Split(split + 3, split + 1);
        self.push(Step::Mark(mark + 1))?;
        Ok(())
    }

    /// Compiles a class, after its `[`.
    fn class(&mut self) -> Result<()> {
        let not = matches!(self.peek(), Some('!' | '^'));
        if not {
            self.next();
        }
        let mut ranges = Vec::new();
        loop {
            let unclosed = "`[` is not closed; write `\\[` for the character itself";
            let Some(c) = self.next() else { return Err(self.broken(unclosed)) };
            let from = match c {
                // A `]` in the first position belongs to the class.
                ']' if !ranges.is_empty() => break,
                '\\' => self.escaped()?,
                c => c,
            };
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
            let to = if is_range {
                self.next();
                match self.next() {
                    Some('\\') => self.escaped()?,
                    Some(c) => c,
                    None => return Err(self.broken(unclosed)),
                }
            } else {
                from
            };
            if to < from {
                return Err(self.broken(format!("the range `{from}-{to}` is empty")));
            }
            ranges.push(from..=to);
        }
        self.push(Step::Class { not, ranges })?;
        Ok(())
    }

    /// Compiles alternatives, after their `{`.
    fn braces(&mut self) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return Err(self.broken(format!("more than {MAX_DEPTH} braces inside each other")));
        }
        self.depth += 1;
        let mut ends = Vec::new();
        loop {
            // The target is only known once this alternative is compiled.
            let split = self.push(Step::Jump(0))?;
            match self.range()? {
                Some(range) => self.numbers(range)?,
                None => self.sequence()?,
            }
            ends.push(self.push(Step::Jump(0))?);
            let after = self.steps.len() as u32;
            match self.next() {
                Some(',') => self.steps[split as usize] = Step::Split(split + 1, after),
                Some(_) => {
                    // After the last alternative there is no other one to try.
                    self.steps[split as usize] = Step::Jump(split + 1);
                    break;
                }
                None => {
                    return Err(
                        self.broken("`{` is not closed; write `\\{` for the character itself")
                    );
                }
            }
        }
        let end = self.steps.len() as u32;
        for jump in ends {
            self.steps[jump as usize] = Step::Jump(end);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Parses an alternative of the form `0..31`. Returns `None` if the next one has another form.
    fn range(&mut self) -> Result<Option<Numbers>> {
        let rest = self.rest.as_str();
        let text = rest.split([',', '}']).next().unwrap_or(rest);
        if text.len() == rest.len() {
            return Ok(None);
        }
        let Some((from, to)) = text.split_once("..") else { return Ok(None) };
        let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !is_number(from) || !is_number(to) {
            let text = text.escaped();
            return Err(self.broken(format!(
                "`{text}` is not a range of numbers; write `\\.` for a dot itself"
            )));
        }
        let (Ok(low), Ok(high)) = (from.parse::<u64>(), to.parse::<u64>()) else {
            return Err(self.broken(format!("a bound of `{text}` passes 2^64")));
        };
        if low > high {
            return Err(self.broken(format!("the range `{text}` is empty")));
        }
        let padded = |s: &str| s.len() > 1 && s.starts_with('0');
        let digits = (padded(from) || padded(to)).then_some(from.len().max(to.len()));
        self.rest = rest[text.len()..].chars();
        Ok(Some(Numbers { low, high, digits }))
    }

    /// Adds steps for the numbers in a range: alternatives that are sequences of digit classes.
    fn numbers(&mut self, numbers: Numbers) -> Result<()> {
        let mut alternatives = Vec::new();
        numbers.split(&mut alternatives);
        let last = alternatives.len().saturating_sub(1);
        let mut ends = Vec::new();
        for (i, digits) in alternatives.into_iter().enumerate() {
            let split = self.push(Step::Jump(0))?;
            for range in digits {
                self.push(if range.start() == range.end() {
                    Step::Char(*range.start())
                } else {
                    Step::Class { not: false, ranges: vec![range] }
                })?;
            }
            ends.push(self.push(Step::Jump(0))?);
            let after = self.steps.len() as u32;
            self.steps[split as usize] =
                if i == last { Step::Jump(split + 1) } else { Step::Split(split + 1, after) };
        }
        let end = self.steps.len() as u32;
        ends.into_iter().for_each(|jump| self.steps[jump as usize] = Step::Jump(end));
        Ok(())
    }
}

/// The numbers `low..=high`, with a fixed number of digits, or as many as each needs.
struct Numbers {
    low: u64,
    high: u64,
    digits: Option<usize>,
}

impl Numbers {
    /// Splits the numbers into sequences of digit classes: 0 to 31 is `[0-9]`, `[1-2][0-9]`, `3[0-1]`. There are at
    /// most about twice as many sequences as digits, for each number of digits.
    fn split(&self, out: &mut Vec<Vec<RangeInclusive<char>>>) {
        let mut low = self.low;
        loop {
            // The greatest number with as many digits as `low`.
            let most = match self.digits {
                Some(_) => u64::MAX,
                None => {
                    let next = low.checked_ilog10().map_or(Some(10), |n| 10u64.checked_pow(n + 1));
                    next.map_or(u64::MAX, |n| n - 1)
                }
            };
            let high = self.high.min(most);
            let width = self.digits.unwrap_or(0);
            let padded = |n: u64| format!("{n:0width$}").into_bytes();
            same_len(&padded(low), &padded(high), &mut Vec::new(), out);
            if high == self.high {
                return;
            }
            low = high + 1;
        }
    }
}

/// Adds sequences of digit classes for the numbers between two numbers with the same number of digits.
fn same_len(
    low: &[u8],
    high: &[u8],
    before: &mut Vec<RangeInclusive<char>>,
    out: &mut Vec<Vec<RangeInclusive<char>>>,
) {
    let (Some((&l, low_rest)), Some((&h, high_rest))) = (low.split_first(), high.split_first())
    else {
        out.push(before.clone());
        return;
    };
    let mut part = |from: u8, to: u8, low: &[u8], high: &[u8]| {
        if from <= to {
            before.push(from.into()..=to.into());
            same_len(low, high, before, out);
            before.pop();
        }
    };
    let zeros = vec![b'0'; low_rest.len()];
    let nines = vec![b'9'; low_rest.len()];
    if l == h {
        return part(l, h, low_rest, high_rest);
    }
    // The first digits that any following digits may follow become one class.
    let free_from = if low_rest == zeros { l } else { l + 1 };
    let free_to = if high_rest == nines { h } else { h - 1 };
    if free_from > l {
        part(l, l, low_rest, &nines);
    }
    part(free_from, free_to, &zeros, &nines);
    if free_to < h {
        part(h, h, &zeros, high_rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captures<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
        Glob::new(pattern).expect(pattern).captures(name)
    }

    #[test]
    fn stars_take_as_little_as_they_can() {
        assert_eq!(captures("a.*.b.*", "a.1.b.2.b.3"), Some(vec!["1", "2.b.3"]));
        assert_eq!(captures("*.weight", "x.weight.weight"), Some(vec!["x.weight"]));
        assert_eq!(captures("**", "abc"), Some(vec!["", "abc"]));
        assert_eq!(captures("{x*,y*}z", "yéz"), Some(vec!["", "é"]));
        assert_eq!(captures("a*", "b"), None);
        assert_eq!(captures("a.b", "a.b"), Some(vec![]));
        assert_eq!(captures("a.b", "a.c"), None);
    }

    #[test]
    fn every_number_of_a_range_and_no_other() {
        for (low, high) in
            [(0, 0), (0, 9), (0, 31), (7, 7), (5, 12), (99, 1001), (120, 120), (10, 99)]
        {
            let glob = Glob::new(&format!("{{{low}..{high}}}")).unwrap();
            for n in 0..1200 {
                assert_eq!(glob.matches(&n.to_string()), (low..=high).contains(&n), "{glob}: {n}");
            }
            assert!(!glob.matches(&format!("0{high}")));
            assert!(!glob.matches(""));
        }
        let wide = Glob::new("{1..18446744073709551615}").unwrap();
        assert!(wide.matches("18446744073709551615") && wide.matches("1"));
        assert!(!wide.matches("18446744073709551616") && !wide.matches("0"));
        let padded = Glob::new("{000..120}").unwrap();
        assert!(padded.matches("007") && padded.matches("120"));
        assert!(!padded.matches("7") && !padded.matches("121") && !padded.matches("0007"));
    }
}
