"""The size of the database and its forecast, as `status` shows them."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evenbeat.core.history_size import DEFAULT_NOTABLE, LEAST_MEASURED, Measured, Rates, Rows, forecast
from evenbeat.core.retention import Retention
from evenbeat.model import SECOND
from evenbeat.store.history_contract import Layer, LayerSize, Part, StoreSize
from evenbeat.wire.status import HistoryStatus, LayerStatus

_SPARE_SHARE: Final = 20
"""One of so many bytes of a disk should stay free whatever the forecast says."""


def history_status(
    size: StoreSize,
    hours: Iterable[Part],
    rates: Rates,
    retention: Retention,
    age: int,
    notable: float | None,
    database: str,
) -> HistoryStatus:
    """From what the store measured; `hours` are the parts of that layer. `age`: of the oldest history; `notable`: the
    share of runs that are kept for longer, None if that is not known.
    """
    layers = [size.layers[layer] for layer in (Layer.RECENT, Layer.RUNS, Layer.KEPT)]
    new, merged = LayerSize(0, 0, 0), LayerSize(0, 0, 0)
    for part in hours:
        if part.is_merged:
            merged = LayerSize(merged.parts + 1, merged.rows + part.rows, merged.size + part.size)
        else:
            new = LayerSize(new.parts + 1, new.rows + part.rows, new.size + part.size)
    layers += [new, merged, size.layers[Layer.DAYS]]
    now = Measured(
        size.size - size.free,
        Rows(size.unpacked, *(layer.rows for layer in layers)),
        Rows(0, *(layer.parts for layer in layers)),
        Rows(0, *(layer.size for layer in layers)),
    )
    future = forecast(rates, retention, age, DEFAULT_NOTABLE if notable is None else notable, now)
    return HistoryStatus(
        size.size,
        size.free,
        future.growth_per_day,
        future.in_30_days,
        future.final,
        disk_free(database),
        retention.keep_runs / SECOND,
        retention.keep / SECOND,
        {
            layer.value: LayerStatus(found.rows, found.size, round(found.size / max(found.rows, 1), 1))
            for layer, found in size.layers.items()
        },
    )


def is_measured(status: HistoryStatus) -> bool:
    """Does the forecast rest on runs of this database, and not on defaults?"""
    return any(layer.rows >= LEAST_MEASURED for layer in status.layers.values())


def disk_free(database: str) -> int | None:
    """Free bytes of the disk of a database; None if it is none of this machine's."""
    path = Path(database)
    if not path.is_absolute() or not path.exists():
        return None
    return shutil.disk_usage(path.parent).free


def outgrown_disk_words(status: HistoryStatus) -> str | None:
    """What to say if the forecast needs more than the disk has; None if it has room."""
    if status.disk_free is None or not is_measured(status):
        return None
    if status.forecast - status.size <= status.disk_free - status.disk_free // _SPARE_SHARE:
        return None
    days = "" if not status.growth_per_day else f", in about {status.disk_free // status.growth_per_day:,} days"
    return (
        f"the database outgrows its disk{days}: it becomes {in_bytes(status.forecast)} with this retention, "
        f"and {in_bytes(status.disk_free)} are free; keep less (`keep_runs`, `keep`), or give it a larger disk"
    )


def in_bytes(size: int) -> str:
    """ "830 MB": two or three digits, in powers of 1,000 as disks have them."""
    value, units = float(size), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1_000 and unit != "TB":
        value, unit = value / 1_000, next(units)
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
