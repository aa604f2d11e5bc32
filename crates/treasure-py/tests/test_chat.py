"""Conversations by a checkpoint's chat template, steered by a reward model of one logit."""

import json

import pytest

import treasure
from conftest import ROOT

GOLDEN = ROOT / "crates/treasure-models/tests/golden"
LIKED = f"raw:hf:{GOLDEN / 'llama_reward'}"


@pytest.fixture(scope="module")
def llada():
    return treasure.load(GOLDEN / "llada_chat")


def test_a_steered_answer_is_liked_better_than_the_models_own(llada):
    common = dict(chat=True, system="Be kind.", reward=LIKED, gen_length=16, block_length=8, steps=8, seed=3)
    alone = llada.generate("Tell me about rain.", method="llada", **common)
    steered = llada.generate("Tell me about rain.", **common)
    assert steered.reward > alone.reward
    assert steered.prompt.startswith("<|startoftext|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>")
    assert llada.score(steered.text, reward=LIKED).reward == pytest.approx(steered.reward, abs=1e-12)


def test_the_answer_is_that_of_every_door(llada):
    told = json.loads((GOLDEN / "llada_chat/answer.json").read_text())
    found = llada.generate(told["prompt"], chat=True, reward=LIKED, length=16, block=8, steps=8, seed=3)
    assert found.continuation == told["answer"]
    assert found.reward == pytest.approx(told["reward"], abs=1e-4)


def test_messages_and_prompts_are_the_same_conversation(llada):
    own = dict(reward="length:1..9", method="llada", length=8, steps=4)
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    said = llada.generate("Hello", system="Be kind.", **own)
    assert llada.generate(messages, **own).text == said.text
    assert llada.generate(messages=messages, **own).text == said.text
    assert [row.text for row in llada.generate(["Hello", "Bye"], chat=True, system="Be kind.", **own)][0] == said.text
    with pytest.raises(treasure.RequestError, match="both"):
        llada.generate(["text", {"messages": messages}], **own)


def test_a_checkpoint_without_a_template_says_so():
    with pytest.raises(treasure.RequestError, match="no chat template"):
        treasure.load("pocket", lazy=True).generate("Hello", chat=True, reward="length:1..9")
