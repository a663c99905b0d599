//! Tensors in files that a package only links to: each file is fetched when it is first read.

use super::{FileBytes, FileLocation, PackageReader};
use crate::error::CANCELLED;
use crate::file::File;
use crate::location::Site;
use crate::options::OpenOptions;
use crate::source::{ByteSource, check_range, fetched};
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::model::element_count;
use holdall_core::{ErrorKind, Result, Window};
use holdall_formats::carton;
use holdall_package::rules::{NOT_HERE, TENSOR_FILE, TENSOR_LEN};
use holdall_package::{
    CARTON_TOML, FetchedTexts, TENSOR_DATA, TENSOR_INDEX, TensorKind, ValueType, warnings,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

impl OpenOptions {
    /// Adds to the file of a package the tensors that it links to, if there are any and there is a fetcher. Files of
    /// numbers, whose lengths are declared, are fetched when they are read; others are fetched at once. If a file
    /// cannot be fetched, its tensors keep their fault.
    ///
    /// # Errors
    /// Returns the errors in the package that show only when it is opened as a whole.
    pub(crate) fn with_links(&self, file: File, site: &Site) -> Result<File> {
        if file.format() != carton::FORMAT.id || self.fetching.0.is_none() {
            return Ok(file);
        }
        let unknown = [warnings::LINKED_DESCRIPTION, warnings::LINKED_INDEX];
        let lacks_text = file.warnings().iter().any(|w| unknown.contains(&w.code));
        let is_linked = file.tensors().any(|t| t.layout().as_str() == holdall_package::LINKED);
        if !lacks_text && !is_linked {
            return Ok(file);
        }
        let name = file.name().to_owned();
        let Some(source) = file.all_sources().first().cloned() else { return Ok(file) };
        let opened =
            PackageReader::from_zip(source.clone(), &site.location, file.io(), name.clone(), self);
        // Without its description, a package is still a file of tensors.
        let Ok(package) = opened else { return Ok(file) };
        let texts = package.fetched_texts()?;
        let mut sources = vec![source.clone()];
        let mut linked = Vec::new();
        for (path, source) in package.linked_tensors() {
            linked.push((path, source.len()));
            sources.push(source);
        }
        let mut window = Window::new(source.len());
        crate::fetch_ends(&*source, &mut window)?;
        let decoded = fetched(&*source, &mut window, |window| {
            carton::decode_linked(window, self.limits(), &texts, &linked)
        });
        let index =
            decoded.and_then(|index| self.check_faults(index)).map_err(|e| e.in_source(&name))?;
        let files = file.files().to_vec();
        Ok(self.open_index(index, sources, name)?.with_files(files))
    }
}

impl PackageReader {
    /// Returns the texts that are only linked to, which were fetched when the package was opened.
    fn fetched_texts(&self) -> Result<FetchedTexts> {
        let text = |path: &str| match self.file(path) {
            Some(file) if file.location == FileLocation::Links => self.read(path).map(Some),
            _ => Ok(None),
        };
        let tensors = match self.warnings().iter().any(|w| w.code == warnings::LINKED_INDEX) {
            true => None,
            false => text(TENSOR_INDEX)?,
        };
        Ok(FetchedTexts { description: text(CARTON_TOML)?, tensors })
    }

    /// Returns the tensor files that are only linked to, with their paths. A file of texts, which must be fetched at
    /// once, is left out if that failed.
    fn linked_tensors(&self) -> BTreeMap<String, Arc<dyn ByteSource>> {
        let mut out: BTreeMap<String, Arc<dyn ByteSource>> = BTreeMap::new();
        for row in self.tensors() {
            let TensorKind::Plain { ty, shape, file } = &row.kind else { continue };
            let Some(file) = self.file(&format!("{TENSOR_DATA}/{file}")) else { continue };
            let target = file.target.as_deref().and_then(|target| self.file(target));
            let file = target.unwrap_or(file);
            if file.location != FileLocation::Links || out.contains_key(&file.path) {
                continue;
            }
            let declared = || element_count(shape)?.checked_mul(ty.width()?);
            let source: Option<Arc<dyn ByteSource>> = match ty {
                ValueType::String => self.fetched_source(&file.path).ok(),
                _ => declared().map(|len| -> Arc<dyn ByteSource> {
                    let (package, path) = (self.clone(), file.path.clone());
                    Arc::new(LinkedSource { package, path, len, opened: OnceLock::new() })
                }),
            };
            out.extend(source.map(|source| (file.path.clone(), source)));
        }
        out
    }

    /// Fetches a file that is only linked to, and returns its bytes.
    fn fetched_source(&self, path: &str) -> Result<Arc<dyn ByteSource>> {
        match self.locate(self.find(path)?)? {
            FileBytes::Disk(path) => {
                // The fetcher checks the hash of a newly fetched file. A file that was already in its store is not
                // checked again.
                self.source_of(&path)
            }
            FileBytes::Zip(_) => {
                Err(TENSOR_FILE.broken(format!("`{}` is not a link", path.escaped())))
            }
        }
    }
}

/// A source of a file of numbers that a package only links to, which is fetched when it is first read.
struct LinkedSource {
    package: PackageReader,
    path: String,
    /// The length according to the type and shape of the tensor.
    len: u64,
    opened: OnceLock<Result<Arc<dyn ByteSource>>>,
}

impl LinkedSource {
    fn opened(&self) -> Result<&Arc<dyn ByteSource>> {
        let opened = self.opened.get_or_init(|| {
            let fetched = self.package.fetched_source(&self.path);
            let source = fetched.map_err(|e| match e.kind() {
                ErrorKind::Integrity => e,
                _ if e.code() == CANCELLED.code => e,
                _ => e.with_rule(&NOT_HERE),
            })?;
            let (found, len) = (source.len(), self.len);
            if found != len {
                let path = self.path.escaped();
                let message = format!("dtype and shape take {len} bytes, `{path}` has {found}");
                return Err(TENSOR_LEN.broken(message).in_source(self.package.name()));
            }
            Ok(source)
        });
        opened.as_ref().map_err(Clone::clone)
    }
}

impl ByteSource for LinkedSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| check_range(range, self.len))?;
        self.opened()?.read(ranges)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        check_range(&(offset..offset.saturating_add(out.len() as u64)), self.len)?;
        self.opened()?.read_into(offset, out)
    }
}
