//! What can be asked for, described once for every door: the command line's flags and help, the HTTP
//! schema and Python's facts are made of these tables.

use treasure_core::Method;

/// What a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A text.
    Text,
    /// A whole number of at least so much.
    Count(u64),
    /// A number.
    Number,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Texts.
    Texts,
    /// Texts that are short enough to stand in one line.
    Words,
    /// Whether or not.
    Flag,
    /// Messages, each with a role and a content.
    Messages,
    /// A JSON schema.
    Schema,
    /// A number or a word: what it must be is the method's to say.
    Option,
}

/// Where a field belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Where the text begins.
    Start,
    /// The denoiser.
    Model,
    /// How a checkpoint's files are read.
    Checkpoint,
    /// The reward and what checks it.
    Reward,
    /// How to search.
    Search,
    /// How a finished text is changed.
    Refine,
    /// Length and budget.
    Limits,
    /// What every text must satisfy.
    Constraint,
    /// Which texts, and how many.
    Output,
}

impl Group {
    /// What its fields stand under in a list of all.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Start => "Options",
            Self::Model | Self::Checkpoint => "Model",
            Self::Reward => "Reward",
            Self::Search | Self::Refine => "Search",
            Self::Limits => "Length and budget",
            Self::Constraint => "Constraints (every text satisfies them)",
            Self::Output => "Output",
        }
    }
}

/// A field of a request, or an option of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as JSON and Python spell it.
    pub name: &'static str,
    /// Where it belongs.
    pub group: Group,
    /// What it takes.
    pub takes: Takes,
    /// A word for what it takes.
    pub value: &'static str,
    /// What it means.
    pub help: &'static str,
    /// What it is if nobody says, where that can be said in a word.
    pub default: &'static str,
}

macro_rules! fields {
    ($(#[$doc:meta])* $list:ident: $($group:ident $name:literal $takes:expr, $value:literal, $help:literal, $default:literal;)+) => {
        $(#[$doc])*
        pub const $list: &[Field] = &[$(Field {
            name: $name,
            group: Group::$group,
            takes: $takes,
            value: $value,
            help: $help,
            default: $default,
        }),+];
    };
}

use Takes::{Choice, Count, Flag, Messages, Number, Schema, Text, Texts, Words};

fields! {
    /// Every field of a [`crate::Request`] that is no method's option.
    FIELDS:
    Model "model" Text, "MODEL", "`pocket`, a directory in Hugging Face layout, or a hub id", "pocket";
    Checkpoint "tokenizer" Text, "DIR-OR-ID", "Directory or hub id of the tokenizer, where the model ships none", "";
    Checkpoint "mask_id" Count(0), "ID", "The mask token's id, where the checkpoint does not say", "";
    Checkpoint "dtype" Text, "TYPE", "How weights are held in memory: auto, f32, f16, bf16, int8 or file", "auto";
    Model "precision" Choice(&["f32", "bf16", "int8", "auto"]), "PRECISION", "What products of networks are computed in; auto is the fastest that this machine has, eight bits only below 4 GB", "f32";
    Checkpoint "as" Text, "ARCHITECTURE", "Read the files as another architecture, such as `diffullama`", "";
    Start "prompt" Text, "TEXT", "The beginning of the text", "";
    Start "chat" Flag, "", "Whether the prompt is what a user says, to be written by the checkpoint's chat template", "";
    Start "system" Text, "TEXT", "What the system message says, in chat", "";
    Start "messages" Messages, "MESSAGES", "A conversation instead of a prompt", "";
    Start "template" Text, "TEXT", "A text with holes instead of a prompt: `The [MASK:5] was [MASK:12].`", "";
    Start "text" Text, "TEXT", "A finished text to make better, with the method `refine`", "";
    Start "keep" Text, "REGEX", "What must not change in it, as a regular expression", "";
    Reward "reward" Text, "SPEC", "What to aim for, such as `sentiment=negative + 0.5*perplexity`", "perplexity";
    Reward "judge" Texts, "SPEC", "Also score the result with this, which the search does not see; may be repeated", "";
    Reward "reward_dtype" Text, "TYPE", "How the weights of rewards are held in memory: auto, f32, f16, bf16, int8 or file", "auto";
    Search "method" Choice(Method::NAMES), "METHOD", "How to search", "treasure";
    Search "preset" Choice(&["plain", "paper", "fk"]), "PRESET", "Whose conventions hold: the defaults chosen by measurement, Algorithms 1–3 of the paper to the letter, or the reference protocol of FK steering (its text windows, lengths and, for the method fk, its rules)", "plain";
    Search "cfg_scale" Number, "S", "Classifier-free guidance: push predictions away from those without the prompt; two model calls a state", "0";
    Search "screen" Text, "SPEC", "A cheap reward that ranks the children first; only the best share is scored (not exact)", "";
    Search "answer" Choice(&["final", "best-seen", "draw"]), "ANSWER", "Which text is handed back", "best-seen";
    Limits "length" Count(1), "N", "Tokens to generate (LLaDA's gen_length, Dream's max_new_tokens)", "48";
    Limits "min_length" Count(0), "N", "No end of text before this many tokens", "24, or the length if that is less";
    Limits "max_nfe" Count(0), "N", "Stop a sample after this many model calls (NFE, number of function evaluations)", "";
    Limits "max_reward_calls" Count(0), "N", "Stop a sample after this many reward calls", "";
    Limits "max_seconds" Number, "S", "Stop a sample after this many seconds (the result then depends on the machine)", "";
    Limits "target_reward" Number, "R", "Stop once the reward reaches this", "";
    Constraint "matches" Text, "REGEX", "The continuation matches this regular expression, whole (mind the space after the prompt)", "";
    Constraint "json_schema" Schema, "FILE", "The continuation is JSON that is valid under this schema", "";
    Constraint "choices" Words, "A,B,…", "The continuation is one of these, spaces included", "";
    Output "samples" Count(1), "N", "How many outputs a prompt gets", "1";
    Output "seed" Count(0), "N", "The seed of all randomness: the same seed and plan give the same bytes", "0";
    Output "keys" Count(0), "N", "The version of the key rule, as plans carry it", "";
}

fields! {
    /// The options of methods that users meet first; the others go by their names alone.
    OPTIONS:
    Refine "rounds" Takes::Option, "N", "How often a share of the text is masked again", "4";
    Refine "pick" Takes::Option, "PICK", "Which positions: uniform, or worst (a model call and a reward call a position)", "uniform";
    Refine "accept" Takes::Option, "ACCEPT", "Which text goes on: greedy (the better one) or metropolis", "greedy";
    Refine "inner" Takes::Option, "METHOD", "The method that searches anew", "treasure, and fhs under metropolis";
    Search "beam_width" Takes::Option, "WIDTH", "Children of a node, the paper's b: `5`, `linear:8..2`, `cosine:8..2` or `8,8,4`; 64 where all rewards are rules", "5";
    Search "tree_width" Takes::Option, "WIDTH", "Nodes kept at a step, the paper's m", "2";
    Search "groups" Takes::Option, "K", "Positions a node branches at, the paper's k", "1";
    Search "order" Takes::Option, "ORDER", "Which mask is revealed next: uniform (the paper), confidence or left-to-right (which makes all samples alike)", "";
    Search "prior" Takes::Option, "A", "Compare children by reward + A · log p of what was committed; 0 is the paper", "";
    Search "variety" Takes::Option, "W", "+ W · the share of distinct bigrams when children are compared; 0 is the paper", "";
    Search "min_p" Takes::Option, "P", "Do not try tokens below this share of the likeliest one's probability; rarer ones are tried while the reward is far from its highest", "";
    Search "value" Takes::Option, "VALUE", "How children are valued: resubstitute, previous, previous-argmax or posterior", "resubstitute";
    Search "select" Takes::Option, "RULE", "Which children live on: top (the paper), or nested (wider is never worse)", "nested, and top under rules or perplexity alone";
    Search "commit_threshold" Takes::Option, "P", "After branching, also commit masks at least this probable (fewer steps, not exact); 0.8 under perplexity alone", "";
    Search "reuse" Takes::Option, "N", "Take keys and values of tokens that stay from the model call before, and make them anew every N steps (not exact)", "";
    Search "settle" Takes::Option, "N", "End once N steps in a row left the likeliest token of every mask of the best node as it was (fewer steps, not exact)", "";
    Search "screen_share" Takes::Option, "SHARE", "The share of each node's children that the screen lets through", "0.5";
    Search "sampler" Takes::Option, "SAMPLER", "What bon, fk, svdd and code run on: ancestral, first-hitting, remdm, llada or dream", "ancestral";
    Search "particles" Takes::Option, "N", "The N of bon, fk, svdd and code", "4, svdd 10";
    Search "steps" Takes::Option, "T", "Ancestral steps T; of llada, dream and treasure the steps in all: with fewer than tokens they place several at once", "1000, or one a token";
    Search "block" Takes::Option, "N", "Fill blocks of this many tokens from left to right, as LLaDA's block_length", "one block";
    Search "remasking" Takes::Option, "RULE", "Which tokens of a step llada keeps: low_confidence or random", "low_confidence";
    Search "alg" Takes::Option, "ALG", "Which tokens of a step dream keeps: origin, maskgit_plus, topk_margin or entropy", "origin";
    Search "temperature" Takes::Option, "T", "The temperature at which llada and dream draw tokens; 0 takes the likeliest", "0";
    Search "lambda" Takes::Option, "λ", "How hard a sampling method steers; multiplies the reward", "10";
    Search "potential" Takes::Option, "POTENTIAL", "The potential of fk: diff, max, add or rt", "diff";
    Search "resample_every" Takes::Option, "N", "Steps between two resamplings of fk", "a fiftieth of the steps";
    Search "resample" Takes::Option, "SCHEME", "How particles are resampled: multinomial, systematic or residual", "multinomial";
    Search "ess" Takes::Option, "SHARE", "Resample only when the effective sample size falls below this share of the particles", "";
    Search "x0_samples" Takes::Option, "N", "Sampled completions behind one value of fk or of the value `previous`", "4";
    Search "code_block" Takes::Option, "N", "Steps in a block of code", "20";
}

/// Whether a request has a field of this name, or a method an option.
pub fn is_known(name: &str) -> bool {
    is_field(name) || !Method::with_option(name).is_empty()
}

/// Whether a request has a field of this name that is no method's option.
pub fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, Request};
    use treasure_core::AnswerKind;

    #[test]
    fn the_tables_have_every_field_of_a_request_and_only_options_that_a_method_has() {
        let request = serde_json::to_value(Request::default()).unwrap();
        let mut own: Vec<&str> = request.as_object().unwrap().keys().map(String::as_str).collect();
        let mut told: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, own);
        for option in OPTIONS {
            assert!(!Method::with_option(option.name).is_empty(), "{}", option.name);
        }
    }

    #[test]
    fn the_words_to_choose_from_are_those_that_are_understood() {
        for field in FIELDS {
            let Choice(words) = field.takes else { continue };
            let known: Vec<String> = match field.name {
                "method" => Method::NAMES.iter().map(ToString::to_string).collect(),
                "preset" => {
                    let all = [Preset::Plain, Preset::Paper, Preset::Fk];
                    all.map(|own| own.name().to_owned()).to_vec()
                }
                "precision" => ["f32", "bf16", "int8", "auto"].map(str::to_owned).to_vec(),
                "answer" => AnswerKind::ALL.iter().map(ToString::to_string).collect(),
                other => panic!("{other}: nothing is known of its words"),
            };
            assert_eq!(words, known);
        }
    }
}
