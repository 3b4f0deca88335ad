"""Take the pictures of the page for the documentation: a lively example on a real node, seen by a real browser."""

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

FOLDER: Final = Path(__file__).parents[1] / "docs" / "img"
CHROMIUMS: Final = ("chromium", "chromium-browser", "google-chrome")
PATIENCE: Final = 60.0
LIVED: Final = 480
"""Seconds that the example has been running when the pictures are taken."""
GATHERED: Final = 35
"""Seconds until the contacts have been told of the acknowledgement."""
SIZE: Final = ViewportSize(width=1280, height=800)
PHONE: Final = ViewportSize(width=390, height=844)

ZONE: Final = "Europe/Berlin"

PERIODS: Final[dict[str, dict[str, Any]]] = {
    "public holidays": {"holidays": "DE-BE", "zone": ZONE},
    "office hours": {"ranges": ["monday-friday 08:30-18:00"], "exclude": ["public holidays"], "zone": ZONE},
    "night": {"ranges": ["22:00-06:00"], "zone": ZONE},
    "maintenance": {"ranges": ["wednesday 20:00-23:00", "sunday 02:00-05:00"]},
}
SERVICES: Final[dict[str, Any]] = {
    "http": ("15s", 40, "web", "HTTP 200 in 41 ms|time=0.041s;1;5;0;10"),
    "ping": ("1m", 60, "web", "0% lost, 1.8 ms|rtt=1.8ms;100;500 lost=0%;20;60"),
    "load": ("10s", 24, "app", "load 0.71, 0.64, 0.60|load1=0.71;8;16;0"),
    "disk": ("1m", 24, "app", "disk 61% used|used=61%;80;90;0;100"),
    "postgres": ("20s", 12, "db", "12 connections, lag 0.2 s|lag=0.2s;5;30;0"),
}
"""Interval, how many, on which hosts, what they say."""
CONTACTS: Final[dict[str, dict[str, Any]]] = {
    "ops": {"webhook": "http://127.0.0.1:PORT/hook"},
    "on call": {"command": ["true"]},
    "anna": {"email": "anna@shop.example", "smtp": "smtp://127.0.0.1:1", "states": ["critical"], "period": "night"},
}
PLACES: Final = {
    "now": "/now",
    "problem": "/tasks/db02%20raid",
    "tasks": "/tasks",
    "task": "/tasks/app%20orders%20waiting",
    "timetable": "/timetable",
    "editor": "/editor/report%20sales",
    "periods": "/periods",
    "contacts": "/contacts",
}


def tasks() -> Iterator[dict[str, Any]]:
    """The example: mostly well, with some trouble."""
    for service, (every, many, host, says) in SERVICES.items():
        for i in range(1, many + 1):
            labels = {"service": service, "host": f"{host}{i:02}"}
            yield check(f"{host}{i:02} {service}", every, f"echo '{says}'", labels=labels)
    smtp = "echo 'connection refused by mail01:25'; exit 2"
    yield check("mail01 smtp", "20s", smtp, retry="5s", notify=["ops", {"to": "anna", "after": "1h"}])
    yield check("app certificate", "1m", "echo 'expires in 12 days|days=12;14;3'; exit 1", retry="5s")
    notify = ["ops", {"to": "on call", "after": "2h"}]
    yield check("db02 raid", "1m", "echo 'controller does not answer'; exit 3", retry="5s", notify=notify)
    yield check(
        "app orders waiting", "10s", 'n=$(date +%S); echo "$n orders wait|orders=$n;40;55"; [ $n -lt 40 ] || exit 1'
    )
    yield check("db07 replication", "15s", "echo 'lag 41 s|lag=41s;5;30;0'; exit 2", retry="5s")
    yield check("app payments", "20s", "echo 'HTTP 503 Service Unavailable'; exit 2", retry="5s")
    yield {"name": "import prices", "every": "1m", "shell": True, "command": "echo 'no file for today'; exit 1"}
    yield {"name": "sync catalogue", "every": "20s", "timebox": "30s", "command": ["sleep", "14"]}
    yield {"name": "resize images", "every": "30s", "timebox": "1m", "command": ["sleep", "25"]}
    yield {"name": "refresh search index", "every": "15s", "command": ["sleep", "5"]}
    yield {"name": "clean sessions", "cron": "H/5 * * * *", "command": ["echo", "removed 48 sessions"]}
    yield {
        "name": "backup orders",
        "cron": "H 2 * * *",
        "zone": ZONE,
        "command": ["noop"],
        "period": "night",
    }
    yield {
        "name": "report sales",
        "cron": "H 9-17/2 * * mon-fri",
        "zone": ZONE,
        "period": "office hours",
        "command": ["sales-report", "--to", "board@shop.example"],
        "labels": {"team": "sales"},
    }


def check(name: str, every: str, line: str, **more: Any) -> dict[str, Any]:
    """A check of one line for the shell."""
    return {"name": name, "check": True, "every": every, "shell": True, "command": line, **more}


def send(url: str, token: str, method: str, path: str, body: object = None) -> None:
    """Ask the API for a change."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = Request(url + path, data, headers, method=method)  # noqa: S310 - our own node
    with urlopen(request, timeout=PATIENCE):  # noqa: S310
        pass


class _Receiver(BaseHTTPRequestHandler):
    """Takes every message."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiver() -> Iterator[int]:
    """A receiver of messages; its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def node(folder: Path) -> Iterator[tuple[str, str]]:
    """A node in this folder; where its page is, and its token."""
    log = folder / "node.log"
    command = [sys.executable, "-m", "evenbeat", "up", "--db", str(folder / "shop.db"), "--listen", "127.0.0.1:0"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)  # noqa: S603
    try:
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(r"page=(http://\S+:\d+)/", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        yield found.group(1), (folder / "shop.db.token").read_text().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def picture(
    browser: Browser,
    url: str,
    token: str,
    name: str,
    place: str,
    *,
    size: ViewportSize = SIZE,
    is_dark: bool = False,
) -> None:
    """One view as it is now."""
    context = browser.new_context(
        viewport=size, color_scheme="dark" if is_dark else "light", locale="en-GB", timezone_id=ZONE
    )
    context.request.post(f"{url}/v1/session", data={"token": token})
    page = context.new_page()
    page.goto(f"{url}/#{place}")
    page.wait_for_timeout(4_000)
    if place == "/timetable":
        page.locator("canvas").first.click(position={"x": 400, "y": 120})
        page.mouse.move(0, 0)
        page.wait_for_timeout(1_000)
    path = FOLDER / f"page-{name}.png"
    page.screenshot(path=path)
    context.close()
    make_small(path)
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1_000:.0f} kB\n")


def make_small(path: Path) -> None:
    """A page has few colours: a palette of them halves the file and cannot be seen."""
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main() -> None:
    """All pictures."""
    chromium = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if chromium is None:
        raise SystemExit(f"no browser: none of {', '.join(CHROMIUMS)} is on the PATH")
    with ExitStack() as stack:
        url, token = stack.enter_context(node(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        playwright = stack.enter_context(sync_playwright())
        for name, period in PERIODS.items():
            send(url, token, "PUT", f"/v1/periods/{quote(name)}", period)
        port = stack.enter_context(receiver())
        for name, contact in CONTACTS.items():
            text = json.dumps(contact).replace("PORT", str(port))
            send(url, token, "PUT", f"/v1/contacts/{quote(name)}", json.loads(text))
        for task in tasks():
            send(url, token, "POST", "/v1/tasks", task)
        send(url, token, "POST", "/v1/tasks/app02%20disk/pause")
        sys.stdout.write(f"the example lives for {LIVED} s first ...\n")
        time.sleep(LIVED)
        word = {"filter": {"names": ["db02 raid"]}, "comment": "the new controller arrives on Friday"}
        send(url, token, "POST", "/v1/problems/acknowledge", word)
        time.sleep(GATHERED)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, place in PLACES.items():
            picture(browser, url, token, name, place)
        picture(browser, url, token, "now-dark", PLACES["now"], is_dark=True)
        picture(browser, url, token, "now-phone", PLACES["now"], size=PHONE)
        browser.close()


if __name__ == "__main__":
    main()
