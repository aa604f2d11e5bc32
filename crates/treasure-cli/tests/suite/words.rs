//! What the binary says about itself.

use crate::support::{expect, rows, run, run_small, stdout};

#[test]
fn help_of_every_command_is_as_stored() {
    for command in [
        "", "generate", "refine", "predict", "score", "compare", "eval", "serve", "models", "bench",
    ] {
        let args: Vec<&str> =
            [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let name = if command.is_empty() { "treasure" } else { command };
        expect(&format!("help-{name}.txt"), &stdout(&run(&args, 0)));
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&run(&["completions", shell], 0));
        assert!(script.contains("beam-width") && script.contains("refine"), "{shell}");
    }
    let page = stdout(&run(&["man"], 0));
    assert!(page.contains(".TH treasure") && page.contains("generate"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    run(&["man", "--out", folder.path().to_str().unwrap()], 0);
    let page = std::fs::read_to_string(folder.path().join("treasure-generate.1")).unwrap();
    assert!(page.contains("beam\\-width"), "{page}");
}

#[test]
fn the_version_is_the_packages() {
    let version = stdout(&run(&["--version"], 0));
    assert_eq!(version, format!("treasure {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn plain_output_is_the_text_then_what_it_is_worth_and_what_it_cost() {
    let text = stdout(&run_small(&["The lake"], 0));
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.starts_with("The lake"), "{text}");
    let [.., reward, cost] = lines.as_slice() else { panic!("{text}") };
    let worth = regex::Regex::new(r"^  reward -\d\.\d{3} \(log p, 0 is best: p = 0\.\d+\)$");
    assert!(worth.unwrap().is_match(reward), "{reward}");
    let spent = regex::Regex::new(
        r"^  model calls \(NFE\) \d+( \(\+\d+ cached\))?   reward calls \d+( \(\+\d+ cached\))?   \d+\.\d\d? s   seed 0$",
    );
    assert!(spent.unwrap().is_match(cost), "{cost}");
}

#[test]
fn models_list_and_inspect_speak_json() {
    let list = rows(&run(&["models", "list", "--json"], 0)).remove(0);
    assert!(list["shipped"].is_array() && list["cached"].is_array());
    let model = crate::support::golden("mdlm");
    let what = rows(&run(&["models", "inspect", &model, "--json"], 0)).remove(0);
    assert_eq!(what["architecture"], "mdlm");
    assert_eq!(what["role"], "denoiser");
    assert_eq!(what["vocabulary"], 211);
    assert_eq!(what["mask_id"], 210);
    // adaLN is folded into the weights, so the reference's own count is of the file.
    assert!(what["parameters"].as_u64().unwrap() > 0);
}

#[test]
fn bench_measures_forward_search_and_reward() {
    let (model, reward) = (crate::support::golden("mdlm"), "length:5..9");
    let lines = rows(&run(
        &[
            "bench", "--json", "--model", &model, "--reward", reward, "--length", "6", "--rounds",
            "2",
        ],
        0,
    ));
    let whats: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(
        whats,
        ["forward", "forward", "forward", "search step", "reward", "reward", "reward"]
    );
    assert!(lines.iter().all(|line| line["per_second"].as_f64().unwrap() > 0.0));
}
