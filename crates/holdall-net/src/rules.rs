//! Rules about files that are served, and about those who ask for them. They are listed in every build.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Not an address.
    pub ADDRESS: Misuse "net/address"
        "The address of a file that is served is `holdall://HOST:PORT/PATH`, with `#sha256=` and 64 hexadecimal digits behind it \
         where the server has made its certificate itself, and `#blake3=` with 64 where what comes is to be proven (`&` between the two).";
    /// A frame that is none.
    pub FRAME: Malformed "net/frame"
        "A frame is of a kind that is due, is as long as its kind may be, and says what is in it to the last byte.";
    /// Another version.
    pub VERSION: Unsupported "net/version" "Both sides speak version 1 of the protocol.";
    /// No token, or another.
    pub TOKEN: Misuse "net/token"
        "Who asks a server that has tokens gives one of them."
        hint "write it before the host, as in `holdall://TOKEN@host:4433/model.zt`";
    /// Plain text, where that is refused.
    pub PLAIN: Misuse "net/plain-text"
        "Who asks a server that refuses plain text speaks TLS."
        hint "ask for `https://…`";
    /// Nothing of that name.
    pub NO_FILE: NotFound "net/no-file" "A file that is asked for is one that is served.";
    /// Ranges that are none.
    pub REQUEST: Misuse "net/request"
        "A request names an open file and at most 1,024 ranges inside it, which together are no longer than it.";
    /// The server has enough to do.
    pub BUSY: Io "net/busy"
        "A client has no more files open and requests under way than its server allows."
        hint "try again later";
    /// Another file in place of the one that was opened.
    pub CHANGED: Io "net/changed"
        "A file that is served stays the same while it is open."
        hint "the file was changed on the server; open it again";
    /// The network, or the other side, failed.
    pub FAILED: Io "net/failed"
        "The host can be found and connected to, and answers in time.";
    /// More or fewer bytes than were asked for.
    pub ANSWER: Io "net/answer" "An answer has as many bytes as were asked for, and then ends.";
    /// Other bytes than those that were hashed.
    pub PROOF: Integrity "net/proof"
        "What comes of a file whose BLAKE3 hash stands in its address is what was hashed."
        hint "the file on the server was changed or damaged, or the address is that of another file";
    /// Another certificate.
    pub CERTIFICATE: Integrity "net/certificate"
        "The certificate of a server is the one whose SHA-256 the address has, or one that an authority vouches for.";
    /// An identity that is none.
    pub IDENTITY: Misuse "net/identity"
        "What a server shows who it is by is a certificate with its key, in PEM: one that it has made itself, or an authority's.";
    /// Nowhere to listen.
    pub LISTEN: Io "net/listen" "The address that a server listens at is one of this machine, and free.";
    /// What cannot be served.
    pub SERVE: Misuse "net/serve"
        "What is served is there, is a file or a folder, and has a name that nothing else that is served has.";
}
