//! Archives of `torch.export`: weights and constants, which are entries of the zip, and JSON that describes them.
//! Graphs and example inputs are ignored.

use super::object::{Flags, Storage, Tensor, View};
use super::walk::Content;
use super::{EXPORT, NO_ELEMENTS};
use crate::named::Element;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::{Directory, Entry};
use holdall_json::{Reader, Token};

/// The entry that identifies the archive, and its contents.
const MARK: (&str, &[u8]) = ("archive_format", b"pt2");
/// The folders and name endings of configs.
const CONFIGS: [(&str, &str); 2] =
    [("weights/", "_weights_config.json"), ("constants/", "_constants_config.json")];

/// Returns the top folder of such an archive.
pub(super) fn top<'a>(directory: &'a Directory, window: &Window) -> Result<Option<&'a str>, Stop> {
    let top = directory.entries().find_map(|entry| {
        let top = entry.name().strip_suffix(MARK.0)?;
        (top.ends_with('/') && top.matches('/').count() == 1).then_some((top, entry))
    });
    let Some((top, entry)) = top.filter(|(_, entry)| entry.decoded_len() == 3) else {
        return Ok(None);
    };
    let text = directory.content(entry, window, &Limits::default())?;
    Ok((text.as_ref() == MARK.1).then_some(top))
}

/// Returns all weights and constants of all models in the archive. If there are several models, names begin with the
/// model's name.
pub(super) fn content(
    directory: &Directory,
    top: &str,
    window: &Window,
    limits: &Limits,
) -> Result<Content, Stop> {
    let mut configs: Vec<(&str, &str, Entry<'_>)> = Vec::new();
    for (folder, end) in CONFIGS {
        for entry in directory.entries() {
            let own = entry.name().strip_prefix(top).and_then(|own| own.strip_prefix("data/"));
            let model = own.and_then(|own| own.strip_prefix(folder)?.strip_suffix(end));
            if let Some(model) = model.filter(|model| !model.contains('/')) {
                configs.push((folder, model, entry));
            }
        }
    }
    let is_one = configs.iter().all(|(_, name, _)| Some(*name) == configs.first().map(|c| c.1));
    let entries: Vec<Entry<'_>> = configs.iter().map(|(.., entry)| *entry).collect();
    let mut limits_of_text = limits.clone();
    limits_of_text.text_len = limits.header_len;
    let texts = directory.contents(&entries, window, &limits_of_text)?;
    let mut content = Content { is_nested: true, ..Content::default() };
    for ((folder, model, entry), text) in configs.iter().zip(texts) {
        let prefix = if is_one { String::new() } else { format!("{model}.") };
        let mut config = Config { folder, prefix, directory, top, content: &mut content };
        let read = config.read(&text, limits.depth);
        read.map_err(|e| e.within(format!("in `{}`", entry.name().escaped())))?;
    }
    Ok(content)
}

/// A config with its context.
struct Config<'a> {
    folder: &'a str,
    prefix: String,
    directory: &'a Directory,
    top: &'a str,
    content: &'a mut Content,
}

/// The description of a value.
#[derive(Default)]
struct ValueEntry {
    path: String,
    is_pickled: bool,
    meta: Option<Meta>,
}

/// The description of a tensor.
#[derive(Default)]
struct Meta {
    dtype: u64,
    sizes: Vec<u64>,
    strides: Vec<u64>,
    offset: u64,
    requires_grad: bool,
}

impl Config<'_> {
    fn read(&mut self, text: &[u8], depth: usize) -> Result<()> {
        let wrong = |e: holdall_core::error::Error| e.with_rule(&EXPORT);
        let mut reader = Reader::new(text, 0, depth).map_err(wrong)?;
        let (mut key, mut name) = (String::new(), String::new());
        reader.begin_object().map_err(wrong)?;
        while let Some(field) = reader.next_key(&mut key).map_err(wrong)? {
            if field != "config" {
                reader.skip().map_err(wrong)?;
                continue;
            }
            reader.begin_object().map_err(wrong)?;
            while let Some(own) = reader.next_key(&mut name).map_err(wrong)? {
                let full = format!("{}{own}", self.prefix);
                let entry = ValueEntry::read(&mut reader).map_err(wrong)?;
                self.add(full.clone(), entry).map_err(|e| e.in_tensor(&full))?;
            }
        }
        reader.end().map_err(wrong)
    }

    fn add(&mut self, name: String, entry: ValueEntry) -> Result<()> {
        let Some(meta) = entry.meta else {
            // An object of a custom class.
            self.content.left_out.push((name, "an object that is not a tensor".to_owned()));
            return Ok(());
        };
        if entry.is_pickled {
            let e = NO_ELEMENTS.broken("it is a pickle of a subclass of tensors");
            self.content.tensors.push((name, Tensor::Missing(meta.sizes, e)));
            return Ok(());
        }
        let key = format!("{}{}", self.folder, entry.path);
        let entry = self.directory.get(&format!("{}data/{key}", self.top));
        let Some(entry) = entry else {
            let message = format!("the zip has no `data/{}`", key.escaped());
            return Err(EXPORT.broken(message));
        };
        let Some(element) = dtype(meta.dtype).and_then(Element::from_dtype) else {
            let e = super::DTYPE.broken(format!("unknown element type {}", meta.dtype));
            self.content.tensors.push((name, Tensor::Missing(meta.sizes, e)));
            return Ok(());
        };
        if meta.sizes.len() != meta.strides.len() {
            let (sizes, strides) = (meta.sizes.len(), meta.strides.len());
            return Err(EXPORT.broken(format!("found {sizes} sizes but {strides} strides")));
        }
        let len = entry.decoded_len();
        let storage = Storage { key, element: None, len, start: 0, count: len };
        let Meta { sizes: shape, strides, offset, requires_grad, .. } = meta;
        let flags = Flags::default();
        let view = View { storage, element, offset, shape, strides, requires_grad, flags };
        self.content.tensors.push((name, Tensor::Dense(view)));
        Ok(())
    }
}

impl ValueEntry {
    fn read(reader: &mut Reader<'_>) -> Result<ValueEntry> {
        let (mut key, mut text) = (String::new(), String::new());
        let mut entry = ValueEntry::default();
        reader.begin_object()?;
        while let Some(field) = reader.next_key(&mut key)? {
            match (field, reader.peek()?) {
                ("path_name", _) => entry.path = reader.string(&mut text)?.to_owned(),
                ("use_pickle", _) => entry.is_pickled = reader.bool()?,
                ("tensor_meta", Token::Object) => entry.meta = Some(Meta::read(reader)?),
                _ => reader.skip()?,
            }
        }
        Ok(entry)
    }
}

impl Meta {
    fn read(reader: &mut Reader<'_>) -> Result<Meta> {
        let mut key = String::new();
        let mut meta = Meta::default();
        reader.begin_object()?;
        while let Some(field) = reader.next_key(&mut key)? {
            match field {
                "dtype" => meta.dtype = number(reader)?,
                "sizes" => meta.sizes = numbers(reader)?,
                "strides" => meta.strides = numbers(reader)?,
                "storage_offset" => meta.offset = wrapped_number(reader)?,
                "requires_grad" => meta.requires_grad = reader.bool()?,
                _ => reader.skip()?,
            }
        }
        Ok(meta)
    }
}

fn number(reader: &mut Reader<'_>) -> Result<u64> {
    let number = reader.number()?.text;
    number.parse().map_err(|_| EXPORT.broken(format!("{} is not a size", number.escaped())))
}

fn numbers(reader: &mut Reader<'_>) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    reader.begin_array()?;
    while reader.next_item()? {
        all.push(wrapped_number(reader)?);
    }
    Ok(all)
}

/// Reads a number that is written as `{"as_int": 3}`.
fn wrapped_number(reader: &mut Reader<'_>) -> Result<u64> {
    let mut key = String::new();
    let mut found = None;
    reader.begin_object()?;
    while let Some(field) = reader.next_key(&mut key)? {
        match field {
            "as_int" => found = Some(number(reader)?),
            _ => reader.skip()?,
        }
    }
    found.ok_or_else(|| EXPORT.broken("a size is not a number"))
}

/// Returns torch's name of the type with this number.
fn dtype(number: u64) -> Option<&'static str> {
    Some(match number {
        1 => "uint8",
        2 => "int8",
        3 => "int16",
        4 => "int32",
        5 => "int64",
        6 => "float16",
        7 => "float32",
        8 => "float64",
        9 => "complex32",
        10 => "complex64",
        11 => "complex128",
        12 => "bool",
        13 => "bfloat16",
        28 => "uint16",
        29 => "float8_e4m3fn",
        30 => "float8_e5m2",
        31 => "float8_e4m3fnuz",
        32 => "float8_e5m2fnuz",
        33 => "float8_e8m0fnu",
        34 => "uint32",
        35 => "uint64",
        _ => return None,
    })
}
