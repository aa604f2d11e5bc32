//! From tokens to a reward: the search sees a [`Reward`] on sequences, the rewards see text.
//!
//! Tokens become text (fixed text verbatim, holes decoded up to the first EOS), the text is cut to
//! what the rewards look at, and that prefix is the view: changes behind an EOS or outside every
//! window leave the view as it was and cost nothing.

use std::sync::Arc;

use treasure_core::{Reward, TokenId, View};

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

/// A text reward on the sequences of one prompt or template.
#[derive(Clone)]
pub struct Pipeline {
    reward: Arc<Composite>,
    detokenizer: Arc<dyn Detokenize>,
    layout: Layout,
    eos: Vec<TokenId>,
    options: TextOptions,
}

impl Pipeline {
    /// Scores sequences of `layout` with `reward`; a hole ends at any token of `eos`.
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

impl Reward for Pipeline {
    fn name(&self) -> &str {
        TextReward::name(&*self.reward)
    }

    fn view(&self, tokens: &[TokenId]) -> treasure_core::Result<View> {
        self.reward.prepare();
        Ok(View::Text(self.scored_text(tokens)?.into()))
    }

    fn upper_bound(&self) -> Option<f64> {
        let high = self.reward.range().high;
        high.is_finite().then_some(high)
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        score_views(&self.reward, batch)
    }
}

/// Composed rewards score views of text, whatever prompt or template they came from.
impl Reward for Composite {
    fn name(&self) -> &str {
        TextReward::name(self)
    }

    fn view(&self, tokens: &[TokenId]) -> treasure_core::Result<View> {
        Err(treasure_core::Error::Invalid {
            what: "reward view",
            expected: "text: a reward reads sequences through a pipeline".into(),
            got: format!("{} token ids", tokens.len()),
        })
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        score_views(self, batch)
    }
}

fn score_views(reward: &Composite, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
    let texts = batch.iter().map(|view| match view {
        View::Text(text) => Ok(text.as_ref()),
        View::Tokens(tokens) => Err(treasure_core::Error::Invalid {
            what: "reward view",
            expected: "text made by this reward".into(),
            got: format!("{} token ids", tokens.len()),
        }),
    });
    let texts = texts.collect::<treasure_core::Result<Vec<&str>>>()?;
    Ok(TextReward::score(reward, &texts)?)
}
