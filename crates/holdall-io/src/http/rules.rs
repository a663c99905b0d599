//! Rules about HTTP requests and responses. Every build lists them, so that a code has the same meaning in all builds.

/// The code of the warning that the server does not reliably identify versions of the file.
pub const VALIDATOR: &str = "http/validator";

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The build has no HTTP support.
    pub NOT_BUILT: Unsupported "http/not-built"
        "Web addresses are opened by builds with the feature `http`."
        hint "build with the feature `http`, or download the file first";
    /// The build has no QUIC support.
    pub NOT_SERVED: Unsupported "net/not-built"
        "Addresses that begin with `holdall://` are opened by builds with the feature `quic`."
        hint "open the file by its HTTP address: the server has the same files there";
    /// An invalid URL.
    pub URL: Misuse "http/url"
        "A web address is `https://HOST/PATH`, where HOST is a name or an IP address.";
    /// A scheme other than https, or http where it is not allowed.
    pub SCHEME: Misuse "http/scheme"
        "Files are fetched by https, or by http where the caller allows it.";
    /// A redirect from https to http.
    pub DOWNGRADE: Io "http/downgrade"
        "A server does not redirect a request from https to http.";
    /// A host without a public address.
    pub PRIVATE_HOST: Misuse "http/private-host"
        "A host has a public address, unless the caller allows other addresses."
        remedies [AllowPrivateHosts];
    /// A redirect without a target, or too many redirects.
    pub REDIRECT: Io "http/redirect"
        "A redirect names its target, and a request is redirected only a few times.";
    /// A redirect to an invalid URL.
    pub REDIRECT_TARGET: Malformed "http/redirect-target"
        "A redirect leads to an `https` or `http` address.";
    /// A network failure.
    pub FAILED: Io "http/failed"
        "The host can be found and connected to, and answers in time.";
    /// A response that is too slow.
    pub SLOW: Io "http/slow"
        "A server sends a response at a reasonable rate."
        hint "try again later, or from another network";
    /// A status that is not success.
    pub STATUS: Io "http/status" "A server responds to a request for a file with a success status.";
    /// A response that contradicts itself or the request.
    pub ANSWER: Io "http/answer"
        "A response has exactly the requested bytes, as many as its headers announce, and no repeated headers.";
    /// A server without support for range requests.
    pub RANGES: Unsupported "http/ranges"
        "A server supports range requests for a file that is opened in place."
        hint "download the whole file first, then open it from the disk";
    /// An unsupported content encoding.
    pub ENCODING: Unsupported "http/encoding"
        "Parts of a file are sent without content encoding; a whole file may be encoded as zstd, gzip, br or deflate.";
    /// A file that changed on the server while it was open.
    pub CHANGED: Io "http/changed"
        "A file on a server does not change while it is open."
        hint "the file was replaced on the server; open it again";
    /// A file longer than the limit.
    pub TOO_LONG: Limit "http/too-long"
        "A file that is fetched has at most `Limits::fetched_len` bytes."
        remedies [RaiseLimit { limit: "fetched_len", at_least: None }];
    /// Invalid certificates.
    pub CERTIFICATES: Misuse "http/certificates"
        "Certificates of authorities are PEM text with at least one certificate.";
}
