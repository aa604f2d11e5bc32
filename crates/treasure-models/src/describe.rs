//! What a model is, in the words of `treasure models inspect`.

use crate::{Family, LoadOptions, Resolver, Result, Role, Source, Tokenizer, load, stack::Storage};

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
    /// The labels of a classifier.
    pub labels: Vec<String>,
    /// The longest sequence.
    pub max_length: Option<usize>,
    /// Layers.
    pub layers: Option<usize>,
    /// The width of the residual stream.
    pub width: Option<usize>,
    /// Whether a denoiser reads the time.
    pub time_conditioned: Option<bool>,
    /// How weights are held in memory.
    pub dtype: Storage,
    /// How most of them are stored in the file.
    pub stored: Option<String>,
    /// Bytes of weights in memory.
    pub memory_bytes: u64,
    /// The licence the model card states.
    pub licence: Option<String>,
}

impl Description {
    /// The name of the type weights are held in.
    pub fn dtype_name(&self) -> &'static str {
        match self.dtype {
            Storage::F32 => "f32",
            Storage::F16 => "f16",
            Storage::Bf16 => "bf16",
            Storage::Int8 => "int8",
        }
    }
}

/// Describes a model of any kind from its headers; no weight is read. A denoiser whose mask token is
/// unknown is described all the same, without one.
pub fn inspect(resolver: &Resolver, spec: &str, options: &LoadOptions) -> Result<Description> {
    let opened = load::open(resolver, spec, options)?;
    let tokenizer = opened.tokenizer(resolver, options)?;
    let specials = tokenizer.as_ref().map(Tokenizer::specials);
    let mut description = opened.description()?;
    description.tokenizer_entries = tokenizer.as_ref().map(Tokenizer::size);
    if opened.family.role() == Role::Classifier {
        let (net, parameters) = opened.classifier(false)?;
        description.parameters = parameters;
        description.labels = net.labels;
        description.max_length = Some(net.max_len);
        description.layers = Some(net.stack.blocks.len());
    } else {
        let (net, parameters) = opened.language_model(false)?;
        description.parameters = parameters;
        description.vocabulary = Some(net.rows);
        description.max_length = Some(net.max_len);
        description.layers = Some(net.stack.blocks.len());
        description.bos_id = specials.and_then(|s| s.bos).or(net.bos_id);
        description.eos_id = specials.and_then(|s| s.eos).or(net.eos_id);
        if opened.family.role() == Role::Denoiser {
            description.mask_id = options.mask_id.or(net.mask_id).or_else(|| specials?.mask);
            description.time_conditioned = Some(net.timed);
        }
    }
    description.memory_bytes = description.parameters * description.dtype.bytes() as u64;
    Ok(description)
}

/// The `license` line in the front matter of a `README.md`.
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
    Ok(front_matter(&text, "license"))
}

fn front_matter(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("---") {
        return None;
    }
    lines
        .take_while(|line| line.trim() != "---")
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))
        .map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
        .filter(|value| !value.is_empty())
}
