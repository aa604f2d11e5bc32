//! What is asked for: the one description of a job, whoever asks.
//!
//! The command line's flags, an HTTP body, Python's keywords and an experiment's cell are spellings of
//! it. A field that nobody knows is an error that names the nearest known one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use treasure_core::Method;
use treasure_text::Message;

use crate::{Error, FIELDS, Preset, Result, nearest};

/// A job. Every field may be left out; a [`crate::Plan`] fills what is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// `pocket`, a directory in Hugging Face layout, or a hub id.
    pub model: Option<String>,
    /// Where the tokenizer comes from, if not from the model.
    pub tokenizer: Option<String>,
    /// The mask token's id, where the checkpoint does not say.
    pub mask_id: Option<u32>,
    /// How weights are held: auto, f32, f16, bf16, int8 or file.
    pub dtype: Option<String>,
    /// What products of networks are computed in: f32, bf16, int8, or auto for the fastest this machine has.
    pub precision: Option<String>,
    /// The architecture the files are read as.
    #[serde(rename = "as")]
    pub read_as: Option<String>,
    /// The beginning of the text.
    pub prompt: Option<String>,
    /// Whether the prompt is what a user says, to be written by the checkpoint's chat template.
    pub chat: Option<bool>,
    /// What the system message says, in chat.
    pub system: Option<String>,
    /// A conversation, instead of a prompt.
    pub messages: Option<Vec<Message>>,
    /// A text with holes, instead of a prompt.
    pub template: Option<String>,
    /// The continuation must match this regular expression, whole.
    pub matches: Option<String>,
    /// The continuation must be JSON that is valid under this schema.
    pub json_schema: Option<Value>,
    /// The continuation must be one of these.
    pub choices: Option<Vec<String>>,
    /// A finished text to make better, for the method `refine`.
    pub text: Option<String>,
    /// What must not change in it, as a regular expression.
    pub keep: Option<String>,
    /// What to aim for.
    pub reward: Option<String>,
    /// How the weights of rewards are held.
    pub reward_dtype: Option<String>,
    /// Judges that the search does not see.
    pub judge: Vec<String>,
    /// A cheap reward that ranks children first.
    pub screen: Option<String>,
    /// Tokens to generate.
    #[serde(alias = "gen_length", alias = "max_new_tokens")]
    pub length: Option<usize>,
    /// No end of text before this many.
    pub min_length: Option<usize>,
    /// Outputs.
    pub samples: Option<usize>,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// Whose conventions hold.
    pub preset: Option<Preset>,
    /// How to search.
    pub method: Option<String>,
    /// Classifier-free guidance: how far predictions are pushed away from those without the prompt.
    pub cfg_scale: Option<f64>,
    /// Which text is handed back: best-seen, final or draw.
    pub answer: Option<String>,
    /// Budget: model calls.
    pub max_nfe: Option<u64>,
    /// Budget: reward calls.
    pub max_reward_calls: Option<u64>,
    /// Budget: seconds.
    pub max_seconds: Option<f64>,
    /// Stop once the reward is there.
    pub target_reward: Option<f64>,
    /// The version of the key rule, as plans carry it.
    pub keys: Option<u32>,
    /// The method's own options, by name.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

/// Names that other samplers have for our options.
const ALIASES: [(&str, &str); 2] = [("block_length", "block"), ("block_size", "block")];

impl Request {
    /// A request from JSON. A value of the wrong type is an error that names its field; unknown fields
    /// are found when the request becomes a plan.
    ///
    /// ```
    /// use treasure::{Hint, Plan, Request};
    ///
    /// let request = Request::from_value(serde_json::json!({"prompt": "The old dog", "beam_with": 8}))?;
    /// let error = Plan::new(&request).unwrap_err();
    /// assert_eq!(error.hint().as_deref(), Some("did you mean beam_width?"));
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn from_value(value: Value) -> Result<Self> {
        let Value::Object(fields) = value else {
            return Err(Error::request(format!("request: expected a JSON object, got {value}")));
        };
        // Fields one at a time, so that a wrong one can be named.
        for (name, value) in &fields {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            if let Err(error) = serde_json::from_value::<Self>(alone.into()) {
                return Err(treasure_core::Error::option(name, value.clone(), &error).into());
            }
        }
        let mut request: Self = serde_json::from_value(fields.into())
            .map_err(|error| Error::request(format!("request: {error}")))?;
        request.options.retain(|_, value| !value.is_null());
        if request.choices.as_ref().is_some_and(|all| all.iter().all(String::is_empty)) {
            return Err(Error::request("choices: expected at least one text, got none")
                .with_hint("name the texts to choose from, spaces included"));
        }
        Ok(request)
    }

    /// The method's options, under our names where other samplers have their own.
    pub(crate) fn own_options(&self) -> Result<Map<String, Value>> {
        let mut options = self.options.clone();
        options.retain(|_, value| !value.is_null());
        for (theirs, ours) in ALIASES {
            let Some(value) = options.remove(theirs) else { continue };
            if let Some(before) = options.insert(ours.to_owned(), value.clone())
                && before != value
            {
                return Err(Error::request(format!(
                    "{theirs}: expected one {ours}, got {value} here and {before} as {ours}"
                )));
            }
        }
        Ok(options)
    }

    /// What shows whether steering did anything: unguided text and the best of 16 beside this request.
    pub fn beside(&self) -> [(&'static str, Self); 3] {
        let other = |method: &str, options: Value| {
            let options = options.as_object().cloned().unwrap_or_default();
            Self { method: Some(method.into()), screen: None, options, ..self.clone() }
        };
        [
            ("unguided", other("fhs", json!({}))),
            ("best of 16", other("bon", json!({"particles": 16, "sampler": "first-hitting"}))),
            ("ours", self.clone()),
        ]
    }

    /// The error for an option that the method does not have.
    pub(crate) fn unknown(option: &str, method: &str) -> Error {
        let users = Method::with_option(option);
        if !users.is_empty() {
            return Error::request(format!("{option}: method {method} has no use for it"))
                .with_hint(format!(
                    "leave it out, or choose a method that uses it: {}",
                    users.join(" | ")
                ));
        }
        let mut known: Vec<String> = FIELDS.iter().map(|field| field.name.to_owned()).collect();
        for name in Method::NAMES {
            known.extend(
                Method::named(name)
                    .into_iter()
                    .flat_map(|m| m.options().into_iter().map(|(key, _)| key)),
            );
        }
        let error = Error::request(format!("{option}: there is no such option"));
        match nearest(option, known.iter().map(String::as_str)) {
            Some(name) => error.with_hint(format!("did you mean {name}?")),
            None => {
                error.with_hint(format!("options of {method}: {}", own_options(method).join(", ")))
            }
        }
    }
}

/// The options of a method, by name.
fn own_options(method: &str) -> Vec<String> {
    let method = Method::named(method);
    method.into_iter().flat_map(|method| method.options().into_iter().map(|(key, _)| key)).collect()
}
