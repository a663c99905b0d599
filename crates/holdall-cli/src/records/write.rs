//! Printing of records as lines of JSON, as CSV, or as a table.

use super::{RecordsArgs, SHOWN};
use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Grouped, cut_end, printable};
use crate::session::Session;
use holdall::plain::Plain;
use holdall::records::{Columns, Export, Record};
use serde_json::Value;
use std::io::Write as _;

/// Maximum width of a table's cell, in columns of text.
const WIDEST: usize = 40;

/// The output of records.
pub(super) struct Output {
    form: OutputForm,
    titles: Vec<String>,
    /// The rows of a table, each with the index of its record.
    rows: Vec<(u64, Vec<String>)>,
    written: u64,
    most: u64,
    /// Whether certain members are requested, rather than whole records.
    has_columns: bool,
    /// Whether there are more records than were shown.
    pub(super) more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Json,
    Csv,
    Table,
}

impl Output {
    pub(super) fn new(
        session: &Session,
        args: &RecordsArgs,
        titles: &[String],
        whole: bool,
    ) -> Output {
        let form = match (session.json(), args.csv) {
            (true, _) => OutputForm::Json,
            (_, true) => OutputForm::Csv,
            _ => OutputForm::Table,
        };
        let is_cut = form == OutputForm::Table && whole && !args.table;
        let most = if is_cut { SHOWN } else { u64::MAX };
        Output {
            form,
            titles: titles.to_vec(),
            rows: Vec::new(),
            written: 0,
            most,
            has_columns: !args.columns.is_empty(),
            more: false,
        }
    }

    /// Returns `true` if no more records are to be shown.
    pub(super) fn is_full(&self) -> bool {
        self.written >= self.most
    }

    /// Adds a record.
    pub(super) fn record(
        &mut self,
        session: &Session,
        record: &Record<'_>,
        columns: &Columns,
    ) -> Result<(), Failure> {
        if self.form == OutputForm::Json && !self.has_columns {
            return self.line(session, &record.to_json()?);
        }
        let values = columns.values(record)?;
        self.values(session, record.index(), values)
    }

    /// Adds a record, one member of which is written to a file.
    pub(super) fn exported(
        &mut self,
        session: &Session,
        record: &Record<'_>,
        columns: &Columns,
        export: &mut Export,
    ) -> Result<(), Failure> {
        let name = export.add(record)?;
        if self.form == OutputForm::Json && !self.has_columns {
            return self.line(session, &export.json(record, name.as_deref())?);
        }
        let mut values = columns.values(record)?;
        let member = export.member();
        if let Some(at) = columns.names().iter().position(|name| *name == member) {
            values[at] = name.map(|name| as_json(&Plain::from(name)));
        }
        self.values(session, record.index(), values)
    }

    /// Adds values as JSON text, one for each title.
    pub(super) fn values(
        &mut self,
        session: &Session,
        index: u64,
        values: Vec<Option<String>>,
    ) -> Result<(), Failure> {
        match self.form {
            OutputForm::Json => {
                let all = self.titles.iter().zip(&values);
                let all = all.filter_map(|(title, text)| {
                    Some((title, Plain::Json(text.as_deref()?.into())))
                });
                let line = as_json(&Plain::map(all));
                self.line(session, &line)
            }
            OutputForm::Csv => {
                if self.written == 0 {
                    self.csv_head(session)?;
                }
                let cells: Vec<String> = values.into_iter().map(cell).collect();
                self.written += 1;
                csv_row(session, &cells)
            }
            OutputForm::Table => {
                self.written += 1;
                let cells = values.into_iter().map(cell);
                let cells = cells.map(|c| cut_end(&printable(&c), WIDEST)).collect();
                self.rows.push((index, cells));
                Ok(())
            }
        }
    }

    /// Prints a line of JSON.
    pub(super) fn line(&mut self, session: &Session, json: &str) -> Result<(), Failure> {
        self.written += 1;
        Ok(writeln!(session.out(), "{json}")?)
    }

    /// Returns `true` if records are printed as lines of JSON.
    pub(super) fn is_json(&self) -> bool {
        self.form == OutputForm::Json
    }

    fn csv_head(&self, session: &Session) -> Result<(), Failure> {
        csv_row(session, &self.titles)
    }

    /// Prints the rest. `total` is the total number of records, as text.
    pub(super) fn finish(self, session: &Session, total: &str) -> Result<Status, Failure> {
        match self.form {
            OutputForm::Json => {}
            OutputForm::Csv if self.written == 0 => self.csv_head(session)?,
            OutputForm::Csv => {}
            OutputForm::Table => self.table(session, total)?,
        }
        Ok(Status::Fine)
    }

    fn table(&self, session: &Session, total: &str) -> Result<(), Failure> {
        let out = &mut *session.out();
        let paint = session.paint();
        if !self.rows.is_empty() {
            let mut columns = vec![Column::right("#")];
            columns.extend(self.titles.iter().map(|t| Column::left(printable(t)).cut_end()));
            let row = |at: usize| {
                let (index, cells) = &self.rows[at];
                let mut row = vec![Cell::styled(index.to_string(), Style::Dim)];
                row.extend(cells.iter().map(|c| Cell::new(c.clone())));
                row
            };
            table::write(out, &columns, self.rows.len(), &row, 0, session.width(), paint)?;
            writeln!(out)?;
        }
        let shown = Grouped(self.written);
        let more = if self.more { "; `--range A..B` shows others, `--table` all" } else { "" };
        writeln!(out, "{shown} of {total}{more}")?;
        Ok(())
    }
}

/// Formats a JSON value as a cell: strings without quotes, NaN and infinities by name, missing values as empty text.
fn cell(json: Option<String>) -> String {
    let Some(json) = json else { return String::new() };
    if !json.starts_with(['"', '{']) {
        return json;
    }
    match serde_json::from_str(&json) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(object)) if object.len() == 1 => match object.get("$float") {
            Some(Value::String(name)) => name.clone(),
            _ => json,
        },
        _ => json,
    }
}

fn csv_row(session: &Session, cells: &[String]) -> Result<(), Failure> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    Ok(session.out().write_all(&bytes)?)
}
