//! A process that runs inputs one after the other. It says which one it is at in a file, so that whoever
//! started it knows the input that ended it, in whatever way.

use crate::inputs::Inputs;
use crate::memory;
use holdall_fuzz::Target;
use std::fs::File;
use std::io::{Seek, Write};
use std::ops::Range;
use std::path::Path;

/// The exit status that says: one of the last inputs made this process take too much memory.
pub(crate) const TOO_MUCH_MEMORY: u8 = 3;
/// Inputs between two looks at the memory.
pub(crate) const LOOK_EVERY: u64 = 128;
/// Address space that inputs may take beyond what the first few seeds took, in KiB. Limits are such that
/// no component decodes to more than 4 MiB.
const MOST_KIB: u64 = 96 << 10;

/// Runs these inputs. The answer is the exit status.
pub(crate) fn run(
    target: &'static Target,
    seed: u64,
    numbers: Range<u64>,
    record: &Path,
) -> Result<u8, String> {
    memory::cap();
    let inputs = Inputs::for_target(target)?;
    let mut record = File::create(record).map_err(|e| format!("{}: {e}", record.display()))?;
    let mut run = |number: u64| -> Result<(), String> {
        let said = record.rewind().and_then(|()| record.write_all(&number.to_le_bytes()));
        said.map_err(|e| format!("where this is: {e}"))?;
        target.run(&inputs.input(seed, number));
        Ok(())
    };
    // What is set up once.
    inputs.first_seeds().try_for_each(&mut run)?;
    let before = memory::peak_kib();
    for number in numbers.clone() {
        run(number)?;
        let is_last = number + 1 == numbers.end;
        if (is_last || (number - numbers.start + 1).is_multiple_of(LOOK_EVERY))
            && let Some(more) = memory::above(before, MOST_KIB)
        {
            eprintln!("it took {more} KiB of memory, at most {MOST_KIB} are right");
            return Ok(TOO_MUCH_MEMORY);
        }
    }
    Ok(0)
}

/// Runs one input from a file, in this process.
pub(crate) fn one(target: &'static Target, input: &Path) -> Result<u8, String> {
    memory::cap();
    let bytes = std::fs::read(input).map_err(|e| format!("{}: {e}", input.display()))?;
    let inputs = Inputs::for_target(target)?;
    inputs.first_seeds().for_each(|number| target.run(&inputs.input(0, number)));
    let before = memory::peak_kib();
    let start = std::time::Instant::now();
    target.run(&bytes);
    println!("{}: {} bytes, nothing wrong, {:?}", target.name, bytes.len(), start.elapsed());
    if let Some(more) = memory::above(before, MOST_KIB) {
        println!("but it took {more} KiB of memory, at most {MOST_KIB} are right");
        return Ok(TOO_MUCH_MEMORY);
    }
    Ok(0)
}
