//! `holdall inspect --as hf`: the tensors of a GGUF file under the names of its family.

use crate::exit::Failure;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{count, escape, printable, shape};
use crate::session::Session;
use holdall::plain::ToPlain as _;
use holdall::recipe::family_names;
use holdall::{File, fields};
use std::io::Write as _;

/// Prints the names and shapes that the tensors have in the folder of the model, and the tensors that they come from.
pub(super) fn show(session: &Session, file: &File) -> Result<(), Failure> {
    let names = family_names(file)?;
    let out = &mut *session.out();
    if session.json() {
        let report = fields!(source: file.name()).and(names.to_plain());
        writeln!(out, "{}", as_json(&report))?;
        return Ok(());
    }
    let columns =
        [Column::left("name").cut(), Column::left("shape"), Column::left("in the file").cut_end()];
    let row = |at: usize| {
        let tensor = &names.tensors[at];
        let sources: Vec<String> = tensor.sources.iter().map(|name| escape(name)).collect();
        vec![
            Cell::new(escape(&tensor.name)),
            Cell::new(shape(&tensor.shape)),
            Cell::styled(sources.join(", "), Style::Dim),
        ]
    };
    table::write(out, &columns, names.tensors.len(), &row, 0, session.width(), session.paint())?;
    writeln!(
        out,
        "\n{}: {} of the file are {} of the model's folder, recipe {}",
        printable(file.name()),
        count(file.len() as u64, "tensor"),
        count(names.tensors.len() as u64, "tensor"),
        printable(&names.recipe),
    )?;
    names.left_out.iter().for_each(|line| session.note(printable(line)));
    Ok(())
}
