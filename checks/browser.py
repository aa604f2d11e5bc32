"""Headless Chromium through chromedriver (W3C WebDriver over HTTP, standard library only)."""

import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014",
        "Down": "\ue015", "End": "\ue010", "Home": "\ue011", "Control": "\ue009"}


def check(what, holds):
    """Says whether something holds; the first thing that does not ends the run."""
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        sys.exit(1)


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        said = json.load(error)["value"]
        raise RuntimeError(f"{said['error']}: {said['message'].splitlines()[0]}") from None


class Browser:
    """A session, closed with its driver at the end of the `with` block."""

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}", "--log-level=SEVERE"])
        self.session = None
        try:
            self.begin(f"http://127.0.0.1:{port}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self, base):
        for _ in range(200):
            try:
                if call("GET", base + "/status")["ready"]:
                    break
            except OSError:
                time.sleep(0.1)
        flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1400,1000"]
        if os.getuid() == 0:
            flags.append("--no-sandbox")
        options = {"goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = call("POST", base + "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", **options}}})
        self.session = f"{base}/session/{made['sessionId']}"

    def __exit__(self, *_):
        if self.session:
            call("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()

    def open(self, url):
        call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        return call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def until(self, what, script, *arguments, seconds=20):
        """Waits until a script returns something true, and returns it."""
        end = time.monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            if time.monotonic() > end:
                check(f"{what} (waited {seconds} s)", False)
            time.sleep(0.02)
        return found

    def find(self, selector):
        found = call("POST", self.session + "/element", {"using": "css selector", "value": selector})
        return f"{self.session}/element/{found[ELEMENT]}"

    def still(self, selector):
        """Waits until an element stays where it is from one frame to the next: what moves is missed by a click."""
        place = """const seen = document.querySelector(arguments[0])?.getBoundingClientRect();
            const frame = () => new Promise(requestAnimationFrame);
            return frame().then(frame).then(() => {
              const now = document.querySelector(arguments[0])?.getBoundingClientRect();
              return !!seen && !!now && ["x", "y", "width", "height"].every((side) => seen[side] === now[side]);
            })"""
        self.until(f"{selector} at rest", place, selector)

    def click(self, selector):
        self.still(selector)
        call("POST", self.find(selector) + "/click", {})

    def hover(self, selector):
        """Moves a real pointer over an element."""
        origin = {ELEMENT: self.find(selector).rsplit("/", 1)[1]}
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}
        call("POST", self.session + "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}]})

    def type(self, selector, text, clear=True):
        element = self.find(selector)
        if clear:
            call("POST", element + "/clear", {})
        call("POST", element + "/value", {"text": text})

    def press(self, *names):
        """Presses keys together, wherever the focus is."""
        codes = [KEYS.get(name, name) for name in names]
        actions = [{"type": "keyDown", "value": code} for code in codes] + [{"type": "keyUp", "value": code} for code in reversed(codes)]
        call("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def cdp(self, command, params):
        return call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": params})

    def media(self, **features):
        self.cdp("Emulation.setEmulatedMedia", {"features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def width(self, width, height=900):
        self.cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def picture(self, name):
        """Keeps a picture of the whole page in the folder SCREENSHOTS, if there is one."""
        if folder := os.environ.get("SCREENSHOTS"):
            size = self.cdp("Page.getLayoutMetrics", {})["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            shot = self.cdp("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            pathlib.Path(folder, name + ".png").write_bytes(base64.b64decode(shot["data"]))

    def console(self):
        return [entry["message"] for entry in call("POST", self.session + "/se/log", {"type": "browser"})]

    def requests(self):
        """Every address asked for since the last call."""
        found = []
        for entry in call("POST", self.session + "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
