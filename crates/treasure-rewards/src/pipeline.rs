//! From tokens to a reward: the search has sequences, the rewards score text.
//!
//! Tokens become text (fixed text verbatim, holes decoded up to the first EOS), the text is cut to
//! what the rewards look at, and that prefix is the view: changes behind an EOS or outside every
//! window leave the view as it was and cost nothing.

use std::sync::Arc;

use treasure_core::{Range, Reader, Reward, Scoring, TokenId, View};

use treasure_text::{Detokenize, Layout, Rendered, clean_up_spaces};

use crate::{Breakdown, Composite, Result, TextReward};

/// How text is prepared before the rewards see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Drop the spaces that decoders put before punctuation, as the reference protocol did.
    pub clean_up: bool,
    /// Look at this many generated tokens at most.
    pub trim: Option<usize>,
}

/// Reads the sequences of one prompt or template as the text that a reward looks at.
#[derive(Clone)]
pub struct Pipeline {
    reward: Arc<Composite>,
    detokenizer: Arc<dyn Detokenize>,
    layout: Layout,
    eos: Vec<TokenId>,
    options: TextOptions,
}

impl Pipeline {
    /// Reads sequences of `layout` for `reward`; a hole ends at any token of `eos`.
    pub fn new(
        reward: Arc<Composite>,
        detokenizer: Arc<dyn Detokenize>,
        layout: Layout,
        eos: impl Into<Vec<TokenId>>,
    ) -> Self {
        Self { reward, detokenizer, layout, eos: eos.into(), options: TextOptions::default() }
    }

    /// Prepares text in another way than plain.
    #[must_use]
    pub fn with_options(mut self, options: TextOptions) -> Self {
        self.options = options;
        self
    }

    /// The reward on text.
    pub fn reward(&self) -> &Arc<Composite> {
        &self.reward
    }

    /// The text a complete sequence stands for, untouched by windows and clean-up.
    pub fn render(&self, tokens: &[TokenId]) -> Result<Rendered> {
        Ok(self.layout.render(self.detokenizer.as_ref(), tokens, &self.eos, None)?)
    }

    /// The text the rewards score for a complete sequence.
    pub fn scored_text(&self, tokens: &[TokenId]) -> Result<String> {
        let rendered =
            self.layout.render(self.detokenizer.as_ref(), tokens, &self.eos, self.options.trim)?;
        let text =
            if self.options.clean_up { clean_up_spaces(&rendered.text) } else { rendered.text };
        // What no reward looks at makes no new view; each cache cuts again, to what its own looks at.
        let seen = self.reward.seen(&text)?.len();
        Ok(if seen == text.len() { text } else { text[..seen].into() })
    }

    /// A complete sequence's reward with its parts, without detail.
    pub fn breakdown(&self, tokens: &[TokenId]) -> Result<Breakdown> {
        let text = self.scored_text(tokens)?;
        let mut rows = self.reward.score_parts(&[&text])?;
        Ok(rows.swap_remove(0))
    }
}

impl Reader for Pipeline {
    fn view(&self, tokens: &[TokenId]) -> treasure_core::Result<View> {
        self.reward.prepare();
        Ok(View::Text(self.scored_text(tokens)?.into()))
    }
}

impl<'a> From<&'a Pipeline> for Scoring<'a> {
    fn from(pipeline: &'a Pipeline) -> Self {
        Self { reader: pipeline, reward: &*pipeline.reward }
    }
}

/// Composed rewards score views of text, whatever prompt or template they came from.
impl Reward for Composite {
    fn name(&self) -> &str {
        TextReward::name(self)
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        let texts = batch.iter().map(|view| match view {
            View::Text(text) => Ok(text.as_ref()),
            View::Tokens(tokens) => Err(treasure_core::Error::Invalid {
                what: "reward view",
                expected: "text made by this reward".into(),
                got: format!("{} token ids", tokens.len()),
            }),
        });
        let texts = texts.collect::<treasure_core::Result<Vec<&str>>>()?;
        Ok(TextReward::score(self, &texts)?)
    }

    fn range(&self) -> Range {
        TextReward::range(self)
    }
}
