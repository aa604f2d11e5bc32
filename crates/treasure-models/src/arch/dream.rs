//! Dream: Qwen2's layout with a full view and logits shifted by one; position 0 keeps its own.
//! Source: `modeling_dream.py` as copied by NVlabs/Fast-dLLM.

use super::{LanguageModel, Shift, llama};
use crate::{Result, config::Config, stack::Visibility, tensors::Tensors};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    config.only("use_mrope", &false.into())?;
    let network = llama::network(config, t, Visibility::Full)?;
    Ok(LanguageModel { shift: Shift::KeepFirst, ..network })
}
