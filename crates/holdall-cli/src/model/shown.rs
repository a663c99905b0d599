//! Outputs as JSON, as a table, or as files.

use crate::exit::{Failure, OUTPUT_NAME};
use crate::output::as_json;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{escape, shape};
use crate::session::Session;
use holdall::carton::{TensorValue, ValueType};
use holdall::error::Escape as _;
use holdall::fields;
use holdall::npy;
use holdall::plain::Plain;
use holdall::{DType, Result};
use std::io::Write as _;
use std::path::Path;

/// Number of elements of a value that the table shows.
const SHOWN: usize = 6;

/// Returns the outputs as a JSON object: dtype, shape and elements in lists, by name.
pub(super) fn json(outputs: &[(String, TensorValue)]) -> String {
    let one = |(name, value): &'_ (String, TensorValue)| {
        let mut data = String::new();
        push_data(value, &mut data);
        let fields = fields! {
            dtype: value.ty().map(|ty| ty.as_str()),
            shape: value.shape().map(Plain::from),
            data: Plain::Json(data.into()),
        };
        (name.clone(), as_json(&fields))
    };
    let all = outputs.iter().map(one);
    as_json(&Plain::map(all.map(|(name, json)| (name, Plain::Json(json.into())))))
}

fn push_data(value: &TensorValue, out: &mut String) {
    match value {
        TensorValue::Nested(parts) => {
            out.push('[');
            for (at, part) in parts.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                push_data(part, out);
            }
            out.push(']');
        }
        plain => {
            let mut elements = texts(plain, Quoted::Json);
            push_lists(plain.shape().unwrap_or_default(), &mut elements, out);
        }
    }
}

fn push_lists(shape: &[u64], elements: &mut dyn Iterator<Item = String>, out: &mut String) {
    let Some((size, rest)) = shape.split_first() else {
        out.push_str(&elements.next().unwrap_or_default());
        return;
    };
    out.push('[');
    // A shape without elements can have any number of empty lists.
    let size = if rest.contains(&0) { (*size).min(1 << 16) } else { *size };
    for at in 0..size {
        out.push_str(if at > 0 { "," } else { "" });
        push_lists(rest, elements, out);
    }
    out.push(']');
}

/// How to write values that are not numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Json,
    People,
}

/// Returns the elements as text, in C order.
fn texts(value: &TensorValue, quoted: Quoted) -> Box<dyn Iterator<Item = String> + '_> {
    fn all<const W: usize, T: ToString>(
        data: &[u8],
        read: impl Fn([u8; W]) -> T + 'static,
    ) -> Box<dyn Iterator<Item = String> + '_> {
        Box::new(data.as_chunks::<W>().0.iter().map(move |c| read(*c).to_string()))
    }
    let quote = move |text: String| match (quoted, text.as_str()) {
        (Quoted::Json, "NaN") => "\"NaN\"".to_owned(),
        (Quoted::Json, "inf") => "\"Infinity\"".to_owned(),
        (Quoted::Json, "-inf") => "\"-Infinity\"".to_owned(),
        _ => text,
    };
    match value {
        TensorValue::Strings { data, .. } => {
            Box::new(data.iter().map(|s| as_json(&Plain::from(s))))
        }
        TensorValue::Nested(_) => Box::new(std::iter::empty()),
        TensorValue::Numbers { ty, data, .. } => match ty {
            ValueType::Float32 => Box::new(all(data, f32::from_le_bytes).map(quote)),
            ValueType::Float64 => Box::new(all(data, f64::from_le_bytes).map(quote)),
            ValueType::Int8 => all(data, i8::from_le_bytes),
            ValueType::Int16 => all(data, i16::from_le_bytes),
            ValueType::Int32 => all(data, i32::from_le_bytes),
            ValueType::Int64 => all(data, i64::from_le_bytes),
            ValueType::Uint8 => all(data, u8::from_le_bytes),
            ValueType::Uint16 => all(data, u16::from_le_bytes),
            ValueType::Uint32 => all(data, u32::from_le_bytes),
            ValueType::Uint64 => all(data, u64::from_le_bytes),
            _ => Box::new(std::iter::empty()),
        },
    }
}

/// Prints a table of the outputs with their first elements.
pub(super) fn table(session: &Session, outputs: &[(String, TensorValue)]) -> Result<(), Failure> {
    let columns = [
        Column::left("output"),
        Column::left("dtype"),
        Column::left("shape"),
        Column::left("elements").cut_end(),
    ];
    let row = |at: usize| {
        let (name, value) = &outputs[at];
        let dims = value.shape().map_or_else(
            || match value {
                TensorValue::Nested(parts) => format!("nested, {}", parts.len()),
                _ => String::new(),
            },
            shape,
        );
        let ty = value.ty().map_or("-", ValueType::as_str);
        vec![Cell::new(escape(name)), Cell::new(ty), Cell::new(dims), Cell::new(first(value))]
    };
    let out = &mut *session.out();
    table::write(out, &columns, outputs.len(), &row, 0, session.width(), session.paint())?;
    Ok(())
}

fn first(value: &TensorValue) -> String {
    if let TensorValue::Nested(parts) = value {
        let parts: Vec<String> = parts.iter().take(2).map(first).collect();
        return parts.join(" | ");
    }
    let mut all = texts(value, Quoted::People);
    let shown: Vec<String> = all.by_ref().take(SHOWN).collect();
    let more = if all.next().is_some() { " …" } else { "" };
    shown.join(" ") + more
}

/// Writes each output to a file in a folder: `.npy`, or `.json` for strings and nested tensors. Returns the paths.
pub(super) fn files(
    folder: &Path,
    outputs: &[(String, TensorValue)],
    force: bool,
) -> Result<Vec<String>, Failure> {
    let failed =
        |e: std::io::Error, path: &Path| holdall::error::io(e, "writing").in_source(path.display());
    // Checked before anything is written.
    for (name, _) in outputs {
        let odd = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
        if name.is_empty() || name.starts_with('.') || name.contains(odd) {
            let e = format!("the output `{}` is not a valid file name", name.escaped());
            return Err(OUTPUT_NAME.broken(e).into());
        }
    }
    let is_file = |path: &&Path| path.metadata().is_ok_and(|meta| !meta.is_dir());
    if let Some(file) = folder.ancestors().find(is_file) {
        let e = holdall::error::EXISTS.broken("expected a folder, found a file");
        let e = e.with_hint("name another folder for the outputs");
        return Err(e.in_source(file.display()).into());
    }
    std::fs::create_dir_all(folder).map_err(|e| failed(e, folder))?;
    let mut written = Vec::new();
    for (name, value) in outputs {
        let (bytes, extension) = match value {
            TensorValue::Numbers { ty, shape, data } => {
                let dtype = DType::from_name(short(*ty)).unwrap_or(DType::U8);
                let mut bytes = npy::header(dtype, None, shape)?;
                bytes.extend_from_slice(data);
                (bytes, "npy")
            }
            other => {
                let mut text = String::new();
                push_data(other, &mut text);
                text.push('\n');
                (text.into_bytes(), "json")
            }
        };
        let path = folder.join(format!("{name}.{extension}"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).truncate(true);
        let opened = match force {
            true => options.create(true).open(&path),
            false => options.create_new(true).open(&path),
        };
        let mut file = opened.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                holdall::error::EXISTS.broken("the file exists already").in_source(path.display())
            }
            _ => failed(e, &path),
        })?;
        file.write_all(&bytes).map_err(|e| failed(e, &path))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// Returns Holdall's name of a type.
fn short(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Float32 => "f32",
        ValueType::Float64 => "f64",
        ValueType::Int8 => "i8",
        ValueType::Int16 => "i16",
        ValueType::Int32 => "i32",
        ValueType::Int64 => "i64",
        ValueType::Uint16 => "u16",
        ValueType::Uint32 => "u32",
        ValueType::Uint64 => "u64",
        _ => "u8",
    }
}
