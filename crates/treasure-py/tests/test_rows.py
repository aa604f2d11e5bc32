"""Results are the command line's rows, byte for byte, as objects."""

import json
import pickle
import re

import pytest
from conftest import timeless

import treasure

SHORT = dict(length=12, min_length=6, seed=3)
FLAGS = ["--length", "12", "--min-length", "6", "--seed", "3"]


@pytest.mark.parametrize(
    "options, flags",
    [
        (dict(reward="sentiment=negative"), ["--reward", "sentiment=negative"]),
        (dict(reward="cola", beam_width=3, tree_width=4), ["--reward", "cola", "--beam-width", "3", "--tree-width", "4"]),
        (dict(reward="perplexity", method="bon", particles=4), ["--reward", "perplexity", "--method", "bon", "--particles", "4"]),
        (dict(reward="cola", method="fk", particles=2, preset="paper"),
         ["--reward", "cola", "--method", "fk", "--particles", "2", "--preset", "paper"]),
        (dict(reward="0.5*cola + sentiment=positive", judge="perplexity"),
         ["--reward", "0.5*cola + sentiment=positive", "--judge", "perplexity"]),
        (dict(reward="cola", screen="distinct:2"), ["--reward", "cola", "--screen", "distinct:2"]),
        (dict(reward="sentiment=positive", min_length=0, matches=r" was( [a-z]+){2,6}\."),
         ["--reward", "sentiment=positive", "--min-length", "0", "--matches", r" was( [a-z]+){2,6}\."]),
        (dict(reward="cola", min_length=0, choices=[" ran away", " slept"]),
         ["--reward", "cola", "--min-length", "0", "--choices", " ran away, slept"]),
    ],
)
def test_the_same_seed_gives_the_command_lines_row(t, cli, options, flags):
    ours = t.generate("The old dog", **{**SHORT, **options})
    theirs = cli("generate", "The old dog", *FLAGS, *flags)
    assert timeless(ours.to_dict()) == timeless(theirs[0])


def test_a_schema_holds_and_a_finished_text_stays_within_its_constraint(t):
    schema = {"type": "object", "properties": {"mood": {"enum": ["sad", "happy"]}}, "required": ["mood"]}
    one = t.generate("The dog as JSON:", json_schema=schema, reward="cola", length=20)
    assert json.loads(one.continuation)["mood"] in ("sad", "happy")
    pattern = r"The old dog was( [a-z]+)+\."
    better = t.refine("The old dog was very sad.", reward="sentiment=positive", matches=pattern, rounds=2, seed=1)
    assert re.fullmatch(pattern, better.text) and better.reward >= better.reward_before
    with pytest.raises(treasure.RequestError, match="satisfies the constraint"):
        t.refine("A cat.", reward="cola", matches=pattern)


def test_templates_and_several_prompts_give_the_command_lines_rows(t, cli):
    ours = t.generate(template="The [MASK:4] was [MASK:3].", reward="cola", seed=1)
    assert timeless(ours.to_dict()) == timeless(cli("generate", "--template", "The [MASK:4] was [MASK:3].", "--reward", "cola", "--seed", "1")[0])
    ours = t.generate(["The old dog", "Once"], reward="cola", samples=2, **SHORT)
    theirs = cli("generate", "The old dog", "Once", "--reward", "cola", "--samples", "2", *FLAGS)
    assert [timeless(row) for row in ours.to_dicts()] == [timeless(row) for row in theirs]


def test_a_refined_row_is_the_command_lines(t, cli):
    text = "The old dog was very sad."
    ours = t.refine(text, reward="sentiment=positive", keep="old dog", rounds=2, seed=3)
    theirs = cli("refine", text, "--reward", "sentiment=positive", "--keep", "old dog", "--rounds", "2", "--seed", "3")
    assert timeless(ours.to_dict()) == timeless(theirs[0])


def test_scores_and_predictions_are_the_command_lines(t, cli):
    texts = ["What a lovely day", "What a mess"]
    assert t.score(texts, reward="sentiment=positive").to_dicts() == cli("score", "--reward", "sentiment=positive", *texts)
    ours = [one.to_dict() for one in t.predict("The old [MASK] barked", top=3)]
    theirs = cli("predict", "The old [MASK] barked", "--top", "3")
    theirs = theirs[0] if isinstance(theirs[0], list) else theirs
    flat = theirs[0].get("positions", theirs) if isinstance(theirs[0], dict) else theirs
    assert [one["top"] for one in ours] == [one["top"] for one in flat]


def test_a_plan_runs_again_to_the_same_text(t):
    first = t.generate("The old dog", reward="cola", **SHORT)
    plan = {name: value for name, value in first.plan.items() if name not in ("reward", "judge", "screen", "samples", "template")}
    again = t.generate("The old dog", reward="cola", **plan)
    assert again.text == first.text and again.plan == first.plan


def test_a_row_is_typed_pickled_and_compared(t):
    one = t.generate("The old dog", reward="cola", **SHORT)
    assert isinstance(one, treasure.Sample) and isinstance(one.cost, treasure.Cost)
    assert one.text == one.prompt + one.continuation and isinstance(one.reward, float)
    assert one.rewards == {"cola": one.reward} and all(isinstance(id, int) for id in one.tokens)
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.tree == one.tree and hash(again) == hash(one)
    assert repr(one).startswith("Sample('The old dog") and str(one) == one.text
    assert one["text"] == one.text
    with pytest.raises(AttributeError):
        one.nothing


def test_one_prompt_gives_one_object_and_several_give_a_list(t):
    fast = dict(method="fhs", reward="regex:a", length=4, min_length=1)
    assert isinstance(t.generate("A", **fast), treasure.Sample)
    assert isinstance(t.generate(["A"], **fast), treasure.Samples)
    several = t.generate("A", samples=3, **fast)
    assert [one.sample for one in several] == [0, 1, 2] and isinstance(several[:2], treasure.Samples)
    assert t.generate([], **fast) == []
    assert isinstance(t.score("A", reward="regex:A"), treasure.Score) and float(t.score("A", reward="regex:A")) == 1.0


def test_own_fields_are_carried_on_and_reserved_ones_refused(t):
    fast = dict(method="fhs", reward="regex:a", length=4, min_length=1)
    one = t.generate({"prompt": "A", "number": 7}, **fast)
    assert one.number == 7 and one.to_dict()["number"] == 7
    with pytest.raises(treasure.RequestError, match="seed"):
        t.generate({"prompt": "A", "seed": 7}, **fast)


def test_how_many_run_at_once_changes_nothing(t):
    prompts = ["The old dog", "Once", "A cat", "My"]
    one = t.generate(prompts, reward="cola", in_flight=1, **SHORT)
    all_of_them = t.generate(prompts, reward="cola", in_flight=4, **SHORT)
    assert [timeless(row) for row in one.to_dicts()] == [timeless(row) for row in all_of_them.to_dicts()]


def test_calls_leave_nothing_behind_that_changes_the_next(t):
    first = t.generate("The old dog", reward="cola", **SHORT)
    assert timeless(t.generate("The old dog", reward="cola", **SHORT).to_dict()) == timeless(first.to_dict())
