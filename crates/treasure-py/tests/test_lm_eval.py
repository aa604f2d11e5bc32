"""lm-evaluation-harness on a task made here: a choice by likelihood, and a generation."""

import json
import os
import subprocess
import sys

import pytest

lm_eval = pytest.importorskip("lm_eval")


@pytest.fixture
def tasks(tmp_path):
    rows = [
        {"question": "Once upon a", "choices": [" time", " zebra"], "answer": 0},
        {"question": "The little girl was very", "choices": [" quantum", " happy"], "answer": 1},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)) + "\n")
    (tmp_path / "choose.yaml").write_text(f"""
task: treasure_choose
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
target_delimiter: ""
metric_list: [{{metric: acc}}]
""")
    (tmp_path / "write.yaml").write_text(f"""
task: treasure_write
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[answer]}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 12}}
metric_list: [{{metric: exact_match}}]
""")
    story = tmp_path / "story.jsonl"
    words = "Once upon a time there was a little girl. She was very happy."
    story.write_text("".join(json.dumps({"text": text}) + "\n" for text in (words, " ".join(reversed(words.split())))))
    (tmp_path / "read.yaml").write_text(f"""
task: treasure_read
dataset_path: json
dataset_kwargs: {{data_files: {{test: {story}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}, {{metric: bits_per_byte}}]
""")
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=str(tmp_path), include_defaults=False)


def test_a_task_made_here_is_run(t, tasks):
    import treasure.lm_eval

    made = lm_eval.simple_evaluate(
        model=treasure.lm_eval.TreasureLM(model=t, nelbo_samples=8), tasks=["treasure_choose", "treasure_write"],
        task_manager=tasks, bootstrap_iters=0, log_samples=True,
    )
    assert made["results"]["treasure_choose"]["acc,none"] == 1.0
    for sample in made["samples"]["treasure_write"]:
        assert sample["resps"][0][0].strip() and "." not in sample["resps"][0][0]


def test_whole_texts_are_bounded(t, tasks):
    import treasure.lm_eval

    model = treasure.lm_eval.TreasureLM(model=t, nelbo_samples=8)
    made = lm_eval.simple_evaluate(model=model, tasks=["treasure_read"], task_manager=tasks, bootstrap_iters=0, log_samples=True)
    bounds = [sample["resps"][0][0] for sample in made["samples"]["treasure_read"]]
    texts = [sample["doc"]["text"] for sample in made["samples"]["treasure_read"]]
    assert bounds == [one.logprob for one in t.loglikelihood([("", text) for text in texts], samples=8)]
    # A story is likelier than its words in another order, by much.
    assert len(texts) == 2 and bounds[0] > bounds[1] + 5 and all(bound < 0 for bound in bounds)
    assert 1 < made["results"]["treasure_read"]["word_perplexity,none"] < float("inf")


def test_the_harness_is_run_from_the_command_line(tasks, tmp_path):
    command = [sys.executable, "-m", "treasure.lm_eval", "--model", "treasure", "--model_args", "model=pocket,nelbo_samples=8"]
    command += ["--tasks", "treasure_choose,treasure_read", "--include_path", str(tmp_path), "--output_path", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert "treasure_choose" in done.stdout and "word_perplexity" in done.stdout
    (found,) = (tmp_path / "out").rglob("results_*.json")
    results = json.loads(found.read_text())["results"]
    assert results["treasure_choose"]["acc,none"] == 1.0 and results["treasure_read"]["word_perplexity,none"] > 1


def test_the_model_is_known_by_name(tasks):
    import treasure.lm_eval  # noqa: F401

    made = lm_eval.simple_evaluate(
        model="treasure", model_args="model=pocket,nelbo_samples=4", tasks=["treasure_choose"], task_manager=tasks, bootstrap_iters=0
    )
    assert made["results"]["treasure_choose"]["acc,none"] >= 0.5
