//! Models and rewards that are loaded once, and the searches that run on them.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lru::LruCache;
use serde::Serialize;
use serde_json::{Map, Value};
use treasure_core::{Batcher, Denoiser, Event, Problem, Run, Traffic};
use treasure_models::{LoadOptions, MaskedLm, ModelStore, Resolver, exec::Precision};
use treasure_rewards::{
    Breakdown, Composite, Explained, Interrupt, Pipeline, RUN_CACHE_BYTES, RemoteOptions,
    RewardOptions, Rewards, Spec, TextOptions, TextReward, spec::Leaf,
};

use treasure_text::{ChatTemplate, Message, Rules, Start, TextModel};

use crate::{
    Entry, Error, ErrorKind, Frame, Plan, Predicted, Request, Result, Sample,
    predict::{encoded, encoded_at, predict, state_of, state_of_ids},
    run::{Job, Parts, Watch, to_the_end},
};

/// The name of the default denoiser.
const POCKET: &str = "pocket";

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

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets worker k begin when the first search has come k/N of its way.
struct Stagger {
    workers: usize,
    reached: Mutex<f64>,
    changed: Condvar,
}

impl Stagger {
    fn new(workers: usize) -> Self {
        Self { workers, reached: Mutex::new(0.0), changed: Condvar::new() }
    }

    fn wait(&self, worker: usize) {
        let needed = worker as f64 / self.workers as f64;
        let mut reached = lock(&self.reached);
        while *reached < needed {
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn reached(&self, share: f64) {
        let mut reached = lock(&self.reached);
        if share > *reached {
            *reached = share;
            self.changed.notify_all();
        }
    }
}

/// A search in the making: a request in a session.
pub struct Ask<'s> {
    session: &'s Session,
    request: Request,
}

impl<'s> Ask<'s> {
    fn new(session: &'s Session, mut request: Request) -> Self {
        if request.model.is_none() && session.inner.models.contains_key("own") {
            request.model = Some("own".into());
        }
        Self { session, request }
    }

    /// What to aim for, as a specification.
    #[must_use]
    pub fn reward(mut self, spec: impl Into<String>) -> Self {
        self.request.reward = Some(spec.into());
        self
    }

    /// What to aim for, as a function from texts to numbers.
    #[must_use]
    pub fn reward_fn(
        mut self,
        name: &str,
        score: impl Fn(&[&str]) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        self.request.reward = Some(format!("own:{name}"));
        self.session.add_reward(FnReward { name: name.to_owned(), score });
        self
    }

    /// The continuation must match this regular expression, whole, whatever the reward.
    #[must_use]
    pub fn matches(mut self, regex: impl Into<String>) -> Self {
        self.request.matches = Some(regex.into());
        self
    }

    /// A judge that the search does not see.
    #[must_use]
    pub fn judge(mut self, spec: impl Into<String>) -> Self {
        self.request.judge.push(spec.into());
        self
    }

    /// The seed of all randomness.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.request.seed = Some(seed);
        self
    }

    /// Tokens to generate.
    #[must_use]
    pub fn length(mut self, tokens: usize) -> Self {
        self.request.length = Some(tokens);
        self
    }

    /// How many outputs [`Ask::run_all`] makes.
    #[must_use]
    pub fn samples(mut self, samples: usize) -> Self {
        self.request.samples = Some(samples);
        self
    }

    /// How to search, by name.
    #[must_use]
    pub fn method(mut self, name: impl Into<String>) -> Self {
        self.request.method = Some(name.into());
        self
    }

    /// Writes the prompt by the checkpoint's chat template, as what a user says.
    #[must_use]
    pub fn chat(mut self) -> Self {
        self.request.chat = Some(true);
        self
    }

    /// What the system message says, in chat.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.request.system = Some(text.into());
        self
    }

    /// Any field or option, by the name that JSON and the command line use. A value of the wrong type
    /// shows when the request becomes a plan.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        let mut fields = match serde_json::to_value(&self.request) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        fields.insert(name.to_owned(), value.into());
        fields.retain(|_, value| !value.is_null());
        match Request::from_value(fields.into()) {
            Ok(request) => self.request = request,
            // Kept as an option that no method has, so that the plan refuses it by name.
            Err(error) => {
                self.request.options.insert(name.to_owned(), error.to_string().into());
            }
        }
        self
    }

    /// The request so far.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The plan: every default filled, every check done that needs no weights.
    pub fn plan(&self) -> Result<Plan> {
        Plan::new(&self.request)
    }

    /// The job of a sample; a conversation is written out.
    fn job(&self, plan: &Plan, sample: usize) -> Result<Job> {
        let said = self.request.prompt.clone().unwrap_or_default();
        let prompt = match &self.request.messages {
            Some(messages) => self.session.conversation(plan, messages)?,
            None => self.session.said(plan, said)?,
        };
        Ok(Job { prompt, sample, ..Job::default() })
    }

    /// Runs the search.
    pub fn run(self) -> Result<Sample> {
        let plan = self.plan()?;
        self.session.run(&plan, &self.job(&plan, 0)?, Watch::default())
    }

    /// Runs the search and shows every step of the text; `Break` stops it and keeps the best.
    pub fn watch(self, mut show: impl FnMut(&Frame) -> ControlFlow<()>) -> Result<Sample> {
        let watch = Watch { frames: Some(&mut show), ..Watch::default() };
        let plan = self.plan()?;
        self.session.run(&plan, &self.job(&plan, 0)?, watch)
    }

    /// Hands the run to the caller, who drives it step by step and may stop at any time.
    pub fn drive(self, mut drive: impl FnMut(&mut Run<'_, '_>) -> Result<()>) -> Result<Sample> {
        let plan = self.plan()?;
        let parts = self.session.parts(&plan)?;
        parts.make(&self.job(&plan, 0)?, Watch::default(), None, &mut drive)
    }

    /// Runs all samples, several at a time, and hands them back in order.
    pub fn run_all(self) -> Result<Vec<Sample>> {
        let plan = self.plan()?;
        let jobs: Vec<Job> =
            (0..plan.samples).map(|sample| self.job(&plan, sample)).collect::<Result<_>>()?;
        self.session.collect(&plan, &jobs)
    }

    /// The same search from many prompts, several at a time, in order.
    pub fn prompts<'p>(self, prompts: impl IntoIterator<Item = &'p str>) -> Result<Vec<Sample>> {
        let plan = self.plan()?;
        let mut jobs = Vec::new();
        for (prompt_index, prompt) in prompts.into_iter().enumerate() {
            let prompt = self.session.said(&plan, prompt.to_owned())?;
            for sample in 0..plan.samples {
                let prompt = prompt.clone();
                jobs.push(Job { prompt, prompt_index, sample, ..Job::default() });
            }
        }
        self.session.collect(&plan, &jobs)
    }
}

impl Session {
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
}

/// A function as a reward.
struct FnReward<F> {
    name: String,
    score: F,
}

impl<F: Fn(&[&str]) -> Vec<f64> + Send + Sync> TextReward for FnReward<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> treasure_rewards::Result<Vec<f64>> {
        Ok((self.score)(texts))
    }

    fn explain(&self, texts: &[&str]) -> treasure_rewards::Result<Vec<Explained>> {
        Ok(self.score(texts)?.into_iter().map(Explained::plain).collect())
    }
}

/// A denoiser that runs at most so many states at a time.
struct Portioned {
    inner: Arc<dyn TextModel>,
    size: usize,
}

impl Denoiser for Portioned {
    fn facts(&self) -> &treasure_core::Facts {
        self.inner.facts()
    }

    fn encode(
        &self,
        batch: &[treasure_core::State<'_>],
    ) -> treasure_core::Result<Vec<treasure_core::Encoding>> {
        let mut encodings = Vec::with_capacity(batch.len());
        for portion in batch.chunks(self.size) {
            encodings.extend(self.inner.encode(portion)?);
        }
        Ok(encodings)
    }

    fn read(
        &self,
        batch: &[treasure_core::Question<'_>],
    ) -> treasure_core::Result<Vec<treasure_core::Answer>> {
        self.inner.read(batch)
    }
}

impl treasure_text::Detokenize for Portioned {
    fn decode(&self, ids: &[u32]) -> treasure_text::Result<String> {
        self.inner.decode(ids)
    }
}

impl TextModel for Portioned {
    fn tokenizer(&self) -> treasure_text::Result<&treasure_models::Tokenizer> {
        self.inner.tokenizer()
    }

    fn bos_id(&self) -> Option<u32> {
        self.inner.bos_id()
    }

    fn eos_id(&self) -> Option<u32> {
        self.inner.eos_id()
    }

    fn end_ids(&self) -> Vec<u32> {
        self.inner.end_ids()
    }

    fn chat(&self) -> Option<&ChatTemplate> {
        self.inner.chat()
    }
}

/// A resolver that knows the models in the binary: `pocket` is the denoiser, `pocket/NAME` any of them.
fn pocket_resolver() -> Resolver {
    let mut resolver = Resolver::new();
    for model in treasure_pocket::MODELS {
        resolver = resolver.with_packed(format!("{POCKET}/{}", model.name), || model.open());
        if model.name == "denoiser" {
            resolver = resolver.with_packed(POCKET, || model.open());
        }
    }
    resolver
}

/// The error for a pocket model that this build does not carry.
fn no_pocket(name: &str) -> Error {
    let message = match treasure_pocket::MODELS.is_empty() {
        true => format!("{name}: this build carries no pocket models"),
        false => format!("{name}: this build carries no judges (feature `pocket-permissive`)"),
    };
    Error::new(ErrorKind::Model, message).with_hint(
        "name a model and a reward by directory (hf:DIR#LABEL, ppl:DIR, regex:…), or build with the \
         feature `pocket` from a full clone",
    )
}

/// Refuses a pocket model that this build does not carry.
fn check_pocket(name: &str) -> Result<()> {
    let own = match name.strip_prefix(POCKET) {
        Some("") => "denoiser",
        Some(rest) if rest.starts_with('/') => &rest[1..],
        _ => return Ok(()),
    };
    if treasure_pocket::model(own).is_some() {
        return Ok(());
    }
    if treasure_pocket::MODELS.is_empty() {
        return Err(no_pocket(name));
    }
    let names: Vec<_> = treasure_pocket::MODELS.iter().map(|model| model.name).collect();
    let message = format!("{name}: expected one of {}, got {own:?}", names.join(", "));
    Err(Error::new(ErrorKind::Model, message)
        .with_hint("`treasure models list` shows what is shipped"))
}

/// Refuses a reward whose shipped judge is not there.
fn check_shipped(written: &str, leaf: &Leaf) -> Result<()> {
    let shipped = match leaf {
        Leaf::Judge(judge, _) => judge.model(),
        Leaf::Perplexity => "scorer",
        Leaf::Classifier { model, .. } | Leaf::Scorer { model } | Leaf::Nelbo { model } => {
            return check_pocket(model).map_err(|error| error.context(format!("reward {written}")));
        }
        _ => return Ok(()),
    };
    match treasure_pocket::model(shipped) {
        Some(_) => Ok(()),
        None => Err(no_pocket(&format!("reward {written}"))),
    }
}
