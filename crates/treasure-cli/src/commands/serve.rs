//! `treasure serve`: the library over HTTP, and the playground.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use clap::Args;
use serde_json::json;
use treasure::{Field, Group, Request, Session, SessionOptions};
use treasure_server::{Chat, ServeOptions, Served, serve_blocking};

use crate::{
    Verdict,
    failure::Outcome,
    options::{Asks, Common, Flags},
    output::print,
};

/// Answer OpenAI's API over HTTP, and show the playground
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure serve
  treasure serve --port 0 --json
  treasure serve --host 0.0.0.0 --api-key-file keys --model llada=/models/llada
  treasure serve --allow-reward tone=hf:/models/tone#warm --limit length=256

The address is printed on standard output once it is taken; logs are JSON lines
on standard error. SIGTERM or Ctrl-C: no new work, running searches finish or
answer with their best so far, then exit 0. Beyond this machine only with keys
or --open. Routes and fields: docs/server.md, GET /openapi.json.")]
pub struct Serve {
    /// The address to listen at
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// The port; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub port: u16,
    /// Who may ask and how much.
    #[command(flatten)]
    pub access: Access,
    /// What is served.
    #[command(flatten)]
    pub models: Models,
    /// How much of it.
    #[command(flatten)]
    pub work: Work,
    /// The page's files from this folder instead of the binary, for whoever works on them
    #[arg(long, value_name = "DIR", hide = true)]
    pub page: Option<PathBuf>,
}

/// Who may ask, and for what.
#[derive(Args, Debug)]
#[command(next_help_heading = "Access")]
pub struct Access {
    /// API keys, one a line, each perhaps after a name; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Listen beyond this machine without keys
    #[arg(long)]
    pub open: bool,
    /// An origin whose pages may ask, `*` for any; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub cors: Vec<String>,
    /// A reward beyond the shipped judges and rules: NAME=SPEC, asked for as own:NAME, or a
    /// specification (its beginning up to a /) that requests may write themselves; may be repeated
    #[arg(long, value_name = "NAME=SPEC")]
    pub allow_reward: Vec<String>,
}

/// What is served.
#[derive(Args, Debug)]
#[command(next_help_heading = "Model")]
pub struct Models {
    /// `pocket`, a directory or a hub id, perhaps under a name of its own; the first is the default;
    /// may be repeated
    #[arg(long, value_name = "[ID=]MODEL", default_value = "pocket")]
    pub model: Vec<String>,
    /// How to read their files.
    #[command(flatten)]
    pub files: Flags<Self>,
    /// Take chat for models without a chat template: the messages become the lines of a prompt
    #[arg(long)]
    pub plain_chat: bool,
}

impl Asks for Models {
    fn asks(field: &Field) -> bool {
        field.group == Group::Checkpoint || matches!(field.name, "precision" | "reward_dtype")
    }
}

/// How much is taken on.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub struct Work {
    /// Searches at once; they share forward passes
    #[arg(long, value_name = "N", default_value = "8", value_parser = crate::options::count("in_flight"))]
    pub in_flight: NonZeroUsize,
    /// Searches that may wait; one more is refused with 429
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = crate::options::whole::<usize>)]
    pub max_queue: usize,
    /// Seconds a search may take, and may wait
    #[arg(long, value_name = "S", default_value = "120", value_parser = crate::options::seconds)]
    pub max_seconds: f64,
    /// Bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = crate::options::whole::<usize>)]
    pub max_body: usize,
    /// Bytes of a prompt, a template or a text to score
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 18, value_parser = crate::options::whole::<usize>)]
    pub max_prompt: usize,
    /// The largest value of an option (length, samples, beam_width, …), or of max_nfe and
    /// max_reward_calls for every search; may be repeated
    #[arg(long, value_name = "OPTION=N", value_parser = limit)]
    pub limit: Vec<(String, u64)>,
    /// Seconds that running searches have once the server is told to stop
    #[arg(long, value_name = "S", default_value = "30", value_parser = crate::options::seconds)]
    pub drain_seconds: f64,
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let read = text.split_once('=').and_then(|(option, most)| Some((option, most.parse().ok()?)));
    read.map(|(option, most)| (option.replace('-', "_"), most))
        .ok_or_else(|| format!("expected OPTION=NUMBER, such as length=256, got {text:?}"))
}

impl Serve {
    /// Serves until a signal.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let session = Session::pocket()?.with_options(SessionOptions {
            in_flight: self.work.in_flight.get(),
            ..SessionOptions::default()
        });
        let mut printed = Ok(());
        serve_blocking(self.options(common)?, &session, |address| {
            printed = announce(address, common.json);
        })?;
        printed.map(|()| Verdict::Done)
    }

    fn options(&self, common: &Common) -> Outcome<ServeOptions> {
        let served = |name: &String| self.models.served(name, common);
        Ok(ServeOptions {
            host: self.host.clone(),
            port: self.port,
            open: self.access.open,
            api_key_file: self.access.api_key_file.clone(),
            models: self.models.model.iter().map(served).collect::<Outcome<_>>()?,
            allow: self.access.allow_reward.clone(),
            cors: self.access.cors.clone(),
            max_queue: self.work.max_queue,
            max_seconds: self.work.max_seconds,
            max_body: self.work.max_body,
            max_prompt: self.work.max_prompt,
            limits: self.work.limit.iter().cloned().collect(),
            drain_seconds: self.work.drain_seconds,
            page: self.page.clone(),
            quiet: common.quiet,
            ..ServeOptions::default()
        })
    }
}

impl Models {
    fn served(&self, written: &str, common: &Common) -> Outcome<Served> {
        let mut served = Served::new(written);
        served.base = Request { model: served.base.model, ..self.files.request(common)? };
        served.chat = self.plain_chat.then(Chat::plain);
        Ok(served)
    }
}

/// Where it listens, on standard output.
fn announce(address: SocketAddr, as_json: bool) -> Outcome<()> {
    let url = format!("http://{address}/");
    let line = if as_json { json!({"listening": url}).to_string() } else { url };
    // A server goes on when nobody reads what it said.
    print::line_if_read(line).map(drop)
}
