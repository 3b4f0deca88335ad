"""The programs in the how-tos about Python do what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE, eventually

from evenbeat.app import App

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples/shop.py"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_shows_the_shop_as_it_is() -> None:
    assert SHOP.read_text() in blocks("docs/how-to/python.md")


def test_the_test_of_the_shop_passes(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(SHOP.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_shop_runs_and_shows_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP.read_text())
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "shop.py"], cwd=tmp_path, stderr=file)
    app = App(tmp_path / "shop.db")
    try:
        eventually(lambda: "ready, 4 tasks" in log.read_text())
        (run,) = app.force("fetch_orders", wait=True)
        assert app.result(run) == {"orders": 3, "total": 3}
        eventually(lambda: [task for task in app.list() if task.name.startswith("thank-")])
        eventually(lambda: "fetch_orders succeeded in" in log.read_text())
    finally:
        process.terminate()
        process.wait(PATIENCE)
