//! DiffuLLaMA: plain Llama files whose attention sees both ways and whose logits are shifted by one.
//! Its mask is an existing token (811), which no file names. Source: HKUNLP/DiffuLLaMA `model.py`.

use super::{LanguageModel, Shift, llama};
use crate::{Result, config::Config, stack::Visibility, tensors::Tensors};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let network = llama::network(config, t, Visibility::Full)?;
    Ok(LanguageModel { shift: Shift::FirstGiven, ..network })
}
