//! Numbers for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use treasure::Sample;

/// The type of what [`Metrics::text`] gives.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a request was and how it ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Labels {
    route: String,
    method: String,
    status: u32,
}

/// A method of search.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByMethod {
    method: String,
}

/// How a search ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

type Seconds = Counter<f64, AtomicU64>;

/// Every number that is kept.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Histogram,
    queue_seconds: Histogram,
    first_frame_seconds: Histogram,
    searches: Family<Outcome, Counter>,
    search_seconds: Family<ByMethod, Seconds>,
    waiting: Gauge,
    running: Gauge,
    seated: Gauge,
    batches: Counter,
    batched_requests: Counter,
    batched_rows: Counter,
    nfe: Counter,
    reward_calls: Counter,
    prompt_tokens: Counter,
    completion_tokens: Counter,
    frames: Counter,
    frames_dropped: Counter,
}

fn seconds() -> Histogram {
    Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0])
}

impl Metrics {
    pub fn new() -> Self {
        let mut made = Self {
            registry: Registry::with_prefix("treasure"),
            requests: Family::default(),
            request_seconds: seconds(),
            queue_seconds: seconds(),
            first_frame_seconds: seconds(),
            searches: Family::default(),
            search_seconds: Family::default(),
            waiting: Gauge::default(),
            running: Gauge::default(),
            seated: Gauge::default(),
            batches: Counter::default(),
            batched_requests: Counter::default(),
            batched_rows: Counter::default(),
            nfe: Counter::default(),
            reward_calls: Counter::default(),
            prompt_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            frames: Counter::default(),
            frames_dropped: Counter::default(),
        };
        made.register();
        made
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("requests", "Requests answered, by route and status", self.requests.clone());
        let name = |name: &str| name.to_owned();
        let mut timed = |what: &str, help: &str, histogram: &Histogram| {
            to.register_with_unit(name(what), help, Unit::Seconds, histogram.clone());
        };
        timed("request", "Until an answer begins", &self.request_seconds);
        timed("queue", "Until a search begins", &self.queue_seconds);
        timed(
            "first_frame",
            "Until the first frame of a stream is sent",
            &self.first_frame_seconds,
        );
        to.register("searches", "Searches ended, by outcome", self.searches.clone());
        let help = "Seconds of searches, shared among those that run beside each other";
        to.register_with_unit("search", help, Unit::Seconds, self.search_seconds.clone());
        to.register("queue_length", "Searches that wait", self.waiting.clone());
        to.register("searches_running", "Searches that run", self.running.clone());
        to.register("searches_seated", "Searches that share forward passes", self.seated.clone());
        to.register("batches", "Batches run for searches at the table", self.batches.clone());
        to.register(
            "batched_requests",
            "Requests of searches in those batches",
            self.batched_requests.clone(),
        );
        to.register("batched_rows", "Sequences in those batches", self.batched_rows.clone());
        to.register("nfe", "Sequences run through the denoiser", self.nfe.clone());
        to.register("reward_calls", "Texts scored", self.reward_calls.clone());
        to.register("prompt_tokens", "Tokens given", self.prompt_tokens.clone());
        to.register("completion_tokens", "Tokens written", self.completion_tokens.clone());
        to.register("frames", "Frames sent", self.frames.clone());
        to.register(
            "frames_dropped",
            "Frames that slow readers missed",
            self.frames_dropped.clone(),
        );
    }

    /// A request was answered.
    pub fn answered(&self, route: &str, method: &str, status: u16, seconds: f64) {
        let labels =
            Labels { route: route.to_owned(), method: method.to_owned(), status: status.into() };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(seconds);
    }

    /// A search began after waiting.
    pub fn began(&self, waited: f64) {
        self.queue_seconds.observe(waited);
    }

    /// A search ended: `done`, `failed` or `cancelled`.
    pub fn ended(&self, outcome: &'static str, sample: Option<&Sample>) {
        self.searches.get_or_create(&Outcome { outcome }).inc();
        let Some(sample) = sample else { return };
        self.nfe.inc_by(sample.cost.nfe);
        self.reward_calls.inc_by(sample.cost.reward_calls);
        self.completion_tokens.inc_by(sample.tokens.len() as u64);
        let method = ByMethod { method: sample.method.clone() };
        self.search_seconds.get_or_create(&method).inc_by(sample.cost.seconds.max(0.0));
    }

    /// Texts were scored outside of a search.
    pub fn scored(&self, texts: usize) {
        self.reward_calls.inc_by(texts as u64);
    }

    /// Prompts were read.
    pub fn read(&self, tokens: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
    }

    /// The first frame of a stream was made.
    pub fn first_frame(&self, seconds: f64) {
        self.first_frame_seconds.observe(seconds);
    }

    /// A frame was sent.
    pub fn frame(&self) {
        self.frames.inc();
    }

    /// Frames were missed.
    pub fn missed(&self, frames: u64) {
        self.frames_dropped.inc_by(frames);
    }

    /// Everything, with what is looked up at this moment.
    pub fn text(
        &self,
        (waiting, running): (usize, usize),
        seated: usize,
        traffic: treasure::core::Traffic,
    ) -> String {
        self.waiting.set(waiting as i64);
        self.running.set(running as i64);
        self.seated.set(seated as i64);
        for (counter, now) in [
            (&self.batches, traffic.batches),
            (&self.batched_requests, traffic.requests),
            (&self.batched_rows, traffic.rows),
        ] {
            counter.inner().store(now, std::sync::atomic::Ordering::Relaxed);
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
