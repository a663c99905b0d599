//! Rules about files that a package links to.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// No address gives the file.
    pub UNREACHABLE: Io "links/unreachable"
        "At least one of the addresses that `LINKS` has for a file serves it.";
    /// The server sent another file than the linked one.
    pub DIGEST: Integrity "links/digest"
        "What a linked file's address serves has the file's SHA-256, after decoding its content encoding."
        hint "the server has another file at this address: ask the author of the package";
    /// The content encoding cannot be decoded.
    pub ENCODED: Integrity "links/encoded" "A response in a content encoding can be decoded.";
    /// The decoded file is too long.
    pub TOO_LONG: Limit "links/too-long"
        "A linked file that comes in a content encoding decodes to at most `Limits::decoded_len` \
         bytes, or `Limits::expansion` times what came."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
    /// The file is longer than its declaration allows.
    pub DECLARED: Malformed "links/declared-len"
        "A linked file of `tensor_data` is no longer than the type and shape of its tensor say; a text, or the table of tensors, has at most `Limits::text_len` bytes."
        hint "the server has another file at this address, or the package is wrong: ask its author";
    /// The file is not in the cache, and the reader is offline.
    pub OFFLINE: NotFound "links/offline"
        "Linked files that are read offline are in the cache."
        remedies [FetchLinks];
    /// A text is not an address.
    pub NOT_AN_ADDRESS: Malformed "links/not-an-address"
        "An address in `LINKS` is an absolute `https` or `http` URL with a host."
        hint "ask the author of the package";
    /// The file has no address.
    pub NO_ADDRESS: NotFound "links/no-address" "A file that is to be fetched has an address.";
    /// The folder for the cache is not known.
    pub CACHE_FOLDER: Misuse "links/cache-folder"
        "There is a folder for cached files: the system's, or the one that \
         `HOLDALL_CACHE` names."
        remedies [SetCache];
    /// An address must not be written into `LINKS`.
    pub ADDRESS: Misuse "links/address"
        "An address that is written into `LINKS` belongs to one file and contains no secret.";
    /// The file cannot be linked to.
    pub CANNOT_LINK: Misuse "links/cannot-link"
        "Only files that `MANIFEST` lists can be linked to.";
}
