//! Reward models of Llama's and Qwen2's type: a linear layer without bias on the last token that is not
//! padding. Sources: transformers `LlamaForSequenceClassification` (Skywork-Reward, FsfairX) and
//! `LlamaForRewardModelWithGating` of RLHFlow/ArmoRM, whose objectives are weighed by what the prompt is.

use super::{ClassifierNet, Gate, Pool, labels, llama};
use crate::{
    Result,
    config::Config,
    stack::{Classify, Tokens, Visibility},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<ClassifierNet> {
    let (width, rows) = (config.size("hidden_size")?, config.size("vocab_size")?);
    let tokens = Tokens::Own(t.matrix(llama::TABLE, rows, width));
    let (stack, max_len) = llama::body(config, t, Visibility::Causal, tokens)?;
    let gated = t.has("regression_layer.weight");
    let name = if gated { "regression_layer" } else { "score" };
    let weight = format!("{name}.weight");
    let count = t.shape(&weight).and_then(|shape| shape.first().copied()).unwrap_or(1);
    let gate = gated.then(|| gate(config, t, width, count)).transpose()?;
    let bias = t.has(&format!("{name}.bias"));
    Ok(ClassifierNet {
        stack,
        classify: Classify { dense: None, classifier: t.linear(name, count, width, bias)? },
        max_len,
        rows,
        labels: match &gate {
            Some(_) => vec!["score".to_owned()],
            None => labels(config, count)?,
        },
        pool: Pool::Last { pad: config.token("pad_token_id")? },
        gate,
    })
}

/// ArmoRM's gate over its objectives.
fn gate(config: &Config, t: &mut Tensors, width: usize, objectives: usize) -> Result<Gate> {
    let hidden = config.size_if("gating_hidden_dim")?.unwrap_or(1024);
    let layers = config.size_if("gating_n_hidden")?.unwrap_or(3);
    let mut inputs = width;
    let mut stack = Vec::with_capacity(layers + 1);
    for layer in 0..=layers {
        let outputs = if layer < layers { hidden } else { objectives };
        let weights = t.values(&format!("gating.layers.{layer}.weight"), &[outputs, inputs])?;
        let bias = t.values(&format!("gating.layers.{layer}.bias"), &[outputs])?;
        stack.push((weights, bias));
        inputs = outputs;
    }
    let scale = t.values("gating.logit_scale", &[1])?;
    Ok(Gate {
        layers: stack,
        transform: t.values("reward_transform_matrix", &[objectives, objectives])?,
        temperature: config.number("gating_temperature", 10.0)?,
        scale: f64::from(scale.first().copied().unwrap_or(1.0)),
    })
}
