//! Models and rewards that are loaded once, and the searches that run on them.

mod asking;
mod loading;
mod many;

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use lru::LruCache;
use treasure_core::{Batcher, Problem, Traffic};
use treasure_models::{LoadOptions, MaskedLm, ModelStore, Resolver, exec::on_a_worker};
use treasure_rewards::{Composite, Interrupt, Pipeline, RUN_CACHE_BYTES, TextReward};
use treasure_text::{Message, Rules, Start, TextModel};

pub use asking::Scored;

use crate::{
    Ask, Entry, Error, Plan, Request, Result, Sample,
    pocket::{check_pocket, pocket_resolver},
    run::{Job, Watch, to_the_end},
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
        let parts = self.parts(plan)?;
        self.alone(plan, || parts.make(job, watch, None, &mut to_the_end))
    }

    /// Runs a search that shares no batches, where its calls are soonest answered: beside the threads that run
    /// networks, unless the denoiser is somebody's own.
    fn alone<T: Send>(&self, plan: &Plan, search: impl FnOnce() -> T + Send) -> T {
        if self.has_model(&plan.model) { search() } else { on_a_worker(search) }
    }

    /// Lends the problem of a plan at a prompt, with the way from its sequences to text, to whoever asks
    /// model and reward by hand; all that is asked is counted there.
    pub fn pose<T: Send>(
        &self,
        plan: &Plan,
        prompt: &str,
        cancel: Option<&AtomicBool>,
        ask: impl FnOnce(&Problem<'_>, &Pipeline) -> T + Send,
    ) -> Result<T> {
        let parts = self.parts(plan)?;
        self.alone(plan, || parts.pose(prompt, cancel, ask))
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
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
