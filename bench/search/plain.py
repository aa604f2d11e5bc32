"""TReASURe as a competent person writes it in PyTorch: batched parents, batched children, nothing cached.

One JSON request per line on standard input, one answer per line on standard output, so that a race can alternate with
the product without loading anything twice.
"""

import json
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

import networks
from keys import Key, branch_position


class Search:
    def __init__(self, request):
        torch.set_num_threads(request.get("threads", 2))
        networks.DTYPE = getattr(torch, request.get("dtype", "float32"))
        kind = json.loads((Path(request["model"]) / "config.json").read_text())["model_type"]
        self.denoiser = {"llada": networks.Llada, "mdlm": networks.Dit}[kind](request["model"])
        tokenizer = request.get("tokenizer") or request["model"]
        self.tokenizer = Tokenizer.from_file(str(Path(tokenizer) / "tokenizer.json"))
        self.reward = self.make_reward(request["reward"])
        self.eos = request.get("eos")
        # Tokens without text, which could not be seen in the result, and the mask.
        self.never = request.get("never", []) + [self.denoiser.mask_id]
        self.seconds = dict(denoiser=0.0, reward=0.0)

    @staticmethod
    def make_reward(spec):
        scheme, rest = spec.split(":", 1)
        if scheme == "ppl":
            return networks.PerplexityReward(rest)
        directory, label = rest.rsplit("#", 1)
        return networks.ClassifierReward(directory, label)

    def timed(self, what, work):
        begin = time.perf_counter()
        result = work()
        self.seconds[what] += time.perf_counter() - begin
        return result

    def text(self, ids, given, prompt):
        ids = ids[given:]
        if self.eos in ids:
            ids = ids[: ids.index(self.eos)]
        if not ids:
            return prompt
        # The first piece's own leading space survives only behind another token.
        anchor = self.prompt_ids[-1:]
        return prompt + self.tokenizer.decode(anchor + ids)[len(self.tokenizer.decode(anchor)) :]

    def predict(self, states):
        ids = torch.tensor([[self.denoiser.mask_id if s is None else s for s in state] for state in states])
        logits = self.denoiser(ids)
        logits[..., self.never] = -torch.inf
        return logits

    def step(self, states, given, prompt, min_length, beam, width, sample):
        """One expansion of all states: the best `width` children with their rewards."""
        logits = self.timed("denoiser", lambda: self.predict(states))
        if self.eos is not None:
            logits[:, : given + min_length, self.eos] = -torch.inf
        argmax = logits.argmax(-1).tolist()
        children, texts = [], []
        for parent, state in enumerate(states):
            position = branch_position(sample, state)
            for rank, token in enumerate(logits[parent, position].topk(beam).indices.tolist()):
                child = list(state)
                child[position] = token
                filled = [best if slot is None else slot for slot, best in zip(child, argmax[parent])]
                children.append((rank, parent, token, child))
                texts.append(self.text(filled, given, prompt))
        rewards = self.timed("reward", lambda: self.reward.score(texts))
        for reward, text in zip(rewards, texts):
            if self.best is None or reward > self.best[0]:
                self.best = (reward, text)
        best = {}
        for reward, (rank, parent, token, child), text in zip(rewards, children, texts):
            key = (-reward, rank, parent, token)
            if tuple(child) not in best or key < best[tuple(child)][0]:
                best[tuple(child)] = (key, child, text)
        return sorted(best.values(), key=lambda entry: entry[0])[:width]

    @torch.inference_mode()
    def run(self, request):
        self.seconds = dict(denoiser=0.0, reward=0.0)
        sample = Key.of_seed(request["seed"])
        for tag in request.get("sample_path", []):
            sample = sample.fold(tag)
        prompt = request["prompt"]
        given = request["given"]
        states = [request["slots"]]
        self.prompt_ids = request["slots"][:given]
        self.best = None
        skip = request.get("skip", 0)
        whole = request["slots"].count(None)
        last = skip + request["steps"] if request.get("steps") else whole
        begin = time.perf_counter()
        for index in range(last):
            if index == skip:  # the clock starts here
                self.seconds = dict(denoiser=0.0, reward=0.0)
                begin = time.perf_counter()
            kept = self.step(
                states, given, prompt, request.get("min_length", 0), request["beam"], request["width"], sample
            )
            states = [child for _, child, _ in kept]
        total = time.perf_counter() - begin
        # A search that runs to its end returns its best leaf, one that is stopped the best text it saw.
        reward, text = (-kept[0][0][0], kept[0][2]) if last == whole else self.best
        return dict(text=text, reward=reward, seconds=total, parts=self.seconds)


def main():
    search = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            search = Search(request)
            print(json.dumps({"loaded": True}), flush=True)
        else:
            print(json.dumps(search.run(request)), flush=True)


if __name__ == "__main__":
    main()
