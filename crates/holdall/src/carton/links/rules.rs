//! Rules about files that a package links to.

use holdall_core::{Kind, Rule};

/// No address gives the file.
pub static UNREACHABLE: Rule = Rule::new(
    "links/unreachable",
    Kind::Io,
    "One of the addresses that `LINKS` has for a file gives it.",
);
/// Another file than the one linked to.
pub static DIGEST: Rule = Rule::new(
    "links/digest",
    Kind::Integrity,
    "What comes from a linked file's address has the file's SHA-256, once its content encoding is undone.",
)
.with_hint("the server has another file there: ask whoever made the package");
/// A content encoding that does not decode.
pub static ENCODED: Rule = Rule::new(
    "links/encoded",
    Kind::Integrity,
    "What comes in a content encoding is in that encoding.",
);
/// A bomb.
pub static TOO_LONG: Rule = Rule::new(
    "links/too-long",
    Kind::Limit,
    "A linked file that comes in a content encoding decodes to at most `Limits::decoded_len` bytes, or \
     `Limits::expansion` times what came.",
)
.with_hint("raise the cap with `--limit decoded-len=…` if you trust the package");
/// Not at hand.
pub static OFFLINE: Rule =
    Rule::new("links/offline", Kind::NotFound, "Without a network, linked files are in the cache.")
        .with_hint("`holdall fetch` brings them into the cache");
/// Text that is no address.
pub static NOT_AN_ADDRESS: Rule = Rule::new(
    "links/not-an-address",
    Kind::Malformed,
    "An address in `LINKS` is an absolute URL with a host, of the scheme https, or http.",
)
.with_hint("ask whoever made the package");
/// No address at all.
pub static NO_ADDRESS: Rule =
    Rule::new("links/no-address", Kind::NotFound, "A file that is fetched has an address.");
/// No folder for the cache.
pub static CACHE_FOLDER: Rule = Rule::new(
    "links/cache-folder",
    Kind::Misuse,
    "There is a folder for cached files: the one that the system has for such, or `HOLDALL_CACHE`.",
)
.with_hint("set `HOLDALL_CACHE` to a folder");
/// An address that nobody should follow.
pub static ADDRESS: Rule = Rule::new(
    "links/address",
    Kind::Misuse,
    "An address that is written into `LINKS` is one of the file alone, and holds no secret.",
);
/// A file that stays.
pub static CANNOT_LINK: Rule = Rule::new(
    "links/cannot-link",
    Kind::Misuse,
    "Files that `MANIFEST` lists can be linked to, except those that describe the package: `carton.toml` \
     and `tensor_data/index.toml`.",
);
