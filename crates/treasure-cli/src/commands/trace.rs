//! `treasure trace view`: the tree of one's own search, as a page.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use treasure_eval::report;

use crate::{Verdict, failure::Outcome, input, options::Common, output::print};

/// Look into a search that was written with --trace
#[derive(Args, Debug)]
pub struct Trace {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Write a page with the search tree: every node, its value, and why it was kept or pruned
    #[command(after_help = "\
Example:
  treasure generate \"The old dog\" --reward cola --trace search.jsonl
  treasure trace view search.jsonl")]
    View(View),
}

/// Which trace, and where its page goes.
#[derive(Args, Debug)]
pub struct View {
    /// A file that --trace wrote; `-` is standard input
    #[arg(value_name = "FILE.jsonl")]
    pub file: PathBuf,
    /// The page [default: FILE.html, trace.html for `-`]
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

impl Trace {
    /// Does it.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let Action::View(view) = &self.action;
        let text = input::read(&view.file)
            .map_err(|failure| failure.hint("write one with generate --trace FILE.jsonl"))?;
        let trees = report::read_trace_text(&text, &view.file)?;
        let named = if view.file.as_os_str() == "-" { Path::new("trace") } else { &view.file };
        let out = view.out.clone().unwrap_or_else(|| named.with_extension("html"));
        let title = format!("{}", named.file_name().unwrap_or_default().display());
        report::write_tree_page(&out, &title, &trees)?;
        let (page, count) = (out.display(), trees.len());
        let searches = if count == 1 { "search" } else { "searches" };
        let words = format!("{page}: {count} {searches}; open it in a browser");
        print::either(common, &json!({"page": out, "searches": count}), words)?;
        Ok(Verdict::Done)
    }
}
