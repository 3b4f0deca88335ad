"""The programs of docs/how-to/python-migrate.md: those of other libraries, if these are installed, and ours."""

import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from evenbeat.testing.app import TestApp

PAGE: Final = (Path(__file__).parents[2] / "docs/how-to/python-migrate.md").read_text()
PROGRAMS: Final = dict(re.findall(r"^```py\n# (\w+)\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""By their names, as the page prints them."""
LIBRARIES: Final = ("apscheduler", "celery", "huey")
BEGIN: Final = datetime(2026, 1, 1, 1, 30, tzinfo=UTC)
"""At 02:30 in Berlin."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the programs, from which modules are imported."""
    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in PROGRAMS:
        sys.modules.pop(name, None)


def before(library: str) -> ModuleType:
    """The program that moves in; the test is skipped where its library is not installed."""
    pytest.importorskip(library, reason=f"{library} is not installed here, and no dependency of evenbeat")
    return importlib.import_module(f"shop_with_{library}")


def after(library: str) -> TestApp:
    """What became of it, on a virtual clock."""
    return TestApp(importlib.import_module(f"shop_after_{library}").app, start=BEGIN)


def test_the_page_has_two_programs_for_each_library() -> None:
    assert set(PROGRAMS) == {f"shop_{how}_{library}" for how in ("with", "after") for library in LIBRARIES}


@pytest.mark.usefixtures("folder")
class TestBefore:
    """These programs are what their users have: they can be imported, and plan what the ones after them do."""

    def test_apscheduler(self) -> None:
        jobs = {job.name: str(job.trigger) for job in before("apscheduler").scheduler.get_jobs()}
        assert jobs == {"fetch_orders": "interval[0:10:00]", "clean_up": "cron[hour='3']"}

    def test_celery(self) -> None:
        module = before("celery")
        assert {entry["task"] for entry in module.app.conf.beat_schedule.values()} <= set(module.app.tasks)
        assert module.clean_up() == "cleaned"
        assert (module.charge.max_retries, module.charge.autoretry_for) == (2, (ConnectionError,))

    def test_huey(self) -> None:
        module = before("huey")
        periodic = [str(task) for task in module.huey._registry.periodic_tasks]
        assert any("fetch_orders" in task for task in periodic)
        assert module.send.retries == 2


@pytest.mark.usefixtures("folder")
class TestAfter:
    def test_apscheduler(self, capsys: pytest.CaptureFixture[str]) -> None:
        with after("apscheduler") as shop:
            runs = shop.advance(timedelta(hours=1))
            assert Counter(run.task for run in runs) == {"fetch_orders": 6, "clean_up": 1}
            assert [run.nominal for run in runs if run.task == "clean_up"] == [datetime(2026, 1, 1, 2, tzinfo=UTC)]
            assert {shop.app.result(run) for run in runs if run.succeeded} == {3}
        assert "failed: clean_up OSError: disk full\n" in capsys.readouterr().out

    def test_celery(self) -> None:
        with after("celery") as shop:
            runs = shop.advance(timedelta(hours=1))
            charged = [run for run in runs if run.task.startswith("charge")]
            assert Counter(run.outcome for run in charged) == {"failed": 5, "succeeded": 5}
            assert {shop.app.result(run) for run in charged if run.succeeded} == {"charged ana"}
            assert {run.task for run in runs} >= {"fetch_orders", "clean_up"}

    def test_huey(self, capsys: pytest.CaptureFixture[str]) -> None:
        with after("huey") as shop:
            fetched, *sent = shop.advance(timedelta(minutes=12))
            due = BEGIN + timedelta(minutes=10)
            assert (fetched.task, fetched.nominal) == ("fetch_orders", due)
            assert [run.outcome for run in sent] == ["failed"] * 3
            assert sent[0].started is not None
            assert sent[0].started - due == timedelta(seconds=60)
        assert "ConnectionError: no mail server\n" in capsys.readouterr().out
