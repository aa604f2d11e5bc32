//! ArmoRM's gate: a small network that says from the prompt how much each objective of a reward model
//! counts. Source: `LlamaForRewardModelWithGating` of RLHFlow/ArmoRM.

/// Where the prompt ends and an answer begins: the prompt is read at the first token of this.
pub(crate) const ANSWER: &str = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n";

/// The gate's weights, in f32 as they are read.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Weights `[outputs, inputs]` and bias, layer by layer; ReLU between them.
    pub(crate) layers: Vec<(Vec<f32>, Vec<f32>)>,
    /// `[objectives, objectives]`.
    pub(crate) transform: Vec<f32>,
    pub(crate) temperature: f64,
    pub(crate) scale: f64,
}

impl Gate {
    /// Where the prompt of a conversation is read: at the last beginning of an answer.
    /// `answer` is [`ANSWER`] in tokens.
    pub(crate) fn position(ids: &[u32], answer: &[u32]) -> Option<usize> {
        ids.windows(answer.len().max(1)).rposition(|tokens| tokens == answer)
    }

    /// The score of objectives, weighed by the prompt's hidden state.
    pub(crate) fn score(&self, prompt: &[f32], objectives: &[f32]) -> f64 {
        let mut x: Vec<f64> = prompt.iter().map(|&x| f64::from(x)).collect();
        for (layer, (weights, bias)) in self.layers.iter().enumerate() {
            let last = layer + 1 == self.layers.len();
            let row = |(weights, &bias): (&[f32], &f32)| {
                let sum: f64 = weights.iter().zip(&x).map(|(&w, x)| f64::from(w) * x).sum();
                let y = sum + f64::from(bias);
                if last { y } else { y.max(0.0) }
            };
            x = weights.chunks(x.len().max(1)).zip(bias).map(row).collect();
        }
        let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = x.iter().map(|x| ((x - top) / self.temperature).exp()).collect();
        let whole: f64 = shares.iter().sum();
        let count = objectives.len();
        let adjusted = |to: usize| -> f64 {
            let from = |from: usize| {
                f64::from(objectives[from]) * f64::from(self.transform[from * count + to])
            };
            (0..count).map(from).sum()
        };
        let weigh = |(to, share): (usize, &f64)| self.scale * share / whole * adjusted(to);
        shares.iter().enumerate().map(weigh).sum()
    }
}
