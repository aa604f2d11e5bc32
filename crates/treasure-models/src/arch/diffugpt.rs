//! DiffuGPT: GPT-2 without its causal mask, logits shifted by one, position 0 given.
//! Its config says `gpt2`; its mask is an existing token that no config names.
//! Source: HKUNLP/DiffuLLaMA `model.py`.

use super::{
    LanguageModel, Shift,
    gpt2_block::{Names, network},
};
use crate::{Result, config::Config, stack::Visibility, tensors::Tensors};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let names =
        Names { tokens: "embed_tokens.weight", root: "denoise_model.", decoder: "lm_head.weight" };
    let network = network(config, t, &names, Visibility::Full)?;
    Ok(LanguageModel { shift: Shift::FirstGiven, ..network })
}
