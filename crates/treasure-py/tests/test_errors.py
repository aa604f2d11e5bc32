"""Errors say what was expected, what came, and what to do about it."""

import pickle

import pytest

import treasure


def test_a_wrong_option_is_named_with_the_nearest_one(t):
    with pytest.raises(treasure.Error) as caught:
        t.generate("A", beam_widht=3)
    assert isinstance(caught.value, ValueError)
    assert "beam_widht" in str(caught.value) and "beam_width" in caught.value.hint
    assert "hint: " in str(caught.value)


@pytest.mark.parametrize(
    "options, word",
    [
        (dict(length=0), "length"),
        (dict(method="nothing"), "method"),
        (dict(reward="sentiment=angry"), "sentiment"),
        (dict(tree_width="wide"), "tree_width"),
        (dict(samples=0), "samples"),
        (dict(preset="mine"), "preset"),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(t, options, word):
    with pytest.raises(treasure.RequestError, match=word):
        t.generate("A", **options)


def test_a_missing_model_is_a_model_error():
    with pytest.raises(treasure.ModelError):
        treasure.load("/nowhere/at/all")


def test_wrong_prompts_are_refused(t):
    for wrong in (None, [1], [{"text": "A"}], [[{"role": "user", "content": "A"}]]):
        with pytest.raises(treasure.RequestError):
            t.generate(wrong)
    with pytest.raises(treasure.RequestError):
        t.generate("A", template="[MASK]")
    with pytest.raises(treasure.RequestError, match="hole"):
        t.generate(template="no holes")


def test_errors_can_be_pickled(t):
    with pytest.raises(treasure.Error) as caught:
        t.generate("A", length=0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


def test_a_budget_too_small_for_any_text_is_a_stopped_error(t):
    with pytest.raises(treasure.StoppedError) as caught:
        t.generate("A", reward="cola", max_nfe=0, length=4)
    assert caught.value.hint
