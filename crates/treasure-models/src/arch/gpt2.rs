//! GPT-2 of any size as an autoregressive scorer. Old files have no `transformer.` prefix.

use super::{
    LanguageModel,
    gpt2_block::{Names, network},
};
use crate::{Result, config::Config, stack::Visibility, tensors::Tensors};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let (root, tokens) = if t.has("wte.weight") {
        ("", "wte.weight")
    } else {
        ("transformer.", "transformer.wte.weight")
    };
    let names = Names { tokens, root, decoder: "lm_head.weight" };
    network(config, t, &names, Visibility::Causal)
}
