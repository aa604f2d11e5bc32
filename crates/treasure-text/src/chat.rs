//! Conversations as prompts: the chat template of a checkpoint, rendered as transformers'
//! `apply_chat_template` does (`trim_blocks`, `lstrip_blocks`, Python's methods of texts).
//!
//! Families whose checkpoints are known to ship no template, or a broken one, have one here. Without the
//! feature `chat` only those are rendered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }
}

/// How a family writes conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// LLaDA's and Llama 3's headers; LLaDA begins with its own `<|startoftext|>`.
    Headers {
        /// The text in front.
        begin: &'static str,
    },
    /// `<|im_start|>` and `<|im_end|>`, as Qwen2 and Dream; a system message is there in any case.
    ChatMl {
        /// The system message where none is given.
        system: Option<&'static str>,
    },
}

impl Format {
    /// LLaDA 8B and 1.5.
    pub const LLADA: Self = Self::Headers { begin: "<|startoftext|>" };
    /// Dream and Dream-Coder.
    pub const DREAM: Self = Self::ChatMl { system: Some("You are a helpful assistant.") };

    fn render(self, messages: &[Message], reply: bool) -> String {
        let mut text = String::new();
        match self {
            Self::Headers { begin } => {
                text += begin;
                for Message { role, content } in messages {
                    let content = content.trim();
                    text += &format!(
                        "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"
                    );
                }
                if reply {
                    text += "<|start_header_id|>assistant<|end_header_id|>\n\n";
                }
            }
            Self::ChatMl { system } => {
                let given = messages.first().is_some_and(|first| first.role == "system");
                if let (Some(system), false) = (system, given) {
                    text += &format!("<|im_start|>system\n{system}<|im_end|>\n");
                }
                for Message { role, content } in messages {
                    text += &format!("<|im_start|>{role}\n{content}<|im_end|>\n");
                }
                if reply {
                    text += "<|im_start|>assistant\n";
                }
            }
        }
        text
    }
}

/// How a checkpoint writes conversations.
#[derive(Clone, Debug)]
pub struct ChatTemplate(Origin);

#[derive(Clone, Debug)]
enum Origin {
    Family(Format),
    Jinja(Jinja),
}

/// A template of the checkpoint's own.
#[derive(Clone, Debug)]
struct Jinja {
    #[cfg_attr(not(feature = "chat"), expect(dead_code, reason = "rendered with the feature"))]
    source: String,
    /// What the template may name beside the messages: special tokens.
    #[cfg_attr(not(feature = "chat"), expect(dead_code, reason = "rendered with the feature"))]
    tokens: Map<String, Value>,
    place: String,
}

/// The special tokens that templates may name.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

impl ChatTemplate {
    /// The template of a family.
    pub fn family(format: Format) -> Self {
        Self(Origin::Family(format))
    }

    /// The template in a `tokenizer_config.json`, if it has one: `chat_template`, of several the one
    /// called `default`. `place` is its name for messages.
    pub fn from_config(config: &Map<String, Value>, place: &str) -> Result<Option<Self>> {
        let source = match config.get("chat_template") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(source)) => source.clone(),
            Some(Value::Array(several)) => {
                let named = |name: &str| {
                    let own =
                        |each: &&Value| each.get("name").and_then(Value::as_str) == Some(name);
                    several.iter().find(own)?.get("template")?.as_str().map(str::to_owned)
                };
                let Some(source) = named("default") else {
                    let what = format!("{place}: chat_template");
                    return Err(Error::expected(what, "one called default", "others").of_file());
                };
                source
            }
            Some(other) => {
                let what = format!("{place}: chat_template");
                return Err(Error::expected(what, "a template", other).of_file());
            }
        };
        Self::jinja(source, config, place).map(Some)
    }

    /// A template as it stands in a `chat_template.jinja`, with the special tokens of a
    /// `tokenizer_config.json`.
    pub fn jinja(source: String, config: &Map<String, Value>, place: &str) -> Result<Self> {
        let mut tokens = Map::new();
        for name in TOKENS {
            let text = match config.get(name) {
                Some(Value::Object(token)) => token.get("content").cloned(),
                other => other.cloned(),
            };
            tokens.extend(text.filter(Value::is_string).map(|text| (name.to_owned(), text)));
        }
        #[cfg(feature = "chat")]
        let source = engine::without_marks(&source);
        let template = Jinja { source, tokens, place: place.to_owned() };
        template.check()?;
        Ok(Self(Origin::Jinja(template)))
    }

    /// The prompt that messages stand for; with `reply` up to where the assistant's answer begins.
    pub fn render(&self, messages: &[Message], reply: bool) -> Result<String> {
        if messages.is_empty() {
            return Err(Error::expected("messages", "at least one", "none"));
        }
        match &self.0 {
            Origin::Family(format) => Ok(format.render(messages, reply)),
            Origin::Jinja(template) => template.render(messages, reply),
        }
    }
}

/// The messages of a rendered conversation, if it is in one of the two common formats; the last may be
/// unfinished. What a reward model needs to write the same conversation its own way.
pub fn conversation(text: &str) -> Option<Vec<Message>> {
    let headers = ("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>");
    let chat_ml = ("<|im_start|>", "\n", "<|im_end|>");
    [headers, chat_ml].into_iter().find_map(|(open, sep, close)| {
        let (before, rest) = text.split_once(open)?;
        // Only a token like <|startoftext|> may stand in front.
        let bare = before.is_empty() || (before.starts_with('<') && before.ends_with('>'));
        if !bare || before.contains(char::is_whitespace) {
            return None;
        }
        let read = |part: &str| {
            let (role, content) = part.split_once(sep)?;
            let content = content.split_once(close).map_or(content, |(content, _)| content);
            Some(Message::new(role, content))
        };
        rest.split(open).map(read).collect()
    })
}

#[cfg(feature = "chat")]
mod engine {
    //! Jinja as transformers sets it up.

    use minijinja::{
        Environment, ErrorKind, Output, State, Value, context,
        value::{Kwargs, ValueKind},
    };
    use serde::Serialize as _;
    use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

    use super::{Jinja, Message};
    use crate::{Error, Result};

    const NAME: &str = "chat_template";
    /// Steps a template may take: a published one needs some hundreds a message.
    const FUEL: u64 = 2_000_000;

    /// JSON as Python's `json.dumps` writes it: a space after commas and colons.
    struct Python;

    impl Formatter for Python {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }

        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }

        fn begin_object_value<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
        ) -> std::io::Result<()> {
            to.write_all(b": ")
        }
    }

    fn to_json(value: &Value, options: Kwargs) -> std::result::Result<Value, minijinja::Error> {
        let indent: Option<usize> = options.get("indent")?;
        let _: Option<bool> = options.get("ensure_ascii")?;
        options.assert_all_used()?;
        let failed = |error: serde_json::Error| {
            minijinja::Error::new(ErrorKind::BadSerialization, error.to_string())
        };
        let mut text = Vec::new();
        match indent {
            None => value.serialize(&mut Serializer::with_formatter(&mut text, Python)),
            Some(width) => {
                let spaces = " ".repeat(width.min(16));
                let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
                value.serialize(&mut Serializer::with_formatter(&mut text, pretty))
            }
        }
        .map_err(failed)?;
        Ok(Value::from_safe_string(String::from_utf8_lossy(&text).into_owned()))
    }

    fn raise(message: String) -> std::result::Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    }

    /// True, False and None are written as Python writes them.
    fn as_python(
        to: &mut Output<'_>,
        state: &State<'_, '_>,
        value: &Value,
    ) -> std::result::Result<(), minijinja::Error> {
        let word = match (value.kind(), value.is_true()) {
            (ValueKind::Bool, true) => "True",
            (ValueKind::Bool, false) => "False",
            (ValueKind::None, _) => "None",
            _ => return minijinja::escape_formatter(to, state, value),
        };
        to.write_str(word).map_err(minijinja::Error::from)
    }

    /// The marks of transformers around what an assistant says change no text.
    pub(super) fn without_marks(source: &str) -> String {
        let mut text = source.to_owned();
        for (mark, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
            for (open, close) in [("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}")] {
                text = text.replace(
                    &format!("{open} {mark} {close}"),
                    &format!("{open} {instead} {close}"),
                );
            }
        }
        text
    }

    impl Jinja {
        fn environment() -> Environment<'static> {
            let mut environment = Environment::new();
            environment.set_trim_blocks(true);
            environment.set_lstrip_blocks(true);
            environment.set_fuel(Some(FUEL));
            environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
            environment
                .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
            environment.set_formatter(as_python);
            environment.add_function("raise_exception", raise);
            environment.add_filter("tojson", to_json);
            environment
        }

        pub(super) fn check(&self) -> Result<()> {
            let environment = Self::environment();
            let read = environment.template_from_named_str(NAME, &self.source);
            read.map(drop).map_err(|source| {
                Error::new(format!("{}: is not a template that can be read", self.place))
                    .with_source(source)
                    .of_file()
            })
        }

        pub(super) fn render(&self, messages: &[Message], reply: bool) -> Result<String> {
            let environment = Self::environment();
            let said = context! {
                messages => messages,
                add_generation_prompt => reply,
                tools => Value::from(()),
                documents => Value::from(()),
                ..Value::from_serialize(&self.tokens)
            };
            let template = environment.template_from_named_str(NAME, &self.source);
            template.and_then(|template| template.render(said)).map_err(|source| {
                Error::new(format!("{}: cannot write these messages", self.place))
                    .with_source(source)
            })
        }
    }
}

#[cfg(not(feature = "chat"))]
impl Jinja {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn render(&self, _: &[Message], _: bool) -> Result<String> {
        Err(Error::new(format!("{}: this build reads no chat templates", self.place))
            .with_hint("build with the feature `chat`, or give the prompt as the model reads it"))
    }
}
