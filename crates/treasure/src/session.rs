//! Models and rewards that are loaded once, and the searches that run on them.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lru::LruCache;
use serde::Serialize;
use serde_json::{Map, Value};
use treasure_core::{Batcher, Event, Problem, Traffic};
use treasure_models::{LoadOptions, MaskedLm, ModelStore, Resolver, exec::Precision};
use treasure_rewards::{
    Breakdown, Composite, Interrupt, Pipeline, RUN_CACHE_BYTES, RemoteOptions, RewardOptions,
    Rewards, Spec, TextOptions, TextReward, spec::Leaf,
};

use treasure_text::{Message, Rules, Start, TextModel};

use crate::{
    Ask, Entry, Error, ErrorKind, Plan, Predicted, Request, Result, Sample,
    pocket::{check_pocket, check_shipped, pocket_resolver},
    portioned::Portioned,
    predict::{encoded, encoded_at, predict, state_of, state_of_ids},
    run::{Job, Parts, Watch, to_the_end},
    stagger::Stagger,
};

/// How a session works; nothing here changes a result.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Searches that run at once in [`Session::run_all`].
    pub in_flight: usize,
    /// Texts in one reward batch, instead of each reward's own size.
    pub reward_batch: Option<usize>,
    /// States in one model batch.
    pub batch_size: Option<usize>,
    /// What each reward may remember of scored texts, in bytes.
    pub cache_bytes: usize,
    /// How long one exchange with a reward outside of this process may take.
    pub reward_timeout: Duration,
    /// Stops rewards that wait for a server or a program.
    pub interrupt: Interrupt,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            in_flight: 8,
            reward_batch: None,
            batch_size: None,
            cache_bytes: RUN_CACHE_BYTES,
            reward_timeout: Duration::from_secs(60),
            interrupt: Interrupt::NEVER,
        }
    }
}

/// A text, or token ids as they are, with its score. Field names and order are the contract of the JSON
/// row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The text; none for token ids.
    pub text: Option<String>,
    /// The token ids, where they were scored as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u32>>,
    /// The reward.
    pub reward: f64,
    /// Each part as written.
    pub rewards: Map<String, Value>,
    /// What led to it.
    pub detail: Value,
}

struct Inner {
    store: Arc<ModelStore>,
    options: SessionOptions,
    batcher: Arc<Batcher>,
    /// Denoisers that were handed in, by name.
    models: HashMap<String, Arc<dyn TextModel>>,
    /// Rewards that were handed in, by name.
    own: Mutex<HashMap<String, Arc<dyn TextReward>>>,
    /// The rewards that were used last, by specification and conventions.
    built: Mutex<LruCache<String, Arc<Composite>>>,
    /// Tables of constraints, by denoiser.
    rules: Arc<Mutex<HashMap<String, Arc<Rules>>>>,
}

/// Rewards that are kept once built; a process that serves strangers must not keep them all.
const BUILT: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Models, rewards, and a table at which searches share them. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

impl Session {
    /// A session on the models in the binary, on directories and on the hub's cache.
    ///
    /// ```
    /// let session = treasure::Session::pocket()?;
    /// let found = session.prompt("The lake").reward("length:3..9").length(4).method("fhs").run()?;
    /// assert_eq!(found.text, found.prompt + &found.continuation);
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn pocket() -> Result<Self> {
        Ok(Self::new(pocket_resolver(), SessionOptions::default()))
    }

    /// A session that finds models through a resolver.
    pub fn new(resolver: Resolver, options: SessionOptions) -> Self {
        Self::with_models(resolver, options, HashMap::new())
    }

    /// A session on somebody's own denoiser, under the name `own`.
    pub fn on(model: impl TextModel + 'static) -> Self {
        let models = HashMap::from([("own".to_owned(), Arc::new(model) as Arc<dyn TextModel>)]);
        Self::with_models(pocket_resolver(), SessionOptions::default(), models)
    }

    fn with_models(
        resolver: Resolver,
        options: SessionOptions,
        models: HashMap<String, Arc<dyn TextModel>>,
    ) -> Self {
        let inner = Inner {
            store: Arc::new(ModelStore::new(resolver)),
            options,
            batcher: Batcher::new(),
            models,
            own: Mutex::default(),
            built: Mutex::new(LruCache::new(BUILT)),
            rules: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same models under other options.
    #[must_use]
    pub fn with_options(&self, options: SessionOptions) -> Self {
        let inner = Inner {
            store: self.inner.store.clone(),
            options,
            batcher: Batcher::new(),
            models: self.inner.models.clone(),
            own: Mutex::new(lock(&self.inner.own).clone()),
            built: Mutex::new(LruCache::new(BUILT)),
            rules: self.inner.rules.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same weights and rewards beside somebody's own denoiser, under a name that plans give.
    #[must_use]
    pub fn with_model(&self, name: &str, model: Arc<dyn TextModel>) -> Self {
        let mut session = self.with_options(self.inner.options.clone());
        if let Some(inner) = Arc::get_mut(&mut session.inner) {
            inner.models.insert(name.to_owned(), model);
        }
        session
    }

    /// Whether a model was given to this session under a name.
    pub(crate) fn has_model(&self, name: &str) -> bool {
        self.inner.models.contains_key(name)
    }

    /// The weights this session holds.
    pub fn store(&self) -> &Arc<ModelStore> {
        &self.inner.store
    }

    /// How it works.
    pub fn options(&self) -> &SessionOptions {
        &self.inner.options
    }

    /// Makes a reward known as `own:NAME`, to be used in specifications like any other.
    pub fn add_reward(&self, reward: impl TextReward + 'static) {
        let name = reward.name().to_owned();
        // What was built on a reward of the same name is not what it says any more.
        let own = format!("own:{name}");
        let mut built = lock(&self.inner.built);
        let stale: Vec<String> = built
            .iter()
            .map(|(spec, _)| spec)
            .filter(|spec| spec.contains(&own))
            .cloned()
            .collect();
        for spec in stale {
            built.pop(&spec);
        }
        drop(built);
        lock(&self.inner.own).insert(name, Arc::new(reward));
    }

    /// A search from a prompt, to be described further.
    pub fn prompt(&self, prompt: impl Into<String>) -> Ask<'_> {
        Ask::new(self, Request { prompt: Some(prompt.into()), ..Request::default() })
    }

    /// A search that fills the holes of a text.
    pub fn template(&self, template: impl Into<String>) -> Ask<'_> {
        Ask::new(self, Request { template: Some(template.into()), ..Request::default() })
    }

    /// A search described by a request.
    pub fn ask(&self, request: Request) -> Ask<'_> {
        Ask::new(self, request)
    }

    /// The denoiser of a plan or a name.
    pub fn model(&self, name: &str, load: &LoadOptions) -> Result<Arc<dyn TextModel>> {
        match self.inner.models.get(name) {
            Some(model) => Ok(model.clone()),
            None => Ok(self.checkpoint(name, load)?),
        }
    }

    /// A denoiser that was loaded from a checkpoint.
    pub fn checkpoint(&self, name: &str, load: &LoadOptions) -> Result<Arc<MaskedLm>> {
        check_pocket(name)?;
        self.inner
            .store
            .denoiser(name, load)
            .map_err(|error| Error::from(error).context(format!("model {name}")))
    }

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
    fn rules(&self, plan: &Plan, model: &dyn TextModel) -> Result<Option<Arc<Rules>>> {
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
        let estimate = plan.estimate(model.encoding_bytes(plan.length));
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

    /// Where a search of a plan starts, after checking that its constraint can be met there and that the
    /// model can write the text that it is to refine.
    pub fn start(&self, plan: &Plan, prompt: &str) -> Result<Start> {
        let model = self.model(&plan.model, &plan.load)?;
        let start = plan.start(&*model, prompt)?;
        if let Some(given) = &plan.given {
            given.tokens(&*model, &start)?;
        }
        if let Some(rules) = self.rules(plan, &*model)? {
            rules.constraint(&start, plan.min_length)?;
        }
        Ok(start)
    }

    /// The prompt that a conversation stands for, as the chat template of a plan's denoiser writes it.
    pub fn conversation(&self, plan: &Plan, messages: &[Message]) -> Result<String> {
        plan.conversation(&*self.model(&plan.model, &plan.load)?, messages)
    }

    /// A prompt as a plan means it: in chat what a user says, else as it is.
    pub fn said(&self, plan: &Plan, prompt: String) -> Result<String> {
        match plan.chat {
            true => self.conversation(plan, &[Message::user(prompt)]),
            false => Ok(prompt),
        }
    }

    /// The entries of a request with their conversations written out, where it is in chat.
    pub fn written(&self, request: &Request, mut entries: Vec<Entry>) -> Result<Vec<Entry>> {
        let plan = Plan::new(request)?;
        if plan.chat {
            for entry in &mut entries {
                let said = entry.prompt.take().unwrap_or_default();
                entry.prompt = Some(match &entry.messages {
                    Some(messages) => self.conversation(&plan, messages)?,
                    None => self.said(&plan, said)?,
                });
            }
        }
        Ok(entries)
    }

    /// Loads what a plan names, so that a first search does not wait for it.
    pub fn prepare(&self, plan: &Plan) -> Result<()> {
        self.parts(plan).map(drop)
    }

    /// Makes one sample of a plan.
    pub fn run(&self, plan: &Plan, job: &Job, watch: Watch<'_>) -> Result<Sample> {
        self.parts(plan)?.make(job, watch, None, &mut to_the_end)
    }

    /// Lends the problem of a plan at a prompt, with the way from its sequences to text, to whoever asks
    /// model and reward by hand; all that is asked is counted there.
    pub fn pose<T>(
        &self,
        plan: &Plan,
        prompt: &str,
        cancel: Option<&AtomicBool>,
        ask: impl FnOnce(&Problem<'_>, &Pipeline) -> T,
    ) -> Result<T> {
        self.parts(plan)?.pose(prompt, cancel, ask)
    }

    /// Makes one sample at the table where all of this session's searches share forward passes.
    pub fn run_seated(&self, plan: &Plan, job: &Job, watch: Watch<'_>) -> Result<Sample> {
        let parts = self.parts(plan)?;
        let seat = self.inner.batcher.join();
        parts.make(job, watch, Some(seat), &mut to_the_end)
    }

    /// What the table has served: how full its batches are.
    pub fn traffic(&self) -> Traffic {
        self.inner.batcher.traffic()
    }

    /// How many searches sit at the table.
    pub fn seated(&self) -> usize {
        self.inner.batcher.seated()
    }

    /// Makes all samples of some plans, several at a time; `done` sees each as it finishes, in the order
    /// of completion, and stops what has not begun by `Break`.
    ///
    /// Starts are staggered, so that a run that is cut short has about its share of finished rows.
    pub fn run_all(
        &self,
        plans: &[Plan],
        jobs: &[Job],
        cancel: Option<&AtomicBool>,
        traces: bool,
        watch: &(dyn Fn(usize, &Event) -> ControlFlow<()> + Sync),
        done: &mut (dyn FnMut(usize, Result<Sample>) -> ControlFlow<()> + Send),
    ) -> Result<()> {
        let parts = plans.iter().map(|plan| self.parts(plan)).collect::<Result<Vec<_>>>()?;
        // No more at once than fit this machine.
        let fit = parts.iter().map(|parts| parts.estimate.fit()).min().unwrap_or(1);
        let workers = self.inner.options.in_flight.min(fit).clamp(1, jobs.len().max(1));
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let stagger = Stagger::new(workers);
        let done = Mutex::new(done);
        let work = |worker: usize| {
            stagger.wait(worker);
            loop {
                let index = next.fetch_add(1, Ordering::SeqCst);
                let cancelled = cancel.is_some_and(|cancel| cancel.load(Ordering::SeqCst));
                let Some(job) = jobs.get(index).filter(|_| !cancelled) else { break };
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let mut see = |event: &Event| {
                    if let (0, Event::Step(step)) = (worker, event) {
                        stagger.reached((step.step + 1) as f64 / step.steps.max(1) as f64);
                    }
                    watch(index, event)
                };
                let look =
                    Watch { events: Some(&mut see), cancel, trace: traces, ..Watch::default() };
                let seat = (workers > 1).then(|| self.inner.batcher.join());
                let made = match parts.get(job.plan) {
                    Some(parts) => parts.make(job, look, seat, &mut to_the_end),
                    None => Err(Error::request(format!("job: there is no plan {}", job.plan))),
                };
                stagger.reached(1.0);
                let mut done = lock(&done);
                if done(index, made).is_break() {
                    stop.store(true, Ordering::SeqCst);
                }
            }
            stagger.reached(1.0);
        };
        thread::scope(|scope| {
            for worker in 1..workers {
                let work = &work;
                scope.spawn(move || work(worker));
            }
            work(0);
        });
        Ok(())
    }

    /// Makes all samples and hands them back in order; the first failure ends the run.
    pub fn collect(&self, plan: &Plan, jobs: &[Job]) -> Result<Vec<Sample>> {
        let mut made = BTreeMap::new();
        let mut failed = None;
        let mut keep = |index: usize, sample: Result<Sample>| match sample {
            Ok(sample) => {
                made.insert(index, sample);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        self.run_all(
            std::slice::from_ref(plan),
            jobs,
            None,
            false,
            &|_, _| ControlFlow::Continue(()),
            &mut keep,
        )?;
        match failed {
            Some(error) => Err(error),
            None => Ok(made.into_values().collect()),
        }
    }

    /// Scores texts, with what led to each number.
    ///
    /// ```
    /// let session = treasure::Session::pocket()?;
    /// let scored = session.score("contains:dog + 0.5*length:1..9", &["The dog ran."])?;
    /// assert_eq!((scored[0].reward, &scored[0].rewards["contains:dog"]), (1.5, &1.0.into()));
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn score(&self, reward: &str, texts: &[&str]) -> Result<Vec<Scored>> {
        let plan = Plan::new(&Request { reward: Some(reward.into()), ..Request::default() })?;
        self.score_under(&plan, texts)
    }

    /// Scores texts with the reward of a plan.
    pub fn score_under(&self, plan: &Plan, texts: &[&str]) -> Result<Vec<Scored>> {
        let found = self.reward_of(plan)?.breakdown(texts)?.into_iter().zip(texts);
        Ok(found.map(|(row, text)| scored(row, Some((*text).to_owned()), None)).collect())
    }

    /// Scores token ids as they are with the reward of a plan, no special tokens added.
    pub fn score_ids(&self, plan: &Plan, ids: Vec<u32>) -> Result<Scored> {
        let mut found = self.reward_of(plan)?.breakdown_ids(&[ids.as_slice()])?;
        Ok(scored(found.swap_remove(0), None, Some(ids)))
    }

    /// What a denoiser would put at each mask of a text with holes.
    pub fn predict(
        &self,
        plan: &Plan,
        text: &str,
        top: usize,
        sigma: Option<f64>,
    ) -> Result<Vec<Predicted>> {
        if let (Some(own), None) = (self.inner.models.get(&plan.model), sigma) {
            let state = state_of(&**own, text)?;
            return predict(&**own, Some(own.tokenizer()?), &state, encoded(&**own, &state)?, top);
        }
        let model = self.checkpoint(&plan.model, &plan.load)?;
        let state = state_of(&*model, text)?;
        let encoding = encoded_at(&model, &state, sigma)?;
        predict(&*model, Some(model.tokenizer()?), &state, encoding, top)
    }

    /// What a checkpoint would put at each mask among ids.
    pub fn predict_ids(
        &self,
        plan: &Plan,
        slots: Vec<Option<u32>>,
        top: usize,
        sigma: Option<f64>,
    ) -> Result<Vec<Predicted>> {
        let model = self.checkpoint(&plan.model, &plan.load)?;
        let state = state_of_ids(&model, slots)?;
        let encoding = encoded_at(&model, &state, sigma)?;
        // Ids need no tokenizer: one that is not there is no reason to fetch it.
        predict(&*model, model.tokenizer_at_hand(), &state, encoding, top)
    }
}

fn scored(row: Breakdown, text: Option<String>, ids: Option<Vec<u32>>) -> Scored {
    let rewards = row.parts.into_iter().map(|(name, value)| (name, value.into())).collect();
    let detail = row.detail.unwrap_or_else(|| Map::new().into());
    Scored { text, ids, reward: row.total, rewards, detail }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
