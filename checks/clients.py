"""OpenAI's Python client against the server: completions, chat, streaming, errors."""

import json
import os
import subprocess
import sys
import threading
import time

import openai
from openai import OpenAI

OWN = {"reward": "sentiment=negative", "min_length": 6}
ASK = {"model": "pocket", "prompt": "The old dog", "max_tokens": 12, "seed": 3, "extra_body": {"treasure": OWN}}


def check(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        sys.exit(1)


def refused(kind, call):
    """The error of a call that must be refused."""
    try:
        call()
    except kind as error:
        return error
    check(f"a {kind.__name__}", False)


def completions(client):
    models = [model.id for model in client.models.list()]
    check(f"models: {models}", models == ["pocket", "pocket-2"] and client.models.retrieve("pocket").id == "pocket")
    answer = client.completions.create(**ASK)
    choice = answer.choices[0]
    check(f"a completion: {choice.text!r}", choice.text and choice.finish_reason in ("stop", "length"))
    check(f"its usage: {answer.usage.prompt_tokens} + {answer.usage.completion_tokens}",
          answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 12)
    check(f"ours beside it: reward {choice.treasure['reward']:.3f}, {choice.treasure['cost']['nfe']} model calls",
          choice.treasure["plan"]["seed"] == 3)
    line = [os.environ["TREASURE"], "generate", ASK["prompt"], "--json", "--seed", "3", "--length", "12", "--min-length", "6", "--reward", OWN["reward"]]
    alone = json.loads(subprocess.run(line, capture_output=True, check=True).stdout.splitlines()[0])
    check("the command line writes the same text, for the same reward", (alone["continuation"], alone["reward"]) == (choice.text, choice.treasure["reward"]))
    many = client.completions.create(**{**ASK, "prompt": ["The old dog", "A girl"], "n": 2})
    check("prompt lists and n", [each.index for each in many.choices] == [0, 1, 2, 3] and many.choices[0].text == choice.text)
    raw = client.completions.with_raw_response.create(**ASK)
    check("a request id", raw.headers["x-request-id"])
    return choice


def streams(client, choice):
    chunks = list(client.completions.create(**ASK, stream=True))
    check(f"{len(chunks)} chunks append to the same text", "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == choice.text)
    check("the last says why it ended and what was used", chunks[-1].choices[0].finish_reason == choice.finish_reason and chunks[-1].usage.completion_tokens > 0)
    chunks = list(client.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    check("usage by itself where it is asked for", chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 12)
    own = {"treasure": {**OWN, "method": "greedy", "order": "left-to-right"}}
    chunks = list(client.completions.create(**{**ASK, "extra_body": own}, stream=True))
    check(f"a single text comes while it forms, in {len(chunks)} chunks", len(chunks) > 4)
    frames = [chunk for chunk in client.completions.create(**{**ASK, "extra_body": {**ASK["extra_body"], "diffusing": True}}, stream=True)
              if getattr(chunk, "diffusion_meta", None)]
    masks = [frame.diffusion_meta["masks_left"] for frame in frames]
    check(f"frames: masks {masks}", masks[0] == 12 and masks[-1] == 0 and frames[-1].choices[0].text == choice.text)


def chats(client, plain, choice):
    ask = {"messages": [{"role": "user", "content": "The old dog"}], "max_tokens": 12, "seed": 3, "extra_body": ASK["extra_body"]}
    error = refused(openai.BadRequestError, lambda: plain.chat.completions.create(model="pocket", **ask))
    check(f"no chat without a template: {error.body['message'].splitlines()[0]}", "chat template" in str(error))
    answer = client.chat.completions.create(model="pocket-2", **ask)
    check(f"chat: {answer.choices[0].message.content!r}", answer.choices[0].message.content == choice.text and answer.choices[0].message.role == "assistant")
    parts = [chunk.choices[0].delta for chunk in client.chat.completions.create(model="pocket-2", stream=True, **ask) if chunk.choices]
    check("chat in chunks", parts[0].role == "assistant" and "".join(part.content or "" for part in parts) == choice.text)


def errors(client, locked):
    error = refused(openai.NotFoundError, lambda: client.completions.create(**{**ASK, "model": "gpt-4"}))
    check(f"404: {error.body['message'].splitlines()[0]}", error.code == "model_not_found" and error.param == "model")
    error = refused(openai.BadRequestError, lambda: client.completions.create(**{**ASK, "extra_body": {"treasure": {"beam_widht": 3}}}))
    check(f"400: {error.body['message'].splitlines()}", "beam_width" in str(error) and error.param == "treasure.beam_widht")
    error = refused(openai.BadRequestError, lambda: client.completions.create(**ASK, temperature=0.7))
    check(f"400: {error.body['message'].splitlines()[0]}", error.param == "temperature")
    error = refused(openai.BadRequestError, lambda: client.completions.create(**{**ASK, "extra_body": {"treasure": {"reward": "exec:id"}}}, stream=True))
    check(f"400 before a stream: {error.body['message'].splitlines()[0]}", error.code == "reward_not_allowed")
    error = refused(openai.AuthenticationError, lambda: locked("wrong").models.list())
    check(f"401: {error.body['message'].splitlines()[0]}", error.code == "invalid_api_key")
    check("and with the key an answer", locked("sesame").models.list().data)


def busy(client):
    """More at once than a server without a queue takes: 429, and the client's own retries get through."""
    found = {}

    def ask(number):
        try:
            found[number] = client.completions.create(**{**ASK, "seed": number})
        except openai.RateLimitError as error:
            found[number] = error

    threads = [threading.Thread(target=ask, args=[number]) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refusals = [each for each in found.values() if isinstance(each, openai.RateLimitError)]
    check(f"24 at once without a queue: {len(refusals)} refused", refusals and len(refusals) < 24)
    check(f"each with Retry-After {sorted({each.response.headers['retry-after'] for each in refusals})}",
          all(int(each.response.headers["retry-after"]) >= 1 for each in refusals))


def main(address, locked, full):
    began = time.monotonic()
    client = OpenAI(base_url=address + "v1", api_key="none", max_retries=0)
    choice = completions(client)
    streams(client, choice)
    errors(client, lambda key: OpenAI(base_url=locked + "v1", api_key=key, max_retries=0))
    crowded = OpenAI(base_url=full + "v1", api_key="none", max_retries=0)
    chats(client, crowded, choice)
    busy(crowded)
    print(f"all well after {time.monotonic() - began:.0f} s (openai {openai.__version__})")


main(*sys.argv[1:])
