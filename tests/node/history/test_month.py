"""A month of checks on a virtual clock, through the real SQLite store: its size is what day one forecast."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from budget import IS_FULL
from compacted_history import START, CompactedHistory

from evenbeat.core.retention import Retention
from evenbeat.model import DAY, HOUR, MINUTE, SECOND
from evenbeat.report.history_status import history_status
from evenbeat.store.contract import Batch
from evenbeat.store.history_contract import Layer
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import a_claim, a_finish
from evenbeat.wire.status import HistoryStatus

INTERVALS: Final = (MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR)
CHECKS: Final = 480 if IS_FULL else 12
JOBS: Final = 20 if IS_FULL else 4
"""Once a day, at different hours."""
STEP: Final = 30 * MINUTE
"""As long is what one commit records, so that the test is about compaction, and not about commits."""


def load_output(chance: random.Random) -> str:
    a, b, c = (chance.random() * 4 for _ in range(3))
    values = f"load1={a:.3f};15.000;30.000;0; load5={b:.3f};10.000;25.000;0; load15={c:.3f};5.000;20.000;0;"
    return f"OK - load average: {a:.2f}, {b:.2f}, {c:.2f}|{values}"


def disk_output(chance: random.Random) -> str:
    used = chance.randrange(2_600, 2_700)
    return f"DISK OK - free space: / {5_968 - used} MB ({100 - used * 100 // 5_968}%);| /={used}MB;5948;5958;0;5968"


def ping_output(chance: random.Random) -> str:
    trip = chance.random() * 20
    return f"PING OK - Packet loss = 0%, RTA = {trip:.2f} ms|rta={trip:.6f}ms;100.0;500.0;0.0 pl=0%;20;60;0"


OUTPUTS: Final[tuple[Callable[[random.Random], str], ...]] = (load_output, disk_output, ping_output, lambda _: "OK")


class Month:
    """Checks of all intervals, which fail now and then for a while, and some daily jobs."""

    def __init__(self, history: CompactedHistory) -> None:
        self.history = history
        self.chance = random.Random(7)
        self.runs = 0
        places = range(len(history.tasks))
        self._every = [INTERVALS[i % len(INTERVALS)] if i < CHECKS else DAY for i in places]
        self._fails_until = [0 for _ in places]
        self.rates = np.array([HOUR / every for every in self._every])

    def record(self, start: int) -> None:
        """All that ends within a step."""
        batches: list[Batch] = []
        for i, (task, every) in enumerate(zip(self.history.tasks, self._every, strict=True)):
            phase = i * 7_919 * SECOND % every
            for nominal in range(start + (phase - start) % every, start + STEP, every):
                batches += self._run(i, task, nominal)
        self.history.store.record(*batches).result()

    def _run(self, place: int, task: int, nominal: int) -> tuple[Batch, Batch]:
        chance = self.chance
        failed = nominal < self._fails_until[place]
        if not failed and chance.random() < 0.0005:
            self._fails_until[place] = nominal + chance.randrange(4 * HOUR)
        fails = nominal < self._fails_until[place]
        outcome, state = ("failed", 2) if fails else ("succeeded", 0)
        text = OUTPUTS[place % len(OUTPUTS)](chance)
        finish = a_finish(task, nominal, text, outcome=outcome, state=state, notable=fails or failed)
        late, took = chance.randrange(20_000), chance.randrange(20_000, 900_000)
        finish = finish._replace(
            started=nominal + late, ended=nominal + late + took, result_at=nominal + late, last_start=nominal + late
        )
        self.runs += 1
        return Batch(claims=[a_claim(task, nominal)]), Batch(finishes=[finish])

    def live(self, until: int) -> None:
        for _ in self.history.live(until, STEP, self.record):
            self.history.compact()

    def status(self) -> HistoryStatus:
        store, compactor = self.history.store, self.history.compactor
        size, hours, age = store.size(), store.parts(Layer.HOURS), compactor.age()
        return history_status(size, hours, self.rates, self.history.retention, age, compactor.notable_share, "")


@pytest.mark.parametrize("retention", [Retention(2 * DAY, 30 * DAY)], ids=["default"])
def test_a_month_ends_at_the_size_that_was_forecast_on_its_first_day(tmp_path: Path, retention: Retention) -> None:
    with closing(SqliteStore(tmp_path / "month.db")) as store:
        month = Month(CompactedHistory(store, retention, CHECKS + JOBS))
        month.live(START + DAY)
        forecast = month.status()
        month.live(START + 30 * DAY)
        found = month.status()
        about = f"{month.runs:,} runs, {found.free:,} bytes free, {found.layers}"
        assert found.size == pytest.approx(forecast.in_30_days, rel=0.1), about
        assert (tmp_path / "month.db").stat().st_size == pytest.approx(found.size, rel=0.1)
