//! The report: one self-contained HTML file, and the same numbers as CSV and Markdown.
//!
//! Guarantees: no request leaves the page; every text from a model, a prompt or a config is escaped.

mod html;
pub mod published;
mod trees;

pub(crate) use html::escape;
pub use html::{html, write_tree_page};
pub use trees::{Tree, read as read_trace, read_text as read_trace_text, trees};

use crate::{
    Result,
    findings::{self, Finding},
    metrics::{self, Summary, Test},
    plots::{self, Figure},
    presets,
    store::Finished,
    tables,
};

/// A table that stands in Markdown and on the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The columns.
    pub header: Vec<&'static str>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// What is to be known when reading it; may be empty.
    pub note: &'static str,
}

impl Table {
    /// The table, and its note below.
    pub fn markdown(&self) -> String {
        let table = tables::markdown(&self.header, &self.rows);
        if self.note.is_empty() { table } else { format!("{table}\n{}\n", self.note) }
    }
}

/// A run with everything that is computed from its rows, once.
pub struct Analysis<'a> {
    /// The run.
    pub run: &'a Finished,
    /// Every method × width × reward.
    pub summaries: Vec<Summary>,
    /// Paired tests.
    pub tests: Vec<Test>,
    /// The result of each reward in a sentence.
    pub headlines: Vec<(String, String)>,
    /// The questions a reader comes with.
    pub findings: Vec<Finding>,
    /// What must not be missed.
    pub remarks: Vec<String>,
}

impl<'a> Analysis<'a> {
    /// Analyses a run.
    pub fn of(run: &'a Finished) -> Self {
        let plan = &run.manifest.plan;
        let summaries = metrics::summarise(plan, &run.rows);
        let tests = metrics::tests(plan, &summaries);
        let headlines = findings::headlines(plan, &summaries);
        let findings = findings::findings(plan, &summaries, &tests);
        let remarks = metrics::remarks(plan, &summaries);
        Self { run, summaries, tests, headlines, findings, remarks }
    }

    /// The run as (file name ending, text): CSV, all judges' CSV, Markdown, findings, rows and manifest.
    /// The last two are enough to continue it.
    pub fn documents(&self) -> Result<Vec<(&'static str, String)>> {
        let Self { run, summaries, .. } = self;
        let mut out = Vec::new();
        if !summaries.is_empty() {
            out.push((".csv", tables::csv(summaries)?));
            out.push(("-judges.csv", tables::judges_csv(summaries)?));
        }
        out.push((".md", self.markdown()));
        if let Some(beside) = published::beside(&run.manifest.plan, summaries) {
            out.push(("-paper.md", unfinished(run) + &beside.markdown()));
        }
        let findings = self.findings_markdown();
        if !findings.is_empty() {
            out.push(("-findings.md", unfinished(run) + findings.trim_start()));
        }
        let rows =
            run.rows.iter().map(|row| serde_json::to_string(row).expect("a row has string keys"));
        out.push((".jsonl", rows.map(|row| row + "\n").collect()));
        out.push(("-manifest.json", run.manifest.text()));
        Ok(out)
    }

    /// The Markdown tables of the run.
    pub fn markdown(&self) -> String {
        let plan = &self.run.manifest.plan;
        let mut out = format!(
            "# {}\n\n{} size, model `{}`, {} prompts × {} continuations of {} tokens, seed {}; plan `{}`, treasure {}.\n\n",
            plan.title,
            plan.size.name(),
            plan.model,
            plan.prompts.len(),
            plan.continuations,
            plan.length,
            plan.seed,
            self.run.manifest.fingerprint(),
            self.run.manifest.version
        );
        if presets::text(&plan.name).is_some() {
            out += &format!("Made by `{}`.\n\n", plan.command());
        }
        out += &unfinished(self.run);
        for (reward, sentence) in &self.headlines {
            out += &format!("- **{reward}**: {sentence}\n");
        }
        for remark in &self.remarks {
            out += &format!("- {remark}\n");
        }
        out += &self.findings_markdown();
        for reward in &plan.rewards {
            let (header, rows) = tables::table(&reward.name, &self.summaries);
            if !rows.is_empty() {
                out += &format!(
                    "\n## {} (`{}`)\n\n{}",
                    reward.name,
                    reward.spec,
                    tables::markdown(&header, &rows)
                );
            }
        }
        if !self.tests.is_empty() {
            let (header, rows) = tables::test_table(&self.tests);
            out += &format!("\n## Paired tests\n\n{}", tables::markdown(&header, &rows));
        }
        out + &branching_markdown(self.run)
    }

    /// The findings, a heading and a table each.
    fn findings_markdown(&self) -> String {
        let text = self.findings.iter().map(|finding| {
            let table = tables::markdown(&finding.header, &finding.rows);
            format!("\n## {}\n\n{}\n\n{table}", finding.title, finding.note)
        });
        text.collect()
    }

    /// The figures that the run has data for.
    pub fn figures(&self) -> Result<Vec<Figure>> {
        let (plan, rows) = (&self.run.manifest.plan, &self.run.rows);
        let mut out = plots::branching(rows)?;
        out.extend(plots::variation(plan, rows)?);
        let narrowest = plan.variants.iter().find(|variant| variant.is_treasure());
        for reward in &plan.rewards {
            out.extend(plots::curves(&reward.name, &self.summaries)?);
            if plan.name == "beam-width" {
                out.extend(plots::beam_width(&reward.name, &self.summaries)?);
            }
            if let Some(variant) = narrowest {
                out.extend(plots::trajectories(&reward.name, &variant.id, rows)?);
            }
        }
        Ok(out)
    }
}

/// A warning above the tables of a run that lacks samples.
fn unfinished(run: &Finished) -> String {
    match run.missing.len() {
        0 => String::new(),
        count => format!("**Unfinished: {count} samples are missing.**\n\n"),
    }
}

fn branching_markdown(run: &Finished) -> String {
    let mut sums = std::collections::BTreeMap::<(usize, usize), (f64, u64, u64)>::new();
    for entry in run.rows.iter().flat_map(|row| &row.branching) {
        let sum = sums.entry((entry.steps, entry.beam_width)).or_default();
        for (index, &count) in entry.distinct.iter().enumerate() {
            sum.0 += (index + 1) as f64 * count as f64;
            sum.1 += count;
            sum.2 += if index < 2 { count } else { 0 };
        }
    }
    if sums.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = sums
        .into_iter()
        .map(|((steps, width), (sum, count, few))| {
            let count = count.max(1) as f64;
            vec![
                steps.to_string(),
                width.to_string(),
                format!("{:.2}", sum / count),
                format!("{:.1}", 100.0 * few as f64 / count),
            ]
        })
        .collect();
    let header = ["T", "beam width b", "mean distinct children", "states with 1 or 2 distinct (%)"];
    format!("\n## Effective branches\n\n{}", tables::markdown(&header, &rows))
}
