"""The page in a real Chromium, driven by Playwright: a visitor who logs in, looks, and keeps pictures.

`Visitor.looks_right` is what a picture has to satisfy whatever is in it. Pictures are kept in `build/page` for people;
they are not compared, because fonts differ from machine to machine. Other hosts cannot be reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright

from support.browser import chromium
from support.clusters.session import Cluster
from support.patience import WAIT_SECONDS
from support.processes.running import Running, finish
from support.repository import ROOT

PICTURES = ROOT / "build" / "page"
SIZES = {1280: 900, 390: 844}
"""Width -> height of the screens, in pixels."""
_OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
_CUT = """() => [...document.querySelectorAll(
        'td, th, h1, h2, .q-badge, .q-btn, .q-field__label, .tabs a, .facts b, .figure b, .figure span')]
    .filter(each => each.offsetParent !== null && each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0)
    .map(each => each.className + ': ' + each.textContent.slice(0, 40))"""
_OVERLAPS = """() => {
    const boxes = [...document.querySelectorAll('.node .box')].map(each => each.getBoundingClientRect());
    const found = [];
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
        const beside = a.right <= b.left + 1 || b.right <= a.left + 1;
        if (!beside && a.top < b.bottom - 1 && b.top < a.bottom - 1) found.push([a, b]);
    }));
    return found;
}"""
_LABELS_BEYOND_BOXES = """() => [...document.querySelectorAll('.node')].filter(node => {
    const box = node.querySelector('.box').getBoundingClientRect();
    return [...node.querySelectorAll('text')].some(text => text.getBoundingClientRect().right > box.right);
}).map(node => node.textContent)"""
_EMPTY_PLOTS = """() => [...document.querySelectorAll('.chart')].filter(chart => chart.offsetParent !== null)
    .filter(chart => ![...chart.querySelectorAll('svg path')].some(path => (path.getAttribute('d') || '').length > 8
        && path.getAttribute('fill') === 'none' && !(path.getAttribute('stroke') || '').startsWith('#8494a4')))
    .map(chart => chart.getAttribute('aria-label'))"""


@dataclass
class Visitor:
    """A browser with one open page. outside: requests to other hosts; complaints: of its console."""

    page: Page
    base: str
    width: int
    scheme: str
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Notes what the page does from now on."""
        host = urlsplit(self.base).netloc
        self.page.on("request", lambda asked: self._note_request(asked.url, host))
        self.page.on("websocket", lambda socket: self._note_request(socket.url, host))
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> None:
        """Opens a page, and waits for its web socket: a click before would be lost."""
        self.page.goto(f"{self.base}{path}")
        self.page.wait_for_function("() => window.socket && window.socket.connected")

    def button(self, name: str) -> Locator:
        """The button of exactly this name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def wait_text(self, text: str | re.Pattern[str]) -> None:
        """Waits until the page shows it."""
        expect(self.page.get_by_text(text).first).to_be_visible()

    def wait_state(self, state: str) -> None:
        """Waits until the head of a job's page shows the state."""
        expect(self.page.get_by_label("state")).to_have_text(state)

    def confirm(self, name: str, verb: str) -> None:
        """Types the name into the dialog and presses its button, which the name alone enables."""
        dialog = self.page.get_by_role("dialog")
        act = dialog.get_by_role("button", name=verb, exact=True)
        expect(act).to_be_disabled()
        dialog.get_by_label(f"Type {name}", exact=True).fill(name)
        act.click()
        expect(dialog).to_have_count(0)

    def wait_plots(self, *labels: str) -> None:
        """Waits until these plots have lines."""
        for label in labels:
            # a plot without data has axes, and is hidden
            expect(self.page.locator(f'.chart[aria-label="{label}"]')).to_be_visible()
            line = f'.chart[aria-label="{label}"] svg path[fill="none"]'
            self.page.wait_for_selector(line, state="attached")
        self.page.wait_for_function(f"() => ({_EMPTY_PLOTS})().length === 0")

    def looks_right(self, name: str) -> None:
        """Keeps a picture, and asserts what every picture has to satisfy."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        # the picture of a page that is scrolled has the bar at its top across its middle
        self.page.evaluate("scrollTo(0, 0)")
        # a dialog that still appears can be seen through
        self.page.wait_for_function("() => document.getAnimations().every(each => each.playState !== 'running')")
        self.page.screenshot(path=PICTURES / f"{name}-{self.width}-{self.scheme}.png", full_page=True)
        where = f"{name}, {self.width} px, {self.scheme}"
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{where}: wider than it"
        assert self.page.evaluate(_OVERLAPS) == [], f"{where}: boxes overlap"
        assert self.page.evaluate(_LABELS_BEYOND_BOXES) == [], f"{where}: labels are longer than their boxes"
        assert self.page.evaluate(_CUT) == [], f"{where}: text is cut"
        assert self.page.evaluate(_EMPTY_PLOTS) == [], f"{where}: plots are empty"

    def behaved(self) -> None:
        """Asserts that nothing was asked of other hosts, and that the console is silent."""
        assert self.outside == []
        assert self.complaints == []

    def _note_console(self, said: ConsoleMessage) -> None:
        if said.type in {"error", "warning"}:
            self.complaints.append(said.text)

    def _note_request(self, url: str, host: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != host:
            self.outside.append(url)


@contextmanager
def serving_page(cluster: Cluster, *options: str) -> Iterator[tuple[Running, str]]:
    """`headrace ui` on a free port: the process, and the URL that it has printed. It ends by SIGTERM, with code 0."""
    running = cluster.begin("ui", "--port", "0", *options)
    assert running.stdout is not None
    url = running.stdout.readline().strip()
    try:
        assert url, finish(running).err
        yield running, url
    finally:
        if running.poll() is None:
            running.terminate()
        ended = finish(running)
    assert (ended.code, ended.err) == (0, "")


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium that reaches loopback only. Skips the test where there is none."""
    program = chromium()
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", _OFFLINE]
        running = playwright.chromium.launch(executable_path=program, args=flags)
        expect.set_options(timeout=WAIT_SECONDS * 1000)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def visiting(running: Browser, url: str, width: int, scheme: str) -> Iterator[Visitor]:
    """A visitor with a screen of that width, who opens the URL that the page has printed."""
    context = running.new_context(
        viewport={"width": width, "height": SIZES[width]},
        color_scheme="dark" if scheme == "dark" else "light",
        ignore_https_errors=url.startswith("https"),
    )
    context.set_default_timeout(WAIT_SECONDS * 1000)
    parts = urlsplit(url)
    visitor = Visitor(context.new_page(), f"{parts.scheme}://{parts.netloc}", width, scheme)
    visitor.listen()
    try:
        visitor.page.goto(url)
        yield visitor
    finally:
        context.close()
