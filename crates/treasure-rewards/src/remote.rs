//! Rewards on servers: Text Embeddings Inference, vLLM, SGLang, OpenAI-style completions, OpenRLHF.
//!
//! Guarantees: nothing is sent before the first text is scored, and only to addresses the user named
//! (redirects are refused, proxies of the environment are not used); labels are matched by name, never
//! by order; a server's trouble is an error that names its address.

mod address;
mod classify;
mod completions;
mod fleet;
mod http;
mod numbers;
mod score;
mod tei;

use std::sync::Arc;

use crate::{
    Error, Explained, Interrupt, Range, RemoteOptions, Result, TextReward,
    spec::{Protocol, Remote, ValueKind},
};
use fleet::Fleet;

/// What a protocol decides; the rest is the same for all servers.
trait Server: Send + Sync {
    /// The servers.
    fn fleet(&self) -> &Fleet;

    /// The numbers it can give.
    fn range(&self) -> Range {
        Range::ANY
    }

    /// One number per text, in order, with what led to it.
    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>>;
}

impl<S: Server> TextReward for S {
    fn name(&self) -> &str {
        &self.fleet().name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(Server::explain(self, texts)?.into_iter().map(|row| row.value).collect())
    }

    fn range(&self) -> Range {
        Server::range(self)
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        Server::explain(self, texts)
    }

    /// The fleet makes the batches, so that all servers work at once.
    fn batch_size(&self) -> Option<usize> {
        None
    }
}

/// The reward that a specification's remote part describes. Sends nothing yet.
pub fn connect(
    name: &str,
    remote: &Remote,
    options: &RemoteOptions,
    interrupt: &Interrupt,
) -> Result<Arc<dyn TextReward>> {
    let fleet = Fleet::new(name, &remote.urls, options, interrupt.clone())?;
    let label = remote.label.clone();
    let ends = |path: &str| fleet.path().ends_with(path);
    Ok(match remote.protocol {
        Protocol::Tei => Arc::new(tei::Tei::new(fleet, label, remote.value)),
        Protocol::Vllm if ends("/score") => Arc::new(score::PairScore::new(fleet, label)?),
        Protocol::Sglang if ends("/score") => {
            Arc::new(score::LabelTokens::new(fleet, label, remote.value)?)
        }
        Protocol::Sglang if ends("/generate") => {
            no_label(name, &label, "/generate")?;
            Arc::new(completions::InputLogprobs::new(fleet))
        }
        Protocol::Vllm => Arc::new(classify::Classify::new(
            fleet,
            label,
            remote.value,
            &["/classify", "/v1/classify"],
        )),
        Protocol::Sglang => Arc::new(classify::Classify::new(
            fleet,
            label,
            remote.value,
            &["/v1/classify", "/classify"],
        )),
        Protocol::Completions => {
            no_label(name, &label, "completions+")?;
            Arc::new(completions::Completions::new(fleet))
        }
        Protocol::Reward => {
            no_label(name, &label, "reward+")?;
            Arc::new(numbers::GetReward::new(fleet))
        }
    })
}

/// The numbers of a classifier. Without a label it may be a reward model, whose one number is anything.
fn label_range(wanted: Option<&str>, value: ValueKind) -> Range {
    match (wanted, value) {
        (None, ValueKind::LogProb) => Range::ANY,
        (_, value) => value.range(),
    }
}

fn no_label(name: &str, label: &Option<String>, what: &str) -> Result<()> {
    match label {
        None => Ok(()),
        Some(label) => {
            let message = format!("{what} gives one number per text, so #{label} means nothing");
            Err(Error::reward(name, message).with_hint(format!("leave #{label} out")))
        }
    }
}
