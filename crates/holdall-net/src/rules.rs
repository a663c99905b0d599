//! Rules about served files and their clients. They are listed in every build.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// An invalid address.
    pub ADDRESS: Misuse "net/address"
        "The address of a served file is `holdall://HOST:PORT/PATH`, followed by `#sha256=` and 64 hexadecimal digits if the server made its own certificate, and by `#blake3=` and 64 digits if the bytes are to be proven (with `&` between the two).";
    /// An invalid frame.
    pub FRAME: Malformed "net/frame"
        "A frame has a kind that is expected, is no longer than its kind allows, and describes its content to the last byte.";
    /// An unsupported version of the protocol.
    pub VERSION: Unsupported "net/version" "Client and server use version 1 of the protocol.";
    /// A missing or invalid token.
    pub TOKEN: Misuse "net/token"
        "A client sends a token that the server accepts, if the server requires one."
        hint "write it before the host, as in `holdall://TOKEN@host:4433/model.zt`";
    /// Plain text, on a server that refuses it.
    pub PLAIN: Misuse "net/plain-text"
        "A client uses TLS, if the server refuses plain text."
        hint "use `https://…`";
    /// No file with this name.
    pub NO_FILE: NotFound "net/no-file" "The server has a file with the requested name.";
    /// Invalid ranges.
    pub REQUEST: Misuse "net/request"
        "A request names an open file and at most 1,024 ranges inside it, which together are no longer than it.";
    /// Too many files or requests of one client, or too many clients.
    pub BUSY: Io "net/busy"
        "A client stays within the server's limits for open files and running requests."
        hint "try again later";
    /// The file changed while it was open.
    pub CHANGED: Io "net/changed"
        "A served file does not change while it is open."
        hint "the file was changed on the server; open it again";
    /// A network error, or a failure of the other side.
    pub FAILED: Io "net/failed"
        "The host name resolves, the host accepts connections, and it responds in time.";
    /// A response of the wrong length.
    pub ANSWER: Io "net/answer" "A response has exactly the requested number of bytes.";
    /// Bytes that do not match the file's hash.
    pub PROOF: Integrity "net/proof"
        "The bytes of a file match the BLAKE3 hash in its address."
        hint "the file on the server was changed or damaged, or the address is that of another file";
    /// A certificate that is not trusted.
    pub CERTIFICATE: Integrity "net/certificate"
        "The server's certificate has the SHA-256 in the address, or is signed by a trusted certificate authority.";
    /// An invalid certificate or key.
    pub IDENTITY: Misuse "net/identity"
        "A server has a certificate and its key in PEM, either self-signed or issued by a certificate authority.";
    /// An address that cannot be listened on.
    pub LISTEN: Io "net/listen" "The address to listen on belongs to this machine and is not in use.";
    /// A path that cannot be served.
    pub SERVE: Misuse "net/serve"
        "Each path to be served exists, is a file or a folder, and has a different name than the others.";
}
