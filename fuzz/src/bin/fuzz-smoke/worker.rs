//! A process that runs inputs one after the other. It writes the number of the current input to a file, so that the
//! supervisor knows which input ended the process.

use crate::inputs::Inputs;
use crate::memory;
use holdall_fuzz::Target;
use std::fs::File;
use std::io::{Seek, Write};
use std::ops::Range;
use std::path::Path;

/// The exit status if one of the last inputs used too much memory.
pub(crate) const TOO_MUCH_MEMORY: u8 = 3;
/// The number of inputs between two checks of the memory.
pub(crate) const LOOK_EVERY: u64 = 128;
/// The address space that inputs may use in addition to that of the first few seeds, in KiB. The limits keep every
/// component from decoding to more than 4 MiB.
const MAX_KIB: u64 = 96 << 10;

/// Runs these inputs, and returns the exit status.
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
        let written = record.rewind().and_then(|()| record.write_all(&number.to_le_bytes()));
        written.map_err(|e| format!("cannot write the number of the input: {e}"))?;
        target.run(&inputs.input(seed, number));
        Ok(())
    };
    // One-time initialisation.
    inputs.first_seeds().try_for_each(&mut run)?;
    let before = memory::peak_kib();
    for number in numbers.clone() {
        run(number)?;
        let is_last = number + 1 == numbers.end;
        if (is_last || (number - numbers.start + 1).is_multiple_of(LOOK_EVERY))
            && let Some(more) = memory::above(before, MAX_KIB)
        {
            eprintln!("the inputs used {more} KiB of memory, at most {MAX_KIB} are allowed");
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
    if let Some(more) = memory::above(before, MAX_KIB) {
        println!("but it used {more} KiB of memory, at most {MAX_KIB} are allowed");
        return Ok(TOO_MUCH_MEMORY);
    }
    Ok(0)
}
