//! How byte-level BPE families cut a text before merging: the one thing their vocabulary files do not say.
//! Facts: each family's published `tokenizer.json`, and llama.cpp's `llama-vocab.cpp` for the GGUF names.

use serde_json::{Value, json};

/// A family's split rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitRule {
    /// GPT-2's own pattern.
    Gpt2,
    /// Every digit alone, then GPT-2's pattern (SmolLM, StarCoder).
    DigitsThenGpt2,
    /// Qwen2: NFC, digits alone, line breaks with their line.
    Qwen2,
    /// Llama 3: up to three digits together.
    Llama3,
    /// Ling, whose vocabulary LLaDA has: digits alone, every line break alone.
    Ling,
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const LING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";

impl SplitRule {
    /// The rule a GGUF names in `tokenizer.ggml.pre`.
    pub fn from_gguf(name: &str) -> Option<Self> {
        Some(match name {
            "gpt-2" | "phi-2" | "roberta-bpe" | "jina-es" | "jina-de" | "jina-v2-es"
            | "jina-v2-de" => Self::Gpt2,
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => Self::DigitsThenGpt2,
            "qwen2" | "deepseek-r1-qwen" => Self::Qwen2,
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" => Self::Llama3,
            "bailingmoe" | "bailingmoe2" | "llada-moe" => Self::Ling,
            _ => return None,
        })
    }

    fn pre_tokenizer(self) -> Value {
        let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let sequence = |parts: Vec<Value>| json!({"type": "Sequence", "pretokenizers": parts});
        match self {
            Self::Gpt2 => bytes(true),
            Self::DigitsThenGpt2 => {
                sequence(vec![json!({"type": "Digits", "individual_digits": true}), bytes(true)])
            }
            Self::Qwen2 => sequence(vec![split(QWEN2), bytes(false)]),
            Self::Llama3 => sequence(vec![split(LLAMA3), bytes(false)]),
            Self::Ling => sequence(vec![split(LING), bytes(false)]),
        }
    }
}

/// A `tokenizer.json` for byte-level BPE.
pub fn byte_level_json(
    rule: SplitRule,
    vocabulary: Value,
    merges: Vec<Value>,
    added: Vec<Value>,
    around: Option<Value>,
) -> Value {
    let normalizer = if rule == SplitRule::Qwen2 { json!({"type": "NFC"}) } else { Value::Null };
    json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": rule.pre_tokenizer(),
        "post_processor": around,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            // Llama 3 takes a word that is in the vocabulary whole.
            "ignore_merges": rule == SplitRule::Llama3,
            "vocab": vocabulary, "merges": merges,
        },
    })
}
