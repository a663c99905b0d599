//! Scans many small files in one process, for tests that compare with Python: `interop/scan`.
//!
//! Standard input has files, each after its length (u32, little-endian). For each, standard output gets a line of JSON:
//! the verdict, the imports, those of them that are not harmless, and whether something was not followed to its end.

use holdall_core::{Bytes, Limits, Stop, Window};
use holdall_formats::scan::Scan;
use holdall_formats::scan::names::Danger;
use std::io::{self, BufWriter, Read, Write};

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut out = BufWriter::new(io::stdout().lock());
    let limits = Limits::default();
    let mut len = [0; 4];
    while input.read_exact(&mut len).is_ok() {
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        input.read_exact(&mut bytes)?;
        let mut scan = Scan::new("x", bytes.len() as u64, &limits);
        let window = Window::whole(Bytes::from(bytes));
        while !scan.is_done() {
            match scan.step(&window) {
                Ok(()) => {}
                Err(Stop::Need(ranges)) => panic!("all bytes are in memory, not {ranges:?}"),
                Err(Stop::Fail(e)) => panic!("{e}"),
            }
        }
        let report = scan.finish();
        let imports = report.pickles.iter().flat_map(|p| &p.imports);
        let is_bad = |i: &&holdall_formats::scan::trace::Import| i.danger != Danger::Safe;
        let blamed: Vec<_> = { imports.clone().filter(is_bad) }
            .map(|i| format!("{}.{}: {}", i.module, i.name, i.danger))
            .collect();
        let imports: Vec<_> = imports.map(|i| [&i.module, &i.name]).collect();
        let unread: Vec<_> = report.unread.iter().map(ToString::to_string).collect();
        let is_open = !unread.is_empty() || report.pickles.iter().any(|p| p.is_open);
        let line = serde_json::json!({
            "verdict": report.verdict().as_str(),
            "imports": imports,
            "blamed": blamed,
            "open": is_open,
            "unread": unread,
        });
        writeln!(out, "{line}")?;
        // The other side waits for an answer to each batch, which an empty file ends.
        if len == [0; 4] {
            out.flush()?;
        }
    }
    Ok(())
}
