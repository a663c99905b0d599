//! The head and foot of `inspect`'s text output, which describe the file as a whole.

use crate::exit::Failure;
use crate::output::style::Style;
use crate::output::text::{
    Grouped, Size, alignment, attributes, component_type, count, cut_end, escape, escape_path,
    exact_size, lines_of, printable, versioned,
};
use crate::session::Session;
use holdall::{
    Attributes, Digest, Encoding, File, Io, Layout, ModelFolder, Tensor, TensorRecords as _,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write as _;

/// Maximum number of attributes that are shown; `--json` shows all.
const ATTRIBUTES_SHOWN: usize = 24;
/// Maximum number of unreadable tensors that are listed with their errors.
const FAULTS_SHOWN: usize = 10;
/// Width of an attribute's value, in columns, if the output is not a terminal.
const VALUE_WIDTH: usize = 200;
/// Maximum number of datasets whose members are shown.
const DATASETS_SHOWN: usize = 4;
/// Width of the keys, in columns.
const KEY: usize = 12;

/// Totals over the tensors of a file.
#[derive(Default)]
struct Totals {
    parameters: u64,
    /// Number of elements of datasets of records; below, of blobs.
    records: u64,
    entries: u64,
    stored: u64,
    decoded: u64,
    /// The encoding of the compressed components.
    encoding: Encoding,
    packed_stored: u64,
    packed_decoded: u64,
    alignment: Option<u64>,
    shared: u64,
    /// Decoded bytes of each dtype.
    types: Vec<(Cow<'static, str>, u64)>,
    /// Number of components with a digest, by algorithm.
    digests: Vec<(&'static str, u64)>,
    components: u64,
}

impl Totals {
    fn from_tensors(tensors: impl Iterator<Item = Tensor>) -> Totals {
        let mut totals = Totals::default();
        let mut seen = HashSet::new();
        for tensor in tensors {
            let mut first = true;
            for c in tensor.components() {
                let decoded = c.decoded_len.unwrap_or(0);
                totals.components += 1;
                totals.add_type(
                    match tensor.layout() {
                        Layout::Blocks(block_type) => block_type.as_str().into(),
                        _ => component_type(&c),
                    },
                    decoded,
                );
                if let Some(digest) = &c.digest {
                    totals.add_digest(digest);
                }
                let is_new = c.stored_len() == 0 || seen.insert(c.stored);
                if is_new {
                    totals.stored += c.stored_len();
                    totals.decoded += decoded;
                    if c.encoding != Encoding::Raw {
                        totals.encoding = c.encoding;
                        totals.packed_stored += c.stored_len();
                        totals.packed_decoded += decoded;
                    }
                }
                if std::mem::take(&mut first) {
                    totals.shared += u64::from(!is_new);
                    if is_new {
                        let sum = match tensor.layout() {
                            Layout::Records => &mut totals.records,
                            Layout::Blob => &mut totals.entries,
                            _ => &mut totals.parameters,
                        };
                        *sum = sum.saturating_add(tensor.count());
                    }
                }
                if c.stored_len() > 0 && !c.stored.is_stated() {
                    let own = alignment(c.stored.start);
                    totals.alignment = Some(totals.alignment.map_or(own, |a| a.min(own)));
                }
            }
        }
        totals
    }

    fn add_type(&mut self, name: Cow<'static, str>, decoded: u64) {
        match self.types.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(decoded),
            None => self.types.push((name, decoded)),
        }
    }

    fn add_digest(&mut self, digest: &Digest) {
        let name = digest.algorithm().map_or("an unknown digest", |a| a.as_str());
        match self.digests.iter_mut().find(|(known, _)| *known == name) {
            Some((_, n)) => *n += 1,
            None => self.digests.push((name, 1)),
        }
    }
}

/// Prints the file's properties, and those of the model folder that contains it.
pub(super) fn head(
    session: &Session,
    file: &File,
    folder: Option<&ModelFolder>,
) -> Result<(), Failure> {
    let totals = Totals::from_tensors(file.tensors());
    let mut lines = vec![("format", format_line(file))];
    lines.push(("size", exact_size(file.index().source_len())));
    let files = file.index().source_lens().len();
    if files > 1 {
        lines.push(("files", Grouped(files as u64).to_string()));
    }
    lines.push(("tensors", tensors_line(file, &totals)));
    let datasets = file.tensors().filter(|t| *t.layout() == Layout::Records && t.fault().is_none());
    for (at, tensor) in datasets.take(DATASETS_SHOWN).enumerate() {
        if let Some(line) = members_line(&tensor) {
            lines.push((if at == 0 { "members" } else { "" }, line));
        }
    }
    if totals.components > 0 {
        lines.push(("dtypes", dtypes_line(&totals)));
        lines.push(("encoding", encoding_line(&totals)));
        lines.push(("digests", digests_line(&totals)));
    }
    if let Some(alignment) = totals.alignment {
        lines.push(("alignment", count(alignment, "byte")));
    }
    let all = file.attributes();
    lines.extend(attribute_lines("attributes", all));
    if all.len() > ATTRIBUTES_SHOWN {
        let more = count((all.len() - ATTRIBUTES_SHOWN) as u64, "more attribute");
        lines.push(("", format!("and {more}, which --json shows")));
    }

    if let Some(folder) = folder {
        lines.extend(attribute_lines("config", &folder.config));
        let names = match &folder.tokenizer[..] {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        lines.push(("tokenizer", cut_end(&printable(&names), VALUE_WIDTH)));
    }

    let out = &mut *session.out();
    let paint = session.paint();
    let room = session.width().unwrap_or(usize::MAX).saturating_sub(KEY + 2).max(20);
    writeln!(out, "{}", paint.styled(escape_path(file.name()), Style::Title))?;
    for (key, value) in lines {
        for (at, line) in lines_of(&value, room).into_iter().enumerate() {
            let key = if at == 0 { key } else { "" };
            let key = paint.styled(format!("{key:KEY$}"), Style::Dim);
            writeln!(out, "  {key}{line}")?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Returns a line for each attribute, up to the maximum; the first line has the key.
fn attribute_lines(
    key: &'static str,
    all: &Attributes,
) -> impl Iterator<Item = (&'static str, String)> {
    attributes(all).take(ATTRIBUTES_SHOWN).enumerate().map(move |(at, (name, value))| {
        let line = cut_end(&format!("{name} = {value}"), VALUE_WIDTH);
        (if at == 0 { key } else { "" }, line)
    })
}

fn format_line(file: &File) -> String {
    let name = holdall::formats::by_name(file.format()).map_or(file.format(), |f| f.name);
    versioned(name, &escape(file.version()))
}

fn tensors_line(file: &File, totals: &Totals) -> String {
    let mut text = Grouped(file.len() as u64).to_string();
    let no_other = totals.records == 0 && totals.entries == 0;
    for (sum, noun, shown) in [
        (totals.parameters, "parameter", totals.parameters > 0 || no_other),
        (totals.records, "record", totals.records > 0),
        (totals.entries, "entry", totals.entries > 0),
    ] {
        if shown {
            text.push_str(&format!(", {}", count(sum, noun)));
        }
    }
    match totals.shared {
        0 => {}
        1 => text.push_str(", 1 tensor shares the bytes of another"),
        n => text.push_str(&format!(", {} tensors share the bytes of others", Grouped(n))),
    }
    text
}

/// Returns the names of a dataset's members. Errors are reported elsewhere.
fn members_line(tensor: &Tensor) -> Option<String> {
    let all = tensor.records().ok()?.members().ok()?;
    let names = all.iter().filter(|row| row.path.0.len() == 1).map(|row| row.path.to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    let names = cut_end(&printable(&names), VALUE_WIDTH);
    (!names.is_empty()).then(|| format!("{}: {names}", escape(tensor.name())))
}

/// Largest first.
fn dtypes_line(totals: &Totals) -> String {
    let mut all: Vec<_> = totals.types.iter().collect();
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let one = |(name, bytes): &(Cow<'static, str>, u64)| format!("{name} {}", Size(*bytes));
    all.into_iter().map(one).collect::<Vec<_>>().join(" · ")
}

fn encoding_line(totals: &Totals) -> String {
    let raw = totals.stored - totals.packed_stored;
    if totals.packed_stored == 0 {
        return "raw".to_owned();
    }
    let mut text = format!("{} {}", totals.encoding, Size(totals.packed_stored));
    // Old versions do not store the decoded length of compressed sparse components.
    if totals.packed_decoded > 0 {
        let ratio = totals.packed_decoded as f64 / totals.packed_stored as f64;
        text.push_str(&format!(" of {} decoded ({ratio:.2}×)", Size(totals.packed_decoded)));
    }
    if raw > 0 {
        text.push_str(&format!(" · raw {}", Size(raw)));
    }
    text
}

fn digests_line(totals: &Totals) -> String {
    match (&totals.digests[..], totals.components) {
        ([], _) => "none".to_owned(),
        ([(name, n)], all) if *n == all => format!("{name} on every component"),
        (some, all) => {
            let one = |(name, n): &(&str, u64)| format!("{name} on {}", Grouped(*n));
            let some = some.iter().map(one).collect::<Vec<_>>().join(", ");
            format!("{some} of {}", count(all, "component"))
        }
    }
}

/// Prints the totals of the listed tensors, the columns that did not fit, and the warnings about the file and its
/// folder.
pub(super) fn foot(
    session: &Session,
    file: &File,
    shown: &[Tensor],
    left_out: &[&str],
    folder: Option<&ModelFolder>,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let totals = Totals::from_tensors(shown.iter().cloned());
    let mut text = String::new();
    if shown.len() < file.len() {
        text.push_str(&format!("{} of ", Grouped(shown.len() as u64)));
    }
    text.push_str(&count(file.len() as u64, "tensor"));
    text.push_str(&format!(", {}", Size(totals.stored)));
    if totals.decoded > totals.stored {
        text.push_str(&format!(" stored, {} decoded", Size(totals.decoded)));
    }
    let io = paint.styled(format!("  ({})", io_line(file)), Style::Dim);
    if !shown.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{text}{io}")?;
    if let Some(line) = left_out_line(left_out) {
        writeln!(out, "{}", paint.styled(line, Style::Dim))?;
    }
    for fault in file.faults().take(FAULTS_SHOWN) {
        let fault = printable(&fault.to_string());
        writeln!(out, "{} {fault}", paint.styled("unreadable:", Style::Bad))?;
    }
    let more = file.index().faults().len().saturating_sub(FAULTS_SHOWN);
    if more > 0 {
        writeln!(
            out,
            "{} {} more tensors",
            paint.styled("unreadable:", Style::Bad),
            Grouped(more as u64)
        )?;
    }
    for words in file.index().unrepresented() {
        writeln!(out, "{} {}", paint.styled("ignored:", Style::Dim), printable(words))?;
    }
    let of_folder = folder.iter().flat_map(|folder| &folder.warnings);
    for warning in file.warnings().iter().chain(of_folder) {
        writeln!(
            out,
            "{} {}",
            paint.styled("warning:", Style::Warn),
            printable(&warning.to_string())
        )?;
    }
    Ok(())
}

/// Names the columns that did not fit in the terminal, and how to see them.
fn left_out_line(columns: &[&str]) -> Option<String> {
    let (last, others) = columns.split_last()?;
    let (names, are) = match others {
        [] => ((*last).to_owned(), "is"),
        others => (format!("{} and {last}", others.join(", ")), "are"),
    };
    Some(format!("no room for {names}, which {are} in `| cat` and --json"))
}

/// Describes how the file was read.
fn io_line(file: &File) -> &'static str {
    match file.io() {
        _ if file.name() == crate::input::STDIN => "read from standard input",
        Io::Map => "mapped",
        Io::Direct => "read by position, past the cache",
        _ => "read by position",
    }
}

#[cfg(test)]
mod tests {
    use super::left_out_line;

    #[test]
    fn columns_without_room_are_named() {
        assert_eq!(left_out_line(&[]), None);
        let line = |columns: &[&str]| left_out_line(columns).unwrap();
        assert_eq!(line(&["digest"]), "no room for digest, which is in `| cat` and --json");
        let three = line(&["layout", "encoding", "digest"]);
        assert!(three.starts_with("no room for layout, encoding and digest, which are"), "{three}");
    }
}
