"""The package's main object: a model, and what can be asked of it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Union, overload

from . import _treasure
from ._calls import Leaf
from ._errors import RequestError
from ._loop import Desk, Starts, groups
from ._progress import Bar
from ._results import (
    Frame, Guess, Likelihood, Predicted, Sample, Samples, Score, Scores, frame_of, last_frame,
)
from ._rewards import Rewarding, reward as as_reward

log = logging.getLogger("treasure")

Prompt = Union[str, Dict[str, Any], List[Dict[str, str]]]
_HOLE = re.compile(r"\[MASK(?=[\]:|])")
_ENTRY = ("prompt", "template", "messages")


class Treasure:
    """A model that can be searched. Made by `load`, `from_torch` or `from_callable`."""

    def __init__(self, engine: Any, fields: Dict[str, Any], model: Any = None, remake: Any = None, chat: Any = None):
        self._engine = engine
        self._fields = fields
        self._model = model
        self._remake = remake
        self._chat = chat

    def __repr__(self) -> str:
        return f"<treasure on {self._model if self._model is not None else self._fields.get('model', 'pocket')}>"

    def __reduce__(self):
        if self._remake is None:
            raise TypeError(f"cannot pickle {self!r}")
        return self._remake

    # Searching.

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompt: Union[str, Mapping[str, Any]], *, samples: Literal[1] = 1, **options: Any
    ) -> Sample: ...
    @overload
    def generate(self, prompt: Sequence[str], *, samples: int = 1, **options: Any) -> Samples: ...
    @overload
    def generate(self, prompt: Any = None, **options: Any) -> Any: ...
    def generate(
        self,
        prompt: Union[Prompt, Iterable[Prompt], None] = None,
        *,
        template: Union[str, Sequence[str], None] = None,
        reward: Optional[Rewarding] = None,
        judge: Union[Rewarding, Sequence[Rewarding], None] = None,
        screen: Optional[Rewarding] = None,
        samples: int = 1,
        progress: bool = False,
        streamer: Any = None,
        tree: Optional[bool] = None,
        trace: bool = False,
        in_flight: Optional[int] = None,
        reward_batch: Optional[int] = None,
        batch_size: Optional[int] = None,
        **options: Any,
    ) -> Any:
        """Text that a reward likes.

        One prompt gives one `Sample`; a list of prompts, or `samples` above 1, gives `Samples`. A prompt is text, a
        conversation (a list of messages), or a dictionary with `prompt`, `template` or `messages` and fields of
        your own, which rewards are given as columns and rows carry on. `template` fills holes: "The [MASK:5] was".

        `reward` is a specification ("sentiment=negative"), a function of TRL's signature, or arithmetic on both.
        `options` are those of the command line with underscores: method, length, min_length, seed, preset, answer,
        beam_width, tree_width, particles, block, steps, max_nfe, max_reward_calls, max_seconds, target_reward, …
        `chat=True` takes prompts as what a user says and writes them by the checkpoint's chat template, `system` is the
        system message.

        Ctrl-C stops and keeps the best so far; such texts have `stopped == "interrupted"`.
        """
        one, entries = self._entries(prompt, template, options)
        one = one and samples == 1
        if streamer is not None:
            if not one:
                raise RequestError("streamer: expected one prompt and one sample, got several")
            return self._to_streamer(entries[0], streamer, reward, judge, screen, trace, options)
        keep_tree = one if tree is None else tree
        sizes = {"in_flight": in_flight, "reward_batch": reward_batch, "batch_size": batch_size}
        request, leaves = self._request(reward, judge, screen, samples, options)
        found = self._all(entries, request, leaves, samples, progress, keep_tree, trace, sizes)
        return found[0] if one else found

    def stream(
        self,
        prompt: Optional[Prompt] = None,
        *,
        template: Optional[str] = None,
        reward: Optional[Rewarding] = None,
        judge: Union[Rewarding, Sequence[Rewarding], None] = None,
        screen: Optional[Rewarding] = None,
        tree: bool = False,
        trace: bool = False,
        **options: Any,
    ) -> Iterator[Frame]:
        """The text as it forms: a frame a step, the last one the answer (`masks_left` 0, `sample` set).

        Leaving the loop stops the search.
        """
        one, entries = self._entries(prompt, template, options)
        if not one:
            raise RequestError("stream: expected one prompt, got several", "stream them one by one, or use generate")
        request, leaves = self._request(reward, judge, screen, 1, options)
        return self._frames(entries[0], request, leaves, tree, trace)

    @overload
    def refine(self, text: str, **options: Any) -> Sample: ...  # type: ignore[overload-overlap]
    @overload
    def refine(self, text: Sequence[str], **options: Any) -> Samples: ...
    def refine(
        self,
        text: Union[str, Sequence[str]],
        *,
        keep: Optional[str] = None,
        reward: Optional[Rewarding] = None,
        judge: Union[Rewarding, Sequence[Rewarding], None] = None,
        progress: bool = False,
        **options: Any,
    ) -> Any:
        """Finished texts, made better: a share is masked again, searched anew, and kept where it is better.

        `keep` is a regular expression of what must not change. Options: rounds, share_from, share_to, pick, accept.
        A text that nothing better is found for comes back as it was. Rows also carry `before` and `reward_before`.
        """
        texts = [text] if isinstance(text, str) else list(text)
        entries: List[Dict[str, Any]] = [{"prompt": "", "begins": "", "shown": "", "extra": {}, "given": one, "keep": keep} for one in texts]
        request, leaves = self._request(reward, judge, None, 1, {"method": "refine", **options})
        found = self._all(entries, request, leaves, 1, progress, False, False, {})
        return found[0] if isinstance(text, str) else found

    def compare(
        self,
        prompt: Union[Prompt, Iterable[Prompt]],
        *,
        methods: Sequence[str] = ("treasure", "bon", "fk", "greedy", "fhs"),
        match: Optional[str] = None,
        reward: Optional[Rewarding] = None,
        judge: Union[Rewarding, Sequence[Rewarding], None] = None,
        samples: int = 1,
        progress: bool = False,
        **options: Any,
    ) -> Samples:
        """Several methods on the same prompts, seed and budget; the first one sets the budget, or a limit does.

        `match` is what they have in common: nfe, reward_calls or seconds. Methods with a width (particles, or a tree's
        width) get as much of it as the budget pays for, unless an option says. Without a `judge`, a shipped reward is
        checked by the shipped judge that no search sees.
        """
        from ._compare import compare

        return compare(self, prompt, methods, match, reward, judge, samples, progress, options)

    # Asking.

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, *, reward: Rewarding = ..., preset: Optional[str] = ..., dtype: Optional[str] = ...,
        precision: Optional[str] = ..., prompts: Optional[Sequence[str]] = ...,
    ) -> Score: ...
    @overload
    def score(
        self, texts: Sequence[str], *, reward: Rewarding = ..., preset: Optional[str] = ..., dtype: Optional[str] = ...,
        precision: Optional[str] = ..., prompts: Optional[Sequence[str]] = ...,
    ) -> Scores: ...
    def score(
        self,
        texts: Union[str, Sequence[str]],
        *,
        reward: Rewarding = "perplexity",
        preset: Optional[str] = None,
        dtype: Optional[str] = None,
        precision: Optional[str] = None,
        prompts: Optional[Sequence[str]] = None,
    ) -> Any:
        """Scores of given texts. With `prompts`, functions are told where each text's prompt ends."""
        given = [texts] if isinstance(texts, str) else [str(text) for text in texts]
        spec, leaves = as_reward(reward).written()
        entries = []
        if prompts is not None:
            begins = [prompts] if isinstance(prompts, str) else list(prompts)
            if len(begins) != len(given):
                raise RequestError(f"prompts: expected {len(given)}, one a text, got {len(begins)}")
            entries = [{"begins": start, "shown": start, "extra": {}} for start in begins]
        rows: List[Optional[Score]] = [None] * len(given)
        for members in groups(entries) if entries else [list(range(len(given)))]:
            work = {
                "do": "score",
                "request": _clean({"reward": spec, "preset": preset, "reward_dtype": dtype, "precision": precision}),
                "texts": [given[index] for index in members],
            }
            starts = Starts([entries[index] for index in members] if entries else [])
            if given:
                for message in self._run(work, leaves, starts).messages():
                    for index, row in zip(members, json.loads(message[2])):
                        rows[index] = Score(row)
        _check_complete(rows)
        found = Scores(row for row in rows if row is not None)
        return found[0] if isinstance(texts, str) else found

    def predict(self, text: str, *, top: int = 5, sigma: Optional[float] = None) -> List[Predicted]:
        """What the model would put at each mask of a text with holes: "The [MASK] barked"."""
        work = {"do": "predict", "request": _clean(dict(self._fields)), "text": text, "top": top, "sigma": sigma}
        found = self._only(work)
        return [Predicted(row["position"], [Guess(**guess) for guess in row["top"]]) for row in found]

    def loglikelihood(
        self, pairs: Sequence[Tuple[str, str]], *, samples: int = 32, seed: int = 0
    ) -> List[Likelihood]:
        """The bound on log p(continuation | context) of each pair, from so many corruptions."""
        request = _clean({**self._fields, "seed": seed})
        contexts, rest = [context for context, _ in pairs], [text for _, text in pairs]
        work = {"do": "likelihood", "request": request, "contexts": contexts, "continuations": rest, "samples": samples}
        rows: List[Optional[Likelihood]] = [None] * len(contexts)
        for message in self._run(work, [], Starts([])).messages():
            rows[message[1]] = Likelihood(**json.loads(message[2]))
        _check_complete(rows)
        return [row for row in rows if row is not None]

    def plan(self, prompt: str = "", **options: Any) -> Dict[str, Any]:
        """Every option after defaults, without running anything."""
        request, _ = self._request(
            options.pop("reward", None), options.pop("judge", None), options.pop("screen", None),
            options.pop("samples", 1), options,
        )
        return json.loads(self._engine.plan(json.dumps(request, default=_plain))[1])

    # How it is done.

    def _entries(
        self, prompt: Any, template: Any, options: Optional[Dict[str, Any]] = None
    ) -> Tuple[bool, List[Dict[str, Any]]]:
        """What is to be continued or filled in, and whether one was asked for.

        Conversations are written out here: `chat`, `system` and `messages` are taken out of `options`, and `chat` is
        put back where a prompt is one, so that no special token is added to it.
        """
        options = {} if options is None else options
        chat, system, messages = (options.pop(name, None) for name in ("chat", "system", "messages"))
        if messages is not None:
            if prompt is not None:
                raise RequestError("messages: expected messages or a prompt, got both")
            prompt = messages
        one, entries = self._read(prompt, template, bool(chat) or (chat is None and system is not None), system)
        talks = [entry.pop("chat") for entry in entries]
        if any(talks):
            if not all(talks):
                raise RequestError("prompt: expected conversations or texts, got both in one list")
            options["chat"] = True
        return one, entries

    def _read(self, prompt: Any, template: Any, chat: bool, system: Optional[str]) -> Tuple[bool, List[Dict[str, Any]]]:
        if prompt is not None and template is not None:
            raise RequestError("template: expected a prompt or a template, got both")
        if template is not None:
            one = isinstance(template, str)
            return one, [self._entry({"template": text}, chat, system) for text in ([template] if one else list(template))]
        if prompt is None:
            raise RequestError('nothing to generate: expected a prompt, such as "Once upon a time"')
        if isinstance(prompt, (str, dict)):
            return True, [self._entry(prompt, chat, system)]
        prompts = list(prompt)
        if prompts and all(isinstance(one, dict) and "role" in one for one in prompts):
            return True, [self._entry({"messages": prompts}, chat, system)]
        return False, [self._entry(one, chat, system) for one in prompts]

    def _converse(self, messages: List[Dict[str, str]], system: Optional[str]) -> str:
        """A conversation as the model's chat template writes it."""
        if system is not None:
            if messages and messages[0].get("role") == "system":
                raise RequestError("system: the messages have a system message already")
            messages = [{"role": "system", "content": system}, *messages]
        if self._chat is not None:
            return self._chat(messages)
        if self._model is not None:
            raise RequestError(
                "messages: expected a model with a chat template, got one without",
                "give text, or from_torch(…, chat=function of messages)",
            )
        request = {**self._fields, "chat": True, "reward": "regex:a"}
        return self._engine.chat(json.dumps(request, default=_plain), json.dumps(messages, default=_plain))

    def _entry(self, given: Any, chat: bool, system: Optional[str]) -> Dict[str, Any]:
        if isinstance(given, list):
            given = {"messages": given}
        entry = dict(given) if isinstance(given, dict) else {"prompt": given}
        if sum(name in entry for name in _ENTRY) != 1:
            raise RequestError(f"prompt: expected one of {', '.join(_ENTRY)}, got the fields {', '.join(entry)}")
        extra = {name: value for name, value in entry.items() if name not in _ENTRY}
        made: Dict[str, Any] = {"template": entry.get("template"), "extra": extra}
        if entry.get("template") is not None:
            hole = _HOLE.search(entry["template"])
            made["prompt"], made["begins"] = "", entry["template"][: hole.start() if hole else None]
            made["shown"] = made["begins"]
        elif "messages" in entry:
            made["prompt"] = made["begins"] = self._converse(list(entry["messages"]), system)
            made["shown"] = entry["messages"]
        else:
            if not isinstance(entry["prompt"], str):
                raise RequestError(f"prompt: expected text, got {entry['prompt']!r}")
            said = entry["prompt"]
            made["shown"] = said
            made["prompt"] = made["begins"] = self._converse([{"role": "user", "content": said}], system) if chat else said
        made["chat"] = "messages" in entry or (chat and "prompt" in entry)
        return made

    def _request(
        self, reward: Any, judge: Any, screen: Any, samples: int, options: Dict[str, Any]
    ) -> Tuple[Dict[str, Any], List[Leaf]]:
        """The request in JSON's words, and the functions it names."""
        for name in ("prompt", "template"):
            if options.get(name) is not None:
                raise RequestError(f"{name}: give it as an argument of its own")
        request: Dict[str, Any] = {**self._fields, "samples": samples, **options}
        if "read_as" in request:
            request["as"] = request.pop("read_as")
        # One tree of all rewards, so that functions of one name get different ones.
        parts = []
        if reward is not None:
            parts.append(("reward", as_reward(reward)))
        if screen is not None:
            parts.append(("screen", as_reward(screen)))
        judges = [] if judge is None else [judge] if isinstance(judge, str) or callable(judge) else judge
        judges = [judges] if not isinstance(judges, (list, tuple)) else judges
        parts.extend(("judge", as_reward(one)) for one in judges)
        names: Dict[str, Leaf] = {}
        from ._rewards import _write

        for field, one in parts:
            text = _write(one._node, names, inside=False)
            if field == "judge":
                request.setdefault("judge", []).append(text)
            else:
                request[field] = text
        leaves = []
        for name, leaf in names.items():
            if name != leaf.name:
                leaf = Leaf(leaf.function, name, leaf.batch_size)
            leaves.append(leaf)
        return _clean(request), leaves

    def _run(self, work: Dict[str, Any], leaves: Sequence[Leaf], starts: Starts, **sizes: Any) -> Desk:
        described = json.dumps(work, default=_plain)
        named = [(leaf.name, leaf.batch_size) for leaf in leaves]
        run = self._engine.start(described, named, **_clean(sizes))
        return Desk(run, leaves, starts, self._model)

    def _only(self, work: Dict[str, Any]) -> Any:
        for message in self._run(work, [], Starts([])).messages():
            return json.loads(message[2])
        raise KeyboardInterrupt

    def _encode(self, text: str) -> List[int]:
        return self._engine.encode(json.dumps(self._fields), text)

    def _all(
        self,
        entries: List[Dict[str, Any]],
        request: Dict[str, Any],
        leaves: List[Leaf],
        samples: int,
        progress: bool,
        tree: bool,
        trace: bool,
        sizes: Dict[str, Any],
    ) -> Samples:
        """All samples of all entries, in order."""
        if not entries:
            return Samples()
        if log.isEnabledFor(logging.INFO):
            shown = self._jobs(entries, [0], request, 1)[0][0]
            log.info(self._engine.plan(json.dumps(shown, default=_plain))[0])
        split = any(leaf.split for leaf in leaves)
        rows: Dict[Tuple[int, int], Sample] = {}
        interrupted = False
        with Bar(progress, len(entries) * samples) as bar:
            for members in groups(entries) if split else [list(range(len(entries)))]:
                requests, jobs = self._jobs(entries, members, request, samples)
                work = {
                    "do": "generate", "requests": requests, "jobs": jobs,
                    "steps": bar.shown, "tree": tree, "trace": trace,
                }
                starts = Starts([entries[index] for index in members], self._encode)
                desk = self._run(work, leaves, starts, **sizes)
                for message in desk.messages():
                    if message[0] == "step":
                        bar.step(*message[1:])
                        continue
                    job = jobs[message[1]]
                    sample = Sample(json.loads(message[2]), message[3], message[4])
                    rows[job["prompt_index"], job["sample"]] = sample
                    bar.done(message[1], sample.reward)
                    log.debug("%s: reward %.4g, %s", sample.text, sample.reward, sample.cost)
                    for note in sample.notes:
                        log.info("note: %s", note)
                if desk.interrupted:
                    interrupted = True
                    break
        if interrupted and not rows:
            raise KeyboardInterrupt
        return Samples(rows[key] for key in sorted(rows))

    def _jobs(
        self, entries: List[Dict[str, Any]], members: List[int], request: Dict[str, Any], samples: int
    ) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
        """The plans and jobs of some entries."""
        requests: List[Dict[str, Any]] = []
        jobs: List[Dict[str, Any]] = []
        plans: Dict[Any, int] = {}
        for index in members:
            entry = entries[index]
            # All prompts share one plan; each template and each finished text has its own.
            own = _clean({"template": entry.get("template"), "text": entry.get("given"), "keep": entry.get("keep")})
            key = tuple(own.items())
            if key not in plans:
                plans[key] = len(requests)
                requests.append({**request, **own})
            for sample in range(samples):
                jobs.append({
                    "plan": plans[key], "prompt": entry["prompt"], "prompt_index": index, "sample": sample,
                    "extra": entry["extra"],
                })
        return requests, jobs

    def _frames(
        self, entry: Dict[str, Any], request: Dict[str, Any], leaves: List[Leaf], tree: bool, trace: bool
    ) -> Iterator[Frame]:
        requests, jobs = self._jobs([entry], [0], request, 1)
        work = {
            "do": "generate", "requests": requests, "jobs": jobs,
            "frames": True, "tree": tree, "trace": trace,
        }
        desk = self._run(work, leaves, Starts([entry], self._encode))
        before: Optional[Frame] = None
        for message in desk.messages():
            if message[0] == "frame":
                before = frame_of(json.loads(message[2]))
                yield before
            else:
                yield last_frame(Sample(json.loads(message[2]), message[3], message[4]), before)
        if desk.interrupted:
            raise KeyboardInterrupt

    def _to_streamer(
        self, entry: Dict[str, Any], streamer: Any, reward: Any, judge: Any, screen: Any, trace: bool,
        options: Dict[str, Any],
    ) -> Sample:
        """A transformers streamer: the prompt's ids, a draft a step where it takes drafts, the answer's ids."""
        from ._streamers import feed

        request, leaves = self._request(reward, judge, screen, 1, options)
        mask_id = self._engine.mask_id(json.dumps(self._fields))
        return feed(self._frames(entry, request, leaves, False, trace), streamer, self._encode(entry["begins"]), mask_id)


def _clean(fields: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as JSON's; paths as text."""
    if hasattr(value, "item"):
        return value.item()
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise RequestError(f"options: expected plain values, got {value!r}")


def _check_complete(rows: Sequence[Any]) -> None:
    if any(row is None for row in rows):
        raise KeyboardInterrupt


def load(
    model: Any = "pocket",
    *,
    tokenizer: Optional[str] = None,
    mask_id: Optional[int] = None,
    dtype: Optional[str] = None,
    precision: Optional[str] = None,
    read_as: Optional[str] = None,
    threads: Optional[int] = None,
    lazy: bool = False,
) -> Treasure:
    """A model by name: `pocket`, a directory in Hugging Face layout, a GGUF file, or a hub id.

    `dtype` is how weights are held (auto, f32, f16, bf16, int8, file), `precision` what products of the model and of
    rewards are computed in (f32, bf16, int8, or auto for the fastest that this machine has), `threads` how many threads the process uses (set
    before anything runs). With `lazy` the weights are read at the first use.
    """
    if threads is not None and not _treasure.set_threads(threads):
        raise RequestError(
            f"threads: expected to be set before anything runs, got {threads} afterwards",
            "give it to the first load of the process, or set RAYON_NUM_THREADS",
        )
    name = model if isinstance(model, str) else _plain(model)
    fields = _clean({"model": name, "tokenizer": tokenizer, "mask_id": mask_id, "dtype": dtype,
                     "precision": precision, "as": read_as})
    made = Treasure(_treasure.Engine(), fields)
    made._remake = (_again, (name, tokenizer, mask_id, dtype, precision, read_as, lazy))
    if not lazy:
        # A rule needs no weights, so the denoiser alone is read.
        for _ in made._run({"do": "prepare", "request": {**fields, "reward": "regex:a"}}, [], Starts([])).messages():
            pass
    return made


def _again(
    name: str, tokenizer: Any, mask_id: Any, dtype: Any, precision: Any, read_as: Any, lazy: bool
) -> Treasure:
    return load(
        name, tokenizer=tokenizer, mask_id=mask_id, dtype=dtype, precision=precision, read_as=read_as, lazy=lazy
    )


