//! What a run is put together from: specifications read, models and rewards loaded side by side.

use std::{num::NonZeroUsize, sync::Arc, thread};

use treasure_core::{Reward, TokenId, View};
use treasure_models::{LoadOptions, MaskedLm};
use treasure_rewards::{
    Composite, Preset, RUN_CACHE_BYTES, RewardOptions, Rewards, Spec, TextReward,
    spec::{Kind, Leaf, ValueKind},
};

use super::{plan::Plan, row::Reading, sample::Setup};
use crate::{
    commands::generate::RewardOptions as RewardArguments,
    failure::{Failure, OrFail as _, Outcome},
    loading,
    options::model::ModelOptions,
};

/// The specifications of a run, read before anything is loaded.
#[derive(Clone, Debug)]
pub struct Specs {
    reward: Spec,
    proxy: Option<Spec>,
    judges: Vec<(String, Spec)>,
    preset: Preset,
}

impl Specs {
    /// Reads the specifications of a plan.
    pub fn parse(plan: &Plan) -> Outcome<Self> {
        let judge = |text: &String| Ok((text.clone(), Self::read(text).context(|| "--judge")?));
        Ok(Self {
            reward: Self::read(&plan.reward)?,
            proxy: match &plan.knobs.screen {
                Some(text) => Some(Self::read(text).context(|| "--screen")?),
                None => None,
            },
            judges: plan.judge.iter().map(judge).collect::<Outcome<_>>()?,
            preset: plan.preset.conventions(),
        })
    }

    /// Reads one specification and refuses shipped judges that are not there.
    pub fn read(text: &str) -> Outcome<Spec> {
        let spec: Spec = text.parse()?;
        for (written, leaf) in spec.leaves() {
            let shipped = match leaf {
                Leaf::Judge(judge, _) => judge.model(),
                Leaf::Perplexity => "scorer",
                Leaf::Classifier { model, .. } | Leaf::Scorer { model } | Leaf::Nelbo { model } => {
                    loading::check_pocket(model).context(|| format!("reward {written}"))?;
                    continue;
                }
                _ => continue,
            };
            if treasure_pocket::model(shipped).is_none() {
                return Err(loading::no_pocket(&format!("reward {written}")));
            }
        }
        Ok(spec)
    }

    /// How the reward reads best beside its number.
    pub fn reading(&self) -> Reading {
        match self.preset {
            Preset::Plain => Self::reading_of(&self.reward),
            // Its scorers give −ln 2 times the mean, which is no perplexity.
            Preset::Fk => match Self::reading_of(&self.reward) {
                Reading::MeanLogLikelihood => Reading::Plain,
                other => other,
            },
        }
    }

    /// How a specification reads best beside its number.
    pub fn reading_of(spec: &Spec) -> Reading {
        match &spec.root.kind {
            Kind::Leaf(Leaf::Judge(_, ValueKind::LogProb))
            | Kind::Leaf(Leaf::Classifier { value: ValueKind::LogProb, .. }) => {
                Reading::LogProbability
            }
            Kind::Leaf(Leaf::Perplexity | Leaf::Scorer { .. }) => Reading::MeanLogLikelihood,
            _ => Reading::Plain,
        }
    }
}

/// How rewards are built for a command.
pub fn reward_options(
    dtype: &str,
    batch: Option<NonZeroUsize>,
    preset: Preset,
    cached: bool,
) -> Outcome<RewardOptions> {
    Ok(RewardOptions {
        preset,
        batch: batch.map(NonZeroUsize::get),
        cache_bytes: if cached { RUN_CACHE_BYTES } else { 0 },
        load: LoadOptions { dtype: dtype.parse()?, ..LoadOptions::default() },
        ..RewardOptions::default()
    })
}

/// Models and rewards, loaded.
pub struct Parts {
    model: Arc<MaskedLm>,
    rewards: Rewards,
    specs: Specs,
}

impl Parts {
    /// Loads the denoiser and, beside it, what the rewards need.
    pub fn load(
        model: &ModelOptions,
        specs: &Specs,
        reward: &RewardArguments,
        cached: bool,
    ) -> Outcome<Self> {
        let resolver = loading::resolver();
        let options =
            reward_options(&reward.reward_dtype, reward.reward_batch, specs.preset, cached)?;
        let rewards = Rewards::new(resolver.clone(), options);
        let (model, built) = thread::scope(|scope| {
            let model = scope.spawn(|| loading::denoiser(&resolver, model));
            let mut built = rewards.build(&specs.reward).map(drop);
            for (_, judge) in &specs.judges {
                built = built.and_then(|()| rewards.build(judge).map(drop));
            }
            (model.join(), built)
        });
        let model = model.map_err(|_| Failure::new("loading the model panicked"))??;
        built?;
        Ok(Self { model: Arc::new(model), rewards, specs: specs.clone() })
    }

    /// Puts a run together. Each call has a memory of scored texts of its own.
    pub fn setup(&self, plan: Plan, traces: bool) -> Outcome<Setup> {
        let build = |spec: &Spec| self.rewards.build(spec);
        let judges = self.specs.judges.iter();
        Ok(Setup {
            plan_row: serde_json::to_value(&plan)?,
            search: plan.search(),
            model: self.model.clone(),
            reward: build(&self.specs.reward)?,
            text: self.specs.preset.text_options(&self.specs.reward),
            proxy: self.specs.proxy.as_ref().map(build).transpose()?,
            judges: judges
                .map(|(name, spec)| Ok((name.clone(), build(spec)?)))
                .collect::<Outcome<_>>()?,
            fluency: self.fluency()?,
            traces,
            plan,
        })
    }

    /// The scorer that perplexity is read from: the shipped one, else one that the run names anyway.
    fn fluency(&self) -> Outcome<Option<Arc<dyn TextReward>>> {
        if self.specs.judges.is_empty() {
            return Ok(None);
        }
        if treasure_pocket::model("scorer").is_some() {
            return Ok(Some(self.rewards.leaf("perplexity", &Leaf::Perplexity)?));
        }
        let judges = self.specs.judges.iter().map(|(_, spec)| spec);
        let named = judges.chain([&self.specs.reward]).flat_map(Spec::leaves);
        let scorer = named.into_iter().find(|(_, leaf)| matches!(leaf, Leaf::Scorer { .. }));
        Ok(scorer.map(|(name, leaf)| self.rewards.leaf(name, leaf)).transpose()?)
    }
}

/// A reward on views of text, whatever prompt they came from.
pub struct TextScores(pub Arc<Composite>);

impl Reward for TextScores {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn view(&self, tokens: &[TokenId]) -> treasure_core::Result<View> {
        Ok(View::Tokens(tokens.into()))
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        let texts: Vec<&str> = batch
            .iter()
            .map(|view| match view {
                View::Text(text) => Ok(text.as_ref()),
                View::Tokens(tokens) => Err(treasure_core::Error::Invalid {
                    what: "reward view",
                    expected: "text".into(),
                    got: format!("{} token ids", tokens.len()),
                }),
            })
            .collect::<treasure_core::Result<_>>()?;
        Ok(self.0.score(&texts)?)
    }
}
