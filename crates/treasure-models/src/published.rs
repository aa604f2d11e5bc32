//! What is known of published checkpoints beyond their files: the mask token of those whose config
//! leaves it out, the token that ends a turn, the chat template of those that ship none.
//!
//! Ids from LLaDA's `generate.py` and Dream's `config.json` and tokenizer.

use treasure_text::{ChatTemplate, Format};

use crate::{Error, Family, Result, Role, Source, Tokenizer, config::Config, gguf::Header};

/// The mask token of a family, by its vocabulary.
pub(crate) fn mask_id(family: Family, vocabulary: usize) -> Option<u32> {
    match (family, vocabulary) {
        (Family::Llada, 126464) => Some(126336),
        (Family::Dream, 152064) => Some(151666),
        _ => None,
    }
}

/// Tokens that end a turn, by the names they have.
const TURNS: [&str; 3] = ["<|eot_id|>", "<|im_end|>", "<|role_end|>"];

/// Every token that ends a text: the end of text, those of `generation_config.json`, and for models that
/// chat the end of a turn.
pub(crate) fn end_ids(
    source: &Source,
    family: Family,
    eos: Option<u32>,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u32>> {
    let mut ends: Vec<u32> = eos.into_iter().collect();
    if !matches!(family, Family::Llada | Family::Dream) {
        return Ok(ends);
    }
    let mut add = |id: u32| {
        if !ends.contains(&id) {
            ends.push(id);
        }
    };
    if let Some(blob) = source.open("generation_config.json")? {
        Config::read(&blob)?.tokens("eos_token_id")?.into_iter().for_each(&mut add);
    }
    let special = tokenizer.map(Tokenizer::special_ids).unwrap_or_default();
    let turns = TURNS.iter().filter_map(|entry| tokenizer?.id(entry));
    turns.filter(|id| special.contains(id)).for_each(&mut add);
    Ok(ends)
}

/// How a checkpoint writes conversations: the template in its GGUF header, or `chat_template.jinja`, else the
/// `chat_template` of its `tokenizer_config.json`, else what its family is known to use.
pub(crate) fn chat(
    source: &Source,
    header: Option<&Header>,
    family: Family,
    tokenizer: Option<&Tokenizer>,
) -> Result<Option<ChatTemplate>> {
    const IN_HEADER: &str = "tokenizer.chat_template";
    if matches!(family.role(), Role::Scorer) {
        return Ok(None);
    }
    if let Some(header) = header.filter(|header| header.metadata.contains_key(IN_HEADER)) {
        let entry = |id: Option<u32>| tokenizer?.entry(id?);
        let specials = tokenizer.map(Tokenizer::specials);
        let named = [
            ("bos_token", entry(specials.and_then(|specials| specials.bos))),
            ("eos_token", entry(specials.and_then(|specials| specials.eos))),
        ];
        let named = named.into_iter().filter_map(|(name, text)| Some((name.into(), text?.into())));
        let (template, place) = (header.text(IN_HEADER)?.to_owned(), source.name());
        let place = format!("{place}: {IN_HEADER}");
        return Ok(Some(ChatTemplate::jinja(template, &named.collect(), &place)?));
    }
    let config = source.open("tokenizer_config.json")?;
    let config = config.map(|blob| Config::read(&blob)).transpose()?;
    let nothing = serde_json::Map::new();
    let entries = config.as_ref().map_or(&nothing, Config::entries);
    if let Some(blob) = source.open("chat_template.jinja")? {
        let template = blob.text(1 << 20)?;
        return Ok(Some(ChatTemplate::jinja(template, entries, blob.name()).map_err(Error::from)?));
    }
    let place = format!("{}/tokenizer_config.json", source.name());
    if let Some(template) = ChatTemplate::from_config(entries, &place)? {
        return Ok(Some(template));
    }
    let has = |entry: &str| tokenizer.is_some_and(|tokenizer| tokenizer.id(entry).is_some());
    Ok(match family {
        Family::Llada if has("<|start_header_id|>") => Some(ChatTemplate::family(Format::LLADA)),
        Family::Dream if has("<|im_start|>") => Some(ChatTemplate::family(Format::DREAM)),
        _ => None,
    })
}
