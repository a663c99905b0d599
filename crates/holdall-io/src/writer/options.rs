//! Options for writing a file.

use crate::error::{EXTENSION, NOT_IN_FORMAT};
use crate::sink::Durability;
use crate::with_work;
use crate::work::Work;
use holdall_core::{
    Algorithm, Attributes, Encode, EncodeOptions, Encoding, Remedy, Result, TensorSpec,
};
use holdall_formats::Format;
use std::path::Path;

/// Options for writing a file.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub(crate) format: Option<&'static Format>,
    /// Options for the format's encoder, such as version and alignment.
    pub encode: EncodeOptions,
    /// Attributes of the file.
    pub attributes: Attributes,
    pub(crate) encoding: Encoding,
    pub(crate) level: Option<i32>,
    pub(super) planes: bool,
    pub(super) smallest: bool,
    pub(super) digest: DigestChoice,
    /// Whether an existing file is replaced. Default: `false`.
    pub overwrite: bool,
    /// The number of compression threads, cancellation, and progress reports, which whole-file operations make.
    pub work: Work,
    /// The failures that a finished file survives.
    pub durability: Durability,
    wrapper: Option<EncoderWrapper>,
}

/// A function that wraps the format's encoder.
pub(super) type EncoderWrapper = fn(Box<dyn Encode>) -> Box<dyn Encode>;

impl WriteOptions {
    /// Returns the default options: the newest version of the format that the target's extension names; no compression;
    /// CRC-32C digests if the format can hold them, else XXH3 digests if it can hold those; the bytes are flushed to
    /// the disk before the file appears; an existing file is not replaced.
    pub fn new() -> WriteOptions {
        WriteOptions {
            format: None,
            encode: EncodeOptions::new(),
            attributes: Attributes::new(),
            encoding: Encoding::Raw,
            level: None,
            planes: false,
            smallest: false,
            digest: DigestChoice::Default,
            work: Work::default(),
            overwrite: false,
            durability: Durability::Disk,
            wrapper: None,
        }
    }

    /// Sets the format.
    pub fn with_format(mut self, format: &'static Format) -> WriteOptions {
        self.format = Some(format);
        self
    }

    /// Sets the format version and the alignment.
    pub fn with_encode(mut self, encode: EncodeOptions) -> WriteOptions {
        self.encode = encode;
        self
    }

    /// Sets the file's attributes.
    pub fn with_attributes(mut self, attributes: Attributes) -> WriteOptions {
        self.attributes = attributes;
        self
    }

    /// Compresses every component with zstd at `level`. Components longer than 4 MiB are split into independent frames
    /// of 1 MiB, with a seek table. Creating the writer fails if the format cannot compress.
    pub fn with_zstd(self, level: i32) -> WriteOptions {
        self.with_encoding(Encoding::ZSTD, Some(level))
    }

    /// Sets the encoding of all components, at compression level `level`, or at the codec's default if that is `None`.
    /// If the codec has seekable frames, components longer than 4 MiB are split into independent frames of 1 MiB, with
    /// a seek table; otherwise each component is encoded at once, in memory. Creating the writer fails if the format
    /// does not support the encoding.
    pub fn with_encoding(mut self, encoding: Encoding, level: Option<i32>) -> WriteOptions {
        (self.encoding, self.level) = (encoding, level);
        self
    }

    /// Writes dense tensors of floats in [byte planes](holdall_core::layout::planes) if that takes less than 97 % of their bytes,
    /// and compresses all other components with zstd. A tensor that is given to a [`Writer`](crate::Writer) in pieces is kept in
    /// memory until it is complete. Creating the writer fails if the format cannot hold planes.
    pub fn with_planes(mut self) -> WriteOptions {
        self.planes = true;
        self.with_encoding(Encoding::ZSTD, None)
    }

    /// Writes each tensor in the smallest of its lossless encodings, by samples of its elements: dense floats in
    /// [byte planes](holdall_core::layout::planes), other components in zstd, and what would save less than 3 % as it is. Replaces
    /// the encoding that was set before. Memory is that of [`WriteOptions::with_planes`]. Creating the writer fails if the format
    /// cannot hold planes.
    pub fn with_smallest(mut self) -> WriteOptions {
        self.smallest = true;
        self.with_planes()
    }

    /// Returns `true` if each tensor is written in the smallest of its encodings.
    pub fn has_smallest(&self) -> bool {
        self.smallest
    }

    /// Returns the encoding of all components.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns `true` if floats are written in planes.
    pub fn has_planes(&self) -> bool {
        self.planes
    }

    /// Returns the digest algorithm that the caller chose. `None` if the default applies, or if digests are off.
    pub fn requested_digest(&self) -> Option<Algorithm> {
        match self.digest {
            DigestChoice::Explicit(algorithm) => algorithm,
            DigestChoice::Default => None,
        }
    }

    /// Returns `true` if the caller chose a digest algorithm or turned digests off.
    pub fn is_digest_chosen(&self) -> bool {
        matches!(self.digest, DigestChoice::Explicit(_))
    }

    /// Sets the digest algorithm of all components; `None` turns digests off. Creating the writer fails if the format
    /// cannot hold the digest.
    pub fn with_digest(mut self, digest: Option<Algorithm>) -> WriteOptions {
        self.digest = DigestChoice::Explicit(digest);
        self
    }

    /// Sets whether an existing file is replaced.
    pub fn with_overwrite(mut self, overwrite: bool) -> WriteOptions {
        self.overwrite = overwrite;
        self
    }

    /// Sets which failures a finished file survives.
    pub fn with_durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = durability;
        self
    }

    /// Wraps the format's encoder, to test encoders that lose data.
    #[doc(hidden)]
    pub fn with_encoder_wrapper(mut self, wrapper: EncoderWrapper) -> WriteOptions {
        self.wrapper = Some(wrapper);
        self
    }

    /// Returns the chosen format, or else the format that the extension of `path` names.
    ///
    /// # Errors
    /// Returns a `Misuse` error: `write/extension` if no format is chosen and the extension is unknown.
    pub fn format_for(&self, path: &Path) -> Result<&'static Format> {
        let by_extension = || {
            let extension = path.extension()?.to_str()?;
            holdall_formats::by_name(extension)
        };
        self.format.or_else(by_extension).ok_or_else(|| {
            EXTENSION
                .broken("the file name's extension does not belong to a known format")
                .in_source(path.display())
        })
    }

    /// Returns the format to write, if these options name one.
    pub fn format(&self) -> Option<&'static Format> {
        self.format
    }

    /// Creates the encoder of `format` with these options.
    ///
    /// # Errors
    /// Returns a `Misuse` error: `write/not-in-format` if the format lacks the chosen encoding or digest; errors of the format's encoder.
    pub fn encoder(&self, format: &'static Format) -> Result<Box<dyn Encode>> {
        let Some(encode) = format.encode else {
            return Err(EXTENSION.broken(format!("{} cannot be written", format.name)));
        };
        let encoder = encode(&self.encode)?;
        let encoder = match self.wrapper {
            Some(wrap) => wrap(encoder),
            None => encoder,
        };
        let name = format.name;
        if self.planes && encoder.check_tensor(&sample_in_planes()).is_err() {
            let e = NOT_IN_FORMAT
                .broken(format!("{name} cannot hold byte planes, which were requested"));
            return Err(e.with_remedy(Remedy::DefaultEncoding));
        }
        if !encoder.can_encode(self.encoding) {
            let requested = self.encoding;
            let lacks = if encoder.can_compress() { "such encoding" } else { "compression" };
            let e =
                NOT_IN_FORMAT.broken(format!("{name} has no {lacks}; {requested} was requested"));
            return Err(e.with_remedy(Remedy::DefaultEncoding));
        }
        if let DigestChoice::Explicit(Some(algorithm)) = self.digest
            && !encoder.can_digest(algorithm)
        {
            let requested = algorithm.as_str();
            let e = NOT_IN_FORMAT
                .broken(format!("{name} cannot hold such digests; {requested} was requested"));
            return Err(e.with_remedy(Remedy::DefaultDigest));
        }
        Ok(encoder)
    }
}

/// Returns a tensor in planes, for asking an encoder whether it can hold one.
fn sample_in_planes() -> TensorSpec {
    let plane_type = &holdall_core::model::plane::PLANE_TYPES[0];
    crate::planes::split::spec(plane_type, "sample", &[1], Attributes::new())
}

/// The choice of the components' digest.
#[derive(Debug, Clone, Copy)]
pub(super) enum DigestChoice {
    /// The default: CRC-32C if the format can hold it, else XXH3 if the format can hold that.
    Default,
    /// The caller's choice; `None` turns digests off.
    Explicit(Option<Algorithm>),
}

impl DigestChoice {
    pub(super) fn algorithm(self, encoder: &dyn Encode) -> Option<Algorithm> {
        let needed = encoder.needs_digest();
        match self {
            _ if needed.is_some() => needed,
            DigestChoice::Default => {
                let usual = [Algorithm::Crc32c, Algorithm::Xxh3];
                usual.into_iter().find(|algorithm| encoder.can_digest(*algorithm))
            }
            DigestChoice::Explicit(algorithm) => algorithm,
        }
    }
}

with_work!(WriteOptions);

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions::new()
    }
}
