//! What can be done about an error, as a value: the command spells it as an option, Python as an argument, and
//! Rust, here, as a method.

use crate::Shown as _;
use std::fmt;

/// A field of a remedy, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// A name.
    Text(&'a str),
    /// A count, or bytes.
    Number(u64),
}

/// Makes the enum, and what needs one line for each variant.
macro_rules! remedies {
    ($(
        $(#[$doc:meta])*
        $variant:ident $({ $($(#[$about:meta])* $field:ident: $ty:ty = $example:expr),* $(,)? })? $name:literal;
    )*) => {
        /// What can be done about an error.
        ///
        /// `Display` says it in words of the Rust library. Whoever speaks to others spells each variant in
        /// their words, in one table; [`Remedy::examples`] is for the test that the table is whole.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Remedy {
            $($(#[$doc])* $variant $({ $($(#[$about])* $field: $ty),* })?,)*
        }

        impl Remedy {
            /// The name that JSON has, and Python.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Remedy::$variant { .. } => $name,)*
                }
            }

            /// One of each variant.
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
        /// The least value that would do, where it is known.
        at_least: Option<u64> = Some(5_000_000_000),
    } "raise_limit";
    /// Give a runner more time.
    RaiseTimeout "raise_timeout";
    /// Allow requests without encryption.
    AllowHttp "allow_http";
    /// Allow hosts whose addresses are not public.
    AllowPrivateHosts "allow_private_hosts";
    /// Use the name that is like the one given.
    DidYouMean {
        /// The name, as the file has it.
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
    /// Write a format and version that can hold it.
    WriteFormat {
        /// The id of the format.
        format: &'static str = "ztensor",
        /// Its version; empty where the format has none.
        version: &'static str = "1.2",
    } "write_format";
    /// Write without compression and digests.
    StoreRaw "store_raw";
    /// Do not ask for an encoding.
    DefaultEncoding "default_encoding";
    /// Do not ask for a digest.
    DefaultDigest "default_digest";
    /// Write sparse and quantized tensors as dense ones.
    MakeDense "make_dense";
    /// Take what is sound out of a damaged file.
    Salvage "salvage";
    /// Leave out what is not known.
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
    /// Have the schema of the file made from its tensors.
    InferSchema "infer_schema";
    /// Fetch what the package links to into the cache.
    FetchLinks "fetch_links";
    /// Write a package that has in it what it links to.
    FetchWhole "fetch_whole";
    /// Pack what symbolic links lead to.
    FollowLinks "follow_links";
    /// Say where the cache is.
    SetCache "set_cache";
    /// Say what runs the model in the folder.
    NameRunner "name_runner";
    /// Make a dataset of the records in the file.
    BuildDataset "build_dataset";
    /// Open a file in the archive.
    OpenInside "open_inside";
    /// Open the model by the file that lists its files.
    OpenIndex "open_index";
    /// Open the files of the model without their index.
    NameFiles "name_files";
    /// Look at the file, or make a package of it.
    PackFile "pack_file";
    /// Say which Python interpreter to use.
    NamePython "name_python";
    /// Read and write through the standard streams.
    UseStreams "use_streams";
    /// Take `null` for the absence of an optional member.
    NullIsAbsent "null_is_absent";
    /// Read records that are in one JSON array as one JSON value.
    ReadArray "read_array";
    /// Copy elements out, where they cannot be borrowed.
    CopyElements "copy_elements";
    /// Read both parts of complex elements.
    ReadPairs "read_pairs";
    /// Declare all tensors before the first is written.
    DeclareTensors "declare_tensors";
    /// Give the file a schema.
    GiveSchema "give_schema";
    /// Name the model whose graph the weights go into.
    NameGraph "name_graph";
    /// Open the file with a description of the layout.
    DescribeLayout "describe_layout";
}

impl Remedy {
    /// The suggestion of another name.
    pub fn did_you_mean(name: impl Into<String>) -> Remedy {
        Remedy::DidYouMean { name: name.into() }
    }

    /// What else is known, under the names that JSON has.
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

/// In words of the Rust library.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::RaiseLimit { limit, at_least: None } => {
                return write!(f, "if you trust the file, raise `Limits::{limit}`");
            }
            Remedy::RaiseLimit { limit, at_least: Some(n) } => {
                return write!(f, "if you trust the file, raise `Limits::{limit}` to {n}");
            }
            Remedy::DidYouMean { name } => return write!(f, "did you mean `{}`?", name.shown()),
            Remedy::WriteFormat { format, version: "" } => {
                return write!(f, "`{format}` can hold it");
            }
            Remedy::WriteFormat { format, version } => {
                return write!(f, "version {version} of `{format}` can hold it");
            }
            Remedy::RaiseTimeout => "allow more time with `Settings::with_timeout`",
            Remedy::AllowHttp => "use https, or allow http with `Policy::with_schemes`",
            Remedy::AllowPrivateHosts => "if you mean this host, allow it with `Policy::with_hosts`",
            Remedy::ListNames => "`File::names` gives the names",
            Remedy::ListAttributes => "`File::attributes` and `Tensor::attributes` give what there is",
            Remedy::ListFormats => "`FORMATS` lists the formats that this build reads",
            Remedy::Overwrite => "allow it to be replaced with `with_overwrite(true)`",
            Remedy::NameFormat => "name the format with `WriteOptions::with_format`",
            Remedy::StoreRaw => "write it without `with_zstd` and `with_digest`",
            Remedy::DefaultEncoding => "leave `with_zstd` out, or write zTensor, which has it",
            Remedy::DefaultDigest => "leave `with_digest` out, or write zTensor, which has it",
            Remedy::MakeDense => {
                "`Convert::with_dense` writes sparse, quantized and described tensors as dense ones"
            }
            Remedy::SkipUnknown => "`Limits::skip_unknown` leaves it out",
            Remedy::Salvage => "`holdall::salvage` takes out what is sound",
            Remedy::LeaveOut => "`Convert::with_select` leaves tensors out",
            Remedy::DropLogicalTypes => {
                "`Convert::with_raw_types` writes the storage elements without logical types"
            }
            Remedy::DropAttributes => {
                "`Convert::with_drop_attributes` leaves out what cannot be kept"
            }
            Remedy::RenameTensor => "`Convert::with_renames` gives the tensor another name",
            Remedy::CopyShared => "`Sharing::Copy` gives every tensor bytes of its own",
            Remedy::InferSchema => {
                "without the attribute `metatensor.schema` a schema is made from the tensors"
            }
            Remedy::FetchLinks => "`carton::links::fetch` gets what the package links to",
            Remedy::FetchWhole => "`carton::links::whole` writes a package with everything in it",
            Remedy::FollowLinks => "`SymlinkPolicy::All` packs what such links lead to",
            Remedy::SetCache => "set the variable `HOLDALL_CACHE` to a folder",
            Remedy::NameRunner => "say what runs the model with `Recipe::open`",
            Remedy::BuildDataset => "`records::build` makes a dataset of records",
            Remedy::OpenInside => "`open` opens a file in it as `ARCHIVE!/PATH`; or unpack it",
            Remedy::OpenIndex => "`open` takes an index under a name that ends in `.index.json`, beside its files",
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
            Remedy::NameGraph => "`Convert::with_graph` names the model that the weights go into",
            Remedy::DescribeLayout => "`OpenOptions::with_layouts` takes a description of the layout",
            Remedy::GiveSchema => "give the file a schema with `with_schema`, or the kind itself",
        })
    }
}
