//! Options for converting a tokenizer.

/// The kind of a tokenizer in GGUF: the value of `tokenizer.ggml.model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// BPE on bytes, with merges: `gpt2`.
    ByteLevelBpe,
    /// The pieces of SentencePiece with scores and byte tokens: `llama`.
    SentencePiece,
    /// WordPiece: `bert`.
    WordPiece,
    /// A Unigram model of SentencePiece: `t5`.
    Unigram,
    /// BPE with byte fallback and merges: `gemma4`.
    Gemma4,
}

impl TokenizerKind {
    /// All kinds.
    pub const ALL: [TokenizerKind; 5] = [
        TokenizerKind::ByteLevelBpe,
        TokenizerKind::SentencePiece,
        TokenizerKind::WordPiece,
        TokenizerKind::Unigram,
        TokenizerKind::Gemma4,
    ];

    /// Returns the name in GGUF.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenizerKind::ByteLevelBpe => "gpt2",
            TokenizerKind::SentencePiece => "llama",
            TokenizerKind::WordPiece => "bert",
            TokenizerKind::Unigram => "t5",
            TokenizerKind::Gemma4 => "gemma4",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<TokenizerKind> {
        TokenizerKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Options for converting a tokenizer. By default, all properties are read from the files.
#[derive(Debug, Clone, Default)]
pub struct TokenizerOptions {
    pub(super) kind: Option<TokenizerKind>,
    pub(super) pre_tokenizer: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) vocab_size: Option<u64>,
}

impl TokenizerOptions {
    /// Creates options with which all properties are read from the files.
    pub fn new() -> TokenizerOptions {
        TokenizerOptions::default()
    }

    /// Sets the kind of the vocabulary, instead of deriving it from the architecture.
    #[must_use]
    pub fn with_kind(mut self, kind: TokenizerKind) -> TokenizerOptions {
        self.kind = Some(kind);
        self
    }

    /// Sets the name of the pre-tokenizer (`tokenizer.ggml.pre`), instead of deriving it from the rules in the files.
    #[must_use]
    pub fn with_pre_tokenizer(mut self, name: impl Into<String>) -> TokenizerOptions {
        self.pre_tokenizer = Some(name.into());
        self
    }

    /// Sets the name of the model's class, such as `LlamaForCausalLM`, instead of the one in `config.json`.
    #[must_use]
    pub fn with_architecture(mut self, name: impl Into<String>) -> TokenizerOptions {
        self.architecture = Some(name.into());
        self
    }

    /// Sets the number of tokens, instead of `vocab_size` in `config.json`.
    #[must_use]
    pub fn with_vocab_size(mut self, size: u64) -> TokenizerOptions {
        self.vocab_size = Some(size);
        self
    }
}
