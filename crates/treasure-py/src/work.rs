//! What can be asked of an engine, and how it is done on a thread without Python.

use std::{collections::BTreeMap, ops::ControlFlow, sync::atomic::AtomicBool};

use serde_json::{Map, Value, json};
use treasure::{
    Comparison, Entry, Error, Frame, Job, Match, Plan, Request, Result, Sample, Session, Watch,
    core::{Event, NelboForm, NodeEvent, NoiseSchedule, nelbo},
    text::{Start, TextModel},
};

use crate::bridge::{Bridge, Message};

/// Something to do.
pub(crate) enum Work {
    /// Samples of plans.
    Generate { plans: Vec<Plan>, jobs: Vec<Job>, show: Show },
    /// Several methods at one budget.
    Compare { asked: Box<Comparison>, steps: bool },
    /// The scores of texts.
    Score { plan: Plan, texts: Vec<String> },
    /// What stands at the masks of a text.
    Predict { plan: Plan, text: String, top: usize, sigma: Option<f64> },
    /// The bound on log p of continuations.
    Likelihood { plan: Plan, pairs: Vec<(String, String)>, samples: usize },
    /// Loading what a plan names.
    Prepare { plan: Plan },
}

/// What is told of a search beside its result.
#[derive(Clone, Copy, Default)]
pub(crate) struct Show {
    pub frames: bool,
    pub steps: bool,
    pub tree: bool,
    pub trace: bool,
}

fn field<'v>(work: &'v Value, name: &str) -> Result<&'v Value> {
    work.get(name).ok_or_else(|| Error::request(format!("{name}: expected, got nothing")))
}

fn text(work: &Value, name: &str) -> Result<String> {
    let value = field(work, name)?;
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Error::request(format!("{name}: expected text, got {value}")))
}

fn number(work: &Value, name: &str) -> Result<usize> {
    let value = field(work, name)?;
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Error::request(format!("{name}: expected a whole number, got {value}")))
}

fn list<'v>(work: &'v Value, name: &str) -> Result<&'v [Value]> {
    let value = field(work, name)?;
    let list = value.as_array().map(Vec::as_slice);
    list.ok_or_else(|| Error::request(format!("{name}: expected a list, got {value}")))
}

/// The plan of a request in JSON.
pub(crate) fn plan(request: &Value) -> Result<Plan> {
    Plan::new(&Request::from_value(request.clone())?)
}

impl Work {
    /// Work from its description.
    pub(crate) fn read(work: &Value) -> Result<Self> {
        let asked = || plan(field(work, "request")?);
        let flag = |name: &str| work.get(name).and_then(Value::as_bool).unwrap_or(false);
        Ok(match text(work, "do")?.as_str() {
            "generate" => Self::Generate {
                plans: list(work, "requests")?.iter().map(plan).collect::<Result<_>>()?,
                jobs: list(work, "jobs")?.iter().map(job).collect::<Result<_>>()?,
                show: Show {
                    frames: flag("frames"),
                    steps: flag("steps"),
                    tree: flag("tree"),
                    trace: flag("trace"),
                },
            },
            "compare" => Self::Compare { asked: Box::new(comparison(work)?), steps: flag("steps") },
            "score" => Self::Score { plan: asked()?, texts: texts(list(work, "texts")?)? },
            "predict" => Self::Predict {
                plan: asked()?,
                text: text(work, "text")?,
                top: number(work, "top")?,
                sigma: work.get("sigma").and_then(Value::as_f64),
            },
            "likelihood" => {
                let (contexts, rest) = (list(work, "contexts")?, list(work, "continuations")?);
                let pairs = texts(contexts)?.into_iter().zip(texts(rest)?).collect();
                Self::Likelihood { plan: asked()?, pairs, samples: number(work, "samples")? }
            }
            "prepare" => Self::Prepare { plan: asked()? },
            other => return Err(Error::request(format!("do: there is no {other:?}"))),
        })
    }

    /// Whether it is one search after another at most.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Generate { jobs, .. } => jobs.len() <= 1,
            _ => true,
        }
    }

    /// Does it; results go over the bridge.
    pub(crate) fn run(self, session: &Session, bridge: &Bridge, cancel: &AtomicBool) {
        let done = |job, row: Value| {
            bridge.tell(Message::Done { job, row: row.to_string(), tree: None, trace: None });
        };
        let outcome = match self {
            Self::Generate { plans, jobs, show } => {
                generate(session, &plans, &jobs, show, bridge, cancel)
            }
            Self::Compare { asked, steps } => compare(session, &asked, steps, bridge, cancel),
            Self::Score { plan, texts } => score(session, &plan, &texts).map(|row| done(0, row)),
            Self::Predict { plan, text, top, sigma } => {
                let found = session.predict(&plan, &text, top, sigma);
                found.map(|found| done(0, json!(found)))
            }
            Self::Likelihood { plan, pairs, samples } => {
                likelihoods(session, &plan, &pairs, samples, cancel, done)
            }
            Self::Prepare { plan } => session.prepare(&plan),
        };
        if let Err(error) = outcome {
            bridge.tell(Message::Failed { job: 0, error });
        }
    }
}

fn texts(values: &[Value]) -> Result<Vec<String>> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| Error::request(format!("texts: expected text, got {value}")))
    };
    values.iter().map(text).collect()
}

/// Fields of the caller's own, which a row must have room for.
fn extra(value: &Value) -> Result<Map<String, Value>> {
    let extra = value.get("extra").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(taken) = extra.keys().find(|key| treasure::ROW_FIELDS.contains(&key.as_str())) {
        return Err(Error::request(format!("{taken}: a row has a field of that name already"))
            .with_hint("give your own field another name"));
    }
    Ok(extra)
}

fn job(value: &Value) -> Result<Job> {
    Ok(Job {
        plan: number(value, "plan")?,
        prompt: text(value, "prompt")?,
        prompt_index: number(value, "prompt_index")?,
        sample: number(value, "sample")?,
        extra: extra(value)?,
    })
}

fn comparison(work: &Value) -> Result<Comparison> {
    let entry = |value: &Value| -> Result<Entry> {
        let written = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let (prompt, template) = (written("prompt"), written("template"));
        Ok(Entry { prompt, template, extra: extra(value)?, ..Entry::default() })
    };
    let asked = Comparison {
        request: Request::from_value(field(work, "request")?.clone())?,
        methods: texts(list(work, "methods")?)?,
        matched: work.get("match").and_then(Value::as_str).map(str::parse::<Match>).transpose()?,
        entries: list(work, "entries")?.iter().map(entry).collect::<Result<_>>()?,
        held_out: work.get("held_out").and_then(Value::as_bool).unwrap_or(true),
    };
    asked.check()?;
    Ok(asked)
}

fn compare(
    session: &Session,
    asked: &Comparison,
    steps: bool,
    bridge: &Bridge,
    cancel: &AtomicBool,
) -> Result<()> {
    let mut see = |event: &Event| {
        if let (true, Event::Step(step)) = (steps, event) {
            let (step, steps, best) = (step.step + 1, step.steps, step.best_reward);
            bridge.tell(Message::Step { job: 0, step, steps, best });
        }
        ControlFlow::Continue(())
    };
    let mut each = |sample: &Sample| {
        let row = json!(sample).to_string();
        bridge.tell(Message::Done { job: 0, row, tree: None, trace: None });
        Ok(())
    };
    session.compare(asked, Some(cancel), &mut see, &mut each).map(drop)
}

/// Tells a finished sample, or that it failed.
fn tell(
    session: &Session,
    plans: &[Plan],
    jobs: &[Job],
    bridge: &Bridge,
) -> impl Fn(usize, Result<Sample>) {
    move |index, made| {
        let row = made.and_then(|sample| {
            let row = serde_json::to_string(&sample)
                .map_err(|error| Error::request(format!("row: {error}")))?;
            Ok((row, sample))
        });
        bridge.tell(match row {
            Ok((row, mut sample)) => {
                let plan = jobs.get(index).and_then(|job| plans.get(job.plan));
                let tree = plan
                    .zip(sample.tree.take())
                    .and_then(|(plan, nodes)| tree(session, plan, &nodes));
                Message::Done { job: index, row, tree, trace: sample.trace }
            }
            Err(error) => Message::Failed { job: index, error },
        });
    }
}

fn generate(
    session: &Session,
    plans: &[Plan],
    jobs: &[Job],
    show: Show,
    bridge: &Bridge,
    cancel: &AtomicBool,
) -> Result<()> {
    let tell = tell(session, plans, jobs, bridge);
    let step = |job: usize, event: &Event| {
        if let (true, Event::Step(step)) = (show.steps, event) {
            let (step, steps, best) = (step.step + 1, step.steps, step.best_reward);
            bridge.tell(Message::Step { job, step, steps, best });
        }
        ControlFlow::Continue(())
    };
    let look =
        Watch { cancel: Some(cancel), trace: show.trace, tree: show.tree, ..Watch::default() };
    if let [job] = jobs {
        let Some(plan) = plans.get(job.plan) else {
            return Err(Error::request(format!("job: there is no plan {}", job.plan)));
        };
        let mut frame = |frame: &Frame| {
            let mut row = json!(frame);
            row["ids"] = frame.ids.iter().map(|slot| json!(slot)).collect();
            bridge.tell(Message::Frame { job: 0, frame: row.to_string() });
            ControlFlow::Continue(())
        };
        let mut events = |event: &Event| step(0, event);
        let watch = Watch {
            frames: if show.frames { Some(&mut frame) } else { None },
            events: if show.steps { Some(&mut events) } else { None },
            ..look
        };
        tell(0, session.run(plan, job, watch));
        return Ok(());
    }
    let mut done = |index: usize, made: Result<Sample>| {
        let failed = made.as_ref().is_err_and(|error| !error.is_interrupted());
        tell(index, made);
        if failed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    session.run_all(plans, jobs, &look, &step, &mut done)
}

/// The nodes of a search with the texts of their tokens, as JSON.
fn tree(session: &Session, plan: &Plan, nodes: &[NodeEvent]) -> Option<String> {
    let model = session.model(&plan.model, &plan.load).ok()?;
    let tokenizer = model.tokenizer().ok()?;
    let mut texts = BTreeMap::new();
    for node in nodes {
        for token in node.token.into_iter().chain(node.also.iter().map(|&(_, token)| token)) {
            texts.entry(token).or_insert_with(|| tokenizer.token_text(token));
        }
    }
    serde_json::to_string(&json!({"nodes": nodes, "texts": texts})).ok()
}

fn score(session: &Session, plan: &Plan, texts: &[String]) -> Result<Value> {
    let views: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(json!(session.score_under(plan, &views)?))
}

fn likelihoods(
    session: &Session,
    plan: &Plan,
    pairs: &[(String, String)],
    samples: usize,
    cancel: &AtomicBool,
    done: impl Fn(usize, Value),
) -> Result<()> {
    let model = session.model(&plan.model, &plan.load)?;
    for (index, (context, continuation)) in pairs.iter().enumerate() {
        if cancel.load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
        done(index, likelihood(&*model, plan.seed, context, continuation, samples)?);
    }
    Ok(())
}

/// The bound on log p(continuation | context) and whether greedy decoding writes the continuation.
fn likelihood(
    model: &dyn TextModel,
    seed: u64,
    context: &str,
    continuation: &str,
    samples: usize,
) -> Result<Value> {
    let ids = model.tokenizer()?.encode_fragment(continuation)?;
    if ids.is_empty() {
        return Err(Error::request("continuation: expected at least one token, got none"));
    }
    let start = Start::prompt(model, context, ids.len(), 0)?;
    let tokens = start.state.complete_with(ids.iter().copied());
    // The same corruptions for the continuations of a context, so that they are compared on equal terms.
    let key = treasure::sample_key(seed, context, 0);
    let schedule = NoiseSchedule::default();
    let form = NelboForm::MaskCount;
    let bound = nelbo(model, &schedule, &tokens, &start.state, form, samples, key)?;
    Ok(json!({
        "logprob": -bound.nats,
        "standard_error": bound.standard_error,
        "tokens": bound.tokens,
        "nfe": bound.nfe,
        "greedy": greedy(model, &start, &tokens)?,
    }))
}

/// Whether the likeliest token at the surest mask, again and again, gives these tokens.
fn greedy(model: &dyn TextModel, start: &Start, tokens: &[u32]) -> Result<bool> {
    use treasure::core::{Bans, Question, State, Want};
    let mut state = start.state.clone();
    let (masks, bans) = (state.len().max(1) as f64, Bans::none());
    while state.n_masked() > 0 {
        let t = state.n_masked() as f64 / masks;
        let encodings = model.encode(&[State { seq: &state, t }])?;
        let want = Want { argmax: true, confidence: true, ..Want::default() };
        let Some(encoding) = encodings.first() else { return Ok(false) };
        let answers = model.read(&[Question { seq: &state, encoding, bans: &bans, want }])?;
        let Some(answer) = answers.first() else { return Ok(false) };
        let surest = state
            .masked()
            .zip(answer.argmax.iter().zip(&answer.confidence))
            .max_by(|(a, (_, p)), (b, (_, q))| p.total_cmp(q).then(b.cmp(a)));
        match surest {
            Some((position, (&token, _))) if tokens.get(position) == Some(&token) => {
                state.reveal_in_place(position, token);
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}
