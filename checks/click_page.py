"""Uses the playground as a person would, with keyboard and pointer, in headless Chromium."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from browser import Browser, check
from page_audit import audit

# Notes what the page shows while a search runs: [state, masks left, text] whenever one of them changes.
WATCH = """
window.told = [];
const text = document.querySelector('[data-testid=text]'), masks = document.querySelector('[data-testid=masks-left]');
window.watching?.disconnect();
window.watching = new MutationObserver(() => told.push([text.dataset.state, Number(masks.textContent.replaceAll(',', '')), text.textContent, performance.now()]));
watching.observe(text, {attributes: true, attributeFilter: ['data-state']});
watching.observe(masks, {childList: true, characterData: true, subtree: true});
window.began = performance.now();
"""

# The page's own modules, on inputs that a run does not bring.
MODULES = """
const [{split, join, fragment, fromFragment, holes, predict, body, route, learnPlan, FIRST}, {events}] = await Promise.all(
  ['request.js', 'stream.js'].map((name) => import(new URL(name, location.href).href)));
const wrong = [];
const same = (what, got, wanted) => JSON.stringify(got) === JSON.stringify(wanted) || wrong.push(`${what}: ${JSON.stringify(got)}`);
for (const spec of ['cola', 'sentiment=negative + 0.5*perplexity', "regex:'a+ b + c' + cola", 'min(cola, perplexity + cola) + -2*toxicity',
  "contains:don't,stop + cola", 'regex:(a + 0.25*cola', '1e-7*perplexity', "regex:'it''s + x' + cola"]) same(spec, join(split(spec)), spec);
same('parts', split("0.5*regex:'a + b' + min(cola, x + y)"), [{weight: 0.5, spec: "regex:'a + b'"}, {weight: 1, spec: 'min(cola, x + y)'}]);
same('said, not continued', [route({mode: 'chat'}), body({...FIRST, mode: 'chat', model: 'm', reward: 'cola'})],
  ['v1/chat/completions', {model: 'm', messages: [{role: 'user', content: 'The old dog'}], seed: 0, treasure: {reward: 'cola'}}]);
for (const odd of ['é ░ & # % + =', '"><script>', '\\n\\t', '😀']) {
  const settings = {...FIRST, model: 'm', prompt: odd, template: odd, reward: odd, matches: odd, judge: odd, extra: odd, prior: 0.123, seed: 7, mode: 'fill'};
  same('link', Object.entries(fromFragment(fragment(settings), FIRST)).sort(), Object.entries(settings).sort());
}
same('holes', [holes('a [MASK] b [MASK:12].'), holes('a')], [13, 0]);
same('cost', predict({...FIRST, beam_width: 5, tree_width: 2, max_tokens: 48, min_p: 0}), {nfe: 95, reward_calls: 475, fewer: false});
same('nothing moved, nothing sent', body({...FIRST, model: 'm', reward: 'cola'}), {model: 'm', prompt: 'The old dog', seed: 0, treasure: {reward: 'cola'}});
same('a moved slider is sent, also to 0', body({...FIRST, model: 'm', reward: '', prior: 0, beam_width: 7}).treasure, {beam_width: 7, prior: 0});
same('a link without numbers leaves them to the plan', fromFragment('#v=1&prompt=a', {...FIRST, beam_width: 9}).beam_width, null);
const bytes = new TextEncoder().encode(': hello\\r\\n\\r\\ndata: {"a":"é░"}\\r\\n\\r\\ndata:1\\ndata: 2\\n\\n\\rdata: [DONE]\\r\\r\\n');
for (const size of [1, 2, 3, 7, 1000]) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
  const got = [];
  for await (const data of events(new ReadableStream({start(c) { pieces.forEach((p) => c.enqueue(p)); c.close(); }}))) got.push(data);
  same('events in pieces of ' + size, got, ['{"a":"é░"}', '1\\n2', '[DONE]']);
}
return wrong;
"""

# The example of a first visit, shorter: the check is about the page, not about the model.
SHORT = "#v=1&mode=continue&prompt=The+old+dog&reward=sentiment%3Dnegative+%2B+0.5*perplexity&max_tokens={}&min_length=8"

STATE = "return document.querySelector('[data-testid=text]').dataset.state"
TEXT = "return document.querySelector('[data-testid=text]').textContent"
MASKS = "return Number(document.querySelector('[data-testid=masks-left]').textContent.replaceAll(',', ''))"


def at(name):
    return f"[data-testid={name}]"


class Page:
    def __init__(self, browser, address):
        self.browser, self.address = browser, address

    def open(self, fragment=SHORT.format(16)):
        self.browser.open("about:blank")
        self.browser.open(self.address + fragment)
        self.browser.until("the page is ready", "return document.querySelectorAll('[data-testid=reward-chip]').length > 0 && document.querySelector('#form').dataset.plan === 'known'")

    def state(self, wanted, seconds=60):
        self.browser.until(f"the text is {wanted}", f"{STATE} === arguments[0]", wanted, seconds=seconds)

    def text(self):
        return self.browser.run(TEXT)

    def write(self):
        """Writes with the keyboard's shortcut and waits for the answer."""
        self.browser.run(WATCH)
        self.browser.press("Control", "Enter")
        self.browser.until("a search ended", "return told.some(([state]) => state === 'running') && told.at(-1)[0] !== 'running'"
                           " && document.querySelector('[data-testid=text]').dataset.state !== 'running'", seconds=60)
        return self.browser.run("return told")

    def refused(self, what):
        """Writes, and expects a refusal; returns it."""
        self.write()
        found = self.browser.until(f"an error for {what}", "const e = document.querySelector('[data-testid=error]');"
                                   "return e && [e.innerText, e.parentElement.dataset.param, e.getAttribute('role')]")
        check(f"{what}: {found[0].splitlines()[0]!r} beside {found[1]}", self.browser.run(STATE) == "error" and found[2] == "alert")
        return found


def watch_a_search(page):
    browser = page.browser
    page.open("")
    judge = browser.run("return document.querySelector('#set-judge').value")
    offered = json.load(urllib.request.urlopen(page.address + "v1/rewards"))["data"]
    check(f"and a second opinion that the search does not see: {judge}", judge == next(each.get("held_out", "") for each in offered if each["id"] == "sentiment=negative"))
    check("the documentation is one click away", urllib.request.urlopen(browser.run("return document.querySelector('nav a').href")).status == 200)
    check("an example is filled in", browser.run(f"return document.querySelector('{at('prompt')}').value") != "")
    page.open()
    cost = "return document.querySelector('[data-testid=predicted]').textContent"
    before = browser.run(cost)
    browser.run(f"document.querySelector('{at('beam-width')}').focus()")
    browser.press("Right")
    check(f"the predicted cost follows a slider: {before} → {browser.run(cost)}", before != browser.run(cost))
    browser.press("Left")
    check("and back again", before == browser.run(cost))
    browser.type(at("prompt"), "The small cat")
    told = page.write()
    page.state("done")
    counts = [masks for state, masks, *_ in told if state == "running"]
    falling = sorted(set(counts), reverse=True)
    check(f"masks fell in {len(falling)} pictures, from {falling[0]} to {falling[-1]}", len(falling) >= 5 and counts == sorted(counts, reverse=True))
    first = next(t for state, masks, _, t in told if state == "running" and masks) - browser.run("return began")
    check(f"the first frame came after {first:.0f} ms", first < 3000)
    text = page.text()
    check(f"the text goes on from the prompt: {text[:60]!r}", text.startswith("The small cat") and len(text) > 30 and "░" not in text)
    check("no mask is left", browser.run(MASKS) == 0)
    check(f"{browser.count('#text .c')} words are shaded by confidence", browser.count("#text .c") >= 10)
    spent = browser.run(f"return document.querySelector('{at('cost')}').textContent")
    check(f"the cost is told: {spent}", re.search(r"\d+ model calls? · \d[\d,]* judge calls? · [\d.]+ s", spent))
    check("the reward is a number", re.search(r"\d", browser.run(f"return document.querySelector('{at('reward-value')}').textContent")))
    return text


def follow_the_reward(page):
    """The defaults are the plan's for the reward, and none is sent that nobody chose."""
    browser = page.browser
    names = ["beam_width", "tree_width", "prior", "min_p", "min_length"]
    shown = "return arguments[0].map((name) => document.querySelector(`#set-${name}`).placeholder)"
    sent = "document.querySelector('#as-json').click(); const made = JSON.parse(document.querySelector('[data-testid=export]').textContent).request; document.querySelector('#as-json').click(); return made"
    for reward in ("contains:river,hat", "sentiment=negative", "sentiment=negative + 0.5*perplexity", "perplexity"):
        page.open("#" + urllib.parse.urlencode({"v": 1, "mode": "continue", "prompt": "The old dog", "reward": reward}))
        with urllib.request.urlopen(f"{page.address}v1/schema?{urllib.parse.urlencode({'reward': reward})}") as told:
            plan = json.load(told)["properties"]
        wanted = [str(plan[name]["default"]) for name in names]
        browser.until(f"the defaults of {reward}", f"return ({shown[7:]}).map(Number).join() === arguments[1]", names, ",".join(f"{float(each):g}" for each in wanted), seconds=5)
        check(f"the fields show what {reward} takes: {', '.join(wanted)}", True)
        check("and send none of it", browser.run(sent)["treasure"] == {"reward": reward})
    browser.type("#set-beam_width", "6")
    check("a number that was typed is sent", browser.run(sent)["treasure"] == {"reward": "perplexity", "beam_width": 6})
    browser.run("const field = document.querySelector('#set-beam_width'); field.value = ''; field.dispatchEvent(new Event('input', {bubbles: true}))")
    check("and left to the plan again once it is gone", browser.run(sent)["treasure"] == {"reward": "perplexity"})
    page.open("#" + urllib.parse.urlencode({"v": 1, "mode": "continue", "prompt": "The old dog", "reward": "contains:river,hat", "max_tokens": 4, "min_length": 2}))
    page.write()
    page.state("done")
    took = browser.run("document.querySelector('#as-json').click(); const made = JSON.parse(document.querySelector('[data-testid=export]').textContent).answer.plan; document.querySelector('#as-json').click(); return made")
    plain = json.load(urllib.request.urlopen(f"{page.address}v1/schema?reward=contains:river,hat"))["properties"]
    check(f"a search for words takes their beam of {took['beam_width']}", all(took[name] == plain[name]["default"] for name in names[:4]))


def names(page):
    """The names that the design promises; `error` comes with an error."""
    promised = "prompt reward-add reward-chip beam-width tree-width prior seed write stop text masks-left cost reward-value tree-node node-text beside copy-link history-item"
    missing = [name for name in promised.split() if not page.browser.count(at(name))]
    check(f"every promised name is there {missing or ''}", not missing)


def open_nodes(page):
    browser = page.browser
    check(f"{browser.count(at('tree-node'))} dots in the tree, {browser.count('.dots .kept path')} lines",
          browser.count(at("tree-node")) > 20 and browser.count("circle.kept") > 5 and browser.count("circle.pruned") > 5 and browser.count(".dots .kept path") > 5)
    detail = f"return document.querySelector('{at('node-text')}').innerText"
    browser.run("document.querySelector('#tree').scrollLeft = 0; document.querySelector('#tree').scrollIntoView({block: 'center'})")
    browser.run("const dots = [...document.querySelectorAll('circle.pruned')]; dots[2].id = 'wanted'")
    browser.hover("#wanted")
    shown = browser.run(detail)
    check(f"a dot under the pointer tells its fate: {shown.splitlines()[0]!r}", "pruned: " in shown and "value " in shown)
    browser.click("#wanted")
    browser.press("Left")
    shown = browser.run(detail)
    check("the left arrow goes to its parent, which was kept", re.search("kept|The start", shown) and "pruned" not in shown)
    name = browser.run("return document.activeElement.getAttribute('aria-label')")
    check(f"the dot in focus has a name: {name!r}", name.startswith("step ") and "value" in name)
    browser.run("document.querySelector('#text').focus()")
    # First through the words that were given.
    for _ in range(8):
        browser.press("Right")
        word = browser.run("return document.querySelector('#word').innerText")
        if "was given" not in word:
            break
    check(f"the arrows walk through the words: {word.splitlines()[0]!r}", "the model gave it" in word)
    browser.click("#back")
    check("a step back shows masks again", browser.run(MASKS) == 1 and "░" in page.text())
    browser.click("#forth")
    check("and forth the whole text", browser.run(MASKS) == 0 and "░" not in page.text())


def compare(page, before):
    browser = page.browser
    browser.until("the unguided text", f"return document.querySelectorAll('{at('beside')} .rows li:not(.busy)').length === 2", seconds=60)
    check("the unguided text stands beside it, with cost and reward", browser.count(f"{at('beside')} .rows li") == 2 and browser.count(f"{at('beside')} .score") == 2)
    browser.click("#pin")
    browser.run(f"document.querySelector('{at('tree-width')}').focus()")
    browser.press("Right")
    page.write()
    page.state("done")
    cards = browser.run("return [...document.querySelectorAll('#compare article .prose')].map((e) => e.textContent)")
    check("two results side by side", cards == [before, page.text()])
    shown = browser.run("return document.querySelector('#compare').innerText")
    check("what differs is named", re.search(r"tree width\s+2\s+3", shown) is not None)


def follow_the_link(page):
    browser, text = page.browser, page.text()
    browser.click(at("copy-link"))
    link = browser.run("return location.href")
    check(f"the link holds the request: {link[:90]}…", "#v=1&" in link and "The+small+cat" in link)
    asked = browser.requests()
    check(f"what was asked for holds no fragment ({len(asked)} requests)", not any("The+small+cat" in url for url in asked if "#" not in url))
    page.open(link[link.index("#"):])
    fields = browser.run(f"return ['prompt', 'tree-width', 'seed'].map((name) => document.querySelector(`[data-testid=${{name}}]`).value)")
    check(f"the link fills the form: {fields}", fields[:2] == ["The small cat", "3"] and browser.run(STATE) == "idle")
    page.write()
    page.state("done")
    check("and gives the same text again", page.text() == text)
    check(f"{browser.count(at('history-item'))} runs in the history", browser.count(at("history-item")) == 3)
    return asked


def take_away(page):
    browser, text = page.browser, page.text()
    shown = f"return document.querySelector('{at('export')}').textContent"
    browser.click("#as-curl")
    answer = json.loads(subprocess.run(["bash", "-c", browser.run(shown)], capture_output=True, check=True, timeout=60).stdout)
    check("the curl command gives the text of the page", "The small cat" + answer["choices"][0]["text"] == text)
    browser.click("#as-python")
    program = browser.run(shown)
    compile(program, "export.py", "exec")
    if importlib.util.find_spec("openai"):
        out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
        check("the Python program prints the text of the page", out.startswith(text))
    else:
        print("ok      the Python program is Python (openai is not installed here, so it was not run)")
    browser.click("#as-json")
    kept = json.loads(browser.run(shown))
    check("the JSON has request, text, reward, cost and plan", kept["text"] == text and kept["request"]["treasure"]["tree_width"] == 3
          and isinstance(kept["answer"]["reward"], float) and kept["answer"]["cost"]["nfe"] > 0 and "plan" in kept["answer"])


def break_it(page):
    browser, text = page.browser, page.text()
    browser.type(at("reward-add"), "sentimnt=sad\ue007")
    said, where, _ = page.refused("a bad reward")
    check("with a hint, beside the rewards", "hint: " in said and where == "treasure.reward")
    check("the chip that is wrong is marked", browser.run("return [...document.querySelectorAll('.chip.faulty .spec')].map((e) => e.textContent).join()") == "sentimnt=sad")
    check("what was on the screen stays", page.text() == text)
    audit(browser, check, "error-1280")
    browser.click(".chip.faulty button")
    check("without it the error is gone", browser.count(at("error")) == 0)
    browser.type(at("reward-add"), "tei+http://127.0.0.1:9#joy\ue007")
    _, where, _ = page.refused("a judge that does not answer")
    check("beside the rewards, too", where == "treasure.reward")
    browser.click(".chip:last-child button")
    browser.type("#set-beam_width", "100000")
    _, where, _ = page.refused("a beam beyond the limit")
    check("beside the beam", where == "treasure.beam_width")
    browser.type("#set-beam_width", "5")
    browser.run("document.querySelector('#more').open = true")
    browser.type("#set-extra", '{"beam_widht": 3}')
    said, *_ = page.refused("an unknown option")
    check("which names it", "beam_widht" in said)
    browser.type("#set-extra", "{")
    page.browser.run(WATCH)
    browser.press("Control", "Enter")
    browser.until("an error for no JSON", f"return document.querySelector('{at('error')}')?.innerText.includes('JSON')")
    browser.type("#set-extra", " ")
    evil = "<img src=x onerror=\"document.title='gone'\"><b>it</b>"
    browser.type(at("prompt"), evil)
    page.write()
    page.state("done")
    check("markup in a text stays text", page.text().startswith(evil) and browser.count("main img, main #text b") == 0 and browser.run("return document.title") == "treasure")


def fill_and_stop(page):
    browser = page.browser
    browser.click("input[value=fill]")
    browser.type(at("prompt"), "The [MASK:3] was [MASK:6].")
    page.write()
    page.state("done")
    check(f"holes are filled: {page.text()!r}", re.fullmatch(r"The .+ was .+\.", page.text()) and "MASK" not in page.text())
    browser.click("input[value=continue]")
    browser.type("#set-max_tokens", "200")
    browser.type("#set-tree_width", "8")
    browser.run(WATCH)
    browser.press("Control", "Enter")
    browser.until("some frames", "return new Set(told.map(([, masks]) => masks)).size > 4", seconds=60)
    browser.click(at("stop"))
    page.state("idle", seconds=5)
    check(f"a search can be stopped, with {browser.run(MASKS)} masks left", browser.run(MASKS) > 0)


def answer(page, file):
    """A conversation with a model that has a chat template: the answer of every other door, here too."""
    browser = page.browser
    with open(file, encoding="utf-8") as told:
        told = json.load(told)
    page.open()
    shown = "return !document.querySelector('#talk').hidden"
    check("no conversation with a model without a template", browser.run(shown) is False)
    browser.run("const field = document.querySelector('#set-model'); field.value = 'llada'; field.dispatchEvent(new Event('input', {bubbles: true}))")
    check("a model with one offers to answer", browser.run(shown))
    settings = {"v": 1, "mode": "continue", "model": "llada", "prompt": told["prompt"], "reward": "own:liked", "max_tokens": told["length"],
                "seed": told["seed"], "extra": json.dumps({name: told[name] for name in ("block", "steps")})}
    page.open("#" + urllib.parse.urlencode(settings))
    browser.click("input[value=chat]")
    page.write()
    page.state("done")
    said = told["prompt"] + "\n\n"
    check(f"the answer is that of every other door: {page.text()!r}", page.text() == said + told["answer"])
    reward = browser.run("document.querySelector('#as-json').click(); return JSON.parse(document.querySelector('[data-testid=export]').textContent).answer.reward")
    check(f"and earns the same: {reward}", abs(reward - told["reward"]) < 1e-4)
    check(f"{browser.count('#text .c')} of its tokens are shaded", browser.count("#text .c") >= 8)
    browser.until("the unguided answer", f"return document.querySelectorAll('{at('beside')} .rows li:not(.busy)').length === 2", seconds=60)
    link = browser.run("return location.href")
    check("the link says that it is a conversation", "mode=chat" in link)
    browser.click("#as-curl")
    curl = browser.run(f"return document.querySelector('{at('export')}').textContent")
    found = json.loads(subprocess.run(["bash", "-c", curl], capture_output=True, check=True, timeout=60).stdout)
    check("the curl command gives the same answer", found["choices"][0]["message"]["content"] == told["answer"])


def look(page):
    browser = page.browser
    # A run to look at, then the same page at every width.
    length = 32 if os.environ.get("SCREENSHOTS") else 16
    page.open(SHORT.format(length))
    browser.run(WATCH)
    browser.click(at("write"))
    browser.until("half of a search", "return told.some(([state, masks]) => state === 'running' && masks <= arguments[0])", length // 2, seconds=60)
    browser.picture("half-1280")
    page.state("done")
    browser.until("the unguided text", f"return document.querySelectorAll('{at('beside')} .rows li:not(.busy)').length === 2", seconds=60)
    browser.run("document.querySelectorAll('circle.pruned')[60].dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    for width in (1280, 360, 2000):
        browser.width(width)
        time.sleep(0.3)
        audit(browser, check, f"done-{width}")
    browser.width(1280)
    moving = "document.querySelector('#text').dataset.state = arguments[0]; return document.getAnimations().length"
    check("nothing moves where motion is not wanted", browser.run(moving, "running") == 0)
    browser.media(prefers_reduced_motion="no-preference")
    check("and something does elsewhere", browser.run(moving, "running") > 0)
    browser.run(moving, "done")
    browser.click("#help-open")
    audit(browser, check, "help-1280")
    browser.press("Escape")
    check("Escape closes the help", browser.count("dialog[open]") == 0)
    browser.click(at("history-item"))
    check("a run of the history opens", browser.run(STATE) == "done" and browser.run("return document.querySelector('#step').textContent") == "from history")


def unlock(page, address):
    browser = page.browser
    browser.open(address + SHORT.format(16))
    browser.until("a field for the key", "return document.querySelector('.error .key input') === document.activeElement")
    browser.type(".error .key input", "no\ue007")
    browser.until("the wrong key is refused", f"return /another/.test(document.querySelector('{at('error')}')?.innerText)")
    browser.type(".error .key input", "sesame\ue007")
    browser.until("the page is ready", "return document.querySelectorAll('[data-testid=reward-chip]').length > 0")
    browser.press("Control", "Enter")
    page.state("done")
    browser.click("#as-curl")
    kept = browser.run("return [location.href, JSON.stringify(localStorage), document.querySelector('[data-testid=export]').textContent].join()")
    check("a key opens a locked server, and is kept in no link, history or export", "sesame" not in kept and "$TREASURE_API_KEY" in kept)


def small(address):
    index = urllib.request.urlopen(address).read().decode()
    names, sizes = re.findall(r'(?:href|src)="([\w.]+\.(?:css|js))"', index), {"index.html": len(index.encode())}
    while names:
        name = names.pop()
        if name not in sizes:
            text = urllib.request.urlopen(address + name).read().decode()
            sizes[name] = len(text.encode())
            names += re.findall(r'(?:from|import) "\./([\w.]+)"', text)
    check(f"{len(sizes)} files, {sum(sizes.values()) / 1000:.0f} kB in all", sum(sizes.values()) < 150_000 and len(sizes) > 5)


def main(browser, address):
    page = Page(browser, address)
    small(address)
    browser.media(prefers_color_scheme="light")
    browser.width(1280)
    text = watch_a_search(page)
    wrong = browser.run(f"return (async () => {{{MODULES}}})()")
    check(f"links, rewards and events are read right {wrong or ''}", not wrong)
    names(page)
    open_nodes(page)
    compare(page, text)
    asked = follow_the_link(page)
    take_away(page)
    break_it(page)
    fill_and_stop(page)
    follow_the_reward(page)
    if chat := os.environ.get("CHAT"):
        answer(page, chat)
    look(page)
    if locked := os.environ.get("LOCKED"):
        unlock(page, locked)
    # A refused request is told by the browser, too; anything else is ours.
    log = [message for message in browser.console() if not re.search(r"v1/completions .*status of (400|422|5\d\d)|v1/schema\?reward=.*sentimnt.*status of 400|status of 401", message)]
    check("no errors in the console" + "".join("\n        " + message for message in log), not log)
    outside = [url for url in asked + browser.requests() if not url.startswith((address, locked or address, "data:", "about:"))]
    check(f"no request to anywhere else {outside or ''}", not outside)


if __name__ == "__main__":
    began = time.monotonic()
    with Browser() as opened:
        main(opened, sys.argv[1].rstrip("/") + "/")
    print(f"all well after {time.monotonic() - began:.0f} s")
