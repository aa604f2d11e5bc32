//! The report has everything a run has data for, and nothing in it can break out of the page.

use std::fs;

use treasure::core::Cost;
use treasure_eval::{
    commands::report,
    findings::findings,
    metrics::{Summary, scored, summarise, tests},
    store::Finished,
    tables,
};

use crate::common::{options, plan, run_in_peace, uninterrupted};

#[test]
fn the_page_has_tables_figures_texts_and_trees_and_no_outside_request() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let made = report(&[folder.path().into()], None).unwrap();
    let page = fs::read_to_string(&made.html).unwrap();
    for needle in [
        "<table>",
        "<svg ",
        "<figure ",
        "blockquote",
        "id=\"trees\"",
        "tree-levels",
        "Paired tests",
    ] {
        assert!(page.contains(needle), "{needle}");
    }
    // Links lead to places of the page itself.
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count());
    for request in ["src=\"", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(request), "{request}");
    }
    let outside = page.matches("http").count();
    assert_eq!(
        outside,
        page.matches("http://www.w3.org/2000/svg").count(),
        "only the SVG namespace"
    );
}

#[test]
fn text_from_models_prompts_and_configs_is_escaped() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let made = report(&[folder.path().into()], None).unwrap();
    let page = fs::read_to_string(&made.html).unwrap();
    assert!(page.contains("A tiny &lt;run&gt; &amp; its report"));
    assert!(!page.contains("<run>"));
    // The table's alphabet holds a "<": no text and no tree may carry it raw.
    let json = page.split("id=\"trees\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert!(!json.contains('<') && json.contains("\\u003c"));
    assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
}

#[test]
fn the_table_has_one_row_per_method_width_and_reward_with_the_agreed_columns() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let made = report(&[folder.path().into()], None).unwrap();
    let csv =
        fs::read_to_string(made.files.iter().find(|file| file.ends_with("tiny.csv")).unwrap())
            .unwrap();
    let mut lines = csv.lines();
    // The first twenty were agreed first, and other programs lean on them.
    assert_eq!(lines.next().unwrap(), tables::COLUMNS);
    assert!(tables::COLUMNS.starts_with(
        "method,beam_width,tree_width,particles,reward,n,mean,lo,hi,accuracy,heldout,ppl,dist1,dist2,dist3,nfe,nfe_hits,reward_calls,reward_cache_hits,seconds,"
    ));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    // base, best of 2 and 3, shared, FK, two trees; on two rewards.
    assert_eq!(rows.len(), 7 * 2);
    assert!(rows.iter().all(|row| row.len() == 25 && row[5] == "6"));
}

#[test]
fn unmasking_groups_are_part_of_a_methods_name() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let run = Finished::read(folder.path()).unwrap();
    let mut summaries = summarise(&run.manifest.plan, &run.rows);
    assert!(!tables::csv(&summaries).unwrap().contains(" k="));
    let tree = summaries.iter_mut().find(|s| s.settings.method == "treasure").unwrap();
    tree.settings.groups = 3;
    assert!(tables::label(tree).ends_with(" k=3"));
    assert_eq!(tables::csv(&summaries).unwrap().matches(" k=3,").count(), 1);
}

#[test]
fn a_summary_is_the_mean_of_its_rows_and_shared_candidates_serve_every_reward() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let run = Finished::read(folder.path()).unwrap();
    let plan = &run.manifest.plan;
    for summary in summarise(plan, &run.rows) {
        let own: Vec<_> = scored(plan, &run.rows)
            .into_iter()
            .filter(|s| {
                s.variant == summary.variant && plan.rewards[s.reward].name == summary.reward
            })
            .collect();
        let mean =
            own.iter().map(|s| s.sample.scores[&summary.reward]).sum::<f64>() / own.len() as f64;
        assert!((summary.mean.mean - mean).abs() < 1e-12);
        assert!(summary.mean.interval.is_none_or(|(low, high)| low <= mean && mean <= high));
        let tokens = own.iter().map(|s| s.sample.tokens.len() as f64).sum::<f64>();
        assert_eq!(summary.length.mean, tokens / own.len() as f64);
    }
    let shared = run.rows.iter().find(|row| row.variant == "bon-fh-calls").unwrap();
    let rewards: Vec<_> = shared.samples.iter().map(|s| s.reward.as_deref().unwrap()).collect();
    assert_eq!(rewards, ["as", "bs"]);
    // 2 + 4·2·2 candidates: what the tree at (2, 2) asks for.
    let asked = |cost: &Cost| cost.reward_calls + cost.reward_cache_hits;
    assert!(shared.samples.iter().all(|s| asked(&s.cost) == 18));
    assert_eq!(shared.samples[0].cost.nfe, shared.samples[1].cost.nfe);
}

#[test]
fn findings_are_paired_differences_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let run = Finished::read(folder.path()).unwrap();
    let plan = &run.manifest.plan;
    let summaries = summarise(plan, &run.rows);
    let found = findings(plan, &summaries, &tests(plan, &summaries));
    let mean = |variant: &str, reward: &str| {
        let own = summaries.iter().find(|s| s.settings.id == variant && s.reward == reward);
        own.unwrap()
    };
    let [rivals, widths, twins] = &found[..] else { panic!("{found:?}") };
    // Base, the widest best of N, shared best of N and FK; on two rewards.
    assert_eq!(rivals.rows.len(), 4 * 2);
    let tree = mean("treasure-b2-m1", "as");
    let best = mean("bon-n3", "as");
    let row = rivals.rows.iter().find(|row| row[0] == "as" && row[2] == "best of 3").unwrap();
    assert_eq!(row[1], "TReASURe (2,1)");
    let difference = format!("{:.3} [", tree.mean.mean - best.mean.mean);
    assert!(row[3].starts_with(&difference), "{row:?}, {difference}");
    // Three prompts cannot give a small p.
    assert_eq!(row[4], "– (too few prompts)");
    let (nfe, calls) = (|s: &Summary| s.spent.nfe.mean, |s: &Summary| s.spent.reward_calls.mean);
    assert_eq!(row[6], format!("{:.2}", nfe(tree) / nfe(best)));
    assert_eq!(row[7], format!("{:.2}", calls(tree) / calls(best)));
    // Best of 2 → 3 and the tree (2,1) → (3,2); on two rewards.
    assert_eq!(widths.rows.len(), 2 * 2);
    let wider = mean("treasure-b3-m2", "bs").mean.mean - mean("treasure-b2-m1", "bs").mean.mean;
    let row = widths.rows.iter().find(|row| row[0] == "bs" && row[2] == "TReASURe (3,2)").unwrap();
    assert!(row[3].starts_with(&format!("{wider:.3} [")), "{row:?}");
    assert_eq!(row[6], "6");
    // "bs" has no twin. This twin is the judge itself, so it sees every gain as the judge does.
    assert_eq!(twins.rows.len(), 6);
    assert!(twins.rows.iter().all(|row| row[0] == "as" && row[2] == row[4]), "{:?}", twins.rows);
    // A judge of one's own has no known ceiling; a rule is met at 1.
    assert!(twins.rows.iter().all(|row| row[3] == "–" && row[5] == "–"));
    let mut ruled = plan.clone();
    ruled.rewards[0].spec = "contains:a".into();
    let found = findings(&ruled, &summaries, &tests(plan, &summaries));
    let row = found[2].rows.iter().find(|row| row[1] == "TReASURe (3,2)").unwrap();
    let (base, tree) = (mean("base", "as").mean.mean, mean("treasure-b3-m2", "as").mean.mean);
    let share = format!("{:.0} [", 100.0 * (tree - base) / (1.0 - base));
    assert!(row[3].starts_with(&share), "{row:?}, {share}");
    assert_eq!(row[5], "–", "the twin's own scale counts");
}

#[test]
fn a_row_on_fewer_prompts_is_marked_in_tables_and_figures() {
    let folder = tempfile::tempdir().unwrap();
    let mut fewer = plan();
    fewer.variants.last_mut().unwrap().prompts = 2;
    run_in_peace(fewer, &options(folder.path(), "0/1", false)).unwrap();
    let run = Finished::read(folder.path()).unwrap();
    let analysis = treasure_eval::report::Analysis::of(&run);
    let (_, rows) = tables::table("as", &analysis.summaries);
    let marked: Vec<_> = rows.iter().filter(|row| row[1].ends_with('†')).collect();
    assert_eq!((marked.len(), marked[0][0].as_str()), (1, "TReASURe (3,2)"));
    let figures = analysis.figures().unwrap();
    let curve = figures.iter().find(|figure| figure.name == "as-by-nfe").unwrap();
    assert!(curve.caption.contains("hollow"), "{}", curve.caption);
    assert!(analysis.remarks.iter().any(|remark| remark.starts_with('†')));
}

#[test]
fn an_unfinished_run_says_so_in_its_report() {
    let folder = tempfile::tempdir().unwrap();
    run_in_peace(plan(), &options(folder.path(), "0/2", false)).unwrap();
    let made = report(&[folder.path().into()], None).unwrap();
    assert!(made.missing[0].samples > 0);
    assert!(fs::read_to_string(made.html).unwrap().contains("Unfinished: "));
}

#[test]
fn the_motivating_figures_are_drawn_from_their_own_kinds_of_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut branching = plan();
    branching.kind = treasure_eval::config::Kind::Branching;
    branching.variants.retain(|variant| variant.id == "treasure-b3-m2");
    branching.variants[0].method = "naive-tree".into();
    branching.variants[0].tree_width = Some(1);
    let out = folder.path().join("branching");
    run_in_peace(branching, &options(&out, "0/1", false)).unwrap();
    let run = Finished::read(&out).unwrap();
    let states: u64 =
        run.rows.iter().flat_map(|row| &row.branching).flat_map(|b| &b.distinct).sum();
    // A state without masks has no children: no step after the last reveal is counted.
    let cells = run.rows.len() as u64;
    assert!(states > 0 && states < cells * 10, "{states} of {cells} trajectories of 10 steps");
    let mut variation = plan();
    variation.kind = treasure_eval::config::Kind::Variation;
    variation.completions = 9;
    variation.every = 2;
    variation.variants.retain(|variant| variant.id == "base");
    let spread = folder.path().join("variation");
    run_in_peace(variation, &options(&spread, "0/1", false)).unwrap();
    for row in &Finished::read(&spread).unwrap().rows {
        let masks: Vec<_> = row.variation.iter().map(|s| s.masks).collect();
        assert_eq!(masks, [5, 4, 2, 1]);
        assert!(
            row.variation
                .iter()
                .all(|s| s.min <= s.q1 && s.q1 <= s.median && s.median <= s.q3 && s.q3 <= s.max)
        );
    }
    let made = report(&[out, spread], Some(folder.path())).unwrap();
    let page = fs::read_to_string(made.html).unwrap();
    assert!(page.contains("Figure 2") && page.contains("Figures 3 and 6"));
}

#[test]
fn published_figures_have_colours_of_their_own() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/treasure/results/figures");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let figures: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "svg")).collect();
    assert!(figures.len() > 80);
    for path in figures {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("\"#0000A"), "{}: a code stands for a colour", path.display());
    }
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    use treasure_eval::report::read_trace_text;

    for text in ["", "[package]\nname = 1\n", "{\"text\": \"a\"}\n"] {
        let error = read_trace_text(text, "Cargo.toml".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("Cargo.toml: expected a trace"), "{error}");
    }
}
