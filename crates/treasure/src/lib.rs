//! Steer masked diffusion language models at generation time: you bring a reward, a tree search finds
//! text that earns it.
//!
//! ```no_run
//! fn main() -> treasure::Result<()> {
//!     let session = treasure::Session::pocket()?;
//!     let found = session.prompt("One day, the old dog").reward("sentiment=negative").run()?;
//!     println!("{}  {:.3}  {}", found.text, found.reward, found.cost);
//!     Ok(())
//! }
//! ```
//!
//! A [`Request`] describes a job, whoever asks: this builder, the command line, an HTTP body, an
//! experiment. A [`Plan`] is the request after every default and every check that needs no weights. A
//! [`Session`] runs plans on models that are loaded once, several at a time if there are several, and
//! hands back [`Sample`]s; [`Frame`]s show a text while it forms.

mod ask;
mod batch;
mod bounds;
mod compare;
mod defaults;
mod entry;
mod error;
mod estimate;
mod fields;
mod frame;
mod given;
mod growing;
mod inputs;
mod key;
mod machine;
mod nearest;
mod needs;
mod plan;
mod pocket;
mod portioned;
mod predict;
mod request;
mod rows;
mod run;
mod sample;
mod session;
mod stagger;
mod traces;
pub mod words;
mod writer;

pub use ask::Ask;
pub use batch::Batch;
pub use bounds::{BOUNDS, Bound};
pub use compare::{Compared, Comparison, Match};
pub use defaults::{HELD_OUT_JUDGES, held_out_judge};
pub use entry::Entry;
pub use error::{Error, ErrorKind, Result, chain_of, hint_of};
pub use estimate::Estimate;
pub use fields::{FIELDS, Field, Group, OPTIONS, Takes, is_field, is_known};
pub use frame::{Frame, FrameToken, Show, Tell};
pub use growing::{Disk, Growing};
pub use inputs::{read_finished, read_ids, read_whole_ids};
pub use key::{KEYS, sample_key, start_key};
pub use nearest::nearest;
pub use needs::needs;
pub use plan::{Plan, Preset, Reading, precision};
pub use predict::{Guess, Predicted};
pub use request::Request;
pub use rows::{Expected, Identity, Store};
pub use run::{Job, Watch};
pub use sample::{Cost, HeldOut, ROW_FIELDS, ROW_VERSION, Sample};
pub use session::{Scored, Session, SessionOptions};
pub use traces::{Repaired, TraceFile};
pub use treasure_core as core;
pub use treasure_core::{Hint, Method, methods};
pub use treasure_models as models;
pub use treasure_rewards as rewards;
pub use treasure_text::{self as text, Message, Template};
pub use writer::FunctionModel;

/// The program of the README and the examples, compiled and run.
#[cfg(doctest)]
mod programs {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = "```"]
    #[doc = include_str!("../examples/own_denoiser.rs")]
    #[doc = "```"]
    #[doc = "```"]
    #[doc = include_str!("../examples/own_reward.rs")]
    #[doc = "```"]
    #[doc = "```"]
    #[doc = include_str!("../examples/step_by_step.rs")]
    #[doc = "```"]
    #[doc = "```"]
    #[doc = include_str!("../examples/twenty_prompts.rs")]
    #[doc = "```"]
    #[doc = "```"]
    #[doc = include_str!("../examples/watch.rs")]
    #[doc = "```"]
    struct Examples;
}
