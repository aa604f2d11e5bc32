//! Steer masked diffusion language models at generation time: you bring a reward, a tree search finds
//! text that earns it.
//!
//! ```no_run
//! fn main() -> treasure::Result<()> {
//!     let session = treasure::Session::pocket()?;
//!     let found = session.prompt("The old dog").reward("sentiment=negative").seed(0).run()?;
//!     println!("{}  {:.3}  {}", found.text, found.reward, found.cost);
//!     Ok(())
//! }
//! ```
//!
//! A [`Request`] describes a job, whoever asks: this builder, the command line, an HTTP body, an
//! experiment. A [`Plan`] is the request after every default and every check that needs no weights. A
//! [`Session`] runs plans on models that are loaded once, several at a time if there are several, and
//! hands back [`Sample`]s; [`Frame`]s show a text while it forms.

mod bounds;
mod defaults;
mod error;
mod frame;
mod given;
mod key;
mod nearest;
mod plan;
mod predict;
mod request;
mod run;
mod sample;
mod session;
mod writer;

pub use bounds::{BOUNDS, Bound};
pub use defaults::{HELD_OUT_JUDGES, held_out_judge};
pub use error::{Error, ErrorKind, Result};
pub use frame::{Frame, FrameToken, Show, Tell};
pub use key::{KEYS, sample_key, start_key};
pub use nearest::nearest;
pub use plan::{Plan, Preset, Reading};
pub use predict::{Guess, Predicted};
pub use request::{FIELDS, Request};
pub use run::{Job, Watch};
pub use sample::{Cost, HeldOut, ROW_FIELDS, ROW_VERSION, Sample};
pub use session::{Ask, Scored, Session, SessionOptions};
pub use treasure_core as core;
pub use treasure_core::{Method, methods};
pub use treasure_models as models;
pub use treasure_rewards as rewards;
pub use treasure_text::{self as text, Template};
pub use writer::FunctionModel;

/// The program of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
