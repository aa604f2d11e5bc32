//! What all requests share: the session, the pool, the models, limits, keys, metrics and the log.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use treasure::{
    Plan, Request, Result, Session, SessionOptions, rewards::Interrupt, text::TextModel,
};

use crate::{
    catalogue,
    keys::Keys,
    limits::Limits,
    log::Log,
    metrics::Metrics,
    options::{ServeOptions, Served},
    policy::Policy,
    pool::Pool,
    refusal::{self, Refusal},
    schema,
};

/// What each reward may remember of scored texts: many rewards live beside each other here.
const CACHE: usize = 8 << 20;

/// A server's state, shared by its requests.
pub struct App {
    pub(crate) session: Session,
    pub(crate) options: ServeOptions,
    pub(crate) pool: Pool,
    pub(crate) keys: Option<Keys>,
    pub(crate) metrics: Metrics,
    pub(crate) log: Log,
    /// How many requests are read and loaded for at once.
    pub(crate) preparing: Semaphore,
    models: Vec<Arc<Served>>,
    limits: Limits,
    policy: Policy,
    ready: AtomicBool,
    rewards: OnceLock<Value>,
    schema: Value,
    openapi: Value,
}

/// A served model whose `auto` is decided, by the model and not by what somebody asks of it.
fn settled(served: &Served) -> Result<Arc<Served>> {
    let mut served = served.clone();
    if served.base.precision.as_deref() == Some("auto") {
        let plan = Plan::new(&served.base)?;
        served.base.precision = Some(plan.load.precision.to_string());
    }
    Ok(Arc::new(served))
}

impl App {
    /// A server on a session; nothing is loaded yet. Logs go to stderr.
    pub fn new(options: ServeOptions, session: &Session) -> Result<Arc<Self>> {
        options.check()?;
        let limits = Limits::new(&options.limits)?;
        let keys = options.api_key_file.as_deref().map(Keys::load).transpose()?;
        let own = session.options();
        let own = SessionOptions {
            cache_bytes: own.cache_bytes.min(CACHE),
            // An exchange is tried twice, with a pause between, and is given up before the search's own
            // deadline: else whoever asked would hear of the deadline and not of the reward.
            reward_timeout: own
                .reward_timeout
                .min(Duration::from_secs_f64(options.max_seconds / 3.0)),
            interrupt: Interrupt::new(),
            ..own.clone()
        };
        let session = session.with_options(own);
        let log = Log::new(options.quiet)?;
        let policy = Policy::new(&options.allow, &session, &log)?;
        // With several keys no one of them may fill the queue.
        let max_lane = match keys.as_ref().map_or(1, Keys::len) {
            1 => options.max_queue,
            _ => options.max_queue.div_ceil(2),
        };
        let pool = Pool::new(session.options().in_flight, options.max_queue, max_lane)?;
        let schema = schema::treasure(&limits, schema::defaults(&Request::default())?);
        let openapi = crate::openapi::document(&schema, &limits);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(Self {
            models: options.models.iter().map(settled).collect::<Result<_>>()?,
            metrics: Metrics::new(),
            log,
            preparing: Semaphore::new(cores),
            ready: AtomicBool::new(false),
            rewards: OnceLock::new(),
            session,
            options,
            pool,
            keys,
            limits,
            policy,
            schema,
            openapi,
        }))
    }

    /// Loads the models and the shipped rewards. Blocks; the server is ready afterwards.
    pub fn load(&self) -> Result<()> {
        for model in &self.models {
            let plan = Plan::new(&model.base)?;
            self.session.model(&plan.model, &plan.load)?;
        }
        let rewards = catalogue::rewards(&self.session, &self.policy);
        let _ = self.rewards.set(json!({"object": "list", "data": rewards}));
        self.ready.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// A served model, which is loaded once the server is ready, and the plan it is read by.
    pub(crate) fn denoiser(&self, model: &Served) -> Result<(Plan, Arc<dyn TextModel>)> {
        let plan = Plan::new(&model.base)?;
        let denoiser = self.session.model(&plan.model, &plan.load)?;
        Ok((plan, denoiser))
    }

    /// Whether a served model answers conversations; unknown while it is loaded.
    pub(crate) fn talks(&self, model: &Served) -> bool {
        let by_template = || self.denoiser(model).is_ok_and(|(_, own)| own.chat().is_some());
        model.chat.is_some() || (self.ready.load(Ordering::SeqCst) && by_template())
    }

    /// Takes no new work, waits for what there is, and after the options' `drain_seconds` has it answer
    /// with its best so far. Returns whether nothing is left.
    pub async fn drain(&self) -> bool {
        self.pool.close();
        let (waiting, running) = self.pool.load();
        self.log.say("draining", json!({"waiting": waiting, "running": running}));
        if self.pool.idle(Duration::from_secs_f64(self.options.drain_seconds)).await {
            return true;
        }
        self.pool.cancel_all();
        // A step, and the reward of its best text.
        if self.pool.idle(Duration::from_secs(3)).await {
            return true;
        }
        // A reward hangs.
        self.session.options().interrupt.raise();
        self.pool.idle(Duration::from_secs(7)).await
    }

    /// The model of a request; the first if it names none.
    pub(crate) fn served(&self, name: Option<&str>) -> refusal::Result<Arc<Served>> {
        let found = match name {
            None => self.models.first(),
            Some(name) => self.models.iter().find(|model| model.id == name),
        };
        found.cloned().ok_or_else(|| self.no_model(name.unwrap_or_default()))
    }

    fn no_model(&self, name: &str) -> Refusal {
        let ids: Vec<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
        let got = refusal::excerpt(&name.into());
        let message = format!("expected one of {}, got {got}", ids.join(", "));
        let refusal = Refusal::field("model", message).with_code("model_not_found");
        let refusal = match treasure::nearest(name, ids) {
            Some(near) => refusal.with_hint(format!("did you mean {near}?")),
            None => refusal.with_hint("GET /v1/models lists them"),
        };
        refusal.with_status(StatusCode::NOT_FOUND)
    }

    pub(crate) fn models(&self) -> &[Arc<Served>] {
        &self.models
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn max_seconds(&self) -> f64 {
        self.options.max_seconds
    }

    /// Refuses a text that is too long to be read.
    pub(crate) fn check_text(&self, param: &str, text: &str) -> refusal::Result<()> {
        let (most, got) = (self.options.max_prompt, text.len());
        if got > most {
            let message = format!("expected at most {most} bytes, got {got}");
            return Err(Refusal::field(param, message));
        }
        Ok(())
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    pub(crate) fn openapi(&self) -> &Value {
        &self.openapi
    }

    /// The rewards there are, once they are known.
    pub(crate) fn rewards(&self) -> refusal::Result<&Value> {
        self.rewards.get().ok_or_else(Self::loading)
    }

    pub(crate) fn loading() -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is still loading its models")
            .with_code("loading")
            .retry_after(2)
    }

    /// Refuses work that cannot be begun now.
    pub(crate) fn check_open(&self) -> refusal::Result<()> {
        if !self.pool.is_open() {
            return Err(Refusal::draining());
        }
        if !self.ready.load(Ordering::SeqCst) {
            return Err(Self::loading());
        }
        Ok(())
    }

    /// The most searches a request can have taken.
    pub(crate) fn searches_at_once(&self) -> usize {
        let most = self.limits.most("samples").unwrap_or(u64::MAX);
        self.pool.room().min(usize::try_from(most).unwrap_or(usize::MAX))
    }
}
