//! From a body to searches: OpenAI's fields and the `treasure` key become plans.
//!
//! Guarantee: nothing is loaded and nothing is run here; what comes out is within the server's limits
//! and uses only rewards that are allowed.

use std::sync::Arc;

use serde_json::Value;
use treasure::{Job, Plan, Request, Template};

use crate::{
    app::App,
    chat, constraint,
    fields::Fields,
    follow::Telling,
    openai,
    options::Served,
    policy::Policy,
    refusal::{Refusal, Result},
    spell::Shown,
};

/// Stop texts, and bytes of each.
const STOPS: (usize, usize) = (16, 256);
/// Methods that follow a single text, whose committed tokens are those of the answer.
const SINGLE: [&str; 3] = ["base", "fhs", "greedy"];

/// Which route was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Completions,
    Chat,
    Fim,
    Refine,
}

/// One text to make.
pub(crate) struct Search {
    pub plan: Arc<Plan>,
    pub job: Job,
}

/// How a streamed answer is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    /// Whole texts that replace each other.
    pub diffusing: bool,
    pub trace: bool,
    /// Usage in a chunk of its own, as OpenAI's `include_usage`.
    pub usage_apart: bool,
}

/// What a client asks for.
pub(crate) struct Ask {
    pub api: Api,
    pub model: Arc<Served>,
    pub searches: Vec<Search>,
    pub shown: Shown,
    /// What stands behind the middle.
    pub suffix: String,
    pub stop: Vec<String>,
    pub stream: Option<Streaming>,
    /// Whether a reward asks something outside of this process.
    pub outside: bool,
    /// What the client called the length.
    pub length_is: &'static str,
}

impl Ask {
    /// What a search has to tell on its way.
    pub fn telling(&self, plan: &Plan) -> Option<Telling> {
        match self.stream? {
            Streaming { diffusing: true, trace, .. } => Some(Telling::Frames { trace }),
            // Of all other searches the answer is known at the end.
            _ if self.shown == Shown::Continuation && SINGLE.contains(&plan.method.name()) => {
                Some(Telling::Settled)
            }
            _ => None,
        }
    }
}

/// Fields of a request that are the operator's, or have a place of their own.
pub(crate) const WITHHELD: &[(&str, &str)] = &[
    ("model", "say it as `model` beside `treasure`"),
    ("prompt", "say it as `prompt` beside `treasure`"),
    ("chat", "ask POST /v1/chat/completions"),
    ("system", "say it as a message of POST /v1/chat/completions"),
    ("messages", "ask POST /v1/chat/completions"),
    ("tokenizer", "the operator chooses how models are read"),
    ("mask_id", "the operator chooses how models are read"),
    ("dtype", "the operator chooses how models are read"),
    ("precision", "the operator chooses how models are read"),
    ("as", "the operator chooses how models are read"),
    ("reward_dtype", "the operator chooses how models are read"),
];

/// OpenAI's names of our options, as far as a request used them.
type Renamed = Vec<(&'static str, &'static str)>;

/// What a body asks for.
pub(crate) fn read(app: &App, api: Api, body: &[u8]) -> Result<Ask> {
    let mut fields = Fields::parse(body)?;
    let model = app.served(fields.text("model")?.as_deref())?;
    let form = constraint::take(&mut fields)?;
    let mut own = fields.under("treasure", "treasure.")?;
    let template = own.text("template")?.filter(|text| !text.is_empty());
    let mut talks = false;
    let (prompts, suffix) = match api {
        Api::Chat => {
            let (prompt, templated) = chat::prompt(&mut fields, app, &model)?;
            talks = templated;
            (vec![prompt], None)
        }
        Api::Fim | Api::Completions => {
            let most = if api == Api::Fim { 1 } else { app.searches_at_once() };
            let prompts = fields.texts("prompt", most)?;
            (given(prompts, template.is_some())?, fields.text("suffix")?)
        }
        Api::Refine => (finished(app, &mut fields, &own)?, None),
    };
    let suffix = suffix.filter(|text| !text.is_empty());
    let begins = if api == Api::Refine { "input" } else { "prompt" };
    for (name, text) in prompts.iter().map(|text| (begins, text)).chain(
        suffix
            .iter()
            .map(|text| ("suffix", text))
            .chain(template.iter().map(|text| ("treasure.template", text))),
    ) {
        app.check_text(name, text)?;
    }
    let stop = stops(&mut fields)?;
    let stream = streaming(&mut fields, &mut own)?;
    let echo = api == Api::Completions && fields.flag("echo")?.unwrap_or(false);
    let (mut request, mut renamed) = request(&mut fields, own, &model, template.clone())?;
    request.chat = talks.then_some(true);
    if let Some(form) = form {
        renamed.push(form.fill(&mut request)?);
    }
    if api == Api::Refine {
        request.method.get_or_insert_with(|| "refine".into());
        renamed.push(("text", "input"));
    }
    openai::take(fields)?;

    let shown = match (&template, &suffix) {
        (Some(_), Some(_)) => {
            return Err(Refusal::field("suffix", "a template says it by itself")
                .with_hint("leave it out, or write prompt and suffix instead of the template"));
        }
        _ if echo || template.is_some() || api == Api::Refine => Shown::Whole,
        (None, Some(_)) => Shown::Middle,
        _ => Shown::Continuation,
    };
    let samples = request.samples.unwrap_or(1);
    let total = samples.saturating_mul(prompts.len());
    app.limits().check("samples", "n", total as u64)?;
    if total > app.searches_at_once() {
        let message =
            format!("expected at most {} texts a request, got {total}", app.searches_at_once());
        return Err(Refusal::field("n", message));
    }
    let mut searches = Vec::with_capacity(total);
    let mut shared: Option<Arc<Plan>> = None;
    for (prompt_index, prompt) in prompts.into_iter().enumerate() {
        if api == Api::Refine {
            request.text = Some(prompt.clone());
            shared = None;
        }
        let plan = match (&shared, &suffix) {
            (Some(plan), None) => plan.clone(),
            (_, suffix) => Arc::new(plan_of(app, &request, &renamed, &prompt, suffix.as_deref())?),
        };
        shared = Some(plan.clone());
        let alone = plan.template.is_some() || api == Api::Refine;
        let prompt = if alone { String::new() } else { prompt };
        for sample in 0..plan.samples {
            let job = Job { prompt: prompt.clone(), prompt_index, sample, ..Job::default() };
            searches.push(Search { plan: plan.clone(), job });
        }
    }
    let outside = shared.is_some_and(|plan| {
        let others = plan.judge.iter().chain(&plan.screen);
        std::iter::once(&plan.reward).chain(others).any(Policy::is_outside)
    });
    let suffix = suffix.unwrap_or_default();
    let length_is = length_name(&renamed);
    Ok(Ask { api, model, searches, shown, suffix, stop, stream, outside, length_is })
}

/// The prompts; a template stands instead of one.
fn given(prompts: Option<Vec<String>>, template: bool) -> Result<Vec<String>> {
    match (prompts, template) {
        (Some(prompts), false) => Ok(prompts),
        (None, false) => {
            let refusal = Refusal::expected("prompt", "a text or a list of texts", &Value::Null);
            Err(refusal.with_hint("say how the text begins: \"prompt\": \"The old dog\""))
        }
        (None, true) => Ok(vec![String::new()]),
        (Some(prompts), true) if prompts == [""] => Ok(prompts),
        (Some(_), true) => {
            Err(Refusal::field("prompt", "expected a prompt or a template, got both"))
        }
    }
}

/// The finished texts to refine.
fn finished(app: &App, fields: &mut Fields, own: &Fields) -> Result<Vec<String>> {
    for name in ["prompt", "messages", "suffix"] {
        if fields.peek(name).is_some_and(|value| !value.is_null()) {
            return Err(Refusal::field(name, "a refinement begins with `input`").with_hint(
                "say the finished text as `input`; to continue one, POST /v1/completions",
            ));
        }
    }
    if own.peek("text").is_some_and(|value| !value.is_null()) {
        return Err(Refusal::field("treasure.text", "a request cannot say this here")
            .with_hint("say the finished text as `input` beside `treasure`"));
    }
    let texts = fields.texts("input", app.searches_at_once())?;
    texts.ok_or_else(crate::routes::no_input)
}

fn stops(fields: &mut Fields) -> Result<Vec<String>> {
    let (most, longest) = STOPS;
    if let Some(Value::Array(list)) = fields.peek("stop")
        && list.is_empty()
    {
        fields.value("stop");
    }
    let stops = fields.texts("stop", most)?.unwrap_or_default();
    if let Some(bad) = stops.iter().find(|stop| stop.is_empty() || stop.len() > longest) {
        let message = format!("expected texts of 1 to {longest} bytes, got {}", bad.len());
        return Err(Refusal::field("stop", message));
    }
    Ok(stops)
}

fn streaming(fields: &mut Fields, own: &mut Fields) -> Result<Option<Streaming>> {
    let stream = fields.flag("stream")?.unwrap_or(false);
    let diffusing = fields.flag("diffusing")?.unwrap_or(false);
    let trace = own.flag("trace")?.unwrap_or(false);
    let mut options = fields.under("stream_options", "stream_options.")?;
    let usage_apart = options.flag("include_usage")?.unwrap_or(false);
    // Padding against eavesdroppers is theirs alone.
    options.flag("include_obfuscation")?;
    if diffusing && !stream {
        return Err(Refusal::field("diffusing", "expected stream: true beside it, got none"));
    }
    if trace && !diffusing {
        return Err(Refusal::field("treasure.trace", "expected stream and diffusing beside it")
            .with_hint("a trace is told frame by frame: \"stream\": true, \"diffusing\": true"));
    }
    Ok(stream.then_some(Streaming { diffusing, trace, usage_apart }))
}

/// The library's request: OpenAI's names and ours, over the operator's.
fn request(
    fields: &mut Fields,
    mut own: Fields,
    model: &Served,
    template: Option<String>,
) -> Result<(Request, Renamed)> {
    for (name, hint) in WITHHELD {
        if own.value(name).is_some() {
            let param = format!("treasure.{name}");
            return Err(Refusal::field(param, "a request cannot say this here").with_hint(*hint));
        }
    }
    let own = Value::Object(own.rest());
    let mut request = Request::from_value(own).map_err(|error| Refusal::of_request(&error, &[]))?;
    let mut renamed = Renamed::new();
    let names: [(&str, &str, u64); 5] = [
        ("max_tokens", "length", 1),
        ("max_completion_tokens", "length", 1),
        ("min_tokens", "min_length", 0),
        ("n", "samples", 1),
        ("seed", "seed", 0),
    ];
    for (field, option, least) in names {
        let Some(count) = fields.count(field, least)? else { continue };
        let before = match option {
            "length" => request.length.replace(to_usize(count)).map(|before| before as u64),
            "min_length" => request.min_length.replace(to_usize(count)).map(|before| before as u64),
            "samples" => request.samples.replace(to_usize(count)).map(|before| before as u64),
            _ => request.seed.replace(count),
        };
        if let Some(before) = before
            && before != count
        {
            let message = format!("expected one {option}, got {count} here and {before} elsewhere");
            return Err(Refusal::field(field, message));
        }
        renamed.push((option, field));
    }
    request.template = template;
    let base = &model.base;
    request.seed = request.seed.or(base.seed);
    request.model.clone_from(&base.model);
    request.tokenizer.clone_from(&base.tokenizer);
    request.mask_id = base.mask_id;
    request.dtype.clone_from(&base.dtype);
    request.precision.clone_from(&base.precision);
    request.read_as.clone_from(&base.read_as);
    request.reward_dtype.clone_from(&base.reward_dtype);
    Ok((request, renamed))
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The plan of a prompt, within what the server allows.
fn plan_of(
    app: &App,
    request: &Request,
    renamed: &[(&'static str, &'static str)],
    prompt: &str,
    suffix: Option<&str>,
) -> Result<Plan> {
    let mut request = request.clone();
    let mut renamed = renamed.to_vec();
    // Before the library's own bound, which is no use to a client of this server.
    if let Some(length) = request.length {
        app.limits().check("length", length_name(&renamed), length as u64)?;
    }
    if let Some(suffix) = suffix {
        for (name, text) in [("prompt", prompt), ("suffix", suffix)] {
            if Template::has_hole(text) {
                let message = "expected text without holes beside a suffix, got [MASK…]";
                return Err(Refusal::field(name, message)
                    .with_hint("write the whole as treasure.template, holes included"));
            }
        }
        let length = match request.length.take() {
            Some(length) => length,
            None => Plan::new(&Request::default()).map_or(1, |plan| plan.length),
        };
        app.limits().check("length", length_name(&renamed), length as u64)?;
        request.template = Some(format!("{prompt}[MASK:{length}]{suffix}"));
        renamed.push(("template", "suffix"));
    }
    let mut plan = Plan::new(&request).map_err(|error| Refusal::of_request(&error, &renamed))?;
    app.limits().apply(&mut plan, length_name(&renamed))?;
    app.policy().check(&plan.reward, "treasure.reward")?;
    plan.judge.iter().try_for_each(|judge| app.policy().check(judge, "treasure.judge"))?;
    plan.screen.iter().try_for_each(|screen| app.policy().check(screen, "treasure.screen"))?;
    let most = app.max_seconds();
    plan.max_seconds = Some(plan.max_seconds.map_or(most, |seconds| seconds.min(most)));
    Ok(plan)
}

/// What a client called the length.
fn length_name(renamed: &[(&str, &'static str)]) -> &'static str {
    let found = renamed.iter().find(|(option, _)| *option == "length");
    found.map_or("treasure.length", |(_, field)| field)
}
