//! Remedies: what can be done about an error, as a value. The command formats a remedy as an option, Python as an
//! argument, and Rust, in this module, as a method.

use crate::Escape as _;
use std::fmt;

/// A field of a remedy, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// A name.
    Text(&'a str),
    /// A count, or a number of bytes.
    Number(u64),
}

/// Defines the enum, and the functions that need one line for each variant.
macro_rules! remedies {
    ($(
        $(#[$doc:meta])*
        $variant:ident $({ $($(#[$about:meta])* $field:ident: $ty:ty = $example:expr),* $(,)? })? $name:literal;
    )*) => {
        /// Something that can be done about an error.
        ///
        /// `Display` formats it in terms of the Rust library. Other interfaces format each variant in their own terms;
        /// [`Remedy::examples`] lets a test check that all variants are covered.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Remedy {
            $($(#[$doc])* $variant $({ $($(#[$about])* $field: $ty),* })?,)*
        }

        impl Remedy {
            /// Returns the remedy's name in JSON and Python.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Remedy::$variant { .. } => $name,)*
                }
            }

            /// Returns an example of each variant.
            pub fn examples() -> Vec<Remedy> {
                vec![$(Remedy::$variant $({ $($field: $example),* })?,)*]
            }
        }
    };
}

remedies! {
    /// Raise a limit, if the file is trusted.
    RaiseLimit {
        /// A field of `Limits`.
        limit: &'static str = "decoded_len",
        /// The smallest value that is sufficient, if it is known.
        at_least: Option<u64> = Some(5_000_000_000),
    } "raise_limit";
    /// Give a runner more time.
    RaiseTimeout "raise_timeout";
    /// Allow requests without encryption.
    AllowHttp "allow_http";
    /// Allow hosts whose addresses are not public.
    AllowPrivateHosts "allow_private_hosts";
    /// Use the name that is similar to the given one.
    DidYouMean {
        /// The similar name, as the file has it.
        name: String = "embed.weight".to_owned(),
    } "did_you_mean";
    /// Look at the names in the file.
    ListNames "list_names";
    /// Look at the attributes in the file.
    ListAttributes "list_attributes";
    /// Look at the formats that can be read.
    ListFormats "list_formats";
    /// Replace what exists.
    Overwrite "overwrite";
    /// Say which format to write.
    NameFormat "name_format";
    /// Write a format and version that can represent the value.
    WriteFormat {
        /// The id of the format.
        format: &'static str = "ztensor",
        /// The version of the format; empty if the format has no versions.
        version: &'static str = "1.2",
    } "write_format";
    /// Write without compression and digests.
    StoreRaw "store_raw";
    /// Do not request an encoding.
    DefaultEncoding "default_encoding";
    /// Do not request a digest.
    DefaultDigest "default_digest";
    /// Write sparse and quantized tensors as dense ones.
    MakeDense "make_dense";
    /// Recover the undamaged tensors of a damaged file.
    Salvage "salvage";
    /// Skip unknown fields.
    SkipUnknown "skip_unknown";
    /// Leave tensors out.
    LeaveOut "leave_out";
    /// Write storage elements without their logical types.
    DropLogicalTypes "drop_logical_types";
    /// Leave out the attributes that cannot be kept.
    DropAttributes "drop_attributes";
    /// Give the tensor another name.
    RenameTensor "rename_tensor";
    /// Give every tensor bytes of its own.
    CopyShared "copy_shared";
    /// Infer the file's schema from its tensors.
    InferSchema "infer_schema";
    /// Fetch the files that the package links to into the cache.
    FetchLinks "fetch_links";
    /// Write a package that contains the files that it links to.
    FetchWhole "fetch_whole";
    /// Pack the targets of symbolic links.
    FollowLinks "follow_links";
    /// Set the location of the cache.
    SetCache "set_cache";
    /// Name the runner for the model in the folder.
    NameRunner "name_runner";
    /// Build a dataset from the records in the file.
    BuildDataset "build_dataset";
    /// Open a file in the archive.
    OpenInside "open_inside";
    /// Open the model through the index that lists its files.
    OpenIndex "open_index";
    /// Open the files of the model without their index.
    NameFiles "name_files";
    /// Look at the file, or make a package of it.
    PackFile "pack_file";
    /// Say which Python interpreter to use.
    NamePython "name_python";
    /// Read and write through the standard streams.
    UseStreams "use_streams";
    /// Treat `null` as the absence of an optional member.
    NullIsAbsent "null_is_absent";
    /// Read the records of one JSON array as a single JSON value.
    ReadArray "read_array";
    /// Copy elements that cannot be borrowed.
    CopyElements "copy_elements";
    /// Read the real and the imaginary part of complex elements.
    ReadPairs "read_pairs";
    /// Declare all tensors before the first is written.
    DeclareTensors "declare_tensors";
    /// Give the file a schema.
    GiveSchema "give_schema";
    /// Name the model whose graph receives the weights.
    NameGraph "name_graph";
    /// Open the file with a description of the layout.
    DescribeLayout "describe_layout";
    /// Name the pre-tokenizer, whose rules are not in the table.
    NamePreTokenizer "name_pre_tokenizer";
}

impl Remedy {
    /// Creates the suggestion of a similar name.
    pub fn did_you_mean(name: impl Into<String>) -> Remedy {
        Remedy::DidYouMean { name: name.into() }
    }

    /// Returns the remedy's fields, under their names in JSON.
    pub fn details(&self) -> Vec<(&'static str, Detail<'_>)> {
        match self {
            Remedy::RaiseLimit { limit, at_least } => {
                let at_least = at_least.map(|n| ("at_least", Detail::Number(n)));
                std::iter::once(("limit", Detail::Text(limit))).chain(at_least).collect()
            }
            Remedy::DidYouMean { name } => vec![("name", Detail::Text(name))],
            Remedy::WriteFormat { format, version } => {
                vec![("format", Detail::Text(format)), ("version", Detail::Text(version))]
            }
            _ => Vec::new(),
        }
    }
}

/// Formats the remedy in terms of the Rust library.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::RaiseLimit { limit, at_least: None } => {
                return write!(f, "if you trust the file, raise `Limits::{limit}`");
            }
            Remedy::RaiseLimit { limit, at_least: Some(n) } => {
                return write!(f, "if you trust the file, raise `Limits::{limit}` to {n}");
            }
            Remedy::DidYouMean { name } => return write!(f, "did you mean `{}`?", name.escaped()),
            Remedy::WriteFormat { format, version: "" } => {
                return write!(f, "`{format}` can hold it");
            }
            Remedy::WriteFormat { format, version } => {
                return write!(f, "version {version} of `{format}` can hold it");
            }
            Remedy::RaiseTimeout => "allow more time with `Settings::with_timeout`",
            Remedy::AllowHttp => "use https, or allow http with `Policy::with_schemes`",
            Remedy::AllowPrivateHosts => "if you mean this host, allow it with `Policy::with_hosts`",
            Remedy::ListNames => "`File::names` lists the names",
            Remedy::ListAttributes => "`File::attributes` and `Tensor::attributes` list the attributes",
            Remedy::ListFormats => "`FORMATS` lists the formats that this build reads",
            Remedy::Overwrite => "allow it to be replaced with `with_overwrite(true)`",
            Remedy::NameFormat => "name the format with `WriteOptions::with_format`",
            Remedy::StoreRaw => "write it without `with_zstd` and `with_digest`",
            Remedy::DefaultEncoding => "omit `with_zstd`, or write zTensor, which supports it",
            Remedy::DefaultDigest => "omit `with_digest`, or write zTensor, which supports it",
            Remedy::MakeDense => {
                "`Convert::with_dense` writes sparse, quantized and described tensors as dense ones"
            }
            Remedy::SkipUnknown => "`Limits::skip_unknown` skips unknown fields",
            Remedy::Salvage => "`holdall::salvage` recovers the undamaged tensors",
            Remedy::LeaveOut => "`Convert::with_select` excludes tensors",
            Remedy::DropLogicalTypes => {
                "`Convert::with_raw_types` writes the storage elements without logical types"
            }
            Remedy::DropAttributes => {
                "`Convert::with_drop_attributes` omits attributes that cannot be kept"
            }
            Remedy::RenameTensor => "`Convert::with_renames` gives the tensor another name",
            Remedy::CopyShared => "`Sharing::Copy` gives every tensor bytes of its own",
            Remedy::InferSchema => {
                "without the attribute `metatensor.schema` the schema is inferred from the tensors"
            }
            Remedy::FetchLinks => "`carton::links::fetch` fetches the files that the package links to",
            Remedy::FetchWhole => "`carton::links::embed_links` writes a package that contains all linked files",
            Remedy::FollowLinks => "`SymlinkPolicy::All` packs the targets of symbolic links",
            Remedy::SetCache => "set the variable `HOLDALL_CACHE` to a folder",
            Remedy::NameRunner => "say what runs the model with `Recipe::open`",
            Remedy::BuildDataset => "`records::build` makes a dataset of records",
            Remedy::OpenInside => "`open` opens a file in it as `ARCHIVE!/PATH`; or unpack it",
            Remedy::OpenIndex => "`open` accepts an index whose name ends in `.index.json`, in the folder of its files",
            Remedy::NameFiles => "`OpenOptions::open_all` opens the files without their index",
            Remedy::PackFile => "`open` reads the file, `Packer::from_model` makes a package of it",
            Remedy::NamePython => {
                "name an interpreter with `Settings::with_python` or the variable HOLDALL_PYTHON"
            }
            Remedy::UseStreams => "read a pipe into memory for `OpenOptions::open_bytes`, write one with `Writer::stream`",
            Remedy::NullIsAbsent => "allow `null` for an optional member that is absent",
            Remedy::ReadArray => "give the records one by one",
            Remedy::CopyElements => "`to_vec` copies the elements",
            Remedy::ReadPairs => {
                "`as_slice::<[f32; 2]>` or `to_vec::<[f64; 2]>` gives both parts"
            }
            Remedy::DeclareTensors => "call `Writer::declare` with all tensors",
            Remedy::NameGraph => "`Convert::with_graph` names the model that receives the weights",
            Remedy::DescribeLayout => "`OpenOptions::with_layouts` accepts a description of the layout",
            Remedy::NamePreTokenizer => "name it with `TokenizerOptions::with_pre_tokenizer`",
            Remedy::GiveSchema => "give the file a schema with `with_schema`, or the kind itself",
        })
    }
}
