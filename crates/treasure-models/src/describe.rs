//! What a model is: facts for a listing.

use serde_json::{Value, json};
use treasure_text::printable;

use crate::{
    Error, Family, LoadOptions, Resolver, Result, Role, Source,
    exec::{Facts, Precision, Storage},
    gguf::BlockType,
    load,
};

/// Facts about a model. What was not looked at is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The directory, hub id or embedded name.
    pub name: String,
    /// The family.
    pub architecture: Family,
    /// Numbers in the weights that the network uses.
    pub parameters: u64,
    /// Rows of the embedding.
    pub vocabulary: Option<usize>,
    /// Entries of the tokenizer, if there is one.
    pub tokenizer_entries: Option<usize>,
    /// The mask token of a denoiser.
    pub mask_id: Option<u32>,
    /// The token in front of a text.
    pub bos_id: Option<u32>,
    /// The token that ends a text.
    pub eos_id: Option<u32>,
    /// Every token that ends a text: an end of turn beside the end of text.
    pub end_ids: Vec<u32>,
    /// Whether it writes conversations.
    pub chat: bool,
    /// The labels of a classifier.
    pub labels: Vec<String>,
    /// The longest sequence.
    pub max_length: Option<usize>,
    /// Layers.
    pub layers: Option<usize>,
    /// The width of the residual stream.
    pub width: Option<usize>,
    /// Where a loaded model runs and what that promises.
    pub executor: Option<Facts>,
    /// Whether a denoiser reads the time.
    pub time_conditioned: Option<bool>,
    /// How weights are held in memory.
    pub dtype: Storage,
    /// What products are computed in.
    pub precision: Precision,
    /// How the rows are stored that stay in the file, if they do.
    pub mapped: Option<BlockType>,
    /// How most of them are stored in the file.
    pub stored: Option<String>,
    /// Bytes of weights in memory.
    pub memory_bytes: u64,
    /// The licence the model card states.
    pub licence: Option<String>,
}

impl Description {
    /// What is known of it, as JSON.
    pub fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "architecture": self.architecture.to_string(),
            "role": self.architecture.role().name(),
            "parameters": self.parameters,
            "layers": self.layers,
            "width": self.width,
            "vocabulary": self.vocabulary,
            "tokenizer_entries": self.tokenizer_entries,
            "mask_id": self.mask_id,
            "bos_id": self.bos_id,
            "eos_id": self.eos_id,
            "end_ids": self.end_ids,
            "chat": self.chat,
            "max_length": self.max_length,
            "time_conditioned": self.time_conditioned,
            "labels": self.labels,
            "stored_as": self.stored,
            "dtype": self.dtype.name(),
            "memory_bytes": self.memory_bytes,
            "licence": self.licence,
        })
    }

    /// The error of a text that no tokenizer is there for.
    pub(crate) fn no_tokenizer(&self) -> Error {
        Error::missing(format!("{}: ships no tokenizer", self.name)).with_hint(
            "name a tokenizer (a directory or hub id), or give token ids instead of text",
        )
    }
}

/// Describes a model of any kind from its headers; no weight is read. A denoiser whose mask token is
/// unknown is described all the same, without one.
pub fn inspect(resolver: &Resolver, spec: &str, options: &LoadOptions) -> Result<Description> {
    let opened = load::open(resolver, spec, options)?;
    Ok(match opened.family.role() {
        Role::Classifier => opened.classifier(resolver, options, false)?.description,
        _ => opened.language_model(resolver, options, false)?.description,
    })
}

/// The `license` line in the front matter of a `README.md`; `license_name` says more where it is `other`.
pub(crate) fn licence(source: &Source) -> Result<Option<String>> {
    // The card is not worth a download or an error.
    let card = match source {
        Source::Hub(repo) => {
            let mut offline = repo.clone();
            offline.offline = true;
            offline.open("README.md")
        }
        other => other.open("README.md"),
    };
    let Ok(Some(blob)) = card else { return Ok(None) };
    let Ok(text) = blob.text(4 << 20) else { return Ok(None) };
    let named = || front_matter(&text, "license_name");
    Ok(match front_matter(&text, "license") {
        Some(licence) if licence == "other" => named().or(Some(licence)),
        licence => licence,
    })
}

fn front_matter(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("---") {
        return None;
    }
    lines
        .take_while(|line| line.trim() != "---")
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))
        .map(|value| printable(value.trim().trim_matches(['"', '\''])).into_owned())
        .filter(|value| !value.is_empty())
}
