//! A request after every default and every check that needs no weights: printed first, stored with
//! every result, and readable as a request again.
//!
//! What changes no result (threads, batch sizes, file names) is no part of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use treasure_core::{AnswerKind, Hint as _, Method, SelectKind, methods::FkReference};
use treasure_models::{
    Dtype, Family, LoadOptions,
    exec::{Isa, Precision},
};
use treasure_rewards::{
    Spec,
    spec::{Kind, Leaf, ValueKind},
};

use treasure_text::{Conventions, Message, Part, Rule, Start, TextModel, printable};

use crate::{Error, Estimate, KEYS, Request, Result, Template, bounds, defaults, given::Given};

/// Whose conventions a run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Text worth reading: the defaults chosen by measurement.
    #[default]
    Plain,
    /// Algorithms 1–3 of the paper to the letter.
    Paper,
    /// The reference protocol of FK steering: its text windows, lengths and, with the method `fk`, its
    /// rules.
    Fk,
}

impl Preset {
    /// How rewards read text.
    pub fn conventions(self) -> Conventions {
        match self {
            Self::Plain | Self::Paper => Conventions::Plain,
            Self::Fk => Conventions::Fk,
        }
    }

    /// The name users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Paper => "paper",
            Self::Fk => "fk",
        }
    }
}

/// How a reward reads best beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A log-probability: `p = 0.98`.
    LogProbability,
    /// Minus the mean NLL: `perplexity 8.4`.
    MeanLogLikelihood,
    /// A rule in [0, 1] that is met at 1.
    Rule,
    /// The number alone.
    Plain,
}

/// Every option after defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whose conventions hold.
    pub preset: Preset,
    /// The denoiser.
    pub model: String,
    /// How the denoiser is read.
    pub load: LoadOptions,
    /// The reward.
    pub reward: Spec,
    /// How the weights of rewards are held.
    pub reward_dtype: Dtype,
    /// Held-out judges, each as written.
    pub judge: Vec<Spec>,
    /// The cheap reward of a screened search.
    pub screen: Option<Spec>,
    /// The template, if the holes of one are filled.
    pub template: Option<Template>,
    template_text: Option<String>,
    /// Whether prompts are conversations that a chat template wrote, special tokens and all.
    pub chat: bool,
    /// What the system message of a conversation says, where it has none.
    pub system: Option<String>,
    /// Classifier-free guidance; 0 is none.
    pub cfg_scale: f64,
    /// What the continuation of a prompt must be.
    pub rule: Option<Rule>,
    pub(crate) given: Option<Given>,
    /// Generated tokens.
    pub length: usize,
    /// No end of text before this many.
    pub min_length: usize,
    /// Outputs a prompt gets.
    pub samples: usize,
    /// The seed.
    pub seed: u64,
    /// The method with its options.
    pub method: Method,
    /// Which text is handed back.
    pub answer: AnswerKind,
    /// Budget: model calls.
    pub max_nfe: Option<u64>,
    /// Budget: reward calls.
    pub max_reward_calls: Option<u64>,
    /// Budget: seconds.
    pub max_seconds: Option<f64>,
    /// Stop once the reward is there.
    pub target_reward: Option<f64>,
}

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
        let load = load_options(request)?;
        let reward_dtype = dtype(request.reward_dtype.as_deref())?;
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

    /// What one text will take, with a denoiser whose prediction of the first state has so many bytes (0
    /// before it is loaded: then the rest of it counts).
    pub fn estimate(&self, prediction: u64) -> Estimate {
        Estimate::new(&self.method, self.length, prediction)
    }

    /// The plan as rows carry it. Read as a request, it gives this plan again.
    pub fn to_value(&self) -> Value {
        let mut plan = json!({
            "preset": self.preset,
            "model": self.model,
            "tokenizer": self.load.tokenizer,
            "mask_id": self.load.mask_id,
            "dtype": self.load.dtype.to_string(),
            "precision": self.load.precision.to_string(),
            "as": self.load.as_kind.map(|family| family.to_string()),
            "reward": self.reward.to_string(),
            "reward_dtype": self.reward_dtype.to_string(),
            "judge": self.judge.iter().map(Spec::to_string).collect::<Vec<_>>(),
            "template": self.template_text,
            "matches": match &self.rule { Some(Rule::Regex(pattern)) => Some(pattern), _ => None },
            "json_schema": match &self.rule { Some(Rule::JsonSchema(schema)) => Some(schema), _ => None },
            "choices": match &self.rule { Some(Rule::Choices(choices)) => Some(choices), _ => None },
            "length": self.length,
            "min_length": self.min_length,
            "samples": self.samples,
            "seed": self.seed,
            "method": self.method.name(),
        });
        if let Value::Object(plan) = &mut plan {
            plan.extend(self.options());
            let rest = json!({
                "screen": self.screen.as_ref().map(Spec::to_string),
                "answer": self.answer,
                "max_nfe": self.max_nfe,
                "max_reward_calls": self.max_reward_calls,
                "max_seconds": self.max_seconds,
                "target_reward": self.target_reward,
                "keys": KEYS,
            });
            if let Value::Object(rest) = rest {
                plan.extend(rest);
            }
            if self.chat {
                plan.insert("chat".into(), true.into());
                plan.insert("system".into(), json!(self.system));
            }
            if self.cfg_scale > 0.0 {
                plan.insert("cfg_scale".into(), self.cfg_scale.into());
            }
            if let Some(given) = &self.given {
                plan.insert("text".into(), json!(given.text));
                plan.insert("keep".into(), json!(given.keep));
            }
        }
        plan
    }

    /// The method's options, as plans are written down: what is younger than stored plans is named where it was
    /// asked for, so that the others are what they were.
    pub fn options(&self) -> Map<String, Value> {
        let mut options = self.method.options();
        let young = |name: &str| ["reuse", "settle"].contains(&name);
        options.retain(|name, value| !(young(name) && value.is_null()));
        options
    }

    /// What the rows of a prompt begin with: the prompt, or what stands before the first hole.
    pub fn begins<'a>(&'a self, prompt: &'a str) -> Result<&'a str> {
        match (&self.given, &self.template) {
            (Some(given), _) => given.begins(),
            (None, Some(template)) => Ok(match template.parts.first() {
                Some(Part::Fixed(fixed)) => fixed.as_str(),
                _ => "",
            }),
            (None, None) => Ok(prompt),
        }
    }

    /// Where a search starts.
    pub(crate) fn start(&self, model: &dyn TextModel, prompt: &str) -> Result<Start> {
        let start = match (&self.given, &self.template) {
            (Some(given), _) => given.start(model)?,
            (None, Some(template)) => Start::template(model, &template.parts)?,
            (None, None) if self.chat => Start::chat(model, prompt, self.length, self.min_length)?,
            (None, None) => {
                let (length, least) = (self.length, self.min_length);
                Start::under(self.preset.conventions(), model, prompt, length, least)?
            }
        };
        Ok(match &self.rule {
            Some(rule) if self.given.is_some() => start.with_rule(rule.clone().in_as_many_tokens()),
            Some(rule) => start.with_rule(rule.clone()),
            None => start,
        })
    }

    /// The prompt that a conversation stands for, as a denoiser's chat template writes it.
    pub fn conversation(&self, model: &dyn TextModel, messages: &[Message]) -> Result<String> {
        let Some(template) = model.chat() else {
            return Err(Error::request(format!("chat: {} has no chat template", self.model))
                .with_hint(
                    "leave chat out, and write the prompt as the model was trained to see it",
                ));
        };
        let mut all = Vec::with_capacity(messages.len() + 1);
        if let Some(system) = &self.system {
            if messages.first().is_some_and(|first| first.role == "system") {
                return Err(Error::request("system: the messages have a system message already"));
            }
            all.push(Message::new("system", system.clone()));
        }
        all.extend_from_slice(messages);
        Ok(template.render(&all, true)?)
    }

    /// Whether something must hold of every text.
    pub fn is_constrained(&self) -> bool {
        let parts = self.template.iter().flat_map(|template| &template.parts);
        let rule = |part: &Part| matches!(part, Part::Hole { rule: Some(_), .. });
        self.rule.is_some() || parts.into_iter().any(rule)
    }

    /// How the reward reads best beside its number.
    pub fn reading(&self) -> Reading {
        match (reading_of(&self.reward), self.preset) {
            // The scorers of that protocol give −ln 2 times the mean, which is no perplexity.
            (Reading::MeanLogLikelihood, Preset::Fk) => Reading::Plain,
            (reading, _) => reading,
        }
    }

    /// The plan in a line, for people.
    pub fn line(&self) -> String {
        let options = self.method.options();
        let mut method = self.method.name().to_string();
        let short = [
            ("beam_width", "b"),
            ("tree_width", "m"),
            ("particles", "N"),
            ("steps", "T"),
            ("block", "block"),
            ("remasking", "remasking"),
            ("alg", "alg"),
            ("order", "order"),
            ("prior", "prior"),
            ("variety", "variety"),
            ("min_p", "min-p"),
            ("select", "select"),
        ];
        for (option, letter) in short {
            match options.get(option) {
                None | Some(Value::Null) => {}
                Some(Value::Number(zero)) if zero.as_f64() == Some(0.0) => {}
                Some(one) if option == "select" && *one == json!("top") => {}
                Some(Value::String(text)) => method += &format!(" {letter}={text}"),
                Some(value) => method += &format!(" {letter}={value}"),
            }
        }
        let mut line = format!("plan: {} · reward {} · {method}", self.model, self.reward);
        if self.given.is_none() {
            line += &format!(" · {} tokens", self.length);
        }
        if self.template.is_none() && self.min_length > 0 {
            line += &format!(" (no end before {})", self.min_length);
        }
        if self.samples > 1 {
            line += &format!(" · {} samples", self.samples);
        }
        if self.load.precision != Precision::F32 {
            // Tiles round in other places than vectors, so that their results are other ones.
            let on = if Isa::best().has_tiles(self.load.precision) { " on AMX" } else { "" };
            line += &format!(" · {} products{on}", self.load.precision);
        }
        let each = if self.samples > 1 { " each" } else { "" };
        line += &format!(" · seed {} · {}{each}", self.seed, self.estimate(0));
        // Names of models and rewards may come from strangers.
        printable(&line).into_owned()
    }
}

/// How a specification reads best beside its number.
pub(crate) fn reading_of(spec: &Spec) -> Reading {
    match &spec.root.kind {
        Kind::Leaf(Leaf::Judge(_, ValueKind::LogProb))
        | Kind::Leaf(Leaf::Classifier { value: ValueKind::LogProb, .. }) => Reading::LogProbability,
        Kind::Leaf(Leaf::Perplexity | Leaf::Scorer { .. }) => Reading::MeanLogLikelihood,
        // Diversity is a matter of degree; every other rule is met at 1.
        Kind::Leaf(Leaf::Rule(_)) if !spec.root.written.starts_with("distinct:") => Reading::Rule,
        _ => Reading::Plain,
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
    text.parse().map_err(|error| Error::from_spec(what, error))
}

impl Error {
    fn from_spec(what: &str, error: treasure_rewards::SpecError) -> Self {
        Self::from(error).context(what)
    }
}

fn dtype(name: Option<&str>) -> Result<Dtype> {
    Ok(name.unwrap_or("auto").parse()?)
}

fn load_options(request: &Request) -> Result<LoadOptions> {
    Ok(LoadOptions {
        dtype: dtype(request.dtype.as_deref())?,
        precision: Precision::chosen(request.precision.as_deref().unwrap_or("f32"))?,
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
    if request.prompt.as_deref().is_some_and(|prompt| !prompt.is_empty())
        || request.template.is_some()
    {
        return Err(Error::request("text: expected a text alone, got a prompt or template too"));
    }
    if let Some(rule) = rule(request)? {
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
    Given::new(text.clone(), request.keep.clone()).map(Some)
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
        debug_assert!(tree.select == SelectKind::Top || tree.select == SelectKind::Nested);
    }
    if let (Method::Llada(llada), true) = (&method, masks > 0 && request.template.is_none()) {
        llada.fits(masks)?;
    }
    Ok(filled(method, masks))
}

/// A method with what depends on the number of masks filled in.
fn filled(method: Method, masks: usize) -> Method {
    match method {
        Method::Fk(mut fk) => {
            fk.resample_every = Some(fk.every(masks));
            Method::Fk(fk)
        }
        Method::FkReference(reference) => Method::FkReference(FkReference { ..reference }),
        other => other,
    }
}
