//! Rules about requests over HTTP and their answers. They are listed in every build, so that a code means
//! the same in all of them.

/// A warning: the server does not tell versions of the file apart for sure.
pub const VALIDATOR: &str = "http/validator";

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// This build cannot.
    pub NOT_BUILT: Unsupported "http/not-built"
        "Web addresses are opened by builds with the feature `http`."
        hint "build with the feature `http`, or download the file first";
    /// This build cannot either.
    pub NOT_SERVED: Unsupported "net/not-built"
        "Addresses that begin with `holdall://` are opened by builds with the feature `quic`."
        hint "the server has the same files over HTTP";
    /// Not a URL.
    pub URL: Misuse "http/url"
        "A web address is `https://HOST/PATH`, where HOST is a name or an IP address.";
    /// Neither https, nor http that was allowed.
    pub SCHEME: Misuse "http/scheme"
        "Files are fetched by https, or by http where the caller allows it.";
    /// From https to http.
    pub DOWNGRADE: Io "http/downgrade"
        "A server does not redirect a request from https to http.";
    /// An address that is not public.
    pub PRIVATE_HOST: Misuse "http/private-host"
        "A host has a public address, unless the caller allows other addresses."
        remedies [AllowPrivateHosts];
    /// A redirect that leads nowhere.
    pub REDIRECT: Io "http/redirect"
        "A redirect names its target, and a request is redirected only a few times.";
    /// A redirect to what is not an address.
    pub REDIRECT_TARGET: Malformed "http/redirect-target"
        "A redirect leads to an `https` or `http` address.";
    /// The network failed.
    pub FAILED: Io "http/failed"
        "The host can be found and connected to, and answers in time.";
    /// Too slow.
    pub SLOW: Io "http/slow"
        "A server sends a response at a reasonable rate."
        hint "try again later, or from another place";
    /// Another status than one that brings the file.
    pub STATUS: Io "http/status" "A server answers a request for a file with the file.";
    /// The answer contradicts itself or the request.
    pub ANSWER: Io "http/answer"
        "A response has exactly the bytes that were asked for, as many as its headers announce, and each header once.";
    /// No ranges.
    pub RANGES: Unsupported "http/ranges"
        "A server supports range requests for a file that is opened in place."
        hint "download the whole file first, then open it from the disk";
    /// A content encoding that cannot be taken.
    pub ENCODING: Unsupported "http/encoding"
        "Parts of a file are sent without content encoding; a whole file may be encoded as zstd, gzip, br or deflate.";
    /// Another file under the same address.
    pub CHANGED: Io "http/changed"
        "A file on a server does not change while it is open."
        hint "the file was replaced on the server; open it again";
    /// More than the cap.
    pub TOO_LONG: Limit "http/too-long"
        "A file that is fetched has at most `Limits::fetched_len` bytes."
        remedies [RaiseLimit { limit: "fetched_len", at_least: None }];
    /// Invalid certificates.
    pub CERTIFICATES: Misuse "http/certificates"
        "Certificates of authorities are PEM text with at least one certificate.";
}
