"""lm-evaluation-harness on a task made here: a choice by likelihood, and a generation."""

import json

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


def test_the_model_is_known_by_name(tasks):
    import treasure.lm_eval  # noqa: F401

    made = lm_eval.simple_evaluate(
        model="treasure", model_args="model=pocket,nelbo_samples=4", tasks=["treasure_choose"], task_manager=tasks, bootstrap_iters=0
    )
    assert made["results"]["treasure_choose"]["acc,none"] >= 0.5
