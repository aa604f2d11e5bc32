//! The search: masked sequences, schedules, proposals, values, selections and methods.
//!
//! This crate knows no model and no file, and of a text no more than a [`View`]. A search has no clock but
//! the one it is handed; the [`Batcher`] alone reads the time, to share it out. A search method sees a
//! [`Denoiser`] and a [`Reward`] only through a [`Problem`], so costs cannot be miscounted.
//!
//! ```text
//! start ─▶ Problem { schedule, denoiser, reward, constraint, limits } ─▶ Run { step … } ─▶ Outcome
//! ```

mod bans;
mod batcher;
mod constraint;
pub mod context;
mod cost;
mod denoiser;
mod dense;
mod error;
mod event;
mod guard;
mod guided;
mod key;
mod legal;
mod likelihood;
mod limits;
mod memo;
pub mod methods;
mod options;
mod outcome;
pub mod population;
mod problem;
pub mod propose;
mod range;
pub mod resample;
mod reward;
pub mod run;
mod schedule;
pub mod select;
mod sequence;
mod stop;
mod token_set;
mod trace;
mod until;
pub mod value;
mod view;
mod width;
mod wrapper;

pub use bans::Bans;
pub use batcher::{Batcher, Seat, Traffic};
pub use constraint::{Ahead, Constraint, Fills, Legal};
pub use context::{Context, Needs};
pub use cost::Cost;
pub use denoiser::{Answer, At, Candidate, Denoiser, Draw, Encoding, Facts, Question, State, Want};
pub use dense::{Dense, Rows, answer_from_rows};
pub use error::{Error, Hint, Result};
pub use event::{Event, NodeEvent, Observer, PruneReason, Silent, StepEvent};
pub use guided::Guided;
pub use key::Key;
pub use legal::Prediction;
pub use likelihood::{Nelbo, NelboForm, nelbo};
pub use limits::{Clock, Deadline, Flow, Halt, Limits, StopReason};
pub use methods::{AtOnce, Method, Nominal, Search};
pub use options::{
    AnswerKind, Potential, Remask, Resampling, Sampler, SelectKind, Tempering, ValueKind, WeighBy,
};
pub use outcome::{Finished, Note, Outcome, Particle};
use problem::Scored;
pub use problem::{Encoded, Problem};
pub use propose::Order;
pub use range::Range;
pub use reward::{Reward, Scoring};
pub use run::{Progress, Run};
pub use schedule::{NoiseSchedule, Schedule};
pub use sequence::{MaskedSeq, TokenId};
pub use token_set::{TokenSet, bits};
pub use trace::{TRACE_SCHEMA, TRACE_VERSION, TraceWriter};
pub use until::{Stopped, given_up, lend, until};
pub use view::{AllTokens, Reader, View};
pub use width::Width;
pub use wrapper::Wrapper;

/// The guide's method, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-method.md")]
struct AddingAMethod;
