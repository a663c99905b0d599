//! The table of pre-tokenizers: their rules, as they are written in `tokenizer.json`, and their names in GGUF.

/// Pre-tokenizers that split every text in the same way.
pub(super) struct Group {
    /// The name of the group, which is one of its names in GGUF.
    pub(super) name: &'static str,
    /// The rules, one after the other, in every known spelling.
    pub(super) spellings: &'static [&'static [&'static str]],
}

/// A name in GGUF for the pre-tokenizer of a group.
pub(super) struct Name {
    pub(super) group: &'static str,
    /// The types of models that have this name; all, if it is empty.
    pub(super) model_types: &'static [&'static str],
    /// Whether words that are tokens are taken without merging, if the name says so.
    pub(super) ignores_merges: Option<bool>,
    pub(super) name: &'static str,
}

/// The words of GPT-4 with up to three digits.
const LLAMA3: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with single digits.
const QWEN2: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CJK: &str = "split [一-龥぀-ゟ゠-ヿ]+";
const DEEPSEEK_WORDS: &str = r##"split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const HAN: &str = "split [一-龥ࠀ-一가-퟿]+";
const BLOOM: &str = r"split  ?[^(\s|[.,!?…。，、।۔،])]+";
const SEED_CODER: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"split '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const THOUSANDS: &str = r"split \d{1,3}(?=(?:\d{3})*\b)";
const DIGITS_3: &str = r"split \p{N}{1,3}";
const MINICPM5: &str = r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU_SCRIPTS: &str =
    "split [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";
const YOUTU_WORDS: &str = r"split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The groups. The first spelling of a group is written to `tokenizer.json`.
pub(super) static GROUPS: &[Group] = &[
    Group { name: "gpt-2", spellings: &[&["words of GPT-2"]] },
    Group {
        name: "starcoder",
        spellings: &[&["digits", "words of GPT-2"], &[r"split \p{N}", "words of GPT-2"]],
    },
    Group { name: "llama-bpe", spellings: &[&[LLAMA3, "bytes"]] },
    Group { name: "qwen2", spellings: &[&[QWEN2, "bytes"]] },
    Group { name: "qwen35", spellings: &[&[QWEN35, "bytes"]] },
    Group { name: "gpt-4o", spellings: &[&[GPT_4O, "bytes"]] },
    Group { name: "tekken", spellings: &[&[TEKKEN, "bytes"]] },
    Group { name: "deepseek-v3", spellings: &[&[DIGITS_3, CJK, DEEPSEEK_WORDS, "bytes"]] },
    Group {
        name: "deepseek-coder",
        spellings: &[&[
            r"split [\r\n]",
            r"split \s?\p{L}+",
            r"split \s?\p{P}+",
            HAN,
            "digits",
            "bytes",
        ]],
    },
    Group {
        name: "falcon",
        spellings: &[&[
            "punctuation Contiguous",
            "words of GPT-2",
            "runs of digits",
            "split [0-9][0-9][0-9]",
        ]],
    },
    Group { name: "bloom", spellings: &[&[BLOOM, "bytes"]] },
    Group {
        name: "viking",
        spellings: &[&[BLOOM, "digits", "bytes"], &["digits", BLOOM, "bytes"]],
    },
    Group { name: "seed-coder", spellings: &[&[SEED_CODER, "bytes"]] },
    Group { name: "bailingmoe", spellings: &[&[BAILING, "bytes"]] },
    Group { name: "exaone-moe", spellings: &[&[EXAONE_MOE, "bytes"]] },
    Group { name: "tiny_aya", spellings: &[&[THOUSANDS, GPT_4O, "bytes"]] },
    Group { name: "minicpm5", spellings: &[&[DIGITS_3, MINICPM5, "bytes"]] },
    Group { name: "youtu", spellings: &[&[YOUTU_SCRIPTS, YOUTU_WORDS, "bytes"]] },
    Group { name: "laguna", spellings: &[&[r"split [^\n]+|[\n]+", QWEN2, "bytes"]] },
];

/// Names within a group, the first that applies first. Without one, the name is that of the group.
pub(super) static NAMES: &[Name] = &[
    row("gpt-2", &["roberta", "camembert", "longformer"], "roberta-bpe"),
    row("gpt-2", &["gpt_neox", "mamba", "mamba2", "falcon_mamba", "olmo", "olmoe"], "olmo"),
    row("gpt-2", &["mpt"], "mpt"),
    row("gpt-2", &["phi"], "phi-2"),
    row("gpt-2", &["modernbert"], "modern-bert"),
    row("gpt-2", &["jais"], "jais"),
    row("gpt-2", &["exaone4"], "exaone4"),
    row("starcoder", &["llama", "smollm"], "smollm"),
    row("starcoder", &["granite", "granitemoe", "granitemoeshared", "granitemoehybrid"], "refact"),
    row("starcoder", &["cohere", "cohere2"], "command-r"),
    row("starcoder", &["codeshell"], "codeshell"),
    row("starcoder", &["exaone"], "exaone"),
    row(
        "llama-bpe",
        &["glm", "glm4", "glm4_moe", "glm4_moe_lite", "glm4v", "glm4v_moe", "glm_moe_dsa"],
        "glm4",
    ),
    row("llama-bpe", &["chatglm"], "chatglm-bpe"),
    row("llama-bpe", &["smollm3"], "smaug-bpe"),
    row("llama-bpe", &["falcon_h1"], "falcon-h1"),
    row("llama-bpe", &["lfm2", "lfm2_moe"], "lfm2"),
    row("llama-bpe", &["llama", "mistral", "mllama"], "llama-bpe"),
    Name { group: "llama-bpe", model_types: &[], ignores_merges: Some(true), name: "llama-bpe" },
    Name { group: "llama-bpe", model_types: &[], ignores_merges: Some(false), name: "dbrx" },
    row("qwen2", &["stablelm", "stablelm_epoch"], "stablelm2"),
    row("qwen2", &["hunyuan_v1_moe"], "hunyuan"),
    row("qwen2", &["grok-1", "grok"], "grok-2"),
    row("qwen2", &["solar_open"], "solar-open"),
    row("gpt-4o", &["llama4", "llama4_text"], "llama4"),
    row("gpt-4o", &["minimax_m2"], "minimax-m2"),
    Name {
        group: "gpt-4o",
        model_types: &["modernbert"],
        ignores_merges: Some(true),
        name: "granite-embed-multi-97m",
    },
    row("deepseek-v3", &["hunyuan_v1_dense"], "hunyuan-dense"),
];

/// Classes of tokenizers that have a vocabulary and merges without `tokenizer.json`, and their groups.
pub(super) static CLASSES: &[(&str, &str)] =
    &[("GPT2Tokenizer", "gpt-2"), ("RobertaTokenizer", "gpt-2"), ("Qwen2Tokenizer", "qwen2")];

const fn row(
    group: &'static str,
    model_types: &'static [&'static str],
    name: &'static str,
) -> Name {
    Name { group, model_types, ignores_merges: None, name }
}

/// Returns the rules of the group that a name in GGUF is of.
pub(in super::super) fn steps_of(name: &str) -> Option<&'static [&'static str]> {
    const MORE: [(&str, &str); 30] = [
        ("jina-v2-code", "gpt-2"),
        ("jina-v1-en", "gpt-2"),
        ("jina-es", "gpt-2"),
        ("jina-de", "gpt-2"),
        ("jina-v2-es", "gpt-2"),
        ("jina-v2-de", "gpt-2"),
        ("gigachat", "gpt-2"),
        ("a.x-4.0", "gpt-2"),
        ("mellum", "gpt-2"),
        ("trillion", "gpt-2"),
        ("granite-docling", "gpt-2"),
        ("minerva-7b", "starcoder"),
        ("mellum2", "starcoder"),
        ("llama3", "llama-bpe"),
        ("llama-v3", "llama-bpe"),
        ("falcon3", "llama-bpe"),
        ("pixtral", "llama-bpe"),
        ("midm-2.0", "llama-bpe"),
        ("jina-v5-nano", "llama-bpe"),
        ("deepseek-r1-qwen", "qwen2"),
        ("kormo", "qwen2"),
        ("f2llmv2", "qwen2"),
        ("megrez", "qwen2"),
        ("kanana2", "gpt-4o"),
        ("talkie", "gpt-4o"),
        ("joyai-llm", "deepseek-v3"),
        ("poro-chat", "bloom"),
        ("gpt3-finnish", "bloom"),
        ("bailingmoe2", "bailingmoe"),
        ("cohere2moe", "tiny_aya"),
    ];
    let listed = NAMES.iter().find(|row| row.name == name).map(|row| row.group);
    let more = || MORE.iter().find(|(own, _)| *own == name).map(|(_, group)| *group);
    let group = listed.or_else(more).unwrap_or(name);
    let found = GROUPS.iter().find(|own| own.name == group)?;
    found.spellings.first().copied()
}
