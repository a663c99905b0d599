//! The matrix: every operation on every place, format, layout and damage. Each cell must end with the right result,
//! compared with the data that these tests wrote or read independently, or with a refusal that has a code and leaves
//! the target as it was. A cell that succeeds with any other result is silently wrong. Which refusals of sound models
//! are allowed is in the table of operations, which `docs/matrix.md` shows.
//!
//! A run tries a sample of the cells, the same each time, or all of them if `HOLDALL_WHOLE` is set, as in `cargo xtask
//! whole`. With `HOLDALL_MATRIX`, it tries the cells whose names contain that text.

mod operations;
mod places;
mod reading;
mod samples;
mod tensors;

use holdall::operations::{LocationKind, Support};
use operations::{OPERATIONS, Operation, Outcome};
use places::{Damage, ModelLocation, PLACES, Placed, Sound, Wanted};
use samples::{Kind, SOURCES, Source};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// One out of this number of cells is tried.
const SAMPLE: usize = 113;

/// Returns a pseudo-random number that depends only on the cell.
fn mixed(cell: usize) -> usize {
    let x = (cell as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as usize >> 8
}

/// Returns what the table of operations allows for a cell: the refusal that is required, of the place or else of the
/// layout, and the codes of refusals that are allowed.
fn expected(operation: Operation, placed: &Placed) -> (Option<&'static str>, Vec<&'static str>) {
    let row = operation.row().row();
    let layout = row.layout(placed.source.kind.layout());
    let (mut refusal, mut some) = (None, Vec::new());
    for support in [Some(row.support(placed.place.kind())), layout].into_iter().flatten() {
        match support {
            Support::No(rule, _) => refusal = refusal.or(Some(rule.code)),
            Support::Partly(_, rules) => some.extend(rules.iter().map(|rule| rule.code)),
            _ => {}
        }
    }
    // From the table of formats: some formats cannot be edited, and only two have records.
    let is_change = matches!(
        operation.row(),
        holdall::operations::Operation::Edit | holdall::operations::Operation::Compact
    );
    match placed.source.kind {
        Kind::Fortran if is_change => some.push("edit/cannot"),
        Kind::Sparse if is_change => some.push("pytorch/layout"),
        Kind::Records | Kind::Blob if operation == Operation::ConvertDense => {
            some.push("convert/cannot-hold");
        }
        // Tensors of these kinds need `--component`.
        Kind::Records | Kind::Blob if matches!(operation, Operation::Extract | Operation::Rows) => {
            some.push("extract/which-component");
        }
        _ => {}
    }
    (refusal, some)
}

/// Returns an error with the reason if the outcome is not acceptable.
fn check(operation: Operation, placed: &Placed, outcome: &Outcome) -> Result<(), String> {
    let (refusal, some) = expected(operation, placed);
    let is_invalid = placed.expected.values().any(|wanted| *wanted == Wanted::Invalid);
    // Operations that read everything that remains of the file.
    let may_be_less = matches!(
        operation,
        Operation::Scan
            | Operation::Serve
            | Operation::View
            | Operation::Extract
            | Operation::Rows
            | Operation::Component
            | Operation::Records
    );
    // A zip without its directory may still contain all entries.
    let may_be_less = may_be_less || operation == Operation::Salvage;
    // Records and blobs have no statistics, and `diff` does not compare them here. A checksum that also covers other
    // bytes is not compared unless the operation writes.
    let is_passed_over = matches!(operation, Operation::Stats | Operation::Diff)
        && (placed.is_covered
            || matches!(&placed.damage, Damage::Bit(tensor, _) if tensor == "set"));
    // All files of a folder are packed unchanged.
    let may_be_less =
        may_be_less || operation == Operation::Pack && placed.place.kind() == LocationKind::Folder;
    let is_sound = placed.damage == Damage::None;
    // A single part of a model: salvage names the missing parts.
    if operation == Operation::Salvage && placed.place.kind() == LocationKind::Shard && is_sound {
        return match outcome {
            Outcome::Found => Ok(()),
            other => Err(format!("{other:?} of a part")),
        };
    }
    match (outcome, refusal) {
        (Outcome::Silent(what), _) => Err(what.clone()),
        (Outcome::Refused(code), Some(refusal)) if code == refusal || !is_sound => Ok(()),
        (_, Some(refusal)) => Err(format!("{outcome:?} instead of {refusal}")),
        (Outcome::Refused(code), None) if some.contains(&&**code) => Ok(()),
        // A bit of a component with a digest was changed, or the components do not form a tensor, and the operation
        // read them.
        (Outcome::Right, None)
            if (placed.is_told || is_invalid) && operation.reads_all() && !is_passed_over =>
        {
            Err("the changed bit was not reported".to_owned())
        }
        (Outcome::Right, None)
            if matches!(placed.damage, Damage::Part | Damage::Cut) && !may_be_less =>
        {
            Err("a missing part was not reported".to_owned())
        }
        (Outcome::Found | Outcome::Refused(_), None) if is_sound => {
            Err(format!("{outcome:?} of a sound model"))
        }
        _ => Ok(()),
    }
}

/// A source at a place; its cells are all combinations of damages and operations.
struct Row {
    source: usize,
    place: ModelLocation,
}

/// Tries the cells of the matrix in several threads.
struct Matrix {
    is_whole: bool,
    /// The text that the names of the cells must contain.
    only: String,
    rows: Vec<Row>,
    /// Models that have been written, by source: as one file, and as shards.
    sound: Vec<[OnceLock<Sound>; 2]>,
    next: AtomicUsize,
    tried: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

impl Matrix {
    fn new() -> Matrix {
        let mut rows = Vec::new();
        for (source, own) in SOURCES.iter().enumerate() {
            let places = PLACES.into_iter().filter(|p| !p.is_sharded() || own.has_shards());
            rows.extend(places.map(|place| Row { source, place }));
        }
        Matrix {
            is_whole: std::env::var_os("HOLDALL_WHOLE").is_some(),
            only: std::env::var("HOLDALL_MATRIX").unwrap_or_default(),
            rows,
            sound: SOURCES.iter().map(|_| [OnceLock::new(), OnceLock::new()]).collect(),
            next: AtomicUsize::new(0),
            tried: AtomicUsize::new(0),
            wrong: Mutex::new(Vec::new()),
        }
    }

    /// Tries rows until there are no more.
    fn run(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = self.rows.get(number) else { return };
            let source = &SOURCES[row.source];
            let is_sharded = row.place.is_sharded();
            let sound = &self.sound[row.source][usize::from(is_sharded)];
            let made = || sound.get_or_init(|| Sound::new(source, is_sharded));
            let Ok(sound) = catch_unwind(AssertUnwindSafe(made)) else {
                let name = format!("{:?} {} {:?}", source.kind, source.to, source.more);
                self.wrong.lock().unwrap().push(format!("{name} cannot be written"));
                continue;
            };
            for (d, damage) in sound.damages(row.place).iter().enumerate() {
                for (o, operation) in OPERATIONS.into_iter().enumerate() {
                    // Lines are used only by `build`, and `build` uses only lines.
                    if (operation == Operation::Build) != (source.kind == Kind::Lines) {
                        continue;
                    }
                    let cell = mixed((number * 64 + d) * 64 + o);
                    if !self.is_whole && !cell.is_multiple_of(SAMPLE) {
                        continue;
                    }
                    let io = if (cell / SAMPLE).is_multiple_of(2) { "auto" } else { "read" };
                    let name = format!(
                        "{operation:?} of {:?} {} {:?} at {:?}, {damage:?}, {io}",
                        source.kind, source.to, source.more, row.place
                    );
                    if !name.contains(&self.only) {
                        continue;
                    }
                    let one = || self.cell(source, sound, row.place, damage, operation, io);
                    let outcome = catch_unwind(AssertUnwindSafe(one));
                    if let Err(why) = outcome.unwrap_or_else(|_| Err("a panic".to_owned())) {
                        self.wrong.lock().unwrap().push(format!("{name}: {why}"));
                    }
                }
            }
        }
    }

    fn cell(
        &self,
        source: &Source,
        sound: &Sound,
        place: ModelLocation,
        damage: &Damage,
        operation: Operation,
        io: &str,
    ) -> Result<(), String> {
        // If the operation refuses the place, damage makes no difference.
        let is_refused = matches!(operation.row().row().support(place.kind()), Support::No(..));
        if is_refused && *damage != Damage::None {
            return Ok(());
        }
        let Some(placed) = Placed::new(source, sound, place, damage) else { return Ok(()) };
        self.tried.fetch_add(1, Ordering::Relaxed);
        let outcome = placed.does(operation, io);
        check(operation, &placed, &outcome)
    }
}

#[test]
fn every_operation_of_the_table_is_tried() {
    for row in holdall::operations::OPERATIONS {
        let is_tried = OPERATIONS.iter().any(|operation| operation.row() == row.operation);
        assert!(is_tried, "{}", row.name);
    }
    let all = LocationKind::ALL;
    assert!(all.iter().all(|kind| PLACES.iter().any(|place| place.kind() == *kind)));
    let all = holdall::operations::LayoutKind::ALL;
    assert!(all.iter().all(|kind| SOURCES.iter().any(|s| s.kind.layout() == *kind)));
}

#[test]
fn no_cell_is_silent() {
    let matrix = Matrix::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if matrix.is_whole { threads } else { 1 };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| matrix.run());
        }
    });
    let (wrong, tried) = (matrix.wrong.into_inner().unwrap(), matrix.tried.into_inner());
    assert!(tried > 100 || !matrix.only.is_empty(), "{tried} cells were tried");
    let shown = wrong.join("\n\n");
    assert!(wrong.is_empty(), "{} of {tried} cells:\n{shown}", wrong.len());
}
