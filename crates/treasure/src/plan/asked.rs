//! From a request to its plan: every default filled in, everything checked that needs no weights.

use serde_json::{Map, Value};
use treasure_core::{AnswerKind, Hint as _, Method};
use treasure_models::{Dtype, Family, LoadOptions};
use treasure_rewards::Spec;
use treasure_text::{Part, Rule};

use super::{Plan, Preset, precision::precision};
use crate::{Error, KEYS, Request, Result, Template, bounds, defaults, given::Given};

impl Plan {
    /// The plan of a request. Read as a request, it is the same plan.
    ///
    /// ```
    /// use treasure::{Plan, Request};
    ///
    /// let plan = Plan::new(&Request { length: Some(16), ..Request::default() })?;
    /// assert_eq!((plan.model.as_str(), plan.length, plan.min_length), ("pocket", 16, 16));
    /// assert_eq!(Plan::new(&Request::from_value(plan.to_value())?)?, plan);
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn new(request: &Request) -> Result<Self> {
        if let Some(keys) = request.keys
            && keys != KEYS
        {
            return Err(Error::request(format!("keys: expected {KEYS}, got {keys}"))
                .with_hint("rows made by another key rule can be read, but not continued"));
        }
        let preset = request.preset.unwrap_or_default();
        if request.prompt.is_some() && request.template.is_some() {
            return Err(Error::request("template: expected a prompt or a template, got both"));
        }
        let chat = chat(request)?;
        let template = request.template.as_deref().map(Template::parse).transpose()?;
        let rule = rule(request)?;
        for part in template.iter().flat_map(|template| &template.parts) {
            if let Part::Hole { rule: Some(rule), .. } = part {
                rule.check()?;
            }
        }
        let given = given(request)?;
        let (length, min_length) = lengths(request, preset, template.as_ref())?;
        let reward: Spec = request.reward.as_deref().unwrap_or("perplexity").parse()?;
        let screen = request.screen.as_deref().map(|text| spec("screen", text)).transpose()?;
        let method = method(request, preset, &reward, length)?;
        let answer = match request.answer.as_deref() {
            Some(name) => name.parse().map_err(Error::from)?,
            None => defaults::answer(preset),
        };
        if answer == AnswerKind::Draw && !method.search().is_sampler() {
            return Err(Error::request(format!(
                "answer: expected best-seen or final, got draw: {} does not sample",
                method.name()
            )));
        }
        let samples = request.samples.unwrap_or(1);
        if samples == 0 {
            return Err(Error::request("samples: expected at least 1, got 0"));
        }
        bounds::check("samples", samples as u64)?;
        if let Some(seconds) = request.max_seconds {
            if !(seconds > 0.0 && seconds.is_finite()) {
                let message = format!("max_seconds: expected a positive number, got {seconds}");
                return Err(Error::request(message));
            }
            bounds::check("max_seconds", seconds as u64)?;
        }
        if request.target_reward.is_some_and(|target| !target.is_finite()) {
            return Err(Error::request("target_reward: expected a finite number"));
        }
        let reward_dtype = dtype(request.reward_dtype.as_deref())?;
        let judges: Vec<&Spec> = std::iter::once(&reward).chain(&screen).collect();
        let load = load_options(request, &judges, reward_dtype)?;
        load.check()?;
        LoadOptions { dtype: reward_dtype, ..load.clone() }.check().map_err(|error| {
            let hint = error.hint().map(|hint| hint.into_owned());
            let error = Error::request(format!("reward: {error}"));
            hint.into_iter().fold(error, Error::with_hint)
        })?;
        let judge = request.judge.iter().map(|text| spec("judge", text)).collect::<Result<_>>()?;
        let plan = Self {
            preset,
            model: request.model.clone().unwrap_or_else(|| "pocket".into()),
            load,
            reward,
            reward_dtype,
            judge,
            screen,
            template,
            template_text: request.template.clone(),
            chat,
            system: request.system.clone().filter(|_| chat),
            cfg_scale: cfg_scale(request)?,
            rule,
            given,
            length,
            min_length,
            samples,
            seed: request.seed.unwrap_or(0),
            method,
            answer,
            max_nfe: request.max_nfe,
            max_reward_calls: request.max_reward_calls,
            max_seconds: request.max_seconds,
            target_reward: request.target_reward,
        };
        plan.estimate(0).check(&plan.method)?;
        Ok(plan)
    }
}

/// Whether a request is a conversation.
fn chat(request: &Request) -> Result<bool> {
    let chat = request.chat.unwrap_or(request.system.is_some() || request.messages.is_some());
    let refused = |field: &str, why: &str| Err(Error::request(format!("{field}: {why}")));
    match &request.messages {
        Some(_) if request.chat == Some(false) => {
            return refused("messages", "expected chat beside it, got chat: false");
        }
        Some(_) if request.prompt.is_some() => {
            return refused("messages", "expected messages or a prompt, got both");
        }
        Some(messages) if messages.is_empty() => {
            return refused("messages", "expected at least one, got none");
        }
        _ => {}
    }
    if request.system.is_some() && !chat {
        return refused("system", "expected chat beside it, got chat: false");
    }
    if chat && (request.template.is_some() || request.text.is_some()) {
        return refused("chat", "expected a prompt or messages, got a template or a text");
    }
    if chat && request.preset == Some(Preset::Fk) {
        return refused("chat", "the preset fk knows prompts only");
    }
    Ok(chat)
}

/// How far predictions are guided.
fn cfg_scale(request: &Request) -> Result<f64> {
    let scale = request.cfg_scale.unwrap_or(0.0);
    if !(scale.is_finite() && (0.0..=100.0).contains(&scale)) {
        return Err(Error::request(format!("cfg_scale: expected 0 to 100, got {scale}")));
    }
    Ok(scale)
}

fn has_rule(request: &Request) -> bool {
    request.matches.is_some() || request.json_schema.is_some() || request.choices.is_some()
}

/// What the continuation must be, at most one thing.
fn rule(request: &Request) -> Result<Option<Rule>> {
    let regex = request.matches.as_ref().map(|pattern| Rule::Regex(pattern.clone()));
    let schema = request.json_schema.as_ref().map(|schema| Rule::JsonSchema(schema.clone()));
    let choices = request.choices.as_ref().map(|choices| Rule::Choices(choices.clone()));
    let given: Vec<Rule> = [regex, schema, choices].into_iter().flatten().collect();
    if given.len() > 1 {
        return Err(Error::request(
            "constraint: expected one of matches, json_schema and choices, got several",
        )
        .with_hint("say what must hold in one of them"));
    }
    let Some(rule) = given.into_iter().next() else { return Ok(None) };
    if request.template.is_some() {
        return Err(Error::request("constraint: a template says it hole by hole").with_hint(
            "write [MASK:12|regex:…], [MASK|choices:red,green] or [MASK:20|json-schema:{…}]",
        ));
    }
    let field = match rule {
        Rule::Regex(_) => "matches",
        Rule::JsonSchema(_) => "json_schema",
        Rule::Choices(_) => "choices",
    };
    rule.check().map_err(|error| Error::from(error).context(field))?;
    Ok(Some(rule))
}

fn spec(what: &str, text: &str) -> Result<Spec> {
    text.parse().map_err(|error: treasure_rewards::Error| Error::from(error).context(what))
}

fn dtype(name: Option<&str>) -> Result<Dtype> {
    Ok(name.unwrap_or("auto").parse()?)
}

fn load_options(request: &Request, judges: &[&Spec], reward_dtype: Dtype) -> Result<LoadOptions> {
    let dtype = dtype(request.dtype.as_deref())?;
    let checkpoints: Vec<String> = judges.iter().flat_map(|spec| spec.checkpoints()).collect();
    let model = request.model.as_deref().unwrap_or("pocket");
    let networks = checkpoints.iter().map(String::as_str).chain([model]);
    Ok(LoadOptions {
        dtype,
        precision: precision(request.precision.as_deref(), &[dtype, reward_dtype], networks)?,
        mask_id: request.mask_id,
        tokenizer: request.tokenizer.clone(),
        as_kind: request.read_as.as_deref().map(str::parse::<Family>).transpose()?,
        ..LoadOptions::default()
    })
}

/// The finished text of a request, if it has one.
fn given(request: &Request) -> Result<Option<Given>> {
    let Some(text) = &request.text else {
        return match request.keep {
            Some(_) => Err(Error::request("keep: expected a text beside it, got none")),
            None => Ok(None),
        };
    };
    let prompt = request.prompt.clone().unwrap_or_default();
    if request.template.is_some() {
        return Err(Error::request("text: expected a text alone, got a template too")
            .with_hint("leave the template out"));
    }
    if let Some(rule) = rule(request)? {
        if !prompt.is_empty() {
            return Err(Error::request("text: expected no prompt beside a constraint, got one")
                .with_hint("leave the prompt out: the constraint is on the whole text"));
        }
        if request.keep.is_some() {
            return Err(Error::request("keep: expected no constraint beside it, got one")
                .with_hint("leave keep out, or write what stays into the pattern"));
        }
        if let Err(begins) = rule.accepts(text)? {
            return Err(Error::request(format!(
                "text: expected one that satisfies the constraint, got {text:?}"
            ))
            .with_hint(format!(
                "a refinement stays within the constraint, so it begins there; texts that satisfy it \
                 begin like this one up to {begins:?}"
            )));
        }
    }
    let method = request.method.as_deref().unwrap_or("treasure");
    if method != "refine" {
        return Err(Error::request(format!("text: method {method} has no use for it"))
            .with_hint("choose the method refine, or give the beginning as a prompt"));
    }
    Given::new(text.clone(), prompt, request.keep.clone()).map(Some)
}

fn lengths(
    request: &Request,
    preset: Preset,
    template: Option<&Template>,
) -> Result<(usize, usize)> {
    if request.text.is_some() {
        for (given, option) in [(request.length, "length"), (request.min_length, "min_length")] {
            if given.is_some_and(|given| given > 0) {
                return Err(Error::request(format!("{option}: a finished text says it by itself"))
                    .with_hint("leave it out: as many tokens are written as the text has"));
            }
        }
        // As many as the text has, which its tokenizer will say.
        return Ok((0, 0));
    }
    if let Some(template) = template {
        for (given, option) in [(request.length, "length"), (request.min_length, "min_length")] {
            if given.is_some_and(|given| given != template.n_masks()) {
                return Err(Error::request(format!("{option}: a template says it by its holes"))
                    .with_hint("leave it out, or change the sizes of the holes: [MASK:5]"));
            }
        }
        return Ok((template.n_masks(), template.n_masks()));
    }
    let (length, min_length) = match preset {
        Preset::Plain | Preset::Paper => (defaults::LENGTH, defaults::MIN_LENGTH),
        // The reference bans no end of text.
        Preset::Fk => (defaults::FK_LENGTH, 0),
    };
    let min_length = match request.method.as_deref() {
        // Neither do the samplers of LLaDA and Dream, and an answer may be short.
        Some("llada" | "dream") => 0,
        _ if chat(request)? => 1,
        _ => min_length,
    };
    let min_length = if has_rule(request) { 0 } else { min_length };
    let length = request.length.unwrap_or(length);
    if length == 0 {
        return Err(Error::request("length: expected at least 1, got 0"));
    }
    bounds::check("length", length as u64)?;
    match request.min_length {
        Some(min_length) if min_length > length => Err(Error::request(format!(
            "min_length: expected at most the length {length}, got {min_length}"
        ))
        .with_hint(format!("raise length to {min_length} or more, or lower min_length"))),
        Some(min_length) => Ok((length, min_length)),
        None => Ok((length, min_length.min(length))),
    }
}

fn method(request: &Request, preset: Preset, reward: &Spec, masks: usize) -> Result<Method> {
    let mut name = request.method.as_deref().unwrap_or("treasure");
    let given: Map<String, Value> = request.own_options()?;
    if preset == Preset::Fk && name == "fk" {
        name = "fk-reference";
        let fixed = ["sampler", "steps", "resample", "ess"];
        if let Some(option) = fixed.iter().find(|option| given.contains_key(**option)) {
            return Err(Error::request(format!("{option}: the preset fk fixes it"))
                .with_hint("leave it out, or drop the preset fk"));
        }
    }
    bounds::check_options(&given)?;
    let mut defaults = defaults::options(name, preset, reward);
    if request.screen.is_some() {
        defaults.insert("screen_share".into(), defaults::SCREEN_SHARE.into());
    } else if given.contains_key("screen_share") {
        return Err(Error::request("screen_share: expected a screen beside it, got none"));
    }
    // A default gives way where an option that was given excludes it.
    if given.get("value").is_some_and(|value| value == "previous") {
        defaults.insert("prior".into(), 0.0.into());
        defaults.insert("variety".into(), 0.0.into());
    }
    if given.get("accept").is_some_and(|accept| accept == "metropolis") {
        defaults.remove("inner");
    }
    let method = Method::from_options(name, &defaults, &given).map_err(|error| match error {
        treasure_core::Error::NoUse { option, method }
            if option == "steps" && given.contains_key("sampler") =>
        {
            Error::request(format!("steps: {method} takes one step a generated token here"))
                .with_hint("leave it out, or choose the ancestral sampler")
        }
        treasure_core::Error::NoUse { option, method } => Request::unknown(&option, &method),
        other => match crate::nearest(name, Method::NAMES.iter().copied()) {
            Some(near) if matches!(other, treasure_core::Error::NoMethod { .. }) => {
                Error::from(other).with_hint(format!("did you mean {near}?"))
            }
            _ => other.into(),
        },
    })?;
    if request.screen.is_some() && method.name() != "treasure" {
        return Err(Request::unknown("screen_share", method.name()));
    }
    if let Method::Treasure(tree) = &method {
        let (beam, width) = (tree.beam_width.widest(), tree.tree_width.widest());
        for (option, widest) in [("beam_width", beam), ("tree_width", width)] {
            bounds::check(option, widest as u64)?;
        }
        bounds::check_children(beam.max(tree.widen), tree.groups, width)?;
        let plain = treasure_core::methods::Treasure::default().x0_samples;
        if tree.x0_samples != plain && tree.value != treasure_core::ValueKind::Previous {
            let message = "x0_samples: this value needs no sampled completions";
            return Err(
                Error::request(message).with_hint("leave it out, or choose the value previous")
            );
        }
    }
    if let (Method::Llada(llada), true) = (&method, masks > 0 && request.template.is_none()) {
        llada.fits(masks)?;
    }
    Ok(filled(method, masks))
}

/// A method with what depends on the number of masks filled in.
fn filled(mut method: Method, masks: usize) -> Method {
    if let Method::Fk(fk) = &mut method {
        fk.resample_every = Some(fk.every(masks));
    }
    method
}
