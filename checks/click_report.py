"""Drives headless Chromium through chromedriver (W3C WebDriver over HTTP, standard library only)."""

import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["value"]


def main(report):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}", "--log-level=SEVERE"])
    base = f"http://127.0.0.1:{port}"
    session = None
    try:
        for _ in range(200):
            try:
                if call("GET", base + "/status")["ready"]:
                    break
            except OSError:
                time.sleep(0.1)
        flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
        if os.getuid() == 0:
            flags.append("--no-sandbox")
        options = {"goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = call("POST", base + "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", **options}}})
        session = f"{base}/session/{made['sessionId']}"

        def run(script, *arguments):
            return call("POST", session + "/execute/sync", {"script": script, "args": list(arguments)})

        def click(selector):
            found = call("POST", session + "/element", {"using": "css selector", "value": selector})
            call("POST", f"{session}/element/{next(iter(found.values()))}/click", {})

        def check(what, holds):
            print(("ok      " if holds else "FAILED  ") + what)
            if not holds:
                sys.exit(1)

        call("POST", session + "/url", {"url": pathlib.Path(report).as_uri()})
        count = lambda selector: run("return document.querySelectorAll(arguments[0]).length", selector)
        check(f"{count('table tbody tr')} table rows", count("table tbody tr") >= 10)
        check(f"{count('figure svg')} figures with lines",
              count("figure svg") >= 3 and count("figure svg polyline, figure svg path, figure svg line") >= 3)
        check("every figure has a size on the page",
              run("return [...document.querySelectorAll('figure svg')].every(e => e.getBoundingClientRect().height > 100)"))
        check(f"{count('blockquote')} sample texts", count("blockquote") >= 2)
        check(f"{count('#tree-levels button')} kept nodes in the tree", count("#tree-levels button") >= 4)

        detail = "return document.getElementById('tree-detail').innerText"
        before = run(detail)
        click("#tree-levels .level:nth-child(3) button")
        after = run(detail)
        check("clicking a node shows that node", before != after and "step 2" in after)
        check("its children are listed with their scores and fates", "branched into" in after and "kept" in after and "pruned: " in after)
        click("#tree-detail table tbody tr:nth-child(2) button")
        check("clicking a child goes down the tree", "step 3" in run(detail))
        click("#tree-detail > button")
        check("the parent button goes up again", "step 2" in run(detail))
        if count("#tree-choice option") > 1:
            run("const c = document.getElementById('tree-choice'); c.selectedIndex = 1; c.dispatchEvent(new Event('change'))")
            check("another trace can be chosen", run(detail) != after)

        ink = "return getComputedStyle(document.querySelector('figure svg text')).fill"
        cdp = lambda command, params: call("POST", session + "/goog/cdp/execute", {"cmd": command, "params": params})
        scheme = lambda value: cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": value}]})

        def picture(name):
            if folder := os.environ.get("SCREENSHOTS"):
                size = cdp("Page.getLayoutMetrics", {})["cssContentSize"]
                clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
                shot = cdp("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
                pathlib.Path(folder, name + ".png").write_bytes(base64.b64decode(shot["data"]))

        scheme("light")
        light = run(ink)
        picture("light")
        scheme("dark")
        check("figures follow light and dark", light != run(ink))
        picture("dark")

        log = call("POST", session + "/se/log", {"type": "browser"})
        check("no errors in the console" + "".join("\n        " + entry["message"] for entry in log), not log)
        requests = []
        for entry in call("POST", session + "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        outside = [url for url in requests if not url.startswith(("file:", "data:"))]
        check(f"no request but the page itself {outside or ''}", not outside)
    finally:
        if session:
            call("DELETE", session)
        driver.terminate()
        driver.wait()


main(sys.argv[1])
