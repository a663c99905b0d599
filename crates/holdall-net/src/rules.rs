//! Rules about files that are served, and about those who ask for them. They are listed in every build.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Not an address.
    pub ADDRESS: Misuse "net/address"
        "The address of a served file is `holdall://HOST:PORT/PATH`, followed by `#sha256=` and 64 hexadecimal digits if the server made its own certificate, and by `#blake3=` and 64 digits if the bytes are to be proven (with `&` between the two).";
    /// An invalid frame.
    pub FRAME: Malformed "net/frame"
        "A frame has a kind that is expected, is no longer than its kind allows, and describes its content to the last byte.";
    /// Another version.
    pub VERSION: Unsupported "net/version" "Both sides speak version 1 of the protocol.";
    /// No token, or another.
    pub TOKEN: Misuse "net/token"
        "Clients of a server that requires a token give one that it accepts."
        hint "write it before the host, as in `holdall://TOKEN@host:4433/model.zt`";
    /// Plain text, where that is refused.
    pub PLAIN: Misuse "net/plain-text"
        "Clients of a server that refuses plain text speak TLS."
        hint "ask for `https://…`";
    /// Nothing of that name.
    pub NO_FILE: NotFound "net/no-file" "The file that is asked for is served.";
    /// Invalid ranges.
    pub REQUEST: Misuse "net/request"
        "A request names an open file and at most 1,024 ranges inside it, which together are no longer than it.";
    /// The server has enough to do.
    pub BUSY: Io "net/busy"
        "A client has no more open files and running requests than the server allows."
        hint "try again later";
    /// Another file in place of the one that was opened.
    pub CHANGED: Io "net/changed"
        "A served file does not change while it is open."
        hint "the file was changed on the server; open it again";
    /// The network, or the other side, failed.
    pub FAILED: Io "net/failed"
        "The host can be found and connected to, and answers in time.";
    /// More or fewer bytes than were asked for.
    pub ANSWER: Io "net/answer" "A response has exactly as many bytes as were asked for.";
    /// Other bytes than those that were hashed.
    pub PROOF: Integrity "net/proof"
        "The bytes of a file match the BLAKE3 hash in its address."
        hint "the file on the server was changed or damaged, or the address is that of another file";
    /// Another certificate.
    pub CERTIFICATE: Integrity "net/certificate"
        "The server's certificate has the SHA-256 that the address gives, or is vouched for by an authority.";
    /// An invalid identity.
    pub IDENTITY: Misuse "net/identity"
        "A server identifies itself by a certificate and its key in PEM, made by itself or issued by an authority.";
    /// Nowhere to listen.
    pub LISTEN: Io "net/listen" "The address that a server listens on belongs to this machine and is free.";
    /// What cannot be served.
    pub SERVE: Misuse "net/serve"
        "What is to be served exists, is a file or a folder, and has a name that nothing else being served has.";
}
