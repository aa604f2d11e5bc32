"""A stand-in for `treasure serve` while the page is worked on: the routes the page reads, a deterministic toy search.

    python3 web/mock/serve.py [PORT]      DELAY is the pause between steps in seconds, KEY an API key to ask for

The toy's model likes a plain story best at every position; its judge counts sad and happy words. So the search is a real
one (branch, fill, score, keep), and nothing else here is.
"""

import functools
import hashlib
import http.server
import json
import math
import os
import pathlib
import re
import sys
import time

WEB = pathlib.Path(__file__).resolve().parent.parent
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
DELAY, KEY = float(os.environ.get("DELAY", "0.02")), os.environ.get("KEY")

PLAIN = (" went to the park with a boy and they saw a red ball by the big tree . It was a warm day and the boy said that they"
         " should play until the sun went down . Then they walked home and had some bread . The end of the day was").split(" ")[1:]
SAD = "lost cold alone sad cried dark broken hurt afraid wept gone empty grey tired".split()
HAPPY = "happy bright laughed warm friend sweet smiled gift proud sang loved kind golden glad".split()
ODD = "stone under blue seven quickly maybe river hat again soup window paper left slow".split()

REWARDS = [
    {"id": "sentiment=positive", "description": "sounds happy", "value": "log-probability"},
    {"id": "sentiment=negative", "description": "sounds sad or angry", "value": "log-probability"},
    {"id": "cola", "description": "grammatical English", "value": "log-probability"},
    {"id": "perplexity", "description": "fluent: what a small story model expects", "value": "mean-log-likelihood"},
    {"id": "no-toxicity", "description": "inoffensive", "value": "log-probability"},
    {"id": "contains:", "description": "has these words", "value": "unit", "example": "contains:river,hat"},
    {"id": "length:", "description": "has so many words", "value": "unit", "example": "length:20..30"},
]
WIDTH = {"minimum": 1, "maximum": 64}
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False, "properties": {
    "reward": {"type": "string", "default": "perplexity"}, "template": {"type": "string"}, "method": {"enum": ["treasure", "base", "bon"]},
    "beam_width": {"type": "integer", "default": 5, **WIDTH}, "tree_width": {"type": "integer", "default": 2, **WIDTH},
    "prior": {"type": "number", "default": 0.02, "minimum": 0}, "min_p": {"type": "number", "default": 0.05, "minimum": 0, "maximum": 1},
    "length": {"type": "integer", "default": 48}, "min_length": {"type": "integer", "default": 24}, "matches": {"type": "string"},
    "judge": {"type": "array"}, "particles": {"type": "integer"}, "order": {"type": "string"}, "variety": {"type": "number"},
    "trace": {"type": "boolean"}}}


class Refusal(Exception):
    def __init__(self, status, message, param=None, hint=None):
        self.status = status
        self.error = {"message": message, "type": "invalid_request_error", "param": param, "code": None, "hint": hint}


def unit(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big") / 2**48


def parts_of(spec):
    """[(as written, weight, name)], or the complaint of the command line with its caret."""
    found, at = [], 0
    for written in spec.split(" + "):
        weight, name = re.fullmatch(r"(?:(-?[\d.]+)\*)?(.*)", written.strip(), re.S).groups()
        scheme = name.split(":")[0] + ":"
        if not any(entry["id"] in (name, scheme) for entry in REWARDS) and not name.startswith("tei+http://"):
            start = at + written.index(name) if name else at
            raise Refusal(400, f'reward: expected a reward, got "{name}"\n  {spec}\n  {" " * start}^', "treasure.reward",
                          "short names: " + ", ".join(entry["id"] for entry in REWARDS))
        found.append((written.strip(), float(weight or 1), name))
        at += len(written) + 3
    return found


def score(name, text):
    words = re.findall(r"\w+", text)
    sad, happy = sum(w in SAD for w in words), sum(w in HAPPY for w in words)
    odd = sum(w in ODD + SAD + HAPPY for w in words) / max(len(words), 1)
    if name.startswith("contains:"):
        wanted = name[9:].split(",")
        return sum(w in words for w in wanted) / len(wanted)
    if name.startswith("length:"):
        return 1.0 if len(words) >= 20 else 0.0
    if name.startswith("sentiment"):
        lean = (sad - happy) * (1 if name.endswith("negative") else -1)
        return -math.log1p(math.exp(2.2 - 0.7 * lean))
    return -2.2 - 3 * odd if name == "perplexity" else -0.1 - 2 * odd


def reward(parts, text):
    each = {written: weight * score(name, text) for written, weight, name in parts}
    return sum(each.values()), each


@functools.cache
def candidates(seed, position):
    """The tokens of a position with their probabilities, likeliest first."""
    pick = lambda words, n: words[int(unit(seed, position, n) * len(words))]
    texts = [PLAIN[(position - 1) % len(PLAIN)], pick(ODD, 0), pick(HAPPY, 1), pick(SAD, 2), pick(PLAIN, 3), pick(ODD, 4), pick(SAD, 5)]
    texts = list(dict.fromkeys(texts))
    top = 0.3 + 0.6 * unit(seed, position)
    return [(" " + text if text != "." else text, top if n == 0 else (1 - top) * 0.5**n) for n, text in enumerate(texts)]


def search(start, ask, seed):
    """Yields (frame, nodes) a step and returns the tokens of the answer. Positions index `start`; None is a mask."""
    parts, beam, tree = parts_of(ask.get("reward") or "perplexity"), ask.get("beam_width", 5), ask.get("tree_width", 2)
    masks = sorted((at for at, token in enumerate(start) if token is None), key=lambda at: unit(seed, "order", at) + at / 40)
    fill = lambda state: "".join(t["text"] if t else candidates(seed, at)[0][0] for at, t in enumerate(state))
    population, ids = [(0, start, 0.0)], 0
    cost = {"nfe": 0, "nfe_hits": 0, "reward_calls": 0, "reward_cache_hits": 0}
    blank = {"also": [], "parent_slot": None, "slots": [], "tau": 1.0}
    yield start, 0, None, None, dict(cost), [{"event": "node", "id": 0, "parent": None, "step": None, "masks_left": len(masks),
                                             "position": None, "token": None, "rank": 0, "value": None, "kept": True, "reason": None, **blank}]
    for step, at in enumerate(masks):
        time.sleep(DELAY)
        if step == 3 and any(name.startswith("tei+") for _, _, name in parts):
            raise Refusal(500, "reward tei+http://…: connection refused", "treasure.reward", "is the server running, and is the address right?")
        children, seen = [], {}
        cost["nfe"] += len(population)
        for parent, state, _ in population:
            options = candidates(seed, at)[:beam]
            for rank, (text, p) in enumerate(options):
                if p < ask.get("min_p", 0.05) * options[0][1]:
                    continue
                ids += 1
                child = state[:at] + [{"text": text, "p": round(p, 4)}] + state[at + 1:]
                value = reward(parts, fill(child))[0] + ask.get("prior", 0.02) * math.log(p) + 0.4 * unit(seed, fill(child))
                cost["reward_calls"] += 1
                children.append({"id": ids, "parent": parent, "rank": rank, "text": text, "p": round(p, 4), "value": round(value, 4), "state": child})
        for child in sorted(children, key=lambda c: -c["value"]):
            spelt = fill(child["state"])
            child["reason"] = "duplicate" if spelt in seen else "beaten" if len(seen) >= tree else None
            if child["reason"] is None:
                seen[spelt] = child
        population = [(c["id"], c["state"], c["value"]) for c in seen.values()]
        nodes = [{**blank, "event": "node", "step": step, "position": at, "token": hash(c["text"]) % 4096, "masks_left": len(masks) - step - 1,
                  "kept": c["reason"] is None, **{k: v for k, v in c.items() if k != "state"}} for c in children]
        best = population[0]
        yield best[1], best[0], best[2], reward(parts, fill(best[1]))[0], dict(cost), nodes


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, data, kind="application/json"):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, refusal):
        self.send(refusal.status, {"error": refusal.error})

    def allowed(self):
        if KEY and self.headers.get("Authorization") != f"Bearer {KEY}":
            raise Refusal(401, "api key: expected a known key, got " + ("another" if self.headers.get("Authorization") else "none"))

    def do_GET(self):
        known = {"/v1/models": {"object": "list", "data": [{"id": "pocket", "object": "model"}]},
                 "/v1/rewards": {"object": "list", "data": REWARDS}, "/v1/schema": SCHEMA}
        try:
            if self.path in known:
                self.allowed()
                return self.send(200, known[self.path])
            file = WEB / ("index.html" if self.path == "/" else self.path[1:])
            if file.parent == WEB and file.suffix in TYPES and file.is_file():
                return self.send(200, file.read_bytes(), TYPES[file.suffix])
            raise Refusal(404, f"no such route: {self.path}")
        except Refusal as refusal:
            self.refuse(refusal)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.allowed()
            if self.path != "/v1/completions":
                raise Refusal(404, f"no such route: {self.path}")
            self.complete(body)
        except Refusal as refusal:
            self.refuse(refusal)
        except OSError:
            pass  # The client left.

    def complete(self, body):
        ask, seed, prompt = body.get("treasure", {}), body.get("seed", 0), body.get("prompt", "")
        for name in ask:
            if name not in SCHEMA["properties"]:
                raise Refusal(400, f"treasure: unknown field `{name}`", f"treasure.{name}", "known: " + ", ".join(SCHEMA["properties"]))
        for name in ("beam_width", "tree_width"):
            if ask.get(name, 1) > 64:
                raise Refusal(400, f"{name}: expected at most 64, got {ask[name]}", f"treasure.{name}", "the operator's limit; lower it")
        if body.get("model") != "pocket":
            raise Refusal(404, f"model: expected one of pocket, got {body.get('model')}", "model")
        parts = parts_of(ask.get("reward") or "perplexity")
        if ask.get("template"):
            pieces = re.split(r" ?\[MASK(?::(\d+))?\]", ask["template"])
            start = [{"text": pieces[0]}] if pieces[0] else []
            for n, text in zip(pieces[1::2], pieces[2::2]):
                start += [None] * int(n or 1) + ([{"text": text}] if text else [])
        else:
            start = [{"text": prompt}] + [None] * body.get("max_tokens", 48)
        began, masks = time.monotonic(), start.count(None)
        method = ask.get("method", "treasure")
        own = ask if method == "treasure" else {**ask, "beam_width": 1, "tree_width": 1}
        steps = search(start, own, seed)
        if body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
        try:
            for step, (tokens, node, value, best, cost, nodes) in enumerate(steps):
                if body.get("stream"):
                    self.frame(body, tokens, step, masks, value, best, cost, node, nodes, prompt, parts, began)
        except Refusal as refusal:
            if not body.get("stream"):
                raise
            return self.event({"error": refusal.error})
        if body.get("stream"):
            self.event({"object": "text_completion", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": masks, "total_tokens": masks + 3}})
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            choice = self.choice(tokens, prompt, parts, {**cost, "nfe": masks * ask.get("particles", 1), "reward_calls": ask.get("particles", 1)} if method != "treasure" else cost, began, ask)
            self.send(200, {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "pocket", "choices": [choice],
                            "usage": {"prompt_tokens": 3, "completion_tokens": masks, "total_tokens": masks + 3}})

    def choice(self, tokens, prompt, parts, cost, began, ask):
        text = "".join(t["text"] if t else "░" for t in tokens)
        found = {"index": 0, "text": text[len(prompt):], "logprobs": None, "finish_reason": None}
        if None not in tokens:
            total, each = reward(parts, text)
            found["finish_reason"] = "length"
            found["treasure"] = {"reward": total, "rewards": each, "cost": {**cost, "seconds": round(time.monotonic() - began, 3)}, "plan": ask}
            if ask.get("judge"):
                found["treasure"]["held_out"] = {"judges": {spec: reward(parts_of(spec), text)[0] for spec in ask["judge"]},
                                                 "perplexity": math.exp(-score("perplexity", text)), "dist": [0.8, 0.97, 1.0]}
        return found

    def frame(self, body, tokens, step, steps, value, best, cost, node, nodes, prompt, parts, began):
        chunk = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "pocket",
                 "choices": [self.choice(tokens, prompt, parts, cost, began, body.get("treasure", {}))],
                 "diffusion_meta": {"diffusion_content": True, "step": step, "steps": steps, "masks_left": tokens.count(None),
                                    "nfe": cost["nfe"], "reward_calls": cost["reward_calls"], "value": value, "reward": best}}
        if body["treasure"].get("trace"):
            chunk["treasure"] = {"tokens": tokens, "node": node, "events": nodes}
        self.event(chunk)

    def event(self, data):
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8080), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
