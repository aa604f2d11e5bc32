//! The tokenizer files of a Hugging Face layout, each turned into the JSON of a `tokenizer.json`.

use serde_json::{Map, Value, json};

use treasure_text::{Specials, SplitRule, Tokenizer, byte_level_json};

use crate::{Blob, Error, Result, Source, config::Config};

/// The largest `tokenizer.json` that is read; published ones stay below 40 MB.
const MAX_TOKENIZER: u64 = 256 << 20;

impl Source {
    /// Its tokenizer, or `None` if it ships none: `tokenizer.json`, else `vocab.json` and
    /// `merges.txt` with the split rule of its family, else `vocab.txt`, else the one inside a GGUF.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        if let Some(blob) = self.gguf()? {
            let header = crate::gguf::Header::read(&blob)?;
            return crate::gguf::tokenizer(&header)
                .map(Some)
                .map_err(|error| error.within(blob.name()).of_file());
        }
        let Some((json, place)) = find(self).map_err(Error::of_file)? else {
            return Ok(None);
        };
        let mut specials = Specials::default();
        for file in ["tokenizer_config.json", "special_tokens_map.json"] {
            if let Some(blob) = self.open(file)? {
                specials.note(Config::read(&blob)?.entries());
            }
        }
        Ok(Some(Tokenizer::from_json(json, &place, specials)?))
    }
}

/// The tokenizer of a source as JSON, with its name for messages.
fn find(source: &Source) -> Result<Option<(Value, String)>> {
    if let Some(blob) = source.open("tokenizer.json")? {
        let json = parse(&blob)?;
        return Ok(Some((json, blob.name().to_owned())));
    }
    if let Some(vocabulary) = source.open("vocab.json")? {
        let merges = source.require("merges.txt")?;
        let json = from_vocabulary_and_merges(source, &vocabulary, &merges)?;
        return Ok(Some((json, vocabulary.name().to_owned())));
    }
    if let Some(vocabulary) = source.open("vocab.txt")? {
        let json = word_piece(source, &vocabulary)?;
        return Ok(Some((json, vocabulary.name().to_owned())));
    }
    Ok(None)
}

fn parse(blob: &Blob) -> Result<Value> {
    serde_json::from_slice(&blob.bytes(MAX_TOKENIZER)?)
        .map_err(|source| Error::new(format!("{}: is not JSON", blob.name())).with_source(source))
}

fn from_vocabulary_and_merges(source: &Source, vocabulary: &Blob, merges: &Blob) -> Result<Value> {
    let rule = split_rule(source)?;
    let Value::Object(mut entries) = parse(vocabulary)? else {
        return Err(Error::expected(vocabulary.name(), "an object of entries", "other JSON"));
    };
    if let Some((entry, id)) = entries.iter().find(|(_, id)| id.as_u64().is_none()) {
        return Err(Error::expected(format!("{}: {entry}", vocabulary.name()), "an id", id));
    }
    let merges = merges.text(MAX_TOKENIZER)?;
    let merges: Vec<Value> = merges
        .lines()
        .filter(|line| !line.starts_with("#version") && !line.is_empty())
        .map(|line| json!(line))
        .collect();
    let added = added_tokens(source, &mut entries)?;
    let around = if is_roberta(source)? { roberta_template(&entries) } else { None };
    Ok(byte_level_json(rule, Value::Object(entries), merges, added, around))
}

/// The split rule of the family, from `tokenizer_class` or `model_type`.
fn split_rule(source: &Source) -> Result<SplitRule> {
    let mut names = Vec::new();
    if let Some(blob) = source.open("tokenizer_config.json")? {
        let config = Config::read(&blob)?;
        names.extend(config.text("tokenizer_class")?.map(str::to_owned));
    }
    if let Some(blob) = source.open("config.json")? {
        names.extend(Config::read(&blob)?.text("model_type")?.map(str::to_owned));
    }
    for name in &names {
        match name.to_ascii_lowercase().trim_end_matches("fast") {
            "gpt2tokenizer" | "gpt2" | "mdlm" | "robertatokenizer" | "roberta" => {
                return Ok(SplitRule::Gpt2);
            }
            "qwen2tokenizer" | "dreamtokenizer" | "qwen2" | "dream" => {
                return Ok(SplitRule::Qwen2);
            }
            _ => {}
        }
    }
    Err(Error::unsupported(
        format!("{}: vocab.json and merges.txt", source.name()),
        "the tokenizer class of GPT-2, RoBERTa, Qwen2 or Dream, whose split rule is known",
        format!("{names:?}"),
    )
    .with_hint("a tokenizer.json says its own rule: save one with transformers"))
}

fn is_roberta(source: &Source) -> Result<bool> {
    let Some(blob) = source.open("config.json")? else { return Ok(false) };
    Ok(Config::read(&blob)?.text("model_type")? == Some("roberta"))
}

/// `<s> text </s>`.
fn roberta_template(entries: &Map<String, Value>) -> Option<Value> {
    let (cls, sep) = (entries.get("<s>")?.clone(), entries.get("</s>")?.clone());
    Some(json!({
        "type": "RobertaProcessing", "sep": ["</s>", sep], "cls": ["<s>", cls],
        "trim_offsets": true, "add_prefix_space": false,
    }))
}

/// Special and added tokens, from `tokenizer_config.json` and `added_tokens.json`.
fn added_tokens(source: &Source, entries: &mut Map<String, Value>) -> Result<Vec<Value>> {
    let mut found: Vec<(u64, String, bool)> = Vec::new();
    let mut add = |id: u64, content: &str, special: bool| {
        if !found.iter().any(|(_, own, _)| own == content) {
            found.push((id, content.to_owned(), special));
        }
    };
    if let Some(blob) = source.open("tokenizer_config.json")? {
        let config = Config::read(&blob)?;
        let listed = config.get("added_tokens_decoder").and_then(Value::as_object);
        for (id, token) in listed.into_iter().flatten() {
            let content = token.get("content").and_then(Value::as_str);
            if let (Ok(id), Some(content)) = (id.parse(), content) {
                add(id, content, token.get("special").and_then(Value::as_bool).unwrap_or(false));
            }
        }
    }
    if let Some(blob) = source.open("added_tokens.json")? {
        let Value::Object(listed) = parse(&blob)? else {
            return Err(Error::expected(blob.name(), "an object of tokens", "other JSON"));
        };
        for (content, id) in &listed {
            let id = id.as_u64().ok_or_else(|| {
                Error::expected(format!("{}: {content}", blob.name()), "an id", id)
            })?;
            add(id, content, true);
        }
    }
    for content in ["<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"] {
        if let Some(id) = entries.get(content).and_then(Value::as_u64) {
            add(id, content, true);
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(id, content, special)| added(id, &content, special)).collect())
}

pub(crate) fn added(id: u64, content: &str, special: bool) -> Value {
    // RoBERTa's mask takes the space before it, as in transformers.
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": content == "<mask>",
        "rstrip": false, "normalized": false, "special": special,
    })
}

/// BERT's WordPiece from `vocab.txt`.
fn word_piece(source: &Source, vocabulary: &Blob) -> Result<Value> {
    let mut lowercase = true;
    if let Some(blob) = source.open("tokenizer_config.json")? {
        lowercase = Config::read(&blob)?.flag("do_lower_case", true)?;
    }
    let text = vocabulary.text(MAX_TOKENIZER)?;
    let entries: Map<String, Value> =
        text.lines().enumerate().map(|(id, entry)| (entry.to_owned(), json!(id))).collect();
    let need = |entry: &str| {
        entries
            .get(entry)
            .and_then(Value::as_u64)
            .ok_or_else(|| Error::expected(vocabulary.name(), format!("an entry {entry}"), "none"))
    };
    let (cls, sep) = (need("[CLS]")?, need("[SEP]")?);
    need("[UNK]")?;
    let specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let added: Vec<Value> = specials
        .iter()
        .filter_map(|entry| Some(added(entries.get(*entry)?.as_u64()?, entry, true)))
        .collect();
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", sep], "cls": ["[CLS]", cls]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": entries},
    }))
}
