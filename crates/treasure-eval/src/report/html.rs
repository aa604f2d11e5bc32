//! The page itself.

use std::fmt::Write as _;

use super::{
    Analysis,
    trees::{self, Tree},
};
use crate::{
    Result, metrics,
    plots::{Figure, STYLE},
    tables::{self, label},
};

/// How many texts of each method and reward are shown.
const SHOWN_TEXTS: usize = 2;

/// Text for HTML content and attribute values.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON that may stand inside a script element: no `<` can close it.
fn script_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data is JSON").replace('<', "\\u003c")
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.fold(String::new(), |row, cell| row + &format!("<{tag}>{}</{tag}>", escape(cell)))
    };
    let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    out += &cells("th", &mut header.iter().copied());
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        out += &format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str)));
    }
    out + "</tbody></table></div>\n"
}

/// One self-contained page about some runs with their figures.
pub fn html(runs: &[(Analysis<'_>, Vec<Figure>)]) -> Result<String> {
    let plan = runs.first().map(|(analysis, _)| &analysis.run.manifest.plan);
    let title = plan.map_or("treasure", |plan| plan.title.as_str());
    let mut body = String::new();
    let mut all_trees = Vec::new();
    for (analysis, figures) in runs {
        section(&mut body, analysis, figures);
        all_trees.extend(trees::trees(analysis.run)?);
    }
    if !all_trees.is_empty() {
        body += TREE_SECTION;
    }
    Ok(page(title, &body, &all_trees))
}

/// A page with nothing but the trees of some searches.
pub fn tree_page(title: &str, trees: &[Tree]) -> String {
    page(title, TREE_SECTION, trees)
}

fn page(title: &str, body: &str, trees: &[Tree]) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"trees\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
        escape(title),
        include_str!("report.css"),
        script_json(&trees),
        include_str!("report.js"),
    )
}

const TREE_SECTION: &str = "<section id=\"tree\">\n<h2>Search trees</h2>\n\
    <p>Each row is a step with the nodes that were kept; the path of the answer is marked. \
    Choose a node to see where it came from, what it says so far, what each of its children scored, and why some were pruned.</p>\n\
    <label>Trace <select id=\"tree-choice\"></select></label>\n\
    <div class=\"tree\"><div id=\"tree-levels\"></div><div id=\"tree-detail\" aria-live=\"polite\"></div></div>\n</section>\n";

fn section(out: &mut String, analysis: &Analysis<'_>, figures: &[Figure]) {
    let Analysis { run, summaries, tests, findings, remarks } = analysis;
    let plan = &run.manifest.plan;
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("<section id=\"{}\">\n<h1>{}</h1>", escape(&plan.name), escape(&plan.title)));
    line(format!(
        "<p class=\"facts\">Preset <b>{}</b>, {} size. Model {}; {} prompts × {} continuations of {} tokens (no end-of-text before {}); seed {}. \
         Plan {}, treasure {}. {} rows.</p>",
        escape(&plan.name),
        plan.size.name(),
        escape(&plan.model),
        plan.prompts.len(),
        plan.continuations,
        plan.length,
        plan.min_length,
        plan.seed,
        run.manifest.fingerprint(),
        escape(&run.manifest.version),
        run.rows.len(),
    ));
    if !run.missing.is_empty() {
        line(format!(
            "<p class=\"warning\">Unfinished: {} samples are missing.</p>",
            run.missing.len()
        ));
    }
    if !remarks.is_empty() {
        let items: String = remarks.iter().map(|r| format!("<li>{}</li>", escape(r))).collect();
        line(format!("<ul class=\"remarks\">{items}</ul>"));
    }
    if !summaries.is_empty() {
        line(
            "<p>Intervals are 95 % cluster bootstraps over prompts and continuations (Student's over prompts where \
             there are fewer than ten). NFE and reward calls are \
             means of totals for one text; “hits” are requests answered without work, and their sum is the paper's count.</p>"
                .into(),
        );
    }
    for finding in findings {
        line(format!("<h2>{}</h2>\n<p>{}</p>", escape(finding.title), escape(finding.note)));
        line(table(&finding.header, &finding.rows));
    }
    for reward in &plan.rewards {
        let (header, rows) = tables::table(&reward.name, summaries);
        if !rows.is_empty() {
            line(format!(
                "<h2>{} <code>{}</code></h2>",
                escape(&reward.name),
                escape(&reward.spec)
            ));
            line(table(&header, &rows));
        }
    }
    if !tests.is_empty() {
        let (header, rows) = tables::test_table(tests);
        line(format!(
            "<details><summary>Paired tests ({})</summary>{}</details>",
            rows.len(),
            table(&header, &rows)
        ));
    }
    if !figures.is_empty() {
        line("<h2>Figures</h2>\n<div class=\"figures\">".into());
        for figure in figures {
            line(format!(
                "<figure id=\"{}-{}\">{}<figcaption>{}</figcaption></figure>",
                escape(&plan.name),
                escape(&figure.name),
                figure.svg,
                escape(&figure.caption)
            ));
        }
        line("</div>".into());
    }
    texts(out, analysis);
    let manifest = run.manifest.text();
    let _ = writeln!(
        out,
        "<details><summary>The whole plan</summary><pre>{}</pre></details>\n</section>",
        escape(&manifest)
    );
}

fn texts(out: &mut String, Analysis { run, summaries, .. }: &Analysis<'_>) {
    let plan = &run.manifest.plan;
    let scored = metrics::scored(plan, &run.rows);
    if scored.is_empty() {
        return;
    }
    out.push_str("<h2>Texts</h2>\n<p>The first texts of each method, not chosen.</p>\n");
    for (index, reward) in plan.rewards.iter().enumerate() {
        let _ =
            writeln!(out, "<details class=\"texts\"><summary>{}</summary>", escape(&reward.name));
        for summary in summaries.iter().filter(|summary| summary.reward == reward.name) {
            let own = scored.iter().filter(|s| s.reward == index && s.variant == summary.variant);
            let _ = writeln!(out, "<h3>{}</h3>", escape(&label(summary)));
            for text in own.take(SHOWN_TEXTS) {
                let scores: Vec<String> = text
                    .sample
                    .scores
                    .iter()
                    .map(|(name, value)| format!("{name} {value:.3}"))
                    .collect();
                let _ = writeln!(
                    out,
                    "<blockquote><b>{}</b>{}<footer>{}</footer></blockquote>",
                    escape(&plan.prompts[text.prompt]),
                    escape(&text.sample.continuation),
                    escape(&scores.join(" · "))
                );
            }
        }
        out.push_str("</details>\n");
    }
}
