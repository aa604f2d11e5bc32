//! A run on its models: weights once, a way to interrupt it, costs where they belong, own prompts.

use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};
use treasure::{Hint as _, Request, Session, SessionOptions, models::Resolver};
use treasure_eval::{
    commands::{RunOptions, run_plan},
    config::{Config, Size},
    plan::{Overrides, Plan},
    row::Row,
    run::{Said, Talk},
    store::Finished,
};

use crate::common::{
    CONFIG, Trouble, merged, options, plan, run, run_in_peace, session, uninterrupted,
};

fn planned(text: &str) -> treasure_eval::Result<Plan> {
    Plan::new(&Config::parse("test", text)?, Size::Quick, &Overrides::default())
}

/// An experiment on the shipped models by path: a screened tree and unguided text.
fn by_path() -> Plan {
    let judge = "hf:../../assets/pocket/judge-sentiment#negative";
    let text = format!(
        r#"
        name = "once"
        title = "once"
        kind = "search"
        seed = 0
        [size.quick]
        model = "../../assets/pocket/denoiser"
        length = 3
        steps = 3
        continuations = 1
        prompts = 1
        strip_prompts = true
        ppl = "ppl:../../assets/pocket/scorer"
        rewards = ["sentiment"]
        [[reward]]
        name = "sentiment"
        spec = "{judge}"
        accuracy = "accuracy:{judge}"
        heldout = "nelbo:../../assets/pocket/denoiser"
        [[method]]
        name = "tree"
        method = "treasure"
        widths = [[2, 1]]
        screen = "prob:{judge}"
        [[method]]
        name = "base"
        method = "base"
        "#
    );
    planned(&text).unwrap()
}

#[test]
fn a_judge_that_is_optimised_reported_and_screens_is_loaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(Resolver::new(), SessionOptions::default());
    let done = run(&session, by_path(), &options(folder.path(), "0/1", false));
    assert_eq!(done.unwrap().ran, 2);
    // Denoiser, judge and scorer.
    assert_eq!(session.store().loaded(), 3);
    let rows = Finished::read(folder.path()).unwrap().rows;
    let screened = rows.iter().find(|row| row.variant.starts_with("treasure")).unwrap();
    assert!(screened.samples[0].cost.proxy_calls > 0, "{screened:?}");
}

#[test]
fn a_row_is_reproduced_by_a_request_that_is_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(Resolver::new(), SessionOptions::default());
    let plan = by_path();
    run(&session, plan.clone(), &options(folder.path(), "0/1", false)).unwrap();
    let rows = Finished::read(folder.path()).unwrap().rows;
    let row = rows.iter().find(|row| row.variant.starts_with("treasure")).unwrap();
    let variant = plan.variants.iter().find(|variant| variant.id == row.variant).unwrap();

    // As it is printed and stored, and read again by another door, on models of its own.
    let printed = plan.asked(variant, Some(0)).unwrap().to_value().to_string();
    let request = Request::from_value(serde_json::from_str(&printed).unwrap()).unwrap();
    let request = Request { prompt: Some(plan.prompts[row.prompt].clone()), ..request };
    let again = Session::new(Resolver::new(), SessionOptions::default());
    let found = again.ask(request).run().unwrap();
    let sample = &row.samples[0];
    assert_eq!(found.continuation, sample.continuation);
    assert_eq!(found.tokens, sample.tokens);
    assert_eq!(Some(found.reward), sample.value);
    assert_eq!(found.cost.nfe, sample.cost.nfe);
}

/// Without the seconds, which differ. The models are exact tables, so that no kernel has a say.
#[test]
fn the_rows_of_a_small_run_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let digest = Finished::read(folder.path()).unwrap().rows.iter().fold(
        Sha256::new(),
        // The fingerprint is the plan's, which holds the version of the program.
        |digest, row| {
            let row = Row { plan: String::new(), ..row.canonical() };
            digest.chain_update(serde_json::to_vec(&row).unwrap())
        },
    );
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "65467c2aa2c08ee428f8a4a73d01542054f2e715ba96fd392e96a4592ad45df4");
}

#[test]
fn an_interrupted_run_says_so_keeps_its_rows_and_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = uninterrupted(&folder.path().join("whole"));
    let out = folder.path().join("interrupted");
    let cancel = AtomicBool::new(false);
    let mut rows = 0;
    let mut lines = Vec::new();
    let mut say = |said: Said<'_>| match said {
        Said::Line(line) => lines.push(line.to_owned()),
        Said::Progress(_) => {
            rows += 1;
            cancel.store(rows == 11, Ordering::SeqCst);
        }
    };
    let mut talk = Talk { say: &mut say, cancel: Some(&cancel) };
    let session = session(Trouble::default());
    let done = run_plan(plan(), &options(&out, "0/1", false), &session, &mut talk).unwrap();
    assert_eq!((done.interrupted, done.ran), (true, 11));
    assert!(lines[0].contains("samples in shard 0/1, 0 done before"), "{lines:?}");
    assert_eq!(Finished::read(&out).unwrap().rows.len(), 11);
    // Every kind of cell lets go: here the flag is up from the start.
    for kind in ["search", "branching", "variation"] {
        let text = CONFIG.replace("kind = \"search\"", &format!("kind = \"{kind}\""));
        let text = text.replace("traces = 1", "traces = 1\ncompletions = 2\nevery = 2");
        let set = AtomicBool::new(true);
        let mut say = |_: Said<'_>| {};
        let mut talk = Talk { say: &mut say, cancel: Some(&set) };
        let options = options(&folder.path().join(kind), "0/1", false);
        let mut plan = planned(&text).unwrap();
        while !plan.variants.is_empty() {
            let done = run_plan(plan.clone(), &options, &session, &mut talk).unwrap();
            assert_eq!((done.interrupted, done.ran), (true, 0), "{kind}");
            plan.variants.remove(0);
            std::fs::remove_dir_all(folder.path().join(kind)).unwrap();
        }
    }
    let rest = run_in_peace(plan(), &options(&out, "0/1", true)).unwrap();
    assert_eq!((rest.interrupted, rest.already), (false, 11));
    assert_eq!(merged(&out), whole);
}

#[test]
fn any_option_of_a_method_can_be_given_and_reaches_the_search() {
    let extra = r#"
        [[method]]
        name = "ours"
        method = "treasure"
        preset = "plain"
        widths = [[2, 2]]
        [[method]]
        name = "swept"
        method = "treasure"
        beam_width = "linear:1..3"
        order = "confidence"
        prior = [0.0, 0.5]
        answer = "best-seen"
        [[method]]
        name = "chains"
        method = "svdd"
        particles = 2
        chains = 2
        sampler = "first-hitting"
    "#;
    let plan = planned(&format!("{CONFIG}{extra}")).unwrap();
    let named =
        |name: &'static str| plan.variants.iter().filter(move |variant| variant.name == name);
    let ids: Vec<_> = named("swept").map(|variant| variant.id.as_str()).collect();
    assert_eq!(
        ids,
        [0.0, 0.5].map(|prior| format!(
            "treasure-answer=best-seen-beam_width=linear_1..3-order=confidence-prior={prior:?}"
        ))
    );
    let ours = named("ours").next().unwrap();
    assert_eq!(ours.id, "treasure-b2-m2-plain");
    let asked = plan.asked(ours, Some(0)).unwrap();
    assert_eq!(asked.answer.name(), "best-seen");
    assert_eq!(asked.method.options()["order"], "confidence");
    assert_eq!(ours.meant["as"]["answer"], "best-seen");
    assert_eq!(ours.meant["as"]["beam_width"], asked.method.options()["beam_width"]);
    let folder = tempfile::tempdir().unwrap();
    run_in_peace(plan.clone(), &options(folder.path(), "0/1", false)).unwrap();
    let run = Finished::read(folder.path()).unwrap();
    assert!(run.missing.is_empty());
    // The best text ever scored is not below the last one of the same search.
    let value = |id: &str, prompt: usize| {
        let rows = run.rows.iter().filter(|row| row.variant == id && row.prompt == prompt);
        rows.flat_map(|row| &row.samples).filter_map(|s| s.value).sum::<f64>()
    };
    assert!((0..3).all(|prompt| value(ids[0], prompt) > 0.0));
}

#[test]
fn a_setting_that_nobody_knows_is_refused_with_the_nearest_name() {
    let refused = |line: &str| {
        let text = format!("{CONFIG}[[method]]\nname = \"x\"\nmethod = \"treasure\"\n{line}\n");
        let error = planned(&text).unwrap_err();
        let hint = error.hint().unwrap_or_default();
        format!("{error} {hint}")
    };
    for (line, expected) in [
        ("wdiths = [[2, 2]]", "did you mean widths?"),
        ("varriety = 1.0", "did you mean variety?"),
        ("reward = \"cola\"", "belongs to the experiment"),
        ("lambda = 3.0", "method treasure has no use for it"),
        ("prior = \"much\"", "prior"),
        ("prior = []", "empty list"),
        ("preset = \"fk\"", "expected paper or plain"),
        ("width = \"nfe\"", "matched = [b, m]"),
        ("answer = \"draw\"", "does not sample"),
    ] {
        let got = refused(line);
        assert!(got.contains(expected), "{line}: {got}");
    }
    let error = planned(&CONFIG.replace("method = \"fk\"", "method = \"fkk\"")).unwrap_err();
    assert!(error.hint().unwrap().contains("did you mean fk?"), "{error}");
}

#[test]
fn a_config_says_what_to_do_about_a_size_that_is_not_there_and_about_a_reward() {
    let config = Config::parse("test", CONFIG).unwrap();
    let error = Plan::new(&config, Size::Paper, &Overrides::default()).unwrap_err();
    assert!(error.hint().unwrap().contains("a size that is there"), "{error}");
    let reward = "\n[[reward]]\nname = \"x\"\nspec = \"kola\"\n";
    let error = Config::parse("test", &format!("{CONFIG}{reward}")).unwrap_err();
    assert!(error.hint().unwrap().contains("did you mean `cola`?"), "{error}");
}

#[test]
fn prompts_of_ones_own_lie_beside_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("own.toml", &CONFIG.replace("prompts = 3", "prompts = \"mine.jsonl\""));
    let lines: Vec<_> =
        (0..20).map(|i| format!("{{\"prompt\": \"ab {i}\", \"id\": {i}}}")).collect();
    write("mine.jsonl", &lines.join("\n\n"));
    let path = folder.path().join("own.toml").display().to_string();
    let config = Config::load(&path).unwrap();
    let plan = Plan::new(&config, Size::Quick, &Overrides::default()).unwrap();
    assert_eq!((plan.prompts.len(), plan.prompts[19].as_str()), (20, "ab 19"));
    let two = Overrides { prompts: Some(2), ..Overrides::default() };
    assert_eq!(Plan::new(&config, Size::Quick, &two).unwrap().prompts.len(), 2);
    let out = RunOptions { preset: path, ..options(&folder.path().join("run"), "0/1", false) };
    let plan = Plan { variants: plan.variants[..1].to_vec(), ..plan };
    assert_eq!(run_in_peace(plan, &out).unwrap().ran, 40);
    write("mine.jsonl", "\"plain\"\n{\"text\": 3}\n");
    let error = Plan::new(&config, Size::Quick, &two).unwrap_err().to_string();
    assert!(error.contains("mine.jsonl:2") && error.contains("\"prompt\""), "{error}");
}

#[test]
fn methods_may_have_continuations_of_their_own_and_controls_match_in_model_calls() {
    let extra = r#"
        [[method]]
        name = "svdd"
        method = "svdd"
        width = "nfe"
        matched = [2, 2]
        sampler = "first-hitting"
    "#;
    let text =
        CONFIG.replace("method = \"base\"", "method = \"base\"\ncontinuations = { quick = 8 }");
    let plan = planned(&format!("{text}{extra}")).unwrap();
    let cells =
        |id: &str| plan.cells().iter().filter(|c| plan.variants[c.variant].id == id).count();
    // Eight of three prompts, one cell for all rewards; two of three on two rewards.
    assert_eq!((cells("base"), cells("bon-n2")), (8 * 3, 2 * 3 * 2));
    // The tree makes 1 + 4·2 model calls, a candidate of SVDD 5.
    let svdd = plan.variants.iter().find(|variant| variant.id == "svdd-fh-nfe").unwrap();
    assert_eq!(svdd.particles, Some(2));
    assert!(plan.is_unguided(&plan.variants[0]) && !plan.is_unguided(svdd));
}
