//! The page itself.

use std::{fmt::Write as _, fs, iter, path::Path};

use super::{
    Analysis, published,
    trees::{self, Tree},
};
use crate::{
    Error, Result,
    error::at,
    findings::{by_reward, compared_with, pivot},
    metrics::{self, Scored, Summary},
    plan::Plan,
    plots::{self, Figure, STYLE},
    presets,
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
    if runs.len() > 1 {
        let plans = runs.iter().map(|(analysis, _)| &analysis.run.manifest.plan);
        let links = plans.map(|plan| {
            format!("<li><a href=\"#{}\">{}</a></li>", escape(&plan.name), escape(&plan.title))
        });
        body += &format!(
            "<nav aria-label=\"experiments\"><ul>{}</ul></nav>\n",
            links.collect::<String>()
        );
    }
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

/// Writes a page with nothing but the trees of some searches, over an earlier page but over nothing else.
pub fn write_tree_page(path: &Path, title: &str, trees: &[Tree]) -> Result<()> {
    let there = fs::read(path).unwrap_or_default();
    if !there.is_empty() && !there.starts_with(BEGINS.as_bytes()) {
        return Err(Error::NoPage { path: path.to_owned(), bytes: there.len() });
    }
    fs::write(path, page(title, TREE_SECTION, trees)).map_err(at(path, "writing"))
}

/// How every page of ours begins.
const BEGINS: &str = "<!doctype html>\n";

fn page(title: &str, body: &str, trees: &[Tree]) -> String {
    format!(
        "{BEGINS}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
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
    <p>Each row is a step with the nodes that were kept, lines lead from parents to children, and the path of the answer is marked. \
    Choose a node to see where it came from, what it says so far, what each of its children scored, and why some were pruned.</p>\n\
    <label>Trace <select id=\"tree-choice\"></select></label>\n\
    <div class=\"tree\"><div id=\"tree-levels\"></div><div id=\"tree-detail\" aria-live=\"polite\"></div></div>\n</section>\n";

/// A run, in the order of a reader's questions: what came out, a picture and texts for each reward, the
/// paper's numbers beside ours, and every number folded away.
fn section(out: &mut String, analysis: &Analysis<'_>, figures: &[Figure]) {
    let Analysis { run, summaries, headlines, remarks, .. } = analysis;
    let plan = &run.manifest.plan;
    let _ =
        writeln!(out, "<section id=\"{}\">\n<h1>{}</h1>", escape(&plan.name), escape(&plan.title));
    if !run.missing.is_empty() {
        let count = run.missing.len();
        let _ = writeln!(out, "<p class=\"warning\">Unfinished: {count} samples are missing.</p>");
    }
    if !headlines.is_empty() {
        let said = headlines.iter().map(|(reward, sentence)| {
            format!("<li><b>{}</b>: {}</li>\n", escape(reward), escape(sentence))
        });
        let _ = writeln!(out, "<ul class=\"lead\">\n{}</ul>", said.collect::<String>());
    }
    let scored = metrics::scored(plan, &run.rows);
    let mut shown = Vec::new();
    for (index, (reward, own)) in by_reward(plan, summaries).enumerate() {
        let leading = plots::leading(reward);
        let pictures: Vec<_> = figures.iter().filter(|f| leading.contains(&f.name)).collect();
        shown.extend(leading);
        let Some(pivot) = pivot(&own) else { continue };
        let spec = plan.rewards.iter().find(|r| r.name == reward).map_or("", |r| &r.spec);
        let _ = writeln!(out, "<h2>{} <code>{}</code></h2>", escape(reward), escape(spec));
        gallery(out, &plan.name, &pictures);
        let methods: Vec<_> = iter::once(pivot).chain(compared_with(&own, pivot)).collect();
        side_by_side(out, plan, &methods, &scored, index);
    }
    let rest: Vec<_> = figures.iter().filter(|figure| !shown.contains(&figure.name)).collect();
    // A run without searches has nothing but its figures to show.
    match headlines.is_empty() {
        true => gallery(out, &plan.name, &rest),
        false => fold(out, "More figures", rest.len(), |out| gallery(out, &plan.name, &rest)),
    }
    if let Some(beside) = published::beside(plan, summaries) {
        let _ = writeln!(
            out,
            "<h2>The paper's numbers beside ours</h2>\n<p>Other models and other judges: what can be compared is the \
             order of the methods and the shape against width. {}</p>\n{}",
            escape(beside.note),
            table(&beside.header, &beside.rows)
        );
    }
    numbers(out, analysis);
    fold(out, "More texts", scored.len(), |out| texts(out, analysis, &scored));
    let made_by = match presets::text(&plan.name) {
        Some(_) => format!(" Made by <code>{}</code>.", escape(&plan.command())),
        None => String::new(),
    };
    let remarks: String = remarks.iter().map(|r| format!("<li>{}</li>", escape(r))).collect();
    let _ = writeln!(
        out,
        "<p class=\"facts\">Experiment <b>{}</b>, {} size. Model {}; {} prompts × {} continuations of {} tokens (no \
         end-of-text before {}); seed {}. Plan {}, treasure {}. {} rows.{made_by}</p>\n\
         <ul class=\"remarks\">{remarks}</ul>\n\
         <details><summary>The whole plan</summary><pre>{}</pre></details>\n</section>",
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
        escape(&run.manifest.text())
    );
}

/// A part of the page that is closed at first; nothing where it would be empty.
fn fold(out: &mut String, title: &str, count: usize, body: impl FnOnce(&mut String)) {
    if count > 0 {
        let _ = writeln!(out, "<details><summary>{} ({count})</summary>", escape(title));
        body(out);
        out.push_str("</details>\n");
    }
}

fn gallery(out: &mut String, plan: &str, figures: &[&Figure]) {
    if figures.is_empty() {
        return;
    }
    out.push_str("<div class=\"figures\">\n");
    for figure in figures {
        let _ = writeln!(
            out,
            "<figure id=\"{}-{}\">{}<figcaption>{}</figcaption></figure>",
            escape(plan),
            escape(&figure.name),
            figure.svg,
            escape(&figure.caption)
        );
    }
    out.push_str("</div>\n");
}

/// Every table, folded.
fn numbers(out: &mut String, Analysis { run, summaries, tests, findings, .. }: &Analysis<'_>) {
    if summaries.is_empty() {
        return;
    }
    out.push_str(
        "<h2>All numbers</h2>\n<p>Intervals are 95 % cluster bootstraps over prompts and continuations (Student's over \
         prompts where there are fewer than ten). NFE and reward calls are means of totals for one text; “hits” are \
         requests answered without work, and their sum is the paper's count.</p>\n",
    );
    for finding in findings {
        fold(out, finding.title, finding.rows.len(), |out| {
            let _ = writeln!(
                out,
                "<p>{}</p>\n{}",
                escape(finding.note),
                table(&finding.header, &finding.rows)
            );
        });
    }
    for reward in &run.manifest.plan.rewards {
        let (header, rows) = tables::table(&reward.name, summaries);
        let title = format!("{}: every method", reward.name);
        fold(out, &title, rows.len(), |out| out.push_str(&table(&header, &rows)));
    }
    let (header, rows) = tables::test_table(tests);
    fold(out, "Paired tests", rows.len(), |out| out.push_str(&table(&header, &rows)));
}

/// A text with its scores; with a reward's name only those of its judges, and the perplexity.
fn quote(out: &mut String, prompt: &str, scored: &Scored<'_>, reward: Option<&str>) {
    let of_reward = |name: &str| match reward {
        None => true,
        Some(reward) => {
            name == "ppl" || name == reward || name.strip_suffix("/heldout") == Some(reward)
        }
    };
    let scores = scored.sample.scores.iter().filter(|(name, _)| of_reward(name));
    let scores = scores.map(|(name, value)| format!("{name} {value:.3}"));
    let _ = writeln!(
        out,
        "<blockquote><b>{}</b>{}<footer>{}</footer></blockquote>",
        escape(prompt),
        escape(&scored.sample.continuation),
        escape(&scores.collect::<Vec<_>>().join(" · "))
    );
}

/// One prompt as the search, its rivals and the model alone go on with it: the first of the list, not chosen.
fn side_by_side(
    out: &mut String,
    plan: &Plan,
    methods: &[&Summary],
    scored: &[Scored<'_>],
    reward: usize,
) {
    out.push_str("<div class=\"beside\">\n");
    for summary in methods {
        let own = |s: &&Scored<'_>| s.reward == reward && s.variant == summary.variant;
        if let Some(text) = scored.iter().find(own) {
            let _ = writeln!(out, "<div><h3>{}</h3>", escape(&label(summary)));
            quote(out, &plan.prompts[text.prompt], text, Some(&summary.reward));
            out.push_str("</div>\n");
        }
    }
    out.push_str("</div>\n");
}

fn texts(out: &mut String, Analysis { run, summaries, .. }: &Analysis<'_>, scored: &[Scored<'_>]) {
    let plan = &run.manifest.plan;
    let _ = writeln!(out, "<p>The first {SHOWN_TEXTS} of each method, not chosen.</p>");
    for (index, reward) in plan.rewards.iter().enumerate() {
        let own: Vec<_> =
            summaries.iter().filter(|summary| summary.reward == reward.name).collect();
        fold(out, &reward.name, own.len(), |out| {
            for summary in own {
                let _ = writeln!(out, "<h3>{}</h3>", escape(&label(summary)));
                let of = |s: &&Scored<'_>| s.reward == index && s.variant == summary.variant;
                for text in scored.iter().filter(of).take(SHOWN_TEXTS) {
                    quote(out, &plan.prompts[text.prompt], text, None);
                }
            }
        });
    }
}
