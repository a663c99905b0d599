//! The files that an open model consists of.

use crate::index::decode_index;
use crate::location::{Location, Site};
use crate::options::{Faults, OpenOptions};
use crate::source::ByteSource;
use holdall_core::Result;
use holdall_formats::shards::{self, SHARD_MISSING};

/// The role of a file in its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileRole {
    /// The file that describes the tensors, and contains their bytes unless other files do. A model in one file has
    /// only this one.
    Main,
    /// One of several files that each contain different tensors, numbered from 0.
    Shard(usize),
    /// An index file, which maps tensors to shards.
    Index,
    /// A file with bytes of tensors that another file of the model describes.
    External,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFile {
    /// The role of the file in the model.
    pub role: FileRole,
    /// The location of the file.
    pub location: Location,
    /// The index, in [`File::all_sources`](crate::File::all_sources), of the source that reads the file. `None` if the
    /// file has no bytes of tensors.
    pub source: Option<usize>,
}

impl ModelFile {
    pub(crate) fn new(role: FileRole, location: Location, source: Option<usize>) -> Self {
        ModelFile { role, location, source }
    }

    /// Returns shards in order, each read by the source of the same index.
    pub(crate) fn shards(locations: impl IntoIterator<Item = Location>) -> Vec<ModelFile> {
        let one = |(at, location)| ModelFile::new(FileRole::Shard(at), location, Some(at));
        locations.into_iter().enumerate().map(one).collect()
    }

    /// Returns a main file and its external files, in the order of their sources.
    pub(crate) fn with_external(
        main: Location,
        external: impl IntoIterator<Item = Location>,
    ) -> Vec<ModelFile> {
        let mut files = vec![ModelFile::new(FileRole::Main, main, Some(0))];
        let one = |(at, location)| ModelFile::new(FileRole::External, location, Some(at));
        files.extend((1..).zip(external).map(one));
        files
    }
}

impl OpenOptions {
    /// Returns the locations of all files below the folder at `location`, if that is a folder inside an archive or in
    /// an object store. `None` otherwise.
    ///
    /// # Errors
    /// Returns the errors of an archive or a store.
    pub fn files_below(&self, location: &Location) -> Result<Option<Vec<Location>>> {
        match location {
            Location::Member { .. } => {
                let folder = Site::new(self, location)?.as_folder();
                Ok(folder.map(|folder| folder.below()))
            }
            #[cfg(feature = "stores")]
            Location::Store(address) => {
                let folder = format!("{}/", address.trim_end_matches('/'));
                let all = self.list(&folder)?;
                let all: Vec<_> = all.into_iter().map(|o| Location::Store(o.address)).collect();
                Ok((!all.is_empty()).then_some(all))
            }
            _ => Ok(None),
        }
    }

    /// Returns the locations of the other files of the model whose first file is at `location`, with bytes `source`:
    /// parts of a split file, external data, files of a distributed checkpoint. Empty for any other file. An index file
    /// is not supported here; its text lists its files: see [`Map`](holdall_formats::shards::Map).
    ///
    /// # Errors
    /// Returns `shards/missing` if a file does not exist; errors in the other files.
    pub fn other_files(
        &self,
        location: &Location,
        source: &dyn ByteSource,
    ) -> Result<Vec<Location>> {
        #[cfg(feature = "pytorch")]
        if crate::checkpoint::is_metadata(location) {
            let checkpoint = self.read_checkpoint(source)?;
            return Ok(checkpoint
                .files()
                .iter()
                .filter_map(|name| location.sibling(name))
                .collect());
        }
        match decode_index(source, self.limits()) {
            Ok(index) if shards::has_more(&index) => {}
            _ => return Ok(Vec::new()),
        }
        let file = self.clone().with_faults(Faults::Keep).open_location(location)?;
        if shards::has_unavailable_data(file.index()) {
            let message = "a file with bytes of its tensors is missing";
            return Err(SHARD_MISSING.broken(message).in_source(file.name()));
        }
        let files = file.files().iter().map(|file| file.location.clone());
        Ok(files.filter(|other| other != location).collect())
    }
}
