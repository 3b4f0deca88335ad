"""A real node with its page in a process of its own, and a real browser to look at it."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, sync_playwright
from waiting import PATIENCE, eventually

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
LISTEN_TO_THE_CLOCK = """() => {
    window.longest = 0;
    let last = performance.now();
    setInterval(() => {
        const now = performance.now();
        window.longest = Math.max(window.longest, now - last);
        last = now;
    }, 20);
}"""


def chromium() -> str | None:
    """The first Chromium on the PATH."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


class NodeProcess:
    """`with NodeProcess(folder, text) as node: node.page`; it can be stopped and started again on the same port."""

    def __init__(self, folder: Path, tasks: str = "", token: str | None = None) -> None:
        self.folder = folder
        self.database = folder / "evenbeat.db"
        self._file = folder / "tasks.toml"
        self._file.write_text(tasks)
        self._log = folder / "node.log"
        self.token = token
        """Of an admin: without one the node makes one."""
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        files = [str(self._file)] if self._file.read_text() else []
        where = ["--db", str(self.database), "--listen", f"127.0.0.1:{self._port}"]
        command = [sys.executable, "-m", "evenbeat", "up", *files, *where, "--workers", "1"]
        self._log.write_bytes(b"")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._port = eventually(self._listening, "the node does not serve its page")
        self.token = self.token or self.database.with_name(f"{self.database.name}.token").read_text().strip()

    def _listening(self) -> int:
        assert self._process is not None
        text = self._log.read_text()
        assert self._process.poll() is None, f"the node has stopped: {text}"
        found = re.search(r"page=http://127\.0\.0\.1:(\d+)/", text)
        return int(found.group(1)) if found else 0

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def reload(self) -> None:
        """Have it read its file again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the API answers."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, headers, method=method), timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def task(self, name: str) -> Any:
        return self.ask("GET", f"/v1/tasks/{quote(name, safe='')}")


@contextmanager
def headless_browser() -> Iterator[Browser]:
    """A browser without a head."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS, timeout=PATIENCE * 1_000)
        try:
            yield browser
        finally:
            browser.close()


class BrowserTab:
    """A page that somebody looks at, and all that it complained of."""

    def __init__(self, browser: Browser, url: str, token: str | None = None) -> None:
        """With a token its session has begun."""
        self._url = url
        self._context = browser.new_context(viewport={"width": 1280, "height": 800}, timezone_id="UTC")
        if token is not None:
            answer = self._context.request.post(f"{url}/v1/session", data={"token": token})
            assert answer.ok, answer.text()
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(PATIENCE * 1_000)
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", self._fail)
        self.page.on("dialog", self._refuse)

    def _hear(self, message: ConsoleMessage) -> None:
        # Chromium notes every refusal and every lost connection itself; what the page makes of them is what we look at.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def _fail(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def go(self, place: str) -> Page:
        self.page.goto(f"{self._url}/#{place}")
        return self.page

    def measure(self) -> None:
        """From now on, notice how long the page cannot answer, and how long it works."""
        self._meter = self._context.new_cdp_session(self.page)
        self._meter.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        self._meter.send("Performance.enable")
        self._worked = self._work()
        self.page.evaluate(LISTEN_TO_THE_CLOCK)

    def longest_silence(self) -> float:
        """Seconds without an answer. On a busy machine everybody is silent, so never more than the page has worked."""
        return min(float(self.page.evaluate("window.longest")) / 1_000, self._work() - self._worked)

    def _work(self) -> float:
        metrics = self._meter.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def close(self) -> None:
        self._context.close()
