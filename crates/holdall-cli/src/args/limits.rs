//! `--limit`: limits of the library, raised or lowered.

use crate::args::Global;
use crate::args::sizes::size;
use clap::ValueEnum;
use holdall::Limits;

impl Global {
    /// The caps of the library after the changes asked for.
    pub(crate) fn limits(&self) -> Limits {
        let mut out = Limits::default();
        out.skip_unknown = self.skip_unknown;
        for limit in &self.limits {
            let n = limit.value;
            let small = usize::try_from(n).unwrap_or(usize::MAX);
            match limit.name {
                LimitName::ManifestLen => out.manifest_len = n,
                LimitName::HeaderLen => out.header_len = n,
                LimitName::TextLen => out.text_len = n,
                LimitName::Files => out.files = n,
                LimitName::Tensors => out.tensors = n,
                LimitName::Rank => out.rank = small,
                LimitName::Depth => out.depth = small,
                LimitName::SchemaNodes => out.schema_nodes = n,
                LimitName::AttributeValues => out.attribute_values = n,
                LimitName::DecodedLen => out.decoded_len = n,
                LimitName::Expansion => out.expansion = n,
                LimitName::ZstdWindowLog => {
                    out.zstd_window_log = u32::try_from(n).unwrap_or(u32::MAX);
                }
                LimitName::FetchedLen => out.fetched_len = n,
                LimitName::StdinLen => {}
            }
        }
        out
    }

    /// The most bytes to take from standard input.
    pub(crate) fn stdin_len(&self) -> u64 {
        let of = |l: &&Limit| l.name == LimitName::StdinLen;
        self.limits.iter().rev().find(of).map_or(4 << 30, |l| l.value)
    }
}

/// One `--limit`.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    name: LimitName,
    value: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LimitName {
    ManifestLen,
    HeaderLen,
    TextLen,
    Files,
    Tensors,
    Rank,
    Depth,
    SchemaNodes,
    AttributeValues,
    DecodedLen,
    Expansion,
    ZstdWindowLog,
    StdinLen,
    FetchedLen,
}

pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=N, for example `tensors=1000`")?;
    let name = LimitName::from_str(name, true).map_err(|_| {
        let all: Vec<String> = LimitName::value_variants()
            .iter()
            .filter_map(|v| Some(v.to_possible_value()?.get_name().to_owned()))
            .collect();
        format!("there is no limit `{name}`, only {}", all.join(", "))
    })?;
    let value = size(value).map_err(|e| match name {
        LimitName::ManifestLen
        | LimitName::HeaderLen
        | LimitName::DecodedLen
        | LimitName::StdinLen
        | LimitName::FetchedLen => e,
        _ => format!("`{value}` is not a whole number; write for example `tensors=1000000`"),
    })?;
    Ok(Limit { name, value })
}
