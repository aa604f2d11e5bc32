//! treasure over HTTP: OpenAI's shapes, live frames, and the playground.
//!
//! ```no_run
//! let session = treasure::Session::pocket()?;
//! let options = treasure_server::ServeOptions::default();
//! treasure_server::serve_blocking(options, &session, |address| println!("http://{address}/"))?;
//! # Ok::<(), treasure::Error>(())
//! ```
//!
//! A request becomes the library's [`treasure::Request`]; its searches run on threads of their own at
//! the session's table, where all of them share forward passes. What a client sees does not depend on
//! who else asks. The routes are described in `docs/server.md` and by `GET /openapi.json`.

mod answer;
mod app;
mod ask;
mod body;
mod catalogue;
mod chat;
mod constraint;
mod fields;
mod follow;
mod json;
mod keys;
mod lanes;
mod limits;
mod log;
mod mailbox;
mod metrics;
mod openai;
mod openapi;
mod options;
mod origin;
mod policy;
mod pool;
mod refusal;
mod router;
mod routes;
mod schema;
mod serve;
mod spell;
mod stop;
mod stream;
mod watch;

pub use app::App;
pub use chat::{Chat, Message};
pub use options::{ServeOptions, Served};
pub use router::router;
pub use serve::{Server, serve, serve_blocking};
