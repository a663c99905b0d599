//! The files that an open model is made of.

use crate::location::Location;

/// What a file is to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileRole {
    /// The file that describes the tensors, and holds their bytes unless others do. A model in one file has this one only.
    Main,
    /// One of several files that each hold tensors of their own. Shards are numbered from 0.
    Shard(usize),
    /// An index file, which says which tensor is in which shard.
    Index,
    /// A file that holds bytes of tensors that another file of the model describes.
    External,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFile {
    /// What the file is to the model.
    pub role: FileRole,
    /// Where the file is.
    pub location: Location,
    /// The number of the source that reads the file, among those of [`File::all_sources`](crate::File::all_sources); `None` if
    /// no tensor has bytes in it.
    pub source: Option<usize>,
}

impl ModelFile {
    pub(crate) fn new(role: FileRole, location: Location, source: Option<usize>) -> Self {
        ModelFile { role, location, source }
    }

    /// Returns shards in order; each is read by the source of its number.
    pub(crate) fn shards(locations: impl IntoIterator<Item = Location>) -> Vec<ModelFile> {
        let one = |(at, location)| ModelFile::new(FileRole::Shard(at), location, Some(at));
        locations.into_iter().enumerate().map(one).collect()
    }

    /// Returns a main file and the external files beside it, in the order of their sources.
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
