//! From a specification to a reward: loads models, reads schemas, connects to nothing yet.
//!
//! Equal models are loaded once. Each leaf remembers what it scored for the whole run ([`RunCache`]).

use std::sync::Arc;

use treasure_models::{Classifier, ModelStore};

use treasure_text::Conventions;

use crate::{
    Composite, Error, Result, RewardOptions, RunCache, Spec, TextReward,
    neural::{ClassifierReward, NelboReward, ScorerReward, failed},
    options,
    spec::{Judge, Leaf, ValueKind},
};

/// Builds rewards; their models are those of a store.
pub struct Rewards {
    store: Arc<ModelStore>,
    options: RewardOptions,
}

impl Rewards {
    /// Takes models from `store`; the short names expect the pocket models under `pocket/NAME`.
    pub fn new(store: Arc<ModelStore>, options: RewardOptions) -> Self {
        Self { store, options }
    }

    /// Builds the reward of a specification.
    pub fn build(&self, spec: &Spec) -> Result<Arc<Composite>> {
        let composite = Composite::new(spec, |written, leaf| {
            let reward = self.leaf(written, leaf)?;
            Ok(Arc::new(RunCache::new(reward, self.options.cache_bytes)))
        })?;
        let composite = composite.with_interrupt(self.options.interrupt.clone());
        Ok(Arc::new(match self.options.batch {
            Some(size) => composite.with_batch_size(size),
            None => composite,
        }))
    }

    /// Builds one reward of a specification, without the run's memory.
    pub fn leaf(&self, name: &str, leaf: &Leaf) -> Result<Arc<dyn TextReward>> {
        let model = leaf.checkpoint().unwrap_or_default();
        Ok(match leaf {
            Leaf::Judge(judge, value) => self.judge(name, &model, *judge, *value)?,
            Leaf::Perplexity | Leaf::Scorer { .. } => self.scorer(name, &model)?,
            Leaf::Classifier { label, value, .. } => {
                let window = match self.options.conventions {
                    Conventions::Plain => None,
                    Conventions::Fk => Some(options::FK_CLASSIFIER_TOKENS),
                };
                let classifier = self.classifier(name, &model)?;
                Arc::new(ClassifierReward::new(name, classifier, label.as_deref(), *value, window)?)
            }
            Leaf::Nelbo { .. } => {
                let model = self.store.denoiser(&model, &self.options.load);
                let model =
                    model.map_err(|error| failed(name, "cannot load the denoiser", error))?;
                Arc::new(NelboReward::new(name, model))
            }
            Leaf::Rule(rule) => rule.build(name)?,
            Leaf::Own(own) => match self.options.own.get(own) {
                Some(reward) => reward.clone(),
                None => {
                    let message = "no reward of that name was handed in";
                    return Err(Error::reward(name, message));
                }
            },
            #[cfg(feature = "exec")]
            Leaf::Exec(command) => {
                let exec = crate::Exec::new(name, command, self.options.exec_timeout);
                Arc::new(exec.with_interrupt(self.options.interrupt.clone()))
            }
            #[cfg(feature = "remote")]
            Leaf::Remote(remote) => {
                let mut options = self.options.remote.clone();
                options.batch = self.options.batch.unwrap_or(options.batch);
                crate::remote::connect(name, remote, &options, &self.options.interrupt)?
            }
            #[cfg(not(all(feature = "exec", feature = "remote")))]
            _ => return Err(Error::reward(name, "not in this build: a cargo feature is missing")),
        })
    }

    fn judge(
        &self,
        name: &str,
        model: &str,
        judge: Judge,
        value: ValueKind,
    ) -> Result<Arc<dyn TextReward>> {
        let window = match (self.options.conventions, judge) {
            (Conventions::Plain, _) => None,
            (Conventions::Fk, Judge::Positive | Judge::Neutral | Judge::Negative) => {
                Some(options::FK_SENTIMENT_TOKENS)
            }
            (Conventions::Fk, _) => Some(options::FK_CLASSIFIER_TOKENS),
        };
        let classifier = self.classifier(name, model)?;
        let label = match judge {
            Judge::Positive => "positive",
            Judge::Neutral => "neutral",
            Judge::Negative => "negative",
            Judge::Toxicity => "toxic",
            Judge::Cola => "acceptable",
            Judge::NoToxicity => match classifier.labels() {
                [other, toxic] | [toxic, other] if toxic.eq_ignore_ascii_case("toxic") => other,
                labels => {
                    let message = format!(
                        "expected two labels, one of them toxic, got {}",
                        labels.join(", ")
                    );
                    return Err(Error::reward(name, message));
                }
            },
        };
        let label = label.to_string();
        Ok(Arc::new(ClassifierReward::new(name, classifier, Some(&label), value, window)?))
    }

    fn classifier(&self, name: &str, model: &str) -> Result<Arc<Classifier>> {
        self.store
            .classifier(model, &self.options.load)
            .map_err(|error| failed(name, "cannot load the classifier", error))
    }

    fn scorer(&self, name: &str, model: &str) -> Result<Arc<dyn TextReward>> {
        let scorer = self
            .store
            .scorer(model, &self.options.load)
            .map_err(|error| failed(name, "cannot load the scorer", error))?;
        let reward = ScorerReward::new(name, scorer);
        Ok(Arc::new(match self.options.conventions {
            Conventions::Plain => reward,
            // exp2 of nats, then the natural logarithm: −ln 2 · mean NLL (protocol notes, 1.5).
            Conventions::Fk => reward
                .with_window(options::FK_SCORER_TOKENS)
                .stripped()
                .scaled(std::f64::consts::LN_2),
        }))
    }
}
