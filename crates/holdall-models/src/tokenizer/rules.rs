//! Every rule about tokenizers.

holdall_core::error::rules! {
    /// Every rule about tokenizers.
    pub static RULES;

    /// A file that the tokenizer needs is missing.
    pub MISSING_FILE: Malformed "tokenizer/missing-file"
        "A tokenizer has the files that its kind needs: `tokenizer.json`, a SentencePiece model, or a vocabulary with its merges.";
    /// A file is too long.
    pub FILE_LENGTH: Limit "tokenizer/file-length"
        "Each file of a tokenizer has at most `Limits::header_len` bytes."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// There are too many tokens or merges.
    pub TOO_MANY: Limit "tokenizer/too-many"
        "A tokenizer has at most `Limits::attribute_values` tokens, and as many merges."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A JSON file is malformed, or one of its members is not what it should be.
    pub JSON: Malformed "tokenizer/json"
        "The JSON files of a tokenizer follow RFC 8259, and their members have the types that the library `tokenizers` writes.";
    /// A text file is not UTF-8.
    pub TEXT: Malformed "tokenizer/text" "The text files of a tokenizer are UTF-8.";
    /// A SentencePiece model is malformed.
    pub SENTENCEPIECE: Malformed "tokenizer/sentencepiece"
        "A SentencePiece model is a protocol buffer, and its pieces are UTF-8 texts with a score and one of six types.";
    /// A token has an impossible id.
    pub ID: Malformed "tokenizer/id"
        "The id of a token is a whole number from 0 to 2^32 - 1, and less than the model's `vocab_size`.";
    /// A token or an id appears twice.
    pub DUPLICATE: Malformed "tokenizer/duplicate"
        "Each token of a vocabulary has one id, and each id one token.";
    /// A merge is malformed.
    pub MERGE: Malformed "tokenizer/merge"
        "A merge is a pair of pieces: two texts, or one text with a single space between them.";
    /// A token that the architecture needs is missing.
    pub MISSING_TOKEN: Malformed "tokenizer/missing-token"
        "A tokenizer has the added tokens that its architecture gives a role.";
    /// A chat template is neither a text nor a list.
    pub CHAT_TEMPLATE: Malformed "tokenizer/chat-template"
        "A chat template is a text, or a list of objects with a name and a template.";
    /// The kind of tokenizer is not supported.
    pub MODEL: Unsupported "tokenizer/model"
        "A tokenizer is byte-level BPE, BPE with byte fallback, WordPiece, Unigram or a SentencePiece model.";
    /// The pre-tokenizer is not in the table.
    pub PRE_TOKENIZER: Unsupported "tokenizer/pre-tokenizer"
        "The pre-tokenizer of a byte-level BPE is one for which GGUF has a name."
        remedies [NamePreTokenizer];
    /// The tokenizer in a GGUF file is incomplete or malformed.
    pub METADATA: Malformed "tokenizer/metadata"
        "The keys `tokenizer.ggml.*` of a GGUF file have their types, and their arrays have one item for each token.";
    /// The tokenizer in a GGUF file cannot be written as files.
    pub NO_FILES: Unsupported "tokenizer/no-files"
        "A tokenizer that is written as files is of the model `gpt2`, `llama` or `bert`, and its pre-tokenizer is in the table.";
}
