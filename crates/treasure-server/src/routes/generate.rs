//! Completions, chat and infilling: one path from a body to texts.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, post},
};
use serde_json::Value;
use treasure::{
    Watch,
    core::{Event, TokenId},
    text::{Start, TextModel},
};

use crate::{
    answer::{self, Envelope, Usage},
    app::App,
    ask::{self, Api, Ask},
    body,
    follow::Follow,
    json::Json,
    mailbox::{Letter, Mailbox},
    pool::{Refused, Work},
    refusal::{Refusal, Result},
    spell::Spell,
    stream::Teller,
    watch::{Client, RequestId},
};

/// The handler of one of the interfaces.
pub(crate) fn by(api: Api) -> MethodRouter<Arc<App>> {
    let handler =
        move |app: State<Arc<App>>,
              Extension(id): Extension<RequestId>,
              Extension(client): Extension<Client>,
              request: Request| generate(api, app.0, id, client, request);
    post(handler)
}

async fn generate(
    api: Api,
    app: Arc<App>,
    RequestId(id): RequestId,
    client: Client,
    request: Request,
) -> Result<Response> {
    let began = Instant::now();
    app.check_open()?;
    let body = body::read(&app, request).await?;
    let ask = Arc::new(ask::read(&app, api, &body)?);
    drop(body);
    let prepared = prepare(&app, &ask).await?;
    let envelope = Envelope::new(&ask, &id);

    let mailbox = Arc::new(Mailbox::new(ask.searches.len()));
    let ticket = app.pool.ticket();
    let cancel = ticket.cancel();
    let work = (0..ask.searches.len())
        .map(|index| search(&app, &ask, &mailbox, &cancel, index, began))
        .collect();
    app.pool.submit(&ticket, &client.lane, work).map_err(|refused| match refused {
        Refused::Full { waiting, retry } => Refusal::too_busy(retry, waiting),
        Refused::Closed => Refusal::draining(),
    })?;
    app.metrics.read(prepared.prompt_tokens);

    let usage = Usage { prompt: prepared.prompt_tokens, completion: 0 };
    if let Some(how) = ask.stream {
        let starts =
            ask.searches.iter().map(|search| prepared.line(search.job.prompt_index)).collect();
        let teller =
            Teller::new(app, ask, how, envelope, mailbox, ticket, starts, usage.prompt, began);
        return Ok(teller.into_response());
    }
    whole(&ask, &envelope, &mailbox, usage).await
}

/// Waits for every text and answers with all of them. Dropping this drops the ticket before it.
async fn whole(
    ask: &Ask,
    envelope: &Envelope,
    mailbox: &Mailbox,
    mut usage: Usage,
) -> Result<Response> {
    let mut choices = vec![Value::Null; ask.searches.len()];
    for _ in 0..ask.searches.len() {
        match mailbox.next().await {
            (index, Letter::Done(sample, _)) => {
                usage.completion += sample.tokens.len();
                choices[index] = answer::choice(ask.api, index, answer::finish(ask, &sample));
            }
            (_, Letter::Failed(refusal)) => return Err(refusal),
            (_, Letter::Frame(_) | Letter::Settled(_)) => {}
        }
    }
    let mut whole = envelope.around(choices, false);
    whole.insert("usage".into(), usage.to_value());
    Ok(Json(Value::Object(whole)).into_response())
}

/// What must be at hand before a search is worth queueing.
struct Prepared {
    model: Arc<dyn TextModel>,
    /// One for each prompt.
    starts: Vec<Start>,
    prompt_tokens: usize,
}

impl Prepared {
    fn line(&self, prompt: usize) -> (Spell, Vec<Option<TokenId>>) {
        let start = &self.starts[prompt];
        (Spell::new(self.model.clone(), start), start.state.slots().collect())
    }
}

/// Loads what a request names and reads its prompts, so that what is wrong with them is said at once.
async fn prepare(app: &Arc<App>, ask: &Arc<Ask>) -> Result<Prepared> {
    let _turn = app.preparing.acquire().await;
    let (app, ask) = (app.clone(), ask.clone());
    let prepared = tokio::task::spawn_blocking(move || prepare_now(&app, &ask));
    prepared.await.unwrap_or_else(|_| Err(Refusal::internal("reading the request panicked")))
}

fn prepare_now(app: &App, ask: &Ask) -> Result<Prepared> {
    let Some(first) = ask.searches.first() else {
        return Err(Refusal::internal("a request without searches"));
    };
    let plan = &first.plan;
    let model = app.session.model(&plan.model, &plan.load);
    let model = model.map_err(|error| Refusal::of_run(&error, false))?;
    // The model is there: what else fails is a reward that was asked for.
    let prepared = app.session.prepare(plan);
    prepared.map_err(|error| {
        let refusal = Refusal::of_request(&error, &[]).at("treasure.reward");
        refusal.with_hint("GET /v1/rewards lists what there is")
    })?;
    let mut starts = Vec::new();
    for search in &ask.searches {
        if search.job.prompt_index == starts.len() {
            let start = app.session.start(&search.plan, &search.job.prompt);
            let beside = match (ask.api, &search.plan.template) {
                (Api::Refine, _) => "input",
                (_, Some(_)) => "treasure.template",
                (_, None) => "prompt",
            };
            let renamed = [("text", beside), ("length", ask.length_is)];
            let wrong = |error: treasure::Error| Refusal::of_request(&error, &renamed);
            let start = start.map_err(|error| wrong(error).beside(beside))?;
            // A finished text says its length by itself.
            app.limits().check("length", beside, start.state.n_masked() as u64)?;
            starts.push(start);
        }
    }
    let given = |start: &Start| start.state.len() - start.state.n_masked();
    let prompt_tokens = starts.iter().map(given).sum();
    Ok(Prepared { model, starts, prompt_tokens })
}

/// Delivers an answer, or says that there will be none.
struct Delivery {
    mailbox: Arc<Mailbox>,
    index: usize,
    delivered: bool,
}

impl Delivery {
    fn put(mut self, letter: Letter) {
        self.delivered = true;
        self.mailbox.put(self.index, letter);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.delivered {
            let refusal = match std::thread::panicking() {
                true => Refusal::internal("the search panicked; this is a bug"),
                // It was taken out of the queue.
                false => Refusal::draining(),
            };
            self.mailbox.put(self.index, Letter::Failed(refusal));
        }
    }
}

/// One search as a piece of work.
fn search(
    app: &Arc<App>,
    ask: &Arc<Ask>,
    mailbox: &Arc<Mailbox>,
    cancel: &Arc<std::sync::atomic::AtomicBool>,
    index: usize,
    came: Instant,
) -> Work {
    let (app, ask, cancel) = (Arc::downgrade(app), ask.clone(), cancel.clone());
    let delivery = Delivery { mailbox: mailbox.clone(), index, delivered: false };
    Box::new(move || {
        let Some(app) = app.upgrade() else { return };
        let waited = came.elapsed().as_secs_f64();
        app.metrics.began(waited);
        if waited > app.max_seconds() {
            app.metrics.ended("late", None);
            let message = format!("queue: waited {waited:.0} s, longer than a search may take");
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(30);
            return delivery.put(Letter::Failed(refusal));
        }
        let search = &ask.searches[index];
        let mut follow = ask
            .telling(&search.plan)
            .map(|telling| Follow::new(delivery.mailbox.clone(), index, telling));
        let made = {
            let mut see = follow.as_mut().map(|follow| move |event: &Event| follow.see(event));
            let mut watch = Watch { cancel: Some(&*cancel), nodes: true, ..Watch::default() };
            if let Some(see) = &mut see {
                watch.events = Some(see);
            }
            app.session.run_seated(&search.plan, &search.job, watch)
        };
        match made {
            Ok(sample) => {
                let outcome = if sample.is_interrupted() { "cancelled" } else { "done" };
                app.metrics.ended(outcome, Some(&sample));
                let last = follow.and_then(Follow::into_last);
                delivery.put(Letter::Done(Box::new(sample), last));
            }
            Err(error) if error.is_interrupted() || cancel.load(Ordering::SeqCst) => {
                app.metrics.ended("cancelled", None);
                delivery.put(Letter::Failed(Refusal::draining()));
            }
            Err(error) => {
                app.metrics.ended("failed", None);
                delivery.put(Letter::Failed(Refusal::of_run(&error, ask.outside)));
            }
        }
    })
}
