"""`treasure serve` under load: answers, memory, throughput, the first frame, and SIGTERM in the midst of it."""

import argparse
import collections
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

CLIENTS, AT_ONCE, KINDS = 64, 8, 24
REWARDS = ["sentiment=negative", "sentiment=positive + 0.5*perplexity", "cola", "contains:river,hat"]
failed = []


def check(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        failed.append(what)


def busy():
    """Seconds of processor that the machine has spent, and that were there to spend."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), sum(fields) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server of our own on a free port."""

    def __init__(self, binary, *more):
        self.log = open("/dev/null", "w")
        command = [binary, "serve", "--port", "0", "--json", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.place = urllib.parse.urlsplit(json.loads(self.process.stdout.readline())["listening"])
        while self.get("/ready")[0] != 200:
            time.sleep(0.05)

    def connect(self):
        return http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=300)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def ask(self, body, connection=None):
        connection = connection or self.connect()
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("Retry-After")

    def memory(self):
        """Resident megabytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def seconds(self):
        """Processor seconds it has used."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name):
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def body(number, tokens=16, **more):
    own = {"reward": REWARDS[number % len(REWARDS)], "min_length": 4}
    return {"prompt": ["The old dog", "A girl", "Once upon a time"][number % 3], "max_tokens": tokens, "seed": number, "treasure": own, **more}


def told(answer):
    """What must not depend on who else asks."""
    choice = json.loads(answer)["choices"][0]
    own = choice["treasure"]
    return choice["text"], own["reward"], own["rewards"], own["cost"]["nfe"], own.get("stopped")


def leave(server, dice, number):
    """Sends a request, or half of one, and goes away."""
    with socket.create_connection((server.place.hostname, server.place.port)) as gone:
        data = json.dumps(body(number, stream=dice.random() < 0.5)).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n".encode()
        gone.sendall((head + data)[:len(head) + dice.choice([5, len(data)])])
        time.sleep(dice.random() * 0.2)


def load(server, seconds, found):
    alone = {number: told(server.ask(body(number))[1]) for number in range(KINDS)}
    counts, wrong, taken = collections.Counter(), [], []
    end = time.monotonic() + seconds

    def client(seed):
        dice, connection = random.Random(seed), server.connect()
        while time.monotonic() < end:
            number, began = dice.randrange(KINDS), time.monotonic()
            try:
                if dice.random() < 0.05:
                    leave(server, dice, number)
                    counts["left"] += 1
                    continue
                status, said, retry = server.ask(body(number), connection)
            except (OSError, http.client.HTTPException) as error:
                counts[repr(error)] += 1
                connection = server.connect()
                continue
            counts[status] += 1
            if status == 200:
                taken.append(time.monotonic() - began)
                if told(said) != alone[number]:
                    wrong.append((number, told(said), alone[number]))
            elif status == 429:
                time.sleep(min(float(retry), 1) * dice.random())

    threads = [threading.Thread(target=client, args=[seed]) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < end:
        time.sleep(min(seconds / 24, 5))
        memory.append(server.memory())
    for thread in threads:
        thread.join()
    taken.sort()
    if not taken:
        return check(f"answers under load: none, {dict(counts)}", False)
    found |= {"seconds": seconds, "answers": counts[200], "refused": counts[429], "left": counts["left"],
              "answers_per_second": round(counts[200] / seconds, 2), "median_s": round(taken[len(taken) // 2], 2),
              "p99_s": round(taken[int(len(taken) * 0.99)], 2), "memory_mb": [round(each) for each in memory],
              "searches_per_batch": round(server.metric("treasure_batched_requests_total") / max(server.metric("treasure_batches_total"), 1), 2)}
    check(f"{CLIENTS} clients for {seconds:.0f} s: {counts[200]} answers, {counts[429]} refused, {counts['left']} left, nothing else {dict(counts)}",
          set(counts) <= {200, 429, "left"})
    check(f"every answer is what it is alone {wrong[:1] or ''}", not wrong)
    # The first quarter fills caches, which are bounded.
    early, late = statistics.mean(memory[len(memory) // 4:len(memory) // 2] or memory), statistics.mean(memory[-len(memory) // 4:])
    check(f"memory is flat: {early:.0f} MB in the second quarter, {late:.0f} MB in the last", late < early * 1.05 + 10)


def throughput(server, rounds, found):
    """The same kind of searches one after another and at once, in turns, on other seeds each time."""
    taken = {"one after another": [], "at once": []}
    spent = {name: [] for name in taken}
    for turn in range(rounds + 1):
        for place, (way, times) in enumerate(taken.items()):
            # No seed twice: a server remembers texts and their scores.
            first = 10_000 + AT_ONCE * (2 * turn + place)
            jobs = [body(0, 48) | {"seed": first + number} for number in range(AT_ONCE)]
            began, used = time.monotonic(), server.seconds()
            if way == "at once":
                threads = [threading.Thread(target=server.ask, args=[job]) for job in jobs]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                for job in jobs:
                    server.ask(job)
            if turn:  # the first warms up
                times.append(time.monotonic() - began)
                spent[way].append(server.seconds() - used)
    serial, together = (statistics.median(times) for times in taken.values())
    alone, shared = (statistics.median(times) for times in spent.values())
    found |= {"serial_s": round(serial, 2), "together_s": round(together, 2), "throughput": round(serial / together, 2),
              "serial_cpu_s": round(alone, 2), "together_cpu_s": round(shared, 2)}
    check(f"{AT_ONCE} searches: {serial:.2f} s one after another, {together:.2f} s at once: ×{serial / together:.2f}"
          f" (processor {alone:.2f} s against {shared:.2f} s)", serial >= together)


def first_frame(server, found):
    taken = []
    for number in range(20):
        began, connection = time.monotonic(), server.connect()
        connection.request("POST", "/v1/completions", json.dumps(body(2000 + number, 48, stream=True, diffusing=True)))
        answer = connection.getresponse()
        while b"diffusion_meta" not in answer.readline():
            pass
        taken.append((time.monotonic() - began) * 1000)
        connection.close()
        while server.metric("treasure_searches_running"):
            time.sleep(0.01)
    taken.sort()
    found |= {"first_frame_ms": round(taken[10], 1), "first_frame_worst_ms": round(taken[-1], 1)}
    check(f"the first frame of an idle server after {taken[10]:.0f} ms, at worst {taken[-1]:.0f} ms", taken[-1] < 300)


def stop(server):
    """SIGTERM with 16 searches, 8 of them waiting: each is answered, and the process ends with 0."""
    found = collections.Counter()
    threads = [threading.Thread(target=lambda n=n: found.update([server.ask(body(3000 + n))[0]])) for n in range(16)]
    for thread in threads:
        thread.start()
    while server.metric("treasure_searches_running") + server.metric("treasure_queue_length") < 16:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    status = server.process.wait(60)
    check(f"SIGTERM with 16 under way: {dict(found)}, exit {status}", found[200] == 16 and status == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="target/release/treasure")
    parser.add_argument("--seconds", type=float, default=120, help="of 64 clients")
    parser.add_argument("--rounds", type=int, default=3, help="of throughput")
    parser.add_argument("--json", action="store_true", help="the numbers, on the last line")
    args = parser.parse_args()
    # A short queue, so that 64 clients see 429; time to drain, so that SIGTERM is about what is lost and not about speed.
    server, found = Server(args.binary, "--max-queue", "32", "--drain-seconds", "300"), {}
    try:
        (others, began), own = busy(), server.seconds()
        first_frame(server, found)
        throughput(server, args.rounds, found)
        load(server, args.seconds, found)
        (used, ended), own = busy(), server.seconds() - own
        found["foreign"] = round(max(used - others - own, 0) / (ended - began), 2)
        print(f"        others used {found['foreign']:.0%} of the machine, clients included; {found.get('searches_per_batch')} searches share a pass")
        stop(server)
    finally:
        server.process.kill()
    if args.json:
        print(json.dumps(found))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
