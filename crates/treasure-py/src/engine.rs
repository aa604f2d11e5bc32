//! A model with its rewards, as Python holds it.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
};

use pyo3::prelude::*;
use serde_json::{Value, json};
use treasure::{Error, ErrorKind, Method, Session, SessionOptions, core::Facts, models::Tokenizer};

use crate::{
    bridge::{Bridge, Callable, Message},
    errors::{raise, request},
    model::Card,
    run::Run,
    work::{Work, plan},
};

/// Searches nest deeply enough to want more than a thread's usual stack.
const STACK: usize = 16 << 20;

/// Models and rewards, loaded once.
#[pyclass(frozen, module = "treasure._treasure")]
pub struct Engine {
    session: Session,
    own: Option<Card>,
    process: u32,
}

#[pymethods]
impl Engine {
    /// An engine on checkpoints: the pocket models, directories, the hub's cache.
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let session = Session::pocket().map_err(|error| raise(py, &error))?;
        Ok(Self { session, own: None, process: std::process::id() })
    }

    /// An engine on a Python model, which a search reaches by messages.
    #[staticmethod]
    #[pyo3(signature = (tokenizer, *, place, vocab_size, mask_id, max_len, time_agnostic, on_device, bos_id=None, eos_ids=vec![]))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python function")]
    fn own(
        py: Python<'_>,
        tokenizer: &str,
        place: &str,
        vocab_size: usize,
        mask_id: u32,
        max_len: usize,
        time_agnostic: bool,
        on_device: bool,
        bos_id: Option<u32>,
        eos_ids: Vec<u32>,
    ) -> PyResult<Self> {
        let parsed = py.detach(|| Tokenizer::parse(tokenizer, place));
        let tokenizer = parsed.map_err(|error| raise(py, &error.into()))?;
        let ends = eos_ids.iter().map(|&id| ("eos_id", id));
        let begin = bos_id.map(|id| ("bos_id", id));
        for (name, id) in std::iter::once(("mask_id", mask_id)).chain(begin).chain(ends) {
            if id as usize >= vocab_size {
                let message = format!("{name}: expected an id below {vocab_size}, got {id}");
                return Err(request(py, message));
            }
        }
        let mut never: Vec<u32> =
            (0..vocab_size as u32).filter(|&id| id == mask_id || !tokenizer.knows(id)).collect();
        never.dedup();
        let card = Card {
            facts: Facts { vocab_size, never, time_agnostic, max_len },
            mask: mask_id,
            tokenizer: Arc::new(tokenizer),
            begin: bos_id,
            ends: eos_ids,
            on_device,
        };
        let mut engine = Self::new(py)?;
        engine.own = Some(card);
        Ok(engine)
    }

    /// The plan of a request: a line for people, and the row's plan as JSON.
    #[staticmethod]
    fn plan(py: Python<'_>, request: &str) -> PyResult<(String, String)> {
        let value = parse(py, request)?;
        let plan = plan(&value).map_err(|error| raise(py, &error))?;
        Ok((plan.line(), plan.to_value().to_string()))
    }

    /// Starts work that is described in JSON. `rewards` are the names of callables and their batch sizes.
    #[pyo3(signature = (work, rewards, *, in_flight=None, reward_batch=None, batch_size=None))]
    fn start(
        &self,
        py: Python<'_>,
        work: &str,
        rewards: Vec<(String, usize)>,
        in_flight: Option<usize>,
        reward_batch: Option<usize>,
        batch_size: Option<usize>,
    ) -> PyResult<Run> {
        if self.process != std::process::id() {
            let error = Error::request("this process was forked from one that had loaded a model")
                .with_hint(
                    "threads do not survive a fork: start processes with \
                     multiprocessing.get_context(\"spawn\"), or load the model in each process",
                );
            return Err(raise(py, &error));
        }
        let work = Work::read(&parse(py, work)?).map_err(|error| raise(py, &error))?;
        let several = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let (bridge, receiver) = Bridge::new(several && (work.is_single() || in_flight == Some(1)));
        let plain = in_flight.is_none() && reward_batch.is_none() && batch_size.is_none();
        let mut session = match plain && rewards.is_empty() && self.own.is_none() {
            // One table for all calls, with what rewards remember.
            true => self.session.clone(),
            false => self.session.with_options(SessionOptions {
                in_flight: in_flight.unwrap_or(SessionOptions::default().in_flight).max(1),
                reward_batch,
                batch_size,
                ..SessionOptions::default()
            }),
        };
        if let Some(card) = &self.own {
            session = session.with_model("own", Arc::new(card.model(bridge.clone())));
        }
        for (number, (name, batch)) in rewards.into_iter().enumerate() {
            session.add_reward(Callable {
                name,
                number,
                batch: batch.max(1),
                bridge: bridge.clone(),
                told: Mutex::default(),
            });
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let run = Run::new(receiver, cancel.clone());
        let thread = thread::Builder::new().name("treasure".into()).stack_size(STACK);
        let spawned = thread.spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(|| work.run(&session, &bridge, &cancel)));
            if done.is_err() {
                let error = Error::new(ErrorKind::Search, "the search panicked")
                    .with_hint("this is a fault of treasure: please report it with the request");
                bridge.tell(Message::Failed { job: 0, error });
            }
            bridge.tell(Message::End);
        });
        spawned.map_err(|error| raise(py, &error.into()))?;
        Ok(run)
    }

    /// The ids of a text in the model's vocabulary, as a piece of a longer one.
    fn encode(&self, py: Python<'_>, request: &str, text: &str) -> PyResult<Vec<u32>> {
        let value = parse(py, request)?;
        let encoded = py.detach(|| {
            if let Some(card) = &self.own {
                return Ok(card.tokenizer.encode_fragment(text)?);
            }
            let plan = plan(&value)?;
            let model = self.session.model(&plan.model, &plan.load)?;
            Ok(model.tokenizer()?.encode_fragment(text)?)
        });
        encoded.map_err(|error: Error| raise(py, &error))
    }

    /// A conversation as the chat template of the request's checkpoint writes it.
    fn chat(&self, py: Python<'_>, request: &str, messages: &str) -> PyResult<String> {
        let (value, messages) = (parse(py, request)?, parse(py, messages)?);
        let written = py.detach(|| {
            let messages: Vec<treasure::Message> =
                serde_json::from_value(messages).map_err(|error| {
                    Error::request(format!("messages: expected roles and contents, {error}"))
                })?;
            self.session.conversation(&plan(&value)?, &messages)
        });
        written.map_err(|error: Error| raise(py, &error))
    }

    /// The mask token's id.
    fn mask_id(&self, py: Python<'_>, request: &str) -> PyResult<u32> {
        let value = parse(py, request)?;
        let found = py.detach(|| {
            if let Some(card) = &self.own {
                return Ok(card.mask);
            }
            let plan = plan(&value)?;
            Ok(self.session.checkpoint(&plan.model, &plan.load)?.mask_id())
        });
        found.map_err(|error: Error| raise(py, &error))
    }

    /// The tokens that a Python model may never emit.
    fn never(&self) -> Vec<u32> {
        self.own.as_ref().map(|card| card.facts.never.clone()).unwrap_or_default()
    }
}

fn parse(py: Python<'_>, text: &str) -> PyResult<Value> {
    serde_json::from_str(text).map_err(|error| request(py, format!("request: {error}")))
}

/// Sets how many threads models and rewards work on; whether it came early enough.
#[pyfunction]
pub fn set_threads(threads: usize) -> bool {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.clamp(1, cores);
    let set = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    set.is_ok() || rayon::current_num_threads() == threads
}

/// What this build knows: methods with their options, fields of a request and of a row, as JSON.
#[pyfunction]
pub fn facts() -> String {
    let methods: Value = Method::NAMES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), Method::named(name)?.options().into())))
        .collect::<serde_json::Map<String, Value>>()
        .into();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "methods": methods,
        "fields": (treasure::FIELDS.iter()).map(|field| field.name).collect::<Vec<_>>(),
        "row_fields": treasure::ROW_FIELDS,
        "row_version": treasure::ROW_VERSION,
    })
    .to_string()
}
