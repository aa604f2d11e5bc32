//! What the text of a prompt or a hole must be: the constraints that users write.

use serde_json::Value;

use crate::{
    Error, Piece, Result, Start, TextModel,
    automata::{
        Cache, Limits, Pattern, Patterns, SchemaOptions, Span, Start as Opening, Vocabulary,
    },
};

/// A constraint on a whole continuation, or on the text of a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It matches a regular expression, whole.
    Regex(String),
    /// It is one of these texts.
    Choices(Vec<String>),
    /// It is JSON that is valid under a schema.
    JsonSchema(Value),
}

impl Rule {
    /// A rule as a hole spells it: `regex:…`, `choices:red,green` or `json-schema:{…}`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |got: &str| {
            Error::expected("rule of a hole", "regex:…, choices:… or json-schema:{…}", got)
                .with_hint("for example [MASK:3|regex:[0-9]+] or [MASK|choices:red,green]")
        };
        let (kind, body) = text.split_once(':').ok_or_else(|| wrong(text))?;
        match kind {
            "regex" => Ok(Self::Regex(body.to_owned())),
            "choices" => Ok(Self::Choices(body.split(',').map(str::to_owned).collect())),
            "json-schema" => serde_json::from_str(body).map(Self::JsonSchema).map_err(|error| {
                Error::expected("json-schema of a hole", "a JSON Schema", body).with_source(error)
            }),
            _ => Err(wrong(kind)),
        }
    }

    fn pattern(&self) -> Pattern {
        match self {
            Self::Regex(pattern) => Pattern::regex(pattern),
            Self::Choices(choices) => Pattern::choices(choices),
            Self::JsonSchema(schema) => Pattern::json_schema(schema, SchemaOptions::default()),
        }
    }

    /// The same for a text that keeps its number of tokens: choices that take another number do not come.
    #[must_use]
    pub fn in_as_many_tokens(self) -> Self {
        match self {
            Self::Choices(choices) => {
                let choices: Vec<_> =
                    choices.iter().map(|text| regex_syntax::escape(text)).collect();
                Self::Regex(choices.join("|"))
            }
            other => other,
        }
    }

    /// Checks what needs no vocabulary: that it can be read, and is not too large.
    pub fn check(&self) -> Result<()> {
        self.pattern().dfa(&Limits::default())?;
        Ok(())
    }

    /// Checks that a text satisfies it; else, how much of its beginning some text that does begins with.
    pub fn accepts<'t>(&self, text: &'t str) -> Result<Result<(), &'t str>> {
        let dfa = self.pattern().dfa(&Limits::default())?;
        if dfa.accepts(text.as_bytes()) {
            return Ok(Ok(()));
        }
        let mut bytes = dfa.begins(text.as_bytes());
        while !text.is_char_boundary(bytes) {
            bytes -= 1;
        }
        Ok(Err(&text[..bytes]))
    }
}

/// The tables of rules over the vocabulary of a model, each built once.
#[derive(Debug)]
pub struct Rules {
    cache: Cache,
    opening: Opening,
}

impl Rules {
    /// The rules of a model's vocabulary.
    pub fn of(model: &dyn TextModel) -> Result<Self> {
        let bytes = model.tokenizer()?.bytes()?;
        let facts = model.facts();
        let ends = crate::start::ends_of(model)?;
        let vocabulary: Vocabulary = bytes.vocabulary(facts.vocab_size, &ends, &facts.never)?;
        Ok(Self { cache: Cache::new(vocabulary.into(), Limits::default()), opening: bytes.start })
    }

    /// The constraint of a start: its rules where its holes are. `None` if it has none.
    pub fn constraint(&self, start: &Start, min_length: usize) -> Result<Option<Patterns>> {
        if start.rules.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut patterns = Patterns::new(self.cache.vocabulary().clone(), start.state.len());
        let (mut at, mut rules, mut text_before) = (0, start.rules.iter(), false);
        for piece in start.layout.pieces() {
            match piece {
                Piece::Fixed { text, tokens } => {
                    text_before |= !text.is_empty();
                    at += tokens;
                }
                Piece::Hole { tokens, drop_leading_space } => {
                    if let Some(rule) = rules.next().and_then(Option::as_ref) {
                        let mut pattern = rule.pattern();
                        if *drop_leading_space {
                            pattern = pattern.dropping_first_space();
                        }
                        if !text_before {
                            pattern = self.opened(pattern)?;
                        }
                        let tables = self.cache.tables(&pattern)?;
                        let span = match start.ends.is_empty() {
                            true => Span::exactly(tables, *tokens),
                            false => Span::new(tables, *tokens).min_len(min_length),
                        };
                        patterns = patterns.with(at, span)?;
                        if let Rule::Choices(choices) = rule {
                            self.check_choices(choices, start, *tokens, *drop_leading_space)?;
                        }
                    }
                    text_before = true;
                    at += tokens;
                }
            }
        }
        Ok(Some(patterns.with_bans(start.bans.clone())))
    }

    /// What decoding does to the very start of a text.
    fn opened(&self, pattern: Pattern) -> Result<Pattern> {
        match self.opening {
            Opening::AsIs => Ok(pattern),
            Opening::DropsSpace => Ok(pattern.dropping_first_space()),
            Opening::DropsSpacesOfToken | Opening::DropsWordSpace => Err(Error::expected(
                "constraint",
                "a prompt before it: this tokenizer changes the first word of a text",
                "an empty one",
            )
            .with_hint("begin with a word or a sign")),
        }
    }

    /// In a hole of a fixed size, a choice that cannot be spelt with just so many tokens would never come.
    fn check_choices(
        &self,
        choices: &[String],
        start: &Start,
        tokens: usize,
        drops_space: bool,
    ) -> Result<()> {
        // By choice, the numbers of tokens that spell it.
        let spellings = |choice: &String| -> Vec<Vec<bool>> {
            let spelt = |text: &str| self.cache.vocabulary().spellings(text.as_bytes());
            match drops_space {
                true if choice.starts_with(' ') => vec![spelt(&format!(" {choice}"))],
                true => vec![spelt(&format!(" {choice}")), spelt(choice)],
                false => vec![spelt(choice)],
            }
        };
        let known: Vec<Vec<Vec<bool>>> = choices.iter().map(spellings).collect();
        let exact = start.ends.is_empty();
        let outside = |tokens: usize| {
            let fits = |spelt: &Vec<bool>| match exact {
                true => spelt.get(tokens) == Some(&true),
                false => spelt.iter().take(tokens + 1).any(|&spelt| spelt),
            };
            known.iter().position(|spellings| !spellings.iter().any(fits))
        };
        let Some(at) = outside(tokens) else { return Ok(()) };
        let outsider = &choices[at];
        let enough = (tokens + 1..=tokens + 64).find(|&more| outside(more).is_none());
        let what = match exact {
            true => format!("choice {outsider:?} of a hole"),
            false => format!("choices: {outsider:?}"),
        };
        let one = if tokens == 1 { "token" } else { "tokens" };
        let error = Error::expected(what, format!("a text of {tokens} {one}"), "another length");
        Err(match enough {
            Some(enough) if exact => {
                error.with_hint(format!("write the hole as [MASK:{enough}|choices:…]"))
            }
            Some(enough) => error.with_hint(format!("raise the length to {enough}")),
            None => error,
        })
    }

    /// Whether a text satisfies a rule, whose automaton is built once.
    pub fn accept(&self, rule: &Rule, text: &str) -> Result<bool> {
        Ok(self.cache.dfa(&rule.pattern())?.accepts(text.as_bytes()))
    }
}
