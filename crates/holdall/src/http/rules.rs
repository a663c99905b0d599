//! Rules about requests over HTTP and their answers. They are listed in every build, so that a code means
//! the same in all of them.

use holdall_core::{Kind, Rule};

/// This build cannot.
pub static NOT_BUILT: Rule = Rule::new(
    "http/not-built",
    Kind::Unsupported,
    "Addresses on the web are opened by builds with the feature `http`.",
)
.with_hint("download the file first");
/// Not a URL.
pub static URL: Rule = Rule::new(
    "http/url",
    Kind::Misuse,
    "An address on the web is `https://HOST/PATH`, where the host is a name or an IP address.",
);
/// Neither https, nor http that was allowed.
pub static SCHEME: Rule = Rule::new(
    "http/scheme",
    Kind::Misuse,
    "Files are fetched by https; by http only where the caller allows it; in no other way.",
);
/// From https to http.
pub static DOWNGRADE: Rule = Rule::new(
    "http/downgrade",
    Kind::Io,
    "A server that is asked by https does not send its clients on to http.",
);
/// An address that is not public.
pub static PRIVATE_HOST: Rule = Rule::new(
    "http/private-host",
    Kind::Misuse,
    "Hosts that are asked have public addresses, unless the caller allows others.",
)
.with_hint("where the host is meant, add `--allow private-hosts` (in Rust: `Hosts::Any`)");
/// A redirect that leads nowhere.
pub static REDIRECT: Rule = Rule::new(
    "http/redirect",
    Kind::Io,
    "A redirect names its target, and a few redirects lead to the file.",
);
/// A redirect to what is no address.
pub static REDIRECT_TARGET: Rule = Rule::new(
    "http/redirect-target",
    Kind::Malformed,
    "A redirect leads to an address of https or http.",
);
/// The network failed.
pub static FAILED: Rule = Rule::new(
    "http/failed",
    Kind::Io,
    "The host is found, can be connected to, and answers in HTTP, in time.",
);
/// Too slow.
pub static SLOW: Rule =
    Rule::new("http/slow", Kind::Io, "The bytes of an answer come faster than a trickle.")
        .with_hint("try again later, or from another place");
/// Another status than one that brings the file.
pub static STATUS: Rule =
    Rule::new("http/status", Kind::Io, "A server that is asked for a file answers with it.");
/// The answer contradicts itself or the request.
pub static ANSWER: Rule = Rule::new(
    "http/answer",
    Kind::Io,
    "An answer holds the bytes that were asked for, as many as it promises.",
);
/// No ranges.
pub static RANGES: Rule = Rule::new(
    "http/ranges",
    Kind::Unsupported,
    "A server from which a file is opened in place can send parts of it (range requests).",
)
.with_hint("download the whole file first, then open it from the disk");
/// A content encoding that cannot be taken.
pub static ENCODING: Rule = Rule::new(
    "http/encoding",
    Kind::Unsupported,
    "Parts of a file come as they are; whole files as they are, or in one of the content encodings \
     zstd, gzip, br and deflate.",
);
/// Another file under the same address.
pub static CHANGED: Rule =
    Rule::new("http/changed", Kind::Io, "A file on a server stays the same while it is open.")
        .with_hint("somebody replaced the file meanwhile; open it again");
/// More than the cap.
pub static TOO_LONG: Rule = Rule::new(
    "http/too-long",
    Kind::Limit,
    "A file that is fetched has at most `Limits::fetched_len` bytes.",
)
.with_hint("raise the cap with `--limit fetched-len=…`");
/// Certificates that are none.
pub static CERTIFICATES: Rule = Rule::new(
    "http/certificates",
    Kind::Misuse,
    "Certificates of authorities are given in PEM, one at least.",
);
