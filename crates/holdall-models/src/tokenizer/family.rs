//! The table of architectures: where their vocabulary comes from, and the key–values that only they have.

/// How the tokenizer of an architecture is read.
#[derive(Debug)]
pub(super) struct Family {
    /// The names of the classes in `config.json`.
    architectures: &'static [&'static str],
    pub(super) vocabulary: Vocabularies,
    pub(super) extras: &'static [Extra],
}

/// The files that have the vocabulary, in the order in which they are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vocabularies {
    /// The family that the files suggest.
    Any,
    /// Byte-level BPE.
    ByteLevel,
    /// `tokenizer.model`, or else byte-level BPE.
    ModelOrByteLevel,
    /// `tokenizer.json` of byte-level BPE, or else `tokenizer.model`.
    ByteLevelOrModel,
    /// `tokenizer.model`, or else BPE with byte fallback, or else byte-level BPE.
    Llama,
    /// `tokenizer.model`, or else BPE with byte fallback.
    Jamba,
    /// `tokenizer.model`.
    Model,
    /// Like `Model`, with all tokens of both configurations as they are.
    Phi3,
    /// BPE with byte fallback, merges included.
    Gemma4,
    WordPiece,
    /// `tokenizer.json` of byte-level BPE, or else WordPiece.
    Roberta,
    /// A Unigram model.
    T5,
    /// A Unigram model with four special tokens at the start.
    XlmRoberta,
}

/// A key–value that the files do not have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extra {
    /// Set before the vocabulary is read, so that what the files say has precedence.
    First(&'static str, bool),
    /// Set last.
    Last(&'static str, bool),
    /// Set last if the vocabulary is from `tokenizer.model`.
    LastOfModel(&'static str, bool),
    /// Set last if the vocabulary is from `tokenizer.json`.
    LastOfJson(&'static str, bool),
    /// The id of a role, set last.
    Id(&'static str, u64),
    /// The id of a role, set last: the value of a key of `config.json`, if it has it.
    Configured(&'static str, &'static str),
    /// The id of a role, set last: the first of the ends in `generation_config.json`, if it has several.
    FirstEnd(&'static str),
    /// The role of an added token, if the role has none yet.
    Role(&'static str, &'static str),
    /// The number of tokens is a multiple of this number, or of the one in the configuration.
    Multiple(u64),
    /// The number of types of tokens, set first.
    TypesFirst,
    /// The number of types of tokens, set last.
    TypesLast,
    /// Code Llama and Gemma have ids for roles that their files do not name. Gemma's apply whatever the vocabulary.
    EndOfTurn { vocab_size: Option<u64>, id: u64 },
    /// `add_prefix_space` of the tokenizer's configuration, set first.
    PrefixSpace,
    /// Set last unless the model has experts.
    LastOfDense(&'static str, bool),
    /// Set last if the model has this number of tokens.
    LastOfSize(u64, &'static str, bool),
}

use Extra::{
    Configured, EndOfTurn, First, FirstEnd, Id, Last, LastOfDense, LastOfJson, LastOfModel,
    LastOfSize, Multiple, PrefixSpace, Role, TypesFirst, TypesLast,
};

const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
const SPACE: &str = "tokenizer.ggml.add_space_prefix";
const GLM: &[Extra] = &[
    Role("bos", "[gMASK]"),
    Role("eot", "<|user|>"),
    Role("unk", "<|endoftext|>"),
    Role("eom", "<|observation|>"),
];

/// The table. Architectures that are not listed are read as their files suggest.
static FAMILIES: &[Family] = &[
    Family {
        architectures: &[
            "LlamaForCausalLM",
            "LLaMAForCausalLM",
            "LlamaModel",
            "MistralForCausalLM",
            "MixtralForCausalLM",
            "GraniteForCausalLM",
            "GraniteMoeForCausalLM",
            "GraniteMoeSharedForCausalLM",
            "SmolLM3ForCausalLM",
            "ApertusForCausalLM",
            "ArceeForCausalLM",
            "NanbeigeForCausalLM",
            "AfmoeForCausalLM",
            "LlamaBidirectionalModel",
            "IQuestCoderForCausalLM",
            "VLlama3ForCausalLM",
            "LlavaForConditionalGeneration",
            "VoxtralForConditionalGeneration",
            "Mistral3ForConditionalGeneration",
            "Ministral3ForCausalLM",
            "JanusForConditionalGeneration",
        ],
        vocabulary: Vocabularies::Llama,
        extras: &[
            PrefixSpace,
            EndOfTurn { vocab_size: Some(32016), id: 32010 },
            LastOfSize(49152, ADD_BOS, false),
        ],
    },
    Family {
        architectures: &["GemmaForCausalLM"],
        vocabulary: Vocabularies::Model,
        extras: &[EndOfTurn { vocab_size: None, id: 107 }, Last(SPACE, false)],
    },
    Family {
        architectures: &["Gemma2ForCausalLM"],
        vocabulary: Vocabularies::Model,
        extras: &[Last(SPACE, false)],
    },
    Family {
        architectures: &[
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
            "Gemma3TextModel",
            "Gemma3nForCausalLM",
            "Gemma3nForConditionalGeneration",
        ],
        vocabulary: Vocabularies::ModelOrByteLevel,
        extras: &[LastOfModel(SPACE, false)],
    },
    Family {
        architectures: &[
            "Gemma4ForCausalLM",
            "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedForConditionalGeneration",
        ],
        vocabulary: Vocabularies::Gemma4,
        extras: &[Last(SPACE, false), Last(ADD_BOS, true)],
    },
    Family {
        architectures: &[
            "Qwen2ForCausalLM",
            "Qwen2Model",
            "Qwen2VLModel",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3ForCausalLM",
            "Qwen3Model",
            "Qwen3VLForConditionalGeneration",
            "KORMoForCausalLM",
            "DotsOCRForCausalLM",
            "DeepseekForCausalLM",
            "DreamModel",
            "GrokForCausalLM",
            "Grok1ForCausalLM",
        ],
        vocabulary: Vocabularies::ModelOrByteLevel,
        extras: &[],
    },
    Family {
        architectures: &[
            "GPT2LMHeadModel",
            "GPTNeoXForCausalLM",
            "GPTBigCodeForCausalLM",
            "Starcoder2ForCausalLM",
            "FalconForCausalLM",
            "RWForCausalLM",
            "BloomForCausalLM",
            "BloomModel",
            "CohereForCausalLM",
            "Cohere2ForCausalLM",
            "Cohere2MoeForCausalLM",
            "DbrxForCausalLM",
            "OlmoForCausalLM",
            "OLMoForCausalLM",
            "Olmo2ForCausalLM",
            "Olmo3ForCausalLM",
            "OlmoeForCausalLM",
            "PhiForCausalLM",
            "Qwen2MoeForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen3NextForCausalLM",
            "Qwen3_5ForCausalLM",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3VLMoeForConditionalGeneration",
            "DeepseekV2ForCausalLM",
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "DeepseekV4ForCausalLM",
            "Dots1ForCausalLM",
            "GptOssForCausalLM",
            "MiniMaxM2ForCausalLM",
            "SeedOssForCausalLM",
            "MellumForCausalLM",
            "CodeShellForCausalLM",
            "ExaoneForCausalLM",
            "Exaone4ForCausalLM",
            "Llama4ForCausalLM",
            "Llama4ForConditionalGeneration",
            "Lfm2ForCausalLM",
            "Lfm2MoeForCausalLM",
            "Lfm2Model",
            "BailingMoeForCausalLM",
            "BailingMoeV2ForCausalLM",
            "JAISLMHeadModel",
            "Jais2ForCausalLM",
            "YoutuForCausalLM",
            "ChameleonForCausalLM",
            "ChameleonForConditionalGeneration",
            "MPTForCausalLM",
            "LagunaForCausalLM",
            "TalkieForCausalLM",
            "SmallThinkerForCausalLM",
            "StableLmForCausalLM",
            "StableLMEpochForCausalLM",
            "FalconH1ForCausalLM",
            "LLaDAMoEModel",
            "LLaDAMoEModelLM",
            "KimiLinearForCausalLM",
        ],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[],
    },
    Family {
        architectures: &["HunYuanDenseV1ForCausalLM"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[Configured("eos", "eod_token_id"), FirstEnd("eot")],
    },
    Family {
        architectures: &["MambaForCausalLM", "MambaLMHeadModel", "FalconMambaForCausalLM"],
        vocabulary: Vocabularies::ByteLevelOrModel,
        extras: &[Multiple(8)],
    },
    Family {
        architectures: &["Mamba2ForCausalLM"],
        vocabulary: Vocabularies::ModelOrByteLevel,
        extras: &[Multiple(16)],
    },
    Family {
        architectures: &["NemotronHForCausalLM"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[Multiple(8), LastOfDense(ADD_BOS, true)],
    },
    Family {
        architectures: &["GraniteMoeHybridForCausalLM", "BambaForCausalLM"],
        vocabulary: Vocabularies::ModelOrByteLevel,
        extras: &[Multiple(8)],
    },
    Family {
        architectures: &["GlmForCausalLM", "ChatGLMModel", "ChatGLMForConditionalGeneration"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[
            Role("eos", "<|endoftext|>"),
            Role("eot", "<|user|>"),
            Role("unk", "<|endoftext|>"),
        ],
    },
    Family {
        architectures: &["SolarOpenForCausalLM"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[
            Role("eos", "<|endoftext|>"),
            Role("eot", "<|endoftext|>"),
            Role("unk", "<unk>"),
            Role("bos", "<|startoftext|>"),
        ],
    },
    Family {
        architectures: &["JambaForCausalLM"],
        vocabulary: Vocabularies::Jamba,
        extras: &[LastOfJson(SPACE, false)],
    },
    Family {
        architectures: &["Phi3ForCausalLM", "PhiMoEForCausalLM"],
        vocabulary: Vocabularies::Phi3,
        extras: &[],
    },
    Family {
        architectures: &[
            "Ernie4_5ForCausalLM",
            "Ernie4_5_ForCausalLM",
            "Ernie4_5_MoeForCausalLM",
            "MiniCPMForCausalLM",
            "MiniCPM3ForCausalLM",
            "BaichuanForCausalLM",
            "BaiChuanForCausalLM",
            "PlamoForCausalLM",
            "OrionForCausalLM",
            "BitnetForCausalLM",
            "BitNetForCausalLM",
            "PanguEmbeddedForCausalLM",
        ],
        vocabulary: Vocabularies::Model,
        extras: &[],
    },
    Family {
        architectures: &["NemotronForCausalLM"],
        vocabulary: Vocabularies::Model,
        extras: &[Id("pad", 0), Id("unk", 1)],
    },
    Family {
        architectures: &["Glm4ForCausalLM", "Glm4vForConditionalGeneration"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[
            Role("eos", "<|endoftext|>"),
            Role("eot", "<|user|>"),
            Role("unk", "<|endoftext|>"),
            Role("bos", "<|endoftext|>"),
        ],
    },
    Family {
        architectures: &[
            "Glm4MoeForCausalLM",
            "Glm4vMoeForConditionalGeneration",
            "Glm4MoeLiteForCausalLM",
            "GlmMoeDsaForCausalLM",
        ],
        vocabulary: Vocabularies::ByteLevel,
        extras: GLM,
    },
    Family {
        architectures: &[
            "BertModel",
            "BertForMaskedLM",
            "BertForSequenceClassification",
            "CamembertModel",
            "DistilBertModel",
            "DistilBertForMaskedLM",
            "DistilBertForSequenceClassification",
            "NomicBertModel",
            "NeoBERT",
            "NeoBERTLMHead",
            "NeoBERTForSequenceClassification",
        ],
        vocabulary: Vocabularies::WordPiece,
        extras: &[TypesFirst],
    },
    Family {
        architectures: &["RobertaModel", "RobertaForSequenceClassification"],
        vocabulary: Vocabularies::Roberta,
        extras: &[TypesLast],
    },
    Family {
        architectures: &[
            "ModernBertModel",
            "ModernBertForMaskedLM",
            "ModernBertForSequenceClassification",
        ],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[First(ADD_BOS, true), First(ADD_EOS, true), First(ADD_SEP, true)],
    },
    Family {
        architectures: &["EuroBertModel", "JinaEmbeddingsV5Model"],
        vocabulary: Vocabularies::ByteLevel,
        extras: &[First(ADD_BOS, false)],
    },
    Family {
        architectures: &["XLMRobertaModel", "XLMRobertaForSequenceClassification"],
        vocabulary: Vocabularies::XlmRoberta,
        extras: &[],
    },
    Family {
        architectures: &[
            "T5ForConditionalGeneration",
            "T5WithLMHeadModel",
            "MT5ForConditionalGeneration",
            "UMT5ForConditionalGeneration",
            "UMT5Model",
            "T5EncoderModel",
        ],
        vocabulary: Vocabularies::T5,
        extras: &[],
    },
];

/// The family of architectures that are not in the table.
static OTHER: Family = Family { architectures: &[], vocabulary: Vocabularies::Any, extras: &[] };

impl Family {
    /// Returns the family of an architecture.
    pub(super) fn for_architecture(name: Option<&str>) -> &'static Family {
        let found = |name: &str| FAMILIES.iter().find(|own| own.architectures.contains(&name));
        name.and_then(found).unwrap_or(&OTHER)
    }
}
