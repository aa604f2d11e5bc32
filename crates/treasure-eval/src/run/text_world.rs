//! Real checkpoints and judges: the world every preset runs in.
//!
//! Rewards keep no memory between samples here, so that seconds are those of a sample on its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};
use treasure_core::{Denoiser, Reward, TokenId};
use treasure_models::{Dtype, LoadOptions, MaskedLm, ModelStore, Resolver, Source};
use treasure_rewards::{
    Composite, Pipeline, RewardOptions, Rewards, Spec, TextOptions, TextReward, spec::Leaf,
};
use treasure_text::{Conventions as Preset, Detokenize, Start};

use super::world::{Reading, World};
use crate::{
    Error, Result,
    config::Protocol,
    plan::{Plan, hex},
    store::{ModelHash, hash_directory},
};

type Known = Mutex<HashMap<String, Arc<Composite>>>;

/// A denoiser with judges.
pub struct TextWorld {
    resolver: Resolver,
    model: Arc<MaskedLm>,
    dtype: Dtype,
    preset: Preset,
    /// What the search optimises, under the plan's protocol.
    rewards: Rewards,
    known_rewards: Known,
    /// What is reported, always on whole texts.
    judges: Rewards,
    known_judges: Known,
}

fn failed<E>(what: &str, message: &str) -> impl FnOnce(E) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (what, message) = (what.to_owned(), message.to_owned());
    move |error| Error::World { what, message, source: Some(Box::new(error)) }
}

impl TextWorld {
    /// Loads the plan's denoiser; judges are loaded when first asked.
    pub fn load(plan: &Plan, resolver: Resolver, load: &LoadOptions) -> Result<Self> {
        // Each set of weights once, whether it is optimised or reported.
        let store = Arc::new(ModelStore::new(resolver.clone()));
        let model = store
            .denoiser(&plan.model, load)
            .map_err(failed(&format!("model {}", plan.model), "cannot be loaded"))?;
        let preset = match plan.protocol {
            Protocol::Own => Preset::Plain,
            Protocol::Fk => Preset::Fk,
        };
        let options = |preset| RewardOptions {
            conventions: preset,
            cache_bytes: 0,
            ..RewardOptions::default()
        };
        Ok(Self {
            model,
            dtype: load.dtype,
            preset,
            rewards: Rewards::new(store.clone(), options(preset)),
            known_rewards: Mutex::default(),
            judges: Rewards::new(store, options(Preset::Plain)),
            known_judges: Mutex::default(),
            resolver,
        })
    }

    /// Totals of NLL and numbers of tokens of some texts.
    fn nll(&self, spec: &str, texts: &[&str]) -> Result<Vec<(f64, f64)>> {
        let composite = build(&self.judges, &self.known_judges, spec)?;
        let rows = composite.breakdown(texts).map_err(failed(spec, "cannot score the texts"))?;
        let total = |detail: &serde_json::Value| {
            let tokens = detail["tokens"].as_f64()?;
            Some((detail["nll_mean"].as_f64()? * tokens, tokens))
        };
        rows.iter()
            .map(|row| row.detail.as_ref().and_then(total))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::World {
                what: format!("perplexity by {spec}"),
                message: "expected a scorer such as perplexity or ppl:MODEL".into(),
                source: None,
            })
    }
}

fn build(rewards: &Rewards, known: &Known, spec: &str) -> Result<Arc<Composite>> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(composite) = known.get(spec) {
        return Ok(composite.clone());
    }
    let parsed: Spec = spec.parse().map_err(failed(&format!("reward {spec}"), "cannot be read"))?;
    let composite =
        rewards.build(&parsed).map_err(failed(&format!("reward {spec}"), "cannot be built"))?;
    known.insert(spec.into(), composite.clone());
    Ok(composite)
}

impl World for TextWorld {
    fn denoiser(&self) -> &dyn Denoiser {
        &*self.model
    }

    fn start(&self, plan: &Plan, prompt: &str) -> Result<Start> {
        Start::under(self.preset, &*self.model, prompt, plan.length, plan.min_length)
            .map_err(failed(&format!("prompt {prompt:?}"), "cannot be continued"))
    }

    fn reward<'a>(&'a self, spec: &str, start: &Start) -> Result<Box<dyn Reward + 'a>> {
        let composite = build(&self.rewards, &self.known_rewards, spec)?;
        let parsed: Spec = spec.parse().map_err(failed(spec, "cannot be read"))?;
        let text: Arc<dyn Detokenize> = self.model.clone();
        let pipeline = Pipeline::new(composite, text, start.layout.clone(), start.ends.clone());
        Ok(Box::new(pipeline.with_options(TextOptions::under(self.preset, &parsed))))
    }

    fn read(&self, start: &Start, tokens: &[TokenId]) -> Result<Reading> {
        let rendered = start
            .layout
            .render(&*self.model, tokens, &start.ends, None)
            .map_err(failed("text", "cannot be decoded"))?;
        let continuation = rendered.continuation().to_owned();
        Ok(Reading { text: rendered.text, continuation, tokens: rendered.tokens })
    }

    fn judge(&self, spec: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let composite = build(&self.judges, &self.known_judges, spec)?;
        TextReward::score(&*composite, texts).map_err(failed(&format!("judge {spec}"), "failed"))
    }

    fn perplexity(&self, spec: &str, prompt: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let given = self.nll(spec, &[prompt])?;
        let whole = self.nll(spec, texts)?;
        let given = given.first().copied().unwrap_or_default();
        // A continuation that adds no token has nothing to be surprised by.
        let ppl = |&(nll, tokens): &(f64, f64)| match tokens > given.1 {
            true => ((nll - given.0) / (tokens - given.1)).exp(),
            false => 1.0,
        };
        Ok(whole.iter().map(ppl).collect())
    }

    fn token_text(&self, token: TokenId) -> Option<String> {
        self.model.tokenizer().ok()?.token_text(token)
    }

    fn hashes(&self, plan: &Plan) -> Result<Vec<ModelHash>> {
        let mut names = BTreeSet::from([plan.model.clone()]);
        let mut others = BTreeSet::new();
        let rewards = plan.rewards.iter().flat_map(|reward| {
            [
                Some(&reward.spec),
                reward.accuracy.as_ref(),
                reward.heldout.as_ref(),
                reward.heldout_accuracy.as_ref(),
            ]
        });
        let ppl = (!plan.rewards.is_empty()).then_some(&plan.ppl);
        for spec in rewards.flatten().chain(ppl) {
            let parsed: Spec = spec.parse().map_err(failed(spec, "cannot be read"))?;
            for (written, leaf) in parsed.leaves() {
                match leaf {
                    Leaf::Judge(judge, _) => _ = names.insert(format!("pocket/{}", judge.model())),
                    Leaf::Perplexity => _ = names.insert("pocket/scorer".into()),
                    Leaf::Classifier { model, .. }
                    | Leaf::Scorer { model }
                    | Leaf::Nelbo { model } => {
                        names.insert(model.clone());
                    }
                    _ => _ = others.insert(written.to_owned()),
                }
            }
        }
        let mut hashes = Vec::new();
        for name in names {
            let source = self
                .resolver
                .resolve(&name, None)
                .map_err(failed(&format!("model {name}"), "cannot be found"))?;
            let mut sha256 = hash_source(&source)?;
            // Weights held in another type than usual give other numbers: that is another model.
            if name == plan.model && self.dtype != Dtype::default() {
                sha256 += &format!(" as {}", self.dtype);
            }
            hashes.push(ModelHash { name, sha256 });
        }
        // A rule is its own text; a server or a program cannot be hashed, and the manifest says so.
        hashes.extend(
            others.into_iter().map(|name| ModelHash { name, sha256: "not a model".into() }),
        );
        let prompts = hex(&Sha256::digest(plan.prompts.join("\n---\n").as_bytes()));
        hashes.push(ModelHash { name: "prompts".into(), sha256: prompts });
        Ok(hashes)
    }
}

fn hash_source(source: &Source) -> Result<String> {
    Ok(match source {
        Source::Directory(path) => hash_directory(path)?,
        Source::File(path) => {
            let bytes = std::fs::read(path).map_err(crate::error::at(path, "reading"))?;
            hex(&Sha256::digest(&bytes))
        }
        Source::Embedded { files, .. } => {
            let mut files: Vec<_> = files.iter().collect();
            files.sort_by_key(|(name, _)| *name);
            let mut digest = Sha256::new();
            for (name, bytes) in files {
                digest.update(format!("{name} {}\n", bytes.len()));
                digest.update(bytes);
            }
            hex(&digest.finalize())
        }
        Source::Hub(repo) => match repo.snapshot() {
            Some(path) => hash_directory(&path)?,
            None => format!("{}@{}", repo.id, repo.revision),
        },
    })
}
