"""64 clients on a server: nothing but answers and 429, each answer what it would be alone, memory flat."""

import collections
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import urllib.parse

CLIENTS, AT_ONCE = 64, 8
REWARDS = ["sentiment=negative", "sentiment=positive + 0.5*perplexity", "cola", "contains:river,hat"]


def check(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        sys.exit(1)


class Server:
    def __init__(self, address, process):
        self.place, self.process = urllib.parse.urlsplit(address), process

    def connect(self):
        return http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=300)

    def ask(self, body, connection=None):
        connection = connection or self.connect()
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("Retry-After")

    def memory(self):
        """Resident megabytes."""
        with open(f"/proc/{self.process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def body(number, tokens=16):
    return {"prompt": ["The old dog", "A girl", "Once upon a time"][number % 3], "max_tokens": tokens, "seed": number,
            "treasure": {"reward": REWARDS[number % len(REWARDS)], "min_length": 4}}


def text(answer):
    choice = json.loads(answer)["choices"][0]
    return choice["text"], choice["treasure"]["reward"], choice["treasure"]["cost"]["nfe"]


def load(server, seconds):
    alone = {number: text(server.ask(body(number))[1]) for number in range(24)}
    counts, wrong, taken = collections.Counter(), [], []
    end = time.monotonic() + seconds

    def client(seed):
        dice, connection = random.Random(seed), server.connect()
        while time.monotonic() < end:
            number, began = dice.randrange(24), time.monotonic()
            if dice.random() < 0.05:
                # Leaves in the middle, sometimes in the middle of the body.
                with socket.create_connection((server.place.hostname, server.place.port)) as gone:
                    data = json.dumps(body(number)).encode()
                    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n".encode()
                    gone.sendall((head + data)[:len(head) + dice.choice([5, len(data)])])
                    time.sleep(dice.random() * 0.2)
                counts["left"] += 1
                continue
            try:
                status, said, retry = server.ask(body(number), connection)
            except OSError as error:
                counts[repr(error)] += 1
                connection = server.connect()
                continue
            counts[status] += 1
            if status == 200:
                taken.append(time.monotonic() - began)
                if text(said) != alone[number]:
                    wrong.append((number, text(said), alone[number]))
            elif status == 429:
                time.sleep(min(float(retry), 1) * dice.random())

    threads = [threading.Thread(target=client, args=[seed]) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < end:
        time.sleep(seconds / 12)
        memory.append(server.memory())
    for thread in threads:
        thread.join()
    taken.sort()
    print(f"        {dict(counts)}; median {taken[len(taken) // 2]:.2f} s, 99 % {taken[int(len(taken) * 0.99)]:.2f} s; MB {[round(mb) for mb in memory]}")
    check(f"{counts[200]} answers, {counts[429]} refused, nothing else", set(counts) <= {200, 429, "left"} and counts[200])
    check(f"every answer is what it is alone {wrong[:1] or ''}", not wrong)
    half = memory[len(memory) // 2]
    check(f"memory is flat: {half:.0f} MB half way, {memory[-1]:.0f} MB at the end", memory[-1] < half * 1.1 + 20)


def throughput(server):
    jobs = [body(100 + number, tokens=32) for number in range(AT_ONCE)]
    began = time.monotonic()
    one = [text(server.ask(job)[1]) for job in jobs]
    serial, began = time.monotonic() - began, time.monotonic()
    # Other seeds, so that nothing is remembered from before.
    others = [{**job, "seed": job["seed"] + 1000} for job in jobs]
    threads = [threading.Thread(target=server.ask, args=[job]) for job in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = time.monotonic() - began
    check(f"{AT_ONCE} searches: {serial:.2f} s one after another, {together:.2f} s at once: ×{serial / together:.2f}", len(one) == AT_ONCE)


def first_frame(server):
    taken = []
    for number in range(10):
        began, connection = time.monotonic(), server.connect()
        connection.request("POST", "/v1/completions", json.dumps({**body(2000 + number, 48), "stream": True, "diffusing": True}))
        answer = connection.getresponse()
        while b"diffusion_meta" not in answer.readline():
            pass
        taken.append(time.monotonic() - began)
        connection.close()
        time.sleep(0.3)
    check(f"first frame after {sorted(taken)[5] * 1000:.0f} ms, at worst {max(taken) * 1000:.0f} ms", sorted(taken)[5] < 0.3)


def stop(server):
    """SIGTERM with 16 searches under way: each is answered."""
    found = collections.Counter()
    threads = [threading.Thread(target=lambda n=n: found.update([server.ask(body(3000 + n, 48))[0]])) for n in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    os.kill(server.process, signal.SIGTERM)
    for thread in threads:
        thread.join()
    check(f"SIGTERM with 16 under way: {dict(found)}", found[200] == 16)


if __name__ == "__main__":
    running = Server(sys.argv[1], int(sys.argv[2]))
    first_frame(running)
    throughput(running)
    load(running, float(sys.argv[3]))
    stop(running)
