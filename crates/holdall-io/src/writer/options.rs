//! What is chosen about a file that is written.

use crate::error::{EXTENSION, NOT_IN_FORMAT};
use crate::sink::Durability;
use crate::with_work;
use crate::work::Work;
use holdall_core::{Algorithm, Attributes, Encode, EncodeOptions, Encoding, Remedy, Result};
use holdall_formats::Format;
use std::path::Path;

/// What a caller chooses about a file to be written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub(crate) format: Option<&'static Format>,
    /// What the encoder is told.
    pub encode: EncodeOptions,
    /// Attributes of the file.
    pub attributes: Attributes,
    pub(crate) encoding: Encoding,
    pub(crate) level: Option<i32>,
    pub(super) digest: Digesting,
    /// Whether an existing file is replaced.
    pub overwrite: bool,
    /// Threads for compression; cancels writing; who writes whole files tells it how far it is.
    pub work: Work,
    /// What a finished file survives.
    pub durability: Durability,
    wrapper: Option<EncoderWrapper>,
}

/// Makes another encoder of one.
pub(super) type EncoderWrapper = fn(Box<dyn Encode>) -> Box<dyn Encode>;

impl WriteOptions {
    /// The format of the target's extension in its newest version, raw, with CRC-32C digests where the
    /// format has a place for them, or XXH3 where it has one for those, on the disk before it has its name, and no file replaced.
    pub fn new() -> WriteOptions {
        WriteOptions {
            format: None,
            encode: EncodeOptions::new(),
            attributes: Attributes::new(),
            encoding: Encoding::Raw,
            level: None,
            digest: Digesting::Usual,
            work: Work::default(),
            overwrite: false,
            durability: Durability::Disk,
            wrapper: None,
        }
    }

    /// Writes this format.
    pub fn with_format(mut self, format: &'static Format) -> WriteOptions {
        self.format = Some(format);
        self
    }

    /// Writes this version and alignment.
    pub fn with_encode(mut self, encode: EncodeOptions) -> WriteOptions {
        self.encode = encode;
        self
    }

    /// Gives the file these attributes.
    pub fn with_attributes(mut self, attributes: Attributes) -> WriteOptions {
        self.attributes = attributes;
        self
    }

    /// Compresses every component with zstd at `level`, in independent frames of 1 MiB with a seek
    /// table when it has more than 4 MiB. A format that cannot compress is then refused.
    pub fn with_zstd(self, level: i32) -> WriteOptions {
        self.with_encoding(Encoding::ZSTD, Some(level))
    }

    /// Stores every component in this encoding, at `level` or, if that is `None`, at the codec's own. Where the codec has
    /// frames, components of more than 4 MiB are cut into independent ones of 1 MiB with a table; else each component is encoded
    /// at once, in memory. A format without the encoding is then refused.
    pub fn with_encoding(mut self, encoding: Encoding, level: Option<i32>) -> WriteOptions {
        (self.encoding, self.level) = (encoding, level);
        self
    }

    /// The digest that was asked for; nothing where none was, or the usual one is taken.
    pub fn digest_asked_for(&self) -> Option<Algorithm> {
        match self.digest {
            Digesting::Asked(algorithm) => algorithm,
            Digesting::Usual => None,
        }
    }

    /// Returns whether the caller chose the digests, or that there are none.
    pub fn is_digest_chosen(&self) -> bool {
        matches!(self.digest, Digesting::Asked(_))
    }

    /// Gives every component a digest of this algorithm, or none. A format without a place for it is
    /// then refused.
    pub fn with_digest(mut self, digest: Option<Algorithm>) -> WriteOptions {
        self.digest = Digesting::Asked(digest);
        self
    }

    /// Replaces a file that is there.
    pub fn with_overwrite(mut self, overwrite: bool) -> WriteOptions {
        self.overwrite = overwrite;
        self
    }

    /// What has happened to the bytes when the file appears.
    pub fn with_durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = durability;
        self
    }

    /// Writes with what `wrapper` makes of the format's encoder. For tests of what becomes of an encoder that drops something.
    #[doc(hidden)]
    pub fn with_encoder_wrapper(mut self, wrapper: EncoderWrapper) -> WriteOptions {
        self.wrapper = Some(wrapper);
        self
    }

    /// The format to write to `path`.
    pub fn format_for(&self, path: &Path) -> Result<&'static Format> {
        let by_extension = || {
            let extension = path.extension()?.to_str()?;
            holdall_formats::by_name(extension)
        };
        self.format.or_else(by_extension).ok_or_else(|| {
            EXTENSION
                .broken("the extension of the file name is not that of a known format")
                .in_source(path.display())
        })
    }

    /// The format to be written, if these options name one.
    pub fn format(&self) -> Option<&'static Format> {
        self.format
    }

    /// What writes that format as these options want it.
    ///
    /// # Errors
    /// Misuse: `write/not-in-format`, and what the format refuses.
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
        if !encoder.can_encode(self.encoding) {
            let asked = self.encoding;
            let lacks = if encoder.can_compress() { "such encoding" } else { "compression" };
            let e = NOT_IN_FORMAT.broken(format!("{name} has no {lacks}; {asked} was asked for"));
            return Err(e.with_remedy(Remedy::DefaultEncoding));
        }
        if let Digesting::Asked(Some(algorithm)) = self.digest
            && !encoder.can_digest(algorithm)
        {
            let asked = algorithm.as_str();
            let e = NOT_IN_FORMAT
                .broken(format!("{name} has no place for a digest; {asked} was asked for"));
            return Err(e.with_remedy(Remedy::DefaultDigest));
        }
        Ok(encoder)
    }
}

/// Which digest components get.
#[derive(Debug, Clone, Copy)]
pub(super) enum Digesting {
    /// CRC-32C, where the format has a place for it, else XXH3 where it has one for that.
    Usual,
    /// What was asked for.
    Asked(Option<Algorithm>),
}

impl Digesting {
    pub(super) fn algorithm(self, encoder: &dyn Encode) -> Option<Algorithm> {
        let needed = encoder.needs_digest();
        match self {
            _ if needed.is_some() => needed,
            Digesting::Usual => {
                let usual = [Algorithm::Crc32c, Algorithm::Xxh3];
                usual.into_iter().find(|algorithm| encoder.can_digest(*algorithm))
            }
            Digesting::Asked(algorithm) => algorithm,
        }
    }
}

with_work!(WriteOptions);

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions::new()
    }
}
