//! The mutants, in an order that depends on the seed.

use crate::command::{cargo, program, root, target};
use crate::json::{field, items, number, text};
use holdall::Value;
use std::collections::BTreeMap;

/// The code that is mutated: reading, writing and caching.
const FILES: [&str; 7] = [
    "crates/holdall-core/src/codec/**",
    "crates/holdall-core/src/model/**",
    "crates/holdall-core/src/read/**",
    "crates/holdall-core/src/wire/**",
    "crates/holdall-io/src/cache.rs",
    "crates/holdall-io/src/executor/**",
    "crates/holdall-io/src/sink/**",
];
const SEED: u64 = 39;
const VERSION: &str = "27.1.0";

/// A line and a column, both from 1; columns are characters.
pub(super) type Position = (usize, usize);

/// A small change of the code.
#[derive(Debug, Clone)]
pub(super) struct Mutant {
    /// The file, the change and the function, and a number if the same change is possible several times there.
    pub(super) name: String,
    pub(super) file: String,
    /// The text that is replaced.
    pub(super) span: (Position, Position),
    pub(super) replacement: String,
    /// The function around it.
    pub(super) function: Option<(Position, Position)>,
    /// The position in the order of tests.
    pub(super) order: u64,
}

/// Returns all mutants in the order in which they are tested.
pub(super) fn all() -> Result<Vec<Mutant>, String> {
    let tools = target().join("tools");
    let tool = tools.join("bin/cargo-mutants");
    if !program(&tool).args(["mutants", "--version"]).succeeds() {
        let install = cargo(["install", "--locked", "--debug", "--version", VERSION, "--root"]);
        install.args([&tools]).args(["cargo-mutants"]).run()?;
    }
    let files = FILES.into_iter().flat_map(|file| ["--file", file]);
    let json = program(&tool).args(["mutants", "--list", "--json"]).args(files).output()?;
    let value = Value::from_json(&json, 64).map_err(|e| e.to_string())?;
    let items = items(Some(&value)).ok_or("`cargo mutants --list` printed no array")?;
    let mut counts = BTreeMap::new();
    let mut all = items
        .iter()
        .map(|item| mutant(item, &mut counts).ok_or(format!("unexpected mutant: {item:?}")))
        .collect::<Result<Vec<_>, _>>()?;
    all.retain(is_compiled);
    all.sort_by_key(|m| m.order);
    println!("{} mutants in {}, seed {SEED}", all.len(), root().display());
    Ok(all)
}

fn mutant(item: &Value, counts: &mut BTreeMap<String, usize>) -> Option<Mutant> {
    let file = text(item, "file")?.to_owned();
    // The name begins with the file, line and column, which other changes of the file would move.
    let change = text(item, "name")?.split_once(": ")?.1.replace('\n', " ");
    let mut name = format!("{file}: {change}");
    let count = counts.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count > 1 {
        name = format!("{name} ({count})");
    }
    let order = mix(name.bytes().fold(SEED, |hash, byte| mix(hash ^ u64::from(byte))));
    Some(Mutant {
        order,
        name,
        span: span(item)?,
        replacement: text(item, "replacement")?.to_owned(),
        function: field(item, "function").and_then(span),
        file,
    })
}

fn span(value: &Value) -> Option<(Position, Position)> {
    let span = field(value, "span")?;
    let position = |key| {
        let position = field(span, key)?;
        Some((number(position, "line")?, number(position, "column")?))
    };
    Some((position("start")?, position("end")?))
}

/// Returns `false` for functions that only builds without a feature have.
fn is_compiled(mutant: &Mutant) -> bool {
    let text = std::fs::read_to_string(root().join(&mutant.file)).unwrap_or_default();
    let line = mutant.function.map_or(1, |(start, _)| start.0);
    let before = text.lines().take(line - 1).collect::<Vec<_>>();
    let attributes = before.iter().rev().take_while(|line| line.trim_start().starts_with('#'));
    !mutant.file.ends_with("/unbuilt.rs")
        && !attributes.into_iter().any(|line| line.contains("cfg(not(feature"))
}

/// The step of SplitMix64.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
