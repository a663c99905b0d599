//! Rows that are Python objects, read without JSON text in between.

use crate::kinds::dtype_name;
use holdall::json::Token;
use holdall::records::{RowSink, RowSource};
use holdall::schema::{InputInteger, InputNumber, RecordInput, TensorDType};
use holdall::{Error, Limits, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::iter::BoundDictIterator;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::io;

/// Rows from the Python half.
pub(crate) struct Objects {
    /// Returns the next rows as a list; an empty one at the end.
    next: Py<PyAny>,
    helpers: Helpers,
    /// Rows that were not read yet, and the index of the first of them.
    rest: Option<(Py<PyList>, usize)>,
}

/// Functions of the Python half.
struct Helpers {
    /// Returns the class of a value as a letter, the value or an equivalent one, and the nanoseconds
    /// since 1970 of a time.
    class: Py<PyAny>,
    /// Returns the text of a value that is not a string.
    text: Py<PyAny>,
    /// Returns the text of a key that is not a string.
    key: Py<PyAny>,
    /// Returns the bytes and the shape of an array of an element type, or `None`.
    block: Py<PyAny>,
    /// Returns the JSON text of a value.
    json: Py<PyAny>,
}

impl Objects {
    /// Takes the functions that `_rows.py` passes, in this order.
    pub(crate) fn new(given: &Bound<'_, PyAny>) -> PyResult<Objects> {
        let [next, class, text, key, block, json]: [Py<PyAny>; 6] = given.extract()?;
        let helpers = Helpers { class, text, key, block, json };
        Ok(Objects { next, helpers, rest: None })
    }
}

impl RowSource for Objects {
    fn read(&mut self, to: &mut RowSink<'_, '_>) -> Result<bool> {
        let depth = Limits::default().depth;
        Python::attach(|py| {
            loop {
                let (rows, mut at) = match self.rest.take() {
                    Some((rows, at)) => (rows.into_bound(py), at),
                    None => {
                        py.check_signals().map_err(failed)?;
                        let rows = self.next.bind(py).call0().map_err(failed)?;
                        let rows = rows.cast_into::<PyList>().map_err(|e| failed(e.into()))?;
                        if rows.is_empty() {
                            return Ok(false);
                        }
                        (rows, 0)
                    }
                };
                while let Ok(row) = rows.get_item(at) {
                    if to.is_full() {
                        self.rest = Some((rows.unbind(), at));
                        return Ok(true);
                    }
                    let helpers = &self.helpers;
                    let mut input =
                        ObjectInput { py, helpers, depth, next: None, open: Vec::new() };
                    input.set(row)?;
                    to.add(&mut input)?;
                    at += 1;
                }
                if to.is_full() {
                    return Ok(true);
                }
            }
        })
    }
}

/// Converts an exception, which the caller gets back unchanged.
fn failed(e: PyErr) -> Error {
    holdall::error::io(io::Error::other(e), "reading rows")
}

/// The class of a Python object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Null,
    Bool,
    Int,
    Float,
    Text,
    Dict,
    List,
    Tuple,
    /// A NumPy array of at least one dimension.
    Array,
    Bytes,
    /// A time, with nanoseconds since 1970 if they fit in 64 bits.
    Time(Option<i64>),
    /// A decimal number, which is also text.
    Decimal,
}

/// Reads a Python object.
struct ObjectInput<'h, 'py> {
    py: Python<'py>,
    helpers: &'h Helpers,
    depth: usize,
    next: Option<(Bound<'py, PyAny>, Class)>,
    open: Vec<Open<'py>>,
}

enum Open<'py> {
    /// A copy of a dict, which no other code changes.
    Dict(BoundDictIterator<'py>),
    List(Bound<'py, PyList>, usize),
    Tuple(Bound<'py, PyTuple>, usize),
}

impl Clone for ObjectInput<'_, '_> {
    /// Reads the next value again, and nothing after it.
    fn clone(&self) -> Self {
        let ObjectInput { py, helpers, depth, .. } = *self;
        ObjectInput { py, helpers, depth, next: self.next.clone(), open: Vec::new() }
    }
}

impl<'py> ObjectInput<'_, 'py> {
    fn set(&mut self, value: Bound<'py, PyAny>) -> Result<()> {
        let class = if value.is_instance_of::<PyString>() {
            Class::Text
        } else if value.is_instance_of::<PyFloat>() {
            Class::Float
        } else if value.is_none() {
            Class::Null
        } else if value.is_instance_of::<PyBool>() {
            Class::Bool
        } else if value.is_instance_of::<PyInt>() {
            Class::Int
        } else if value.is_instance_of::<PyDict>() {
            Class::Dict
        } else if value.is_instance_of::<PyList>() {
            Class::List
        } else if value.is_instance_of::<PyTuple>() {
            Class::Tuple
        } else if value.is_instance_of::<PyBytes>() {
            Class::Bytes
        } else {
            return self.set_other(&value);
        };
        self.next = Some((value, class));
        Ok(())
    }

    fn set_other(&mut self, value: &Bound<'py, PyAny>) -> Result<()> {
        let found = self.helpers.class.bind(self.py).call1((value,)).map_err(failed)?;
        type Found<'py> = (char, Bound<'py, PyAny>, Option<i64>);
        let (letter, value, nanos): Found<'py> = found.extract().map_err(failed)?;
        let class = match letter {
            'a' => Class::Array,
            't' => Class::Time(nanos),
            'd' => Class::Decimal,
            // One of the types that `set` knows.
            _ => return self.set(value),
        };
        self.next = Some((value, class));
        Ok(())
    }

    fn class(&self) -> Result<Class> {
        self.next.as_ref().map(|(_, class)| *class).ok_or_else(nothing)
    }

    fn take(&mut self) -> Result<(Bound<'py, PyAny>, Class)> {
        self.next.take().ok_or_else(nothing)
    }

    fn push(&mut self, open: Open<'py>) -> Result<()> {
        if self.open.len() >= self.depth {
            let message = format!("a row is nested more than {} levels deep", self.depth);
            return Err(failed(PyValueError::new_err(message)));
        }
        self.open.push(open);
        Ok(())
    }

    /// Calls a function of the Python half with a value.
    fn help(&self, helper: &Py<PyAny>, value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        helper.bind(self.py).call1((value,)).map_err(failed)
    }

    /// Writes the text of a string, or of a value that has a text, to `scratch`.
    fn write_text(
        &self,
        value: Bound<'py, PyAny>,
        class: Class,
        scratch: &mut String,
    ) -> Result<()> {
        let text = match class {
            Class::Text => value,
            _ => self.help(&self.helpers.text, &value)?,
        };
        let text = text.cast_into::<PyString>().map_err(|e| failed(e.into()))?;
        scratch.clear();
        scratch.push_str(text.to_str().map_err(failed)?);
        Ok(())
    }
}

impl RecordInput for ObjectInput<'_, '_> {
    const HAS_NESTED_TENSORS: bool = true;

    fn peek(&mut self) -> Result<Token> {
        Ok(match self.class()? {
            Class::Null => Token::Null,
            Class::Bool => Token::Bool,
            Class::Int | Class::Float => Token::Number,
            Class::Dict => Token::Object,
            Class::List | Class::Tuple | Class::Array => Token::Array,
            Class::Text | Class::Bytes | Class::Time(_) | Class::Decimal => Token::String,
        })
    }

    fn peek_as(&mut self, wanted: Token) -> Result<Token> {
        match self.class()? {
            Class::Decimal if wanted == Token::Number => Ok(wanted),
            _ => self.peek(),
        }
    }

    fn begin_object(&mut self) -> Result<()> {
        let (value, _) = self.take()?;
        let dict = value.cast_into::<PyDict>().map_err(|e| failed(e.into()))?;
        let dict = dict.copy().map_err(failed)?;
        self.push(Open::Dict(dict.iter()))
    }

    fn next_key<'s>(&mut self, scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        Self: 's,
    {
        let Some(Open::Dict(members)) = self.open.last_mut() else { return Ok(None) };
        let Some((key, value)) = members.next() else {
            self.open.pop();
            return Ok(None);
        };
        let key = match key.is_instance_of::<PyString>() {
            true => key,
            // Numbers, booleans and `None` are texts in JSON.
            false => self.help(&self.helpers.key, &key)?,
        };
        self.write_text(key, Class::Text, scratch)?;
        self.set(value)?;
        Ok(Some(scratch))
    }

    fn begin_array(&mut self) -> Result<()> {
        let (value, class) = self.take()?;
        let value = match class {
            // Rows of an array of several dimensions can be blocks.
            Class::Array => {
                let rank: usize =
                    value.getattr("ndim").and_then(|n| n.extract()).map_err(failed)?;
                match rank {
                    1 => value.call_method0("tolist").map_err(failed)?,
                    _ => PyList::new(
                        self.py,
                        value
                            .try_iter()
                            .map_err(failed)?
                            .collect::<PyResult<Vec<_>>>()
                            .map_err(failed)?,
                    )
                    .map_err(failed)?
                    .into_any(),
                }
            }
            _ => value,
        };
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.push(Open::Tuple(tuple.clone(), 0));
        }
        let list = value.cast_into::<PyList>().map_err(|e| failed(e.into()))?;
        self.push(Open::List(list, 0))
    }

    fn next_item(&mut self) -> Result<bool> {
        let item = match self.open.last_mut() {
            Some(Open::List(list, at)) => {
                let item = list.get_item(*at).ok();
                *at += 1;
                item
            }
            Some(Open::Tuple(tuple, at)) => {
                let item = tuple.get_item(*at).ok();
                *at += 1;
                item
            }
            _ => None,
        };
        match item {
            Some(item) => self.set(item).map(|()| true),
            None => {
                self.open.pop();
                Ok(false)
            }
        }
    }

    fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        let (value, class) = self.take()?;
        self.write_text(value, class, scratch)?;
        Ok(scratch)
    }

    fn bytes(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((value, Class::Bytes)) = &self.next else { return Ok(false) };
        out.extend_from_slice(value.cast::<PyBytes>().map_err(|e| failed(e.into()))?.as_bytes());
        self.next = None;
        Ok(true)
    }

    fn time(&mut self) -> Result<Option<i64>> {
        let Some((_, Class::Time(nanos @ Some(_)))) = self.next else { return Ok(None) };
        self.next = None;
        Ok(nanos)
    }

    fn block(&mut self, dtype: TensorDType, out: &mut Vec<u8>) -> Result<Option<Vec<u64>>> {
        let Some((value, Class::Array)) = &self.next else { return Ok(None) };
        let block = self.helpers.block.bind(self.py);
        let found = block.call1((value, dtype_name(dtype))).map_err(failed)?;
        let found: Option<(Bound<'_, PyBytes>, Vec<u64>)> = found.extract().map_err(failed)?;
        let Some((bytes, shape)) = found else { return Ok(None) };
        out.extend_from_slice(bytes.as_bytes());
        self.next = None;
        Ok(Some(shape))
    }

    fn number(&mut self) -> Result<InputNumber> {
        let (value, class) = self.take()?;
        if class != Class::Int {
            return value.extract().map(InputNumber::Float).map_err(failed);
        }
        if let Ok(n) = value.extract::<i64>() {
            return Ok(u64::try_from(n).map_or(InputNumber::Negative(n), InputNumber::Unsigned));
        }
        if let Ok(n) = value.extract::<u64>() {
            return Ok(InputNumber::Unsigned(n));
        }
        let x = value.extract().map_err(failed)?;
        let text = value.str().and_then(|text| text.extract::<String>()).map_err(failed)?;
        Ok(InputNumber::Long(text.into(), x))
    }

    fn integer(&mut self) -> Result<InputInteger> {
        let class = self.class()?;
        if class != Class::Int {
            let (value, _) = self.take()?;
            let shown = |value: &Bound<'_, PyAny>| -> PyResult<String> { value.str()?.extract() };
            // An infinity has no integer.
            let whole = value.call_method0("__int__").ok();
            let whole = whole.filter(|whole| whole.eq(&value).unwrap_or(false));
            let Some(whole) = whole else {
                return shown(&value).map(InputInteger::Other).map_err(failed);
            };
            self.next = Some((whole, Class::Int));
        }
        Ok(match self.number()? {
            InputNumber::Unsigned(n) => InputInteger::Unsigned(n),
            InputNumber::Negative(n) => InputInteger::Negative(n),
            InputNumber::Long(text, _) => InputInteger::Other(text.into()),
            InputNumber::Float(x) => InputInteger::Other(x.to_string()),
        })
    }

    fn bool(&mut self) -> Result<bool> {
        self.take()?.0.extract().map_err(failed)
    }

    fn skip(&mut self) -> Result<()> {
        self.take().map(drop)
    }

    fn object_text<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        let (value, _) = self.take()?;
        let text = self.help(&self.helpers.json, &value)?;
        self.write_text(text, Class::Text, scratch)?;
        // Finds keys that are equal as text.
        holdall::json::parse(scratch.as_bytes(), self.depth)?;
        Ok(scratch)
    }
}

#[cold]
fn nothing() -> Error {
    failed(PyTypeError::new_err("a value was read twice"))
}
