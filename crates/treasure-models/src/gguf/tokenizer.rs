//! The tokenizer inside a GGUF: byte-level BPE (`gpt2`) with the split rule it names, or SentencePiece (`llama`).
//!
//! An unknown kind or rule is an error, never another rule in its place: a wrong split gives plausible and
//! wrong ids. Sources: `gguf.md`, llama.cpp's `llama-vocab.cpp`, and for the merges of SentencePiece
//! models transformers' slow-to-fast conversion.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::{Header, Value};
use treasure_text::{Specials, SplitRule, Tokenizer, byte_level_json};

use crate::{Error, Result};

/// Token types of `llama_token_type`.
const UNKNOWN: f64 = 2.0;
const CONTROL: f64 = 3.0;
const USER_DEFINED: f64 = 4.0;

/// Builds the tokenizer.
pub(crate) fn tokenizer(header: &Header) -> Result<Tokenizer> {
    let tokens = texts(header, "tokenizer.ggml.tokens")?;
    let id = |role: &str| {
        let key = format!("tokenizer.ggml.{role}_token_id");
        let id = header.integer(&key)?;
        match id {
            Some(id) if id as usize >= tokens.len() => {
                Err(Error::expected(format!("GGUF {key}"), format!("below {}", tokens.len()), id))
            }
            id => Ok(id.map(|id| id as u32)),
        }
    };
    let specials = Specials::from_ids(id("bos")?, id("eos")?, id("mask")?, id("padding")?);
    let added = added(header, tokens)?;
    let vocabulary: Map<String, Json> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    if vocabulary.len() != tokens.len() {
        return Err(Error::expected("tokenizer.ggml.tokens", "distinct tokens", "repetitions"));
    }
    let json = match header.text("tokenizer.ggml.model")? {
        "gpt2" => {
            let name = match header.metadata.get("tokenizer.ggml.pre") {
                Some(Value::Text(name)) => name.as_str(),
                _ => {
                    return Err(Error::new(
                        "GGUF metadata has no tokenizer.ggml.pre, so its split rule is unknown",
                    )
                    .with_hint(
                        "convert the model again, or name the tokenizer of the original model",
                    ));
                }
            };
            let rule = SplitRule::from_gguf(name).ok_or_else(|| {
                Error::unsupported(
                    "GGUF tokenizer.ggml.pre",
                    "gpt-2, smollm, llama-bpe, qwen2, bailingmoe or a relative with the same split rule",
                    name,
                )
                .with_hint("name the tokenizer of the original model")
            })?;
            let merges = texts(header, "tokenizer.ggml.merges")?.iter().map(|m| json!(m)).collect();
            let around = template(header, tokens, &specials, false)?;
            byte_level_json(rule, Json::Object(vocabulary), merges, added, around)
        }
        "llama" => {
            let scores = match header.require("tokenizer.ggml.scores")? {
                Value::Numbers(scores) if scores.len() == tokens.len() => scores,
                _ => return Err(Error::expected("GGUF scores", "one number per token", "others")),
            };
            let around = template(header, tokens, &specials, true)?;
            sentence_piece(header, tokens, scores, vocabulary, added, around)?
        }
        other => {
            return Err(Error::unsupported("GGUF tokenizer.ggml.model", "gpt2 or llama", other)
                .with_hint("name the tokenizer of the original model"));
        }
    };
    Ok(Tokenizer::from_json(json, "GGUF tokenizer", specials)?)
}

fn texts<'a>(header: &'a Header, key: &str) -> Result<&'a [String]> {
    match header.require(key)? {
        Value::Texts(texts) => Ok(texts),
        // An empty array may be of any type.
        Value::Numbers(numbers) if numbers.is_empty() => Ok(&[]),
        other => Err(Error::expected(format!("GGUF {key}"), "texts", format!("{other:.40?}"))),
    }
}

/// Control and user-defined tokens are never cut.
fn added(header: &Header, tokens: &[String]) -> Result<Vec<Json>> {
    let Some(Value::Numbers(kinds)) = header.metadata.get("tokenizer.ggml.token_type") else {
        return Ok(Vec::new());
    };
    if kinds.len() != tokens.len() {
        return Err(Error::expected(
            "GGUF token_type",
            format!("{} kinds", tokens.len()),
            kinds.len(),
        ));
    }
    Ok(tokens
        .iter()
        .zip(kinds)
        .enumerate()
        .filter(|(_, (token, kind))| {
            matches!(**kind, UNKNOWN | CONTROL | USER_DEFINED) && !token.is_empty()
        })
        .map(|(id, (token, kind))| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": *kind != USER_DEFINED})
        })
        .collect())
}

/// Which special tokens go around a text.
fn template(
    header: &Header,
    tokens: &[String],
    specials: &Specials,
    bos_by_default: bool,
) -> Result<Option<Json>> {
    let wanted = |key: &str, default: bool| -> Result<bool> {
        Ok(header.flag(&format!("tokenizer.ggml.{key}"))?.unwrap_or(default))
    };
    let bos = wanted("add_bos_token", bos_by_default)?.then_some(specials.bos).flatten();
    let eos = wanted("add_eos_token", false)?.then_some(specials.eos).flatten();
    if bos.is_none() && eos.is_none() {
        return Ok(None);
    }
    let piece = |id: u32| json!({"SpecialToken": {"id": tokens[id as usize], "type_id": 0}});
    let mut single: Vec<Json> = bos.map(piece).into_iter().collect();
    single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
    single.extend(eos.map(piece));
    let mut pair = single.clone();
    pair.push(json!({"Sequence": {"id": "B", "type_id": 1}}));
    let special: Map<String, Json> = bos
        .into_iter()
        .chain(eos)
        .map(|id| {
            let token = &tokens[id as usize];
            (token.clone(), json!({"id": token, "ids": [id], "tokens": [token]}))
        })
        .collect();
    Ok(Some(json!({
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special,
    })))
}

/// SentencePiece BPE: merges in the order of the scores of what they make, bytes for what is not known.
fn sentence_piece(
    header: &Header,
    tokens: &[String],
    scores: &[f64],
    vocabulary: Map<String, Json>,
    added: Vec<Json>,
    around: Option<Json>,
) -> Result<Json> {
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let mut merges: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let cuts = token.char_indices().skip(1).filter_map(|(at, _)| {
            let (left, right) = token.split_at(at);
            Some((*ids.get(left)?, *ids.get(right)?))
        });
        let mut cuts: Vec<(usize, usize)> = cuts.collect();
        cuts.sort_unstable();
        merges.extend(cuts.into_iter().map(|(left, right)| (scores[id], id, left, right)));
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let merges: Vec<Json> = merges
        .into_iter()
        .map(|(_, _, left, right)| json!([tokens[left], tokens[right]]))
        .collect();
    let unknown = header.integer("tokenizer.ggml.unknown_token_id")?.unwrap_or(0) as usize;
    let unknown = tokens.get(unknown).ok_or_else(|| {
        Error::expected("GGUF unknown_token_id", format!("below {}", tokens.len()), unknown)
    })?;
    let prefix = header.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let mut normalizers =
        vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": around,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
            "ignore_merges": false, "vocab": vocabulary, "merges": merges,
        },
    }))
}
