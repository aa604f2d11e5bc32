"""Torch modules: the built-in runtime's texts from the same seed, on checkpoints that both can load."""

import json
import pickle
import sys
import time

import pytest
from conftest import ROOT

import treasure

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
sys.path.insert(0, str(ROOT / "bench" / "search"))
GOLDEN = ROOT / "crates" / "treasure-models" / "tests" / "golden"
POCKET = ROOT / "assets" / "pocket" / "denoiser"
SIZES = json.loads((POCKET / "config.json").read_text())
ROWS, MASK = SIZES["embedding_size"], SIZES["mask_token_id"]
SHORT = dict(length=16, min_length=8, seed=5)


@pytest.fixture(scope="module")
def networks():
    pytest.importorskip("tokenizers")
    return __import__("networks")


@pytest.fixture(scope="module")
def mine(networks):
    torch.set_num_threads(2)
    return treasure.from_torch(networks.Llada(POCKET), POCKET, mask_id=MASK, bos_id=1, eos_id=1, max_len=256)


@pytest.mark.parametrize(
    "options",
    [
        dict(reward="sentiment=negative"),
        dict(reward="cola", method="bon", particles=4),
        dict(reward="cola", method="fk", particles=4),
        dict(reward="perplexity", tree_width=4),
        dict(reward="cola", method="greedy"),
        dict(reward="cola", method="base", steps=8),
        dict(reward="cola", preset="paper"),
        dict(reward="cola", value="previous"),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_the_pocket_denoiser_in_torch_writes_the_built_in_text(t, mine, options):
    ours, theirs = t.generate("The old dog", **SHORT, **options), mine.generate("The old dog", **SHORT, **options)
    assert theirs.text == ours.text and theirs.tokens == ours.tokens
    assert theirs.reward == pytest.approx(ours.reward, abs=1e-6)
    assert (theirs.cost.nfe, theirs.cost.reward_calls) == (ours.cost.nfe, ours.cost.reward_calls)


def test_many_prompts_at_once_and_predictions(t, mine):
    prompts = ["The old dog", "Once upon a time there was", "A"]
    assert mine.generate(prompts, reward="cola", **SHORT).texts == t.generate(prompts, reward="cola", **SHORT).texts
    ours, theirs = t.predict("The old [MASK] barked", top=5), mine.predict("The old [MASK] barked", top=5)
    assert [guess.id for guess in theirs[0].top] == [guess.id for guess in ours[0].top]
    assert [guess.logprob for guess in theirs[0].top] == pytest.approx([guess.logprob for guess in ours[0].top], abs=1e-4)


def test_bounds_agree(t, mine):
    pair = [("Once upon a time", " there was a little dog")]
    ours, theirs = t.loglikelihood(pair, samples=4)[0], mine.loglikelihood(pair, samples=4)[0]
    assert theirs.logprob == pytest.approx(ours.logprob, abs=1e-3) and theirs.greedy == ours.greedy


class Padded(torch.nn.Module):
    """A module that takes an attention mask and whose rows do not look at each other."""

    def __init__(self, size):
        super().__init__()
        self.table = torch.nn.Parameter(torch.linspace(-1, 1, 256 * size).view(256, size).sin() * 3)
        self.calls = []

    def forward(self, input_ids, attention_mask=None):
        self.calls.append((tuple(input_ids.shape), attention_mask.sum(-1).tolist()))
        return self.table[: input_ids.shape[1]].expand(input_ids.shape[0], -1, -1).clone()


def test_batches_of_several_lengths_are_padded_with_a_mask(t):
    module = Padded(ROWS)
    own = treasure.from_torch(module, POCKET, mask_id=MASK, bos_id=1, eos_id=1)
    prompts = ["A", "The old dog was here and there", "Once upon"]
    together = own.generate(prompts, reward="cola", **SHORT)
    alone = [own.generate(prompt, reward="cola", **SHORT) for prompt in prompts]
    assert together.texts == [one.text for one in alone]
    # Which searches meet in a batch is the clock's business; what a batch of several lengths looks like is not.
    module.calls.clear()
    ids = torch.full((7,), MASK, dtype=torch.int64).numpy().tobytes()
    places = torch.tensor([1, 3]).numpy().tobytes()
    handles = own._model.encode([2, 5], ids, [1, 1], places, [1.0, 1.0])
    own._model.forget(handle for handle, _ in handles)
    assert module.calls == [((2, 5), [2, 5])]


def test_searches_share_a_forward_pass():
    class Slow(Padded):
        def forward(self, input_ids, attention_mask=None):
            time.sleep(0.02)
            return super().forward(input_ids, attention_mask)

    module = Slow(ROWS)
    own = treasure.from_torch(module, POCKET, mask_id=MASK, bos_id=1, eos_id=1)
    # Of several lengths each, so that whichever meet while a pass runs make a batch of more than one length.
    prompts = ["A", "The old", "The old dog", "The old dog was", "The old dog was here", "The old dog was here and there"]
    options = dict(reward="regex:a", method="treasure", length=10, min_length=5, seed=5)
    together = own.generate(prompts, in_flight=len(prompts), **options)
    shared = [lengths for _, lengths in module.calls if len(set(lengths)) > 1]
    assert len(shared) >= 3
    assert all(shape == (len(lengths), max(lengths)) for shape, lengths in module.calls)
    passes = len(module.calls)
    module.calls.clear()
    assert together.texts == own.generate(prompts, in_flight=1, **options).texts
    assert len(module.calls) > passes and not any(len(set(lengths)) > 1 for _, lengths in module.calls)


@pytest.mark.parametrize(
    "options",
    [
        dict(beam_width=5), dict(preset="paper"), dict(beam_width=5, min_p=0.2, select="nested"),
        dict(beam_width=5, order="uniform", commit_threshold=0.9), dict(beam_width=5, value="previous"),
        dict(beam_width=5, value="posterior"), dict(method="fhs"), dict(method="greedy"), dict(method="base", steps=8),
        dict(method="bon", particles=4), dict(method="fk", particles=4),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_no_row_of_the_vocabulary_crosses(mine, monkeypatch, options):
    whole, most = watch(mine, monkeypatch)
    mine.generate("The old dog", reward="regex:a", length=6, min_length=3, seed=5, **options)
    assert whole and not any(whole)
    # All that a question brings back is a few numbers a position.
    assert 0 < max(most) <= 8 * 7 < ROWS


def test_rows_cross_for_a_constraint_alone(mine, monkeypatch):
    whole, _ = watch(mine, monkeypatch)
    mine.refine("The old dog was sad.", reward="regex:a", rounds=2)
    mine.loglikelihood([("Once upon", " a time")], samples=2)
    mine.predict("The [MASK] dog", top=3)
    assert not any(whole)
    found = mine.generate("The old dog", reward="regex:a", matches="[a-z ]+", length=6, min_length=2, seed=0)
    assert any(whole) and found.text


def watch(own, monkeypatch):
    """The rows that questions ask for whole, and how many numbers each answer has."""
    model, whole, most = own._model, [], []
    inner, read = model._whole, model.read

    def _whole(state, rows):
        whole.append(list(rows))
        return inner(state, rows)

    def size(value):
        return sum(map(size, value)) if isinstance(value, (list, tuple)) else len(value) if isinstance(value, bytes) else 1

    def reading(asks):
        answers = read(asks)
        most.extend(map(size, answers))
        return answers

    monkeypatch.setattr(model, "_whole", _whole)
    monkeypatch.setattr(model, "read", reading)
    return whole, most


def test_ties_go_to_the_lowest_id_and_draws_follow_the_cumulative_sum():
    class Flat(torch.nn.Module):
        def forward(self, ids):
            return torch.zeros((*ids.shape, ROWS))

    own = treasure.from_torch(Flat(), POCKET, mask_id=MASK, bos_id=1, eos_id=1)
    top = own.predict("A [MASK]", top=5)[0].top
    assert [guess.id for guess in top] == sorted(guess.id for guess in top)
    other = treasure.from_callable(lambda batch: [[[0.0] * ROWS for _ in ids] for ids in batch], POCKET, mask_id=MASK, bos_id=1, eos_id=1)
    for method in ("fhs", "base", "bon"):
        options = dict(reward="regex:a", method=method, length=6, min_length=6, seed=9)
        assert own.generate("A", **options).tokens == other.generate("A", **options).tokens


def test_half_precision_searches(networks):
    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = networks.Llada(POCKET)

        def forward(self, ids):
            return self.inner(ids).bfloat16()

    own = treasure.from_torch(Half(), POCKET, mask_id=MASK, bos_id=1, eos_id=1, max_len=256)
    assert own.generate("The old dog", reward="sentiment=negative", **SHORT).reward > -1


def test_what_is_wrong_with_a_module_is_said():
    class Wrong(torch.nn.Module):
        def forward(self, ids):
            return torch.zeros(3)

    with pytest.raises(treasure.ModelError, match="expected logits"):
        treasure.from_torch(Wrong(), POCKET, mask_id=MASK)
    with pytest.raises(treasure.RequestError, match="mask_id"):
        treasure.from_torch(Wrong(), POCKET)
    with pytest.raises(treasure.RequestError, match="preset"):
        treasure.from_torch(Wrong(), POCKET, preset="gpt5", mask_id=1)
    with pytest.raises(treasure.RequestError, match="shift"):
        treasure.from_torch(Padded(ROWS), POCKET, mask_id=MASK, shift="left")


@pytest.mark.parametrize("method", ["treasure", "fhs", "greedy", "base", "bon"])
def test_logits_that_are_no_numbers_are_an_error(method):
    class Nan(torch.nn.Module):
        def forward(self, ids):
            return torch.full((*ids.shape, ROWS), torch.nan)

    own = treasure.from_torch(Nan(), POCKET, mask_id=MASK, bos_id=1, eos_id=1)
    with pytest.raises(treasure.ModelError):
        own.generate("A", reward="regex:a", method=method, length=4, min_length=1)


def test_encodings_are_forgotten(mine):
    most = []

    def reward(texts):
        most.append(len(mine._model.kept))
        return [float(len(text)) for text in texts]

    mine.generate(["The old dog", "A"], reward=reward, **SHORT)
    assert 0 < max(most) < 200 and not mine._model.kept
    for frame in mine.stream("The old dog", reward=reward, **SHORT):
        if frame.step == 2:
            break
    del frame
    assert not mine._model.kept


def test_a_module_travels(networks):
    own = treasure.from_torch(networks.Llada(POCKET), str(POCKET), mask_id=MASK, bos_id=1, eos_id=1, max_len=256)
    again = pickle.loads(pickle.dumps(own))
    assert again.generate("A", reward="cola", **SHORT).text == own.generate("A", reward="cola", **SHORT).text


def letters(size, path):
    """A tokenizer of as many words as a golden checkpoint has ids."""
    words = [f"w{id}" for id in range(size)]
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None, "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {word: id for id, word in enumerate(words)}, "unk_token": "w0"},
    }))
    return str(path.parent)


#: Golden checkpoints with the preset and the built-in reader of each.
FAMILIES = {
    "llada": "llada", "llada_gqa": "llada", "dream": "dream", "mdlm": "mdlm", "mdlm_sigma": "mdlm", "diffugpt": "diffugpt",
    "bert_mlm": None, "modernbert_mlm": None,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_checkpoints_in_torch_write_the_built_in_text(tmp_path, family):
    """The reference implementations' logits, from their own classes where transformers has them."""
    from golden_modules import build

    directory = GOLDEN / family
    module, size, mask_id, bos_id, eos_id = build(directory, family)
    tokenizer = letters(size, tmp_path / "tokenizer.json")
    own = treasure.from_torch(module, tokenizer, preset=FAMILIES[family], mask_id=mask_id, bos_id=bos_id, eos_id=eos_id)
    built_in = treasure.load(directory, tokenizer=tokenizer, mask_id=mask_id, read_as=FAMILIES[family])
    shown = [own.predict("w3 w4 [MASK] w5 [MASK]", top=3), built_in.predict("w3 w4 [MASK] w5 [MASK]", top=3)]
    assert [[g.id for g in one.top] for one in shown[0]] == [[g.id for g in one.top] for one in shown[1]]
    for mine, theirs in zip(*shown):
        assert [g.logprob for g in mine.top] == pytest.approx([g.logprob for g in theirs.top], abs=1e-4)
    for method in ("greedy", "fhs", "treasure"):
        options = dict(reward="contains:w7,w9", method=method, length=5, min_length=5, seed=4)
        assert own.generate("w3 w4", **options).tokens == built_in.generate("w3 w4", **options).tokens


def test_chat_templates_of_the_families():
    messages = [{"role": "user", "content": " Hello "}]
    assert treasure.presets["llada"].chat(messages) == (
        "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert treasure.presets["dream"].chat(messages).startswith("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n")
    own = treasure.from_torch(Padded(ROWS), POCKET, mask_id=MASK, bos_id=1, eos_id=1, chat=lambda messages: messages[-1]["content"])
    seen = []

    def reward(prompts, completions, **kwargs):
        seen.append((prompts[0], completions[0]))
        return [0.0] * len(prompts)

    assert own.generate(messages, reward=reward, **SHORT).prompt == " Hello "
    assert seen[0][0] == messages and seen[0][1][0]["role"] == "assistant"


def test_a_transformers_tokenizer_and_pipeline(t):
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(POCKET / "tokenizer.json"))
    own = treasure.from_torch(Padded(ROWS), fast, mask_id=MASK, bos_id=1, eos_id=1)
    assert own.generate("A", method="fhs", reward="regex:a", length=4, min_length=1).text.startswith("A")
    judge = ROOT / "assets" / "pocket" / "judge-sentiment"
    pipe = transformers.pipeline("text-classification", model=str(judge), tokenizer=str(judge), device="cpu")
    texts = ["What a lovely day", "What a terrible mess"]
    ours = t.score(texts, reward="sentiment=positive").rewards
    theirs = t.score(texts, reward=treasure.pipeline(pipe, label="positive")).rewards
    assert theirs == pytest.approx(ours, abs=1e-2)
