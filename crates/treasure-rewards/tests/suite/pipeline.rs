//! From tokens to text to views: fixed text byte for byte, EOS, windows, clean-up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::support::build;
use proptest::prelude::*;
use treasure_core::{
    Bans, Limits, MaskedSeq, NoiseSchedule, Problem, Reader, Reward, TokenId, View,
};
use treasure_rewards::{Composite, Pipeline, Result, Spec, TextOptions, TextReward, Window};
use treasure_testkit::JointTable;
use treasure_text::{Detokenize, Layout, Piece, clean_up_spaces};

const EOS: TokenId = 0;
const BOS: TokenId = 1;

/// Words whose leading space is dropped at the start of a text, as SentencePiece decoders do.
struct Words;

const WORDS: [&str; 8] = ["", "", " the", " cat", " sat", "s", " on", "."];

impl Detokenize for Words {
    fn decode(&self, ids: &[TokenId]) -> treasure_text::Result<String> {
        let text: String = ids.iter().map(|&id| WORDS[id as usize]).collect();
        Ok(text.strip_prefix(' ').unwrap_or(&text).into())
    }
}

/// Looks at the first `limit` words and counts how many texts it was asked for.
struct FirstWords {
    name: &'static str,
    limit: usize,
    asked: AtomicUsize,
}

impl FirstWords {
    fn new(name: &'static str, limit: usize) -> Arc<Self> {
        Arc::new(Self { name, limit, asked: AtomicUsize::new(0) })
    }

    /// A tokenizer whose tokens depend on what follows: a word before a space is another token than the
    /// same word at the end, so that a cut between two words changes the window.
    fn ids(&self, text: &str) -> (Vec<TokenId>, usize) {
        let mut ids = Vec::new();
        let mut end = 0;
        let mut rest = text;
        while ids.len() < self.limit && !rest.trim_start().is_empty() {
            let start = rest.len() - rest.trim_start().len();
            let word = &rest[start..start + rest[start..].find(' ').unwrap_or(rest.len() - start)];
            rest = &rest[start + word.len()..];
            end = text.len() - rest.len();
            let hash =
                word.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte));
            ids.push(hash.wrapping_mul(2) + u32::from(rest.is_empty()));
        }
        (ids, end)
    }
}

impl TextReward for FirstWords {
    fn name(&self) -> &str {
        self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        self.asked.fetch_add(texts.len(), Ordering::SeqCst);
        Ok(texts
            .iter()
            .map(|text| self.ids(text).0.iter().map(|&id| f64::from(id)).sum())
            .collect())
    }

    fn window(&self, text: &str) -> Result<Window> {
        let (ids, end) = self.ids(text);
        if ids.len() < self.limit {
            return Ok(Window::Whole);
        }
        Ok(Window::Tokens { ids: ids.into(), end })
    }
}

fn pipeline(spec: &str, layout: Layout) -> Pipeline {
    Pipeline::new(build(spec), Arc::new(Words), layout, [EOS])
}

#[test]
fn text_is_the_prompt_and_the_continuation_byte_for_byte() {
    let prompt = "\n\nThe  cat,\u{a0}é ";
    let pipeline = pipeline("regex:a", Layout::prompt(prompt, 2, 4));
    let rendered = pipeline.render(&[BOS, 3, 4, 5, EOS, 6]).expect("text");
    assert_eq!(rendered.text, format!("{prompt} sats"));
    assert_eq!(rendered.continuation(), " sats");
    assert_eq!(rendered.tokens, [4, 5]);
}

#[test]
fn a_continuation_keeps_the_space_that_its_decoder_drops_at_the_start_of_a_text() {
    let with_prompt = pipeline("regex:a", Layout::prompt("the", 2, 2));
    assert_eq!(with_prompt.render(&[BOS, 2, 3, 4]).expect("text").text, "the cat sat");
    let without = pipeline("regex:a", Layout::prompt("", 1, 2));
    assert_eq!(without.render(&[BOS, 3, 4]).expect("text").text, "cat sat");
}

#[test]
fn a_template_leaves_fixed_text_untouched_and_each_hole_ends_at_its_own_eos() {
    let fixed = |text: &str, tokens| Piece::Fixed { text: text.into(), tokens };
    let hole = |tokens| Piece::Hole { tokens, drop_leading_space: false };
    let layout =
        Layout::template([fixed("The  ", 1), hole(2), fixed("\twas", 1), hole(2), fixed(" !", 1)]);
    let pipeline = pipeline("regex:a", layout);
    let rendered = pipeline.render(&[2, 3, EOS, 4, 6, 7, 5]).expect("text");
    // The first hole follows white space, so its own space is dropped; the second does not.
    assert_eq!(rendered.text, "The  cat\twas on. !");
    assert_eq!(rendered.tokens, [3, 6, 7]);
    assert_eq!(rendered.continuation(), "cat\twas on. !");
}

#[test]
fn a_sequence_of_another_length_is_an_error() {
    let pipeline = pipeline("regex:a", Layout::prompt("the", 2, 2));
    assert!(pipeline.render(&[1, 2]).expect_err("too short").to_string().contains("4 positions"));
    let foreign = View::Tokens([1].into());
    assert!(Reward::score(&**pipeline.reward(), &[&foreign]).is_err());
}

#[test]
fn what_stands_behind_an_eos_does_not_enter_the_view() {
    let pipeline = pipeline("regex:a", Layout::prompt("the", 1, 3));
    let view = |tokens: &[TokenId]| pipeline.view(tokens).expect("a view");
    assert_eq!(view(&[2, 3, EOS, 4]), view(&[2, 3, EOS, 6]));
    assert_ne!(view(&[2, 3, EOS, 4]), view(&[2, 4, EOS, 4]));
    assert_eq!(view(&[2, 3, EOS, 4]), View::Text("the cat".into()));
}

fn composite(spec: &str, rewards: Vec<Arc<FirstWords>>) -> Arc<Composite> {
    let spec: Spec = spec.parse().expect("a spec");
    let mut rewards = rewards.into_iter();
    let next = |_: &str, _: &treasure_rewards::spec::Leaf| {
        let reward: Arc<dyn TextReward> = rewards.next().expect("a reward per leaf");
        Ok(reward)
    };
    Arc::new(Composite::new(&spec, next).expect("a reward"))
}

#[test]
fn changes_outside_the_window_leave_the_view_as_it_was() {
    let reward = composite("ppl:a", vec![FirstWords::new("a", 2)]);
    let pipeline = Pipeline::new(reward, Arc::new(Words), Layout::prompt("the", 1, 4), [EOS]);
    let view = |tokens: &[TokenId]| pipeline.view(tokens).expect("a view");
    assert_eq!(view(&[2, 3, 4, 6, 2]), view(&[2, 3, 6, 4, 3]));
    // The cut after two words is moved on by one character, because the second word's token would change.
    assert_eq!(view(&[2, 3, 4, 6, 2]), View::Text("the cat ".into()));
    assert_ne!(view(&[2, 3, 4, 6, 2]), view(&[2, 6, 4, 6, 2]));
}

#[test]
fn the_widest_window_of_several_rewards_counts() {
    let rewards = vec![FirstWords::new("a", 1), FirstWords::new("b", 3)];
    let reward = composite("ppl:a + ppl:b", rewards);
    assert_eq!(reward.seen("one two three four five").expect("a window"), "one two three ");
    assert_eq!(reward.seen("one two").expect("a window"), "one two");
}

#[test]
fn trimming_and_clean_up_shape_the_scored_text_only() {
    let tokens = [2, 3, 4, 6, 7];
    let pipeline = pipeline("regex:a", Layout::prompt("the ,", 1, 4))
        .with_options(TextOptions { clean_up: true, trim: Some(2) });
    assert_eq!(pipeline.scored_text(&tokens).expect("text"), "the, cat sat");
    assert_eq!(pipeline.render(&tokens).expect("text").text, "the , cat sat on.");
}

#[test]
fn clean_up_drops_the_listed_spaces_and_no_others() {
    let text = "It 's odd . Is n't it ? I 'm , we 're , you 've ! a ' b  ; c";
    assert_eq!(clean_up_spaces(text), "It's odd. Isn't it? I'm, we're, you've! a'b  ; c");
}

#[test]
fn a_breakdown_of_tokens_is_that_of_their_text() {
    let pipeline = pipeline("contains:cat,dog + 2*regex:sat", Layout::prompt("the", 1, 2));
    let row = pipeline.breakdown(&[2, 3, 4]).expect("a row");
    let again = pipeline.reward().breakdown(&["the cat sat"]).expect("a row").remove(0);
    assert_eq!(row, again);
    assert_eq!(row.total, 2.5);
    let view = pipeline.view(&[2, 3, 4]).expect("a view");
    assert_eq!(Reward::score(&**pipeline.reward(), &[&view]).expect("a score"), [2.5]);
}

#[test]
fn siblings_that_leave_the_scored_text_unchanged_cost_nothing() {
    let words = FirstWords::new("a", 2);
    let reward = composite("ppl:a", vec![words.clone()]);
    let pipeline = Pipeline::new(reward, Arc::new(Words), Layout::prompt("the", 1, 4), [EOS]);
    let table = JointTable::product(&vec![vec![1.0; WORDS.len()]; 5]);
    let start = MaskedSeq::from_slots([Some(2), None, None, None, None]);
    let schedule = NoiseSchedule::default();
    let problem =
        Problem::new(start, &schedule, &table, &pipeline, Bans::none(), Limits::default())
            .expect("a problem");
    let siblings =
        [vec![2, 3, 4, 6, 2], vec![2, 3, 4, 6, 3], vec![2, 3, 6, EOS, 4], vec![2, 6, 6, EOS, 4]];
    assert!(problem.score(&siblings).is_ok());
    assert_eq!((problem.cost().reward_calls, problem.cost().reward_cache_hits), (2, 2));
    assert_eq!(words.asked.load(Ordering::SeqCst), 2);
}

proptest! {
    #[test]
    fn a_window_scores_as_the_whole_text(text in "[ab é]{0,24}", first in 1usize..4, second in 1usize..6) {
        let rewards = vec![FirstWords::new("a", first), FirstWords::new("b", second)];
        let reward = composite("ppl:a + ppl:b", rewards);
        let seen = reward.seen(&text).expect("a window");
        prop_assert!(text.starts_with(seen));
        prop_assert_eq!(TextReward::score(&*reward, &[&text]).expect("a score"), TextReward::score(&*reward, &[seen]).expect("a score"));
    }

    #[test]
    fn text_is_always_prompt_plus_continuation(prompt in "\\PC{0,12}", tokens in proptest::collection::vec(0u32..8, 5)) {
        let pipeline = pipeline("regex:a", Layout::prompt(prompt.clone(), 1, 5));
        let all: Vec<TokenId> = std::iter::once(BOS).chain(tokens).collect();
        let rendered = pipeline.render(&all).expect("text");
        prop_assert_eq!(rendered.text.clone(), prompt + rendered.continuation());
    }
}
