"""Clicks through a report in headless Chromium."""

import pathlib
import sys

from browser import Browser, check


def main(browser, report):
    run, click, count = browser.run, browser.click, browser.count
    browser.open(pathlib.Path(report).as_uri())
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
    browser.media(prefers_color_scheme="light")
    light = run(ink)
    browser.picture("light")
    browser.media(prefers_color_scheme="dark")
    check("figures follow light and dark", light != run(ink))
    browser.picture("dark")

    log = browser.console()
    check("no errors in the console" + "".join("\n        " + message for message in log), not log)
    outside = [url for url in browser.requests() if not url.startswith(("file:", "data:"))]
    check(f"no request but the page itself {outside or ''}", not outside)


with Browser() as opened:
    main(opened, sys.argv[1])
