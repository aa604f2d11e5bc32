//! What a plan names, loaded: rewards, judges, tables of constraints.

use std::{sync::Arc, thread};

use treasure_models::{LoadOptions, exec::Precision};
use treasure_rewards::{
    Composite, RemoteOptions, RewardOptions, Rewards, Spec, TextOptions, TextReward, spec::Leaf,
};
use treasure_text::{Rules, TextModel};

use super::{Session, lock};
use crate::{
    Error, ErrorKind, Estimate, Plan, Result, pocket::check_shipped, portioned::Portioned,
    run::Parts,
};

impl Session {
    /// A reward by specification, under a plan's conventions.
    fn reward(&self, spec: &Spec, options: RewardOptions) -> Result<Arc<Composite>> {
        let text = spec.to_string();
        for (written, leaf) in spec.leaves() {
            check_shipped(written, leaf)?;
        }
        let key = format!(
            "{text}\n{:?}\n{:?}\n{:?}",
            options.conventions, options.load, options.cache_bytes
        );
        if let Some(built) = lock(&self.inner.built).get(&key) {
            return Ok(built.clone());
        }
        let options = RewardOptions { own: lock(&self.inner.own).clone(), ..options };
        let built = Rewards::new(self.inner.store.clone(), options).build(spec)?;
        lock(&self.inner.built).put(key, built.clone());
        Ok(built)
    }

    /// The reward of a plan.
    pub fn reward_of(&self, plan: &Plan) -> Result<Arc<Composite>> {
        self.reward(&plan.reward, self.reward_options(plan))
    }

    /// The cheap reward of a plan's screen, if it has one.
    pub fn screen_of(&self, plan: &Plan) -> Result<Option<Arc<Composite>>> {
        plan.screen.as_ref().map(|spec| self.reward(spec, self.reward_options(plan))).transpose()
    }

    fn reward_options(&self, plan: &Plan) -> RewardOptions {
        let own = &self.inner.options;
        let defaults = RewardOptions::default();
        RewardOptions {
            conventions: plan.preset.conventions(),
            batch: own.reward_batch,
            cache_bytes: own.cache_bytes,
            load: LoadOptions {
                dtype: plan.reward_dtype,
                precision: plan.load.precision,
                ..LoadOptions::default()
            },
            remote: RemoteOptions { timeout: own.reward_timeout, ..defaults.remote },
            exec_timeout: own.reward_timeout,
            interrupt: own.interrupt.clone(),
            own: defaults.own,
        }
    }

    /// The same for what the search does not see: always in f32.
    fn judge_options(&self, plan: &Plan) -> RewardOptions {
        let mut options = self.reward_options(plan);
        options.load.precision = Precision::F32;
        options
    }

    /// The tables of constraints of a plan's denoiser, if the plan has a constraint.
    pub(super) fn rules(&self, plan: &Plan, model: &dyn TextModel) -> Result<Option<Arc<Rules>>> {
        if !plan.is_constrained() {
            return Ok(None);
        }
        let key = format!("{}\n{:?}", plan.model, plan.load);
        let mut known = lock(&self.inner.rules);
        if let Some(rules) = known.get(&key) {
            return Ok(Some(rules.clone()));
        }
        let rules = Arc::new(Rules::of(model)?);
        known.insert(key, rules.clone());
        Ok(Some(rules))
    }

    /// Loads all that a plan names, the denoiser beside the rewards.
    pub(crate) fn parts(&self, plan: &Plan) -> Result<Parts> {
        let options = || self.reward_options(plan);
        let (model, rewards) = thread::scope(|scope| {
            let model = scope.spawn(|| self.model(&plan.model, &plan.load));
            let build = |spec: &Spec| self.reward(spec, options());
            let rewards = (|| {
                let proxy = plan.screen.as_ref().map(build).transpose()?;
                // What measures a search does not share its shortcuts.
                let exact = |spec: &Spec| self.reward(spec, self.judge_options(plan));
                let judges = plan.judge.iter().map(|spec| Ok((spec.to_string(), exact(spec)?)));
                Ok::<_, Error>((build(&plan.reward)?, proxy, judges.collect::<Result<Vec<_>>>()?))
            })();
            (model.join(), rewards)
        });
        let model =
            model.map_err(|_| Error::new(ErrorKind::Model, "loading the model panicked"))??;
        let (reward, proxy, judges) = rewards?;
        // A finished text says only here how many tokens it has.
        let tokens = match &plan.given {
            Some(given) => given.start(&*model)?.state.n_masked(),
            None => plan.length,
        };
        let prediction = model.encoding_bytes(tokens);
        let estimate = Estimate::new(&plan.method, tokens, prediction);
        estimate.check(&plan.method)?;
        let rules = self.rules(plan, &*model)?;
        let model = match self.inner.options.batch_size {
            Some(size) => Arc::new(Portioned { inner: model, size: size.max(1) }),
            None => model,
        };
        Ok(Parts {
            plan_row: plan.to_value(),
            text: TextOptions::under(plan.preset.conventions(), &plan.reward),
            fluency: self.fluency(plan)?,
            estimate,
            plan: plan.clone(),
            model,
            reward,
            proxy,
            judges,
            rules,
        })
    }

    /// The scorer that perplexity is read from: the shipped one, else one that the plan names anyway.
    fn fluency(&self, plan: &Plan) -> Result<Option<Arc<dyn TextReward>>> {
        if plan.judge.is_empty() {
            return Ok(None);
        }
        let options = RewardOptions { conventions: Default::default(), ..self.judge_options(plan) };
        let rewards = Rewards::new(self.inner.store.clone(), options);
        if treasure_pocket::model("scorer").is_some() {
            return Ok(Some(rewards.leaf("perplexity", &Leaf::Perplexity)?));
        }
        let named = plan.judge.iter().chain([&plan.reward]).flat_map(Spec::leaves);
        let scorer = named.into_iter().find(|(_, leaf)| matches!(leaf, Leaf::Scorer { .. }));
        Ok(scorer.map(|(name, leaf)| rewards.leaf(name, leaf)).transpose()?)
    }
}
