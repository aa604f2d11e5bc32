"""Rewards as Python functions: TRL's signature, adapters, arithmetic, and what can go wrong."""

import asyncio
import math
import sqlite3
import threading

import pytest
from conftest import ROOT

import treasure

SHORT = dict(length=10, min_length=5, seed=0)


def accuracy(completions, **kwargs):
    """Counts a common word: sparse, as many rules are."""
    return [float(completion.lower().split().count("the")) for completion in completions]


def test_a_sparse_function_succeeds_at_defaults(t):
    found = t.generate("The old dog", reward=accuracy, seed=0)
    assert found.reward == accuracy([found.continuation])[0] >= 1
    assert found.rewards == {"own:accuracy": found.reward} and found.plan["reward"] == "own:accuracy"


def test_prompts_and_completions_are_taken_apart(t):
    seen = []

    def look(prompts, completions, **kwargs):
        seen.extend(zip(prompts, completions))
        return [-float(len(completion)) for completion in completions]

    prompts = ["The", "The old", "", "Once"]
    found = t.generate(prompts, reward=look, method="bon", particles=2, **SHORT)
    assert [one.prompt for one in found] == prompts
    assert {prompt for prompt, _ in seen} == set(prompts)
    for one in found:
        assert (one.prompt, one.continuation) in seen and one.reward == -len(one.continuation)


def test_columns_of_the_prompts_reach_the_function(t):
    def reward_func(completions, ground_truth, **kwargs):
        assert len(ground_truth) == len(completions)
        return [1.0 if truth in completion else 0.0 for completion, truth in zip(completions, ground_truth)]

    rows = [{"prompt": "The old dog", "ground_truth": "a"}, {"prompt": "The old dog", "ground_truth": "zzz"}]
    found = t.generate(rows, reward=reward_func, method="bon", particles=2, **SHORT)
    assert [one.reward for one in found] == [1.0, 0.0] and found[0].ground_truth == "a"
    with pytest.raises(treasure.RewardError, match="ground_truth"):
        t.generate("The old dog", reward=reward_func, **SHORT)


def test_functions_of_trls_documentation_run_unchanged(t):
    # The shapes of TRL's examples: by characters, by ids, by a column, async.
    def reward_len(completions, **kwargs):
        return [-abs(20 - len(completion)) for completion in completions]

    def reward_ids(completion_ids, **kwargs):
        return [float(len(ids)) for ids in completion_ids]

    async def reward_async(prompts, completions, **kwargs):
        await asyncio.sleep(0)
        return [float(completion.count("e")) for completion in completions]

    for function in (reward_len, reward_ids, reward_async):
        one = t.generate("The old dog", reward=function, method="bon", particles=3, **SHORT)
        assert math.isfinite(one.reward)


def test_trls_own_rewards_run_unchanged():
    rewards = pytest.importorskip("trl.rewards")
    own = treasure.load("pocket")
    own._chat = lambda messages: messages[-1]["content"]  # the pocket model has no chat template of its own
    conversation = [{"role": "user", "content": "The old dog"}]
    found = own.generate(conversation, reward=rewards.think_format_reward, method="bon", particles=2, **SHORT)
    assert found.reward == 0.0 and found.rewards == {"own:think_format_reward": 0.0}
    closed = "<think>\nHe barks.\n</think>\nWoof"
    texts = [closed, "He barks."]
    assert rewards.think_format_reward(completions=[[{"role": "assistant", "content": text}] for text in texts]) == [1.0, 0.0]
    # It falls from the fifth token on, so that shorter is better all the way.
    long = rewards.get_soft_overlong_punishment(max_completion_len=40, soft_punish_cache=36)
    found = own.generate("The old dog", reward=long, seed=0, length=16, min_length=2)
    assert found.reward == long(completion_ids=[own._encode(found.continuation)])[0] > -1.0


def test_an_async_function_runs_inside_a_running_loop(t):
    async def reward(completions, **kwargs):
        await asyncio.sleep(0)
        return [1.0] * len(completions)

    async def notebook():
        return t.generate("A", reward=reward, method="fhs", length=4, min_length=1)

    assert asyncio.run(notebook()).reward == 1.0


def test_functions_run_on_the_callers_thread(t):
    base = sqlite3.connect(":memory:")  # refuses other threads
    base.execute("create table seen (text)")
    names = set()

    def reward(texts):
        names.add(threading.current_thread())
        base.executemany("insert into seen values (?)", [(text,) for text in texts])
        return [float(len(text)) for text in texts]

    t.generate(["A", "B", "C"], reward=reward, **SHORT)
    assert names == {threading.current_thread()}


def test_equal_texts_are_scored_once_and_in_batches(t):
    batches = []

    def reward(texts):
        batches.append(list(texts))
        return [float(text.count("a")) for text in texts]

    found = t.generate("The old dog", reward=treasure.reward(reward, batch_size=4), **SHORT)
    every = [text for batch in batches for text in batch]
    assert len(every) == len(set(every)) and max(map(len, batches)) <= 4
    assert found.cost.reward_calls >= len(every) - 1


def test_arithmetic_makes_one_specification(t):
    first, second = treasure.reward("cola"), treasure.reward(accuracy)
    assert repr(0.5 * first + second) == "Reward('0.5*cola + own:accuracy')"
    assert repr(first - 2 * second) == "Reward('cola + -1.0*(2.0*own:accuracy)')"
    assert repr(sum([first, second])) == "Reward('cola + own:accuracy')"
    assert repr(treasure.min(first, accuracy)) == "Reward('min(cola, own:accuracy)')"
    assert repr(2 * (first + second)) == "Reward('2.0*(cola + own:accuracy)')"
    assert repr(accuracy + first) == "Reward('own:accuracy + cola')"
    found = t.generate("The old dog", reward=0.5 * first + second, **SHORT)
    assert set(found.rewards) == {"0.5*cola", "own:accuracy"} and found.reward == pytest.approx(sum(found.rewards.values()))
    with pytest.raises(treasure.RequestError, match="number 1"):
        first + 1


def test_functions_of_one_name_are_told_apart(t):
    def make(letter):
        def count(texts):
            return [float(text.count(letter)) for text in texts]

        return treasure.reward(count)

    found = t.generate("The old dog", reward=make("a") + make("e"), **SHORT)
    assert set(found.rewards) == {"own:count", "own:count_2"}
    assert found.rewards["own:count"] == found.text.count("a") and found.rewards["own:count_2"] == found.text.count("e")


def test_a_builtin_reward_behind_a_function_gives_the_same_text(t):
    def cola(texts):
        return [score.reward for score in t.score(texts, reward="cola")]

    # Said on both sides: what a search does by default depends on what is known of its reward. A function's highest
    # value is not, so that `min_p`, which gives way with the distance from it, is off.
    same = dict(order="confidence", prior=0.02, variety=1.0, min_p=0.0, widen=0, select="top", beam_width=5, tree_width=2)
    for options in (same, {**same, "select": "nested", "prior": 0.01}):
        ours, theirs = (t.generate("The old dog", reward=reward, **options, **SHORT) for reward in (cola, "cola"))
        assert (ours.text, ours.reward) == (theirs.text, theirs.reward)


def test_scores_by_functions(t):
    assert t.score(["the", "a"], reward=accuracy).rewards == [1.0, 0.0]
    found = t.score(["The dog the", "The cat"], reward=accuracy, prompts=["The dog", "The"])
    assert found.rewards == [1.0, 0.0]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "word", [1.0]])
def test_a_value_that_is_no_number_is_an_error_that_names_the_text(t, value):
    with pytest.raises(treasure.RewardError) as caught:
        t.generate("The old dog", reward=lambda completions, **_: [value] * len(completions), **SHORT)
    assert "The old dog" in str(caught.value) and "own:lambda" in str(caught.value)


@pytest.mark.parametrize("values", [[], [1.0], None, 3.0, "word", {}])
def test_a_wrong_number_of_values_is_an_error(t, values):
    with pytest.raises(treasure.RewardError, match="expected"):
        t.generate("The old dog", reward=lambda completions, **_: values, tree_width=4, **SHORT)


def test_an_exception_reaches_the_caller_unchanged(t):
    class Mine(Exception):
        pass

    error = Mine("my own")

    def reward(completions, **kwargs):
        raise error

    with pytest.raises(Mine) as caught:
        t.generate(["The old dog", "Once"], reward=reward, **SHORT)
    assert caught.value is error
    if hasattr(error, "__notes__"):
        assert "own:reward" in error.__notes__[0]
    assert t.generate("A", method="fhs", reward="regex:a", length=2, min_length=1).text  # still in order


def test_functions_that_take_nothing_are_refused(t):
    for wrong in (lambda: [1.0], 3, object()):
        with pytest.raises(treasure.RequestError):
            t.generate("A", reward=wrong)


# Adapters, with stand-ins of the shapes that the libraries have.


class Pipe:
    def __call__(self, texts, top_k="missing", function_to_apply="missing", **kwargs):
        assert top_k is None and function_to_apply == "none"
        return [[{"label": "POSITIVE", "score": float(len(text) % 7)}, {"label": "NEGATIVE", "score": 0.0}] for text in texts]


def test_a_pipeline_gives_log_probabilities(t):
    score = t.score("seven77", reward=treasure.pipeline(Pipe(), label="positive"))
    assert score.reward == pytest.approx(math.log(0.5))
    assert t.score("abc", reward=treasure.pipeline(Pipe(), "NEGATIVE", value="prob")).reward == pytest.approx(1 / (1 + math.e**3))
    assert t.score("abc", reward=treasure.pipeline(Pipe(), "POSITIVE", value="raw")).reward == 3.0
    with pytest.raises(treasure.RewardError, match="NEGATIVE, POSITIVE"):
        t.score("abc", reward=treasure.pipeline(Pipe(), label="happy"))
    with pytest.raises(treasure.RewardError, match="expected a label"):
        t.score("abc", reward=treasure.pipeline(Pipe()))


def test_a_cross_encoder_sees_pairs(t):
    class Encoder:
        def predict(self, pairs):
            return [float(len(a) - len(b)) for a, b in pairs]

    assert t.score("ab", reward=treasure.cross_encoder(Encoder(), query="four")).reward == 2.0
    assert t.score("abcd", reward=treasure.cross_encoder(Encoder()), prompts=["abc"]) .reward == 2.0


def test_a_cross_encoder_of_sentence_transformers(t, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    judge = ROOT / "assets" / "pocket" / "judge-sentiment"
    config = transformers.AutoConfig.from_pretrained(judge, num_labels=1)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(tokenizer_file=str(judge / "tokenizer.json"), pad_token="[PAD]").save_pretrained(tmp_path)
    model = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu", max_length=64)
    found = t.generate("The old dog", reward=treasure.cross_encoder(model), method="bon", particles=4, **SHORT)
    assert found.reward == pytest.approx(float(model.predict([(found.prompt, found.continuation)])[0]), abs=1e-5)


def test_verl_and_openrlhf(t):
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return {"score": float(ground_truth in solution_str), "acc": 1}

    def reward_func(queries, prompts, labels):
        return {"rewards": [float(len(query)) for query in queries], "scores": None, "extra_logs": {}}

    found = t.generate(
        {"prompt": "The old dog", "ground_truth": "e"}, reward=treasure.verl(compute_score), method="bon", particles=4, **SHORT
    )
    assert found.reward in (0.0, 1.0) and found.rewards == {"own:compute_score": found.reward}
    found = t.generate("The old dog", reward=treasure.openrlhf(reward_func), method="bon", particles=4, **SHORT)
    assert found.reward == len(found.text)


def test_a_judge_and_a_screen_may_be_functions(t):
    found = t.generate("The old dog", reward="cola", judge=[accuracy, "perplexity"], screen=accuracy, **SHORT)
    assert found.held_out["judges"]["own:accuracy"] == accuracy([found.continuation])[0]
    assert found.cost.proxy_calls > 0
