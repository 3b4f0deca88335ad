"""The part of the SQLite store that keeps history in layers, see `history_contract`."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeVar

from evenbeat.store.common.layered_store import Connection, LayeredStore, layer_sizes, oldest_first
from evenbeat.store.common.packed_history import BlockPlace, PackedHistory
from evenbeat.store.common.rows import Parameters, Row
from evenbeat.store.common.run_log import LogBlock
from evenbeat.store.history_contract import Layer, PackedRun, Part, StoreSize, UnpackedRuns
from evenbeat.store.sqlite.alert_store import SqliteAlertStore
from evenbeat.store.sqlite.base import Rows
from evenbeat.store.sqlite.statements import as_list, query

_INCREMENTAL: Final = 2
"""The mode of a database that can give back its free pages."""

T = TypeVar("T")


class SqliteLayers(SqliteAlertStore, LayeredStore):
    """Keeps history in layers."""

    def __init__(
        self,
        path: Path,
        durability: Literal["normal", "full"] = "normal",
        *,
        read_only: bool = False,
        is_checked: bool = True,
    ) -> None:
        LayeredStore.__init__(self, path)
        SqliteAlertStore.__init__(self, path, durability, read_only=read_only, is_checked=is_checked)

    def _statement(self, name: str) -> str:
        return query(name)

    def _change(self, work: Callable[[Connection], T]) -> T:
        return self._do(work)

    @contextmanager
    def _parts_now(self) -> Iterator["SqliteParts"]:
        with self._one_moment():
            yield SqliteParts(self._select)

    def _packed_history(self) -> PackedHistory:
        """For use within one moment."""
        return PackedHistory(SqliteParts(self._select), self._damaged_blocks, SqliteRunLog(self._select))

    # Packing

    def unpacked(self, most: int) -> UnpackedRuns:
        """First the rows that an evenbeat of before has left, then the log."""
        with self._one_moment():
            rows = self._unpacked_rows(most)
            return rows if rows.runs else self._logged(most)

    def _unpacked_rows(self, most: int) -> UnpackedRuns:
        plain, notable = (list(self._select(query(f"oldest_{kind}"), {"most": most})) for kind in ("plain", "notable"))
        runs = oldest_first(
            (_packed_run(row, notable=False) for row in plain),
            (_packed_run(row, notable=True) for row in notable),
            most,
        )
        notables = sum(run.notable for run in runs)
        plains = len(runs) - notables
        return UnpackedRuns(runs, plain[plains - 1][-1] if plains else 0, notable[notables - 1][-1] if notables else 0)

    def _logged(self, most: int) -> UnpackedRuns:
        """A damaged record stays as it is until its runs are too old, and is left out."""
        runs: list[PackedRun] = []
        records: list[int] = []
        with closing(self._select(query("oldest_records"))) as found:
            for number, rows, *_, body in found:
                if len(runs) >= most:
                    break
                with self._damaged_blocks.skipped(0, number, rows):
                    runs += LogBlock(body).runs()
                    records.append(number)
        return UnpackedRuns(runs, 0, 0, records=records)

    def _delete_rows(self, connection: Connection, unpacked: UnpackedRuns) -> int:
        if unpacked.records:
            deleted = connection.execute(query("delete_records"), (as_list(unpacked.records),)).rowcount
            return len(unpacked.runs) if deleted == len(unpacked.records) else 0
        plain = connection.execute(query("delete_plain"), {"last": unpacked.plain}).rowcount
        return int(plain + connection.execute(query("delete_notable"), {"last": unpacked.notable}).rowcount)

    # Answers

    def parts(self, layer: Layer) -> list[Part]:
        return [_part(row) for row in self._select(query("parts"), {"layer": layer.value})]

    def whole_outputs_between(self, since: int, until: int) -> list[tuple[int, int]]:
        return list(self._select(query("outputs_between"), {"since": since, "until": until}))

    def size(self) -> StoreSize:
        with self._read() as connection:
            page, pages, free = (
                int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_size", "page_count", "freelist_count")
            )
            ((unpacked,),) = connection.execute(query("unpacked_runs")).fetchall()
            rows = connection.execute(query("layer_sizes")).fetchall()
        return StoreSize(page * pages, page * free, unpacked, layer_sizes(rows))

    def give_back(self, most: int) -> int:
        """Of a database that an evenbeat of before created, nothing: it uses its free pages again."""

        def work(connection: sqlite3.Connection) -> int:
            (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            if mode != _INCREMENTAL or most < page:
                return 0
            (before,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            for _ in range(min(free, most // page)):
                connection.execute(query("give_back_page"))
            (after,) = connection.execute("PRAGMA page_count").fetchone()
            return int(page * (before - after))

        given: int = self._do(work)
        return given


class SqliteParts:
    """Parts and blocks, read by one connection."""

    def __init__(self, select: Callable[[str, Parameters], Rows]) -> None:
        self._select = select

    def run_parts(self, since: int, before: int) -> list[tuple[Part, bytes | None]]:
        found = self._select(query("run_parts"), {"since": since, "before": before})
        return [(_part(row[:-1]), row[-1]) for row in found]

    def blocks_of_part(self, part: int) -> list[BlockPlace]:
        return [BlockPlace._make(row) for row in self._select(query("blocks_of_part"), {"part": part})]

    def blocks_of_complete(self, part: int) -> int | None:
        return next((blocks for (blocks,) in self._select(query("part_blocks"), {"part": part})), None)

    def begun(self, part: int) -> tuple[str, int] | None:
        return next(((layer, rows) for layer, rows in self._select(query("begun_part"), {"part": part})), None)

    def blocks_of_task(self, task: int, since: int, before: int) -> list[BlockPlace]:
        found = self._select(query("blocks_of_task"), {"task": task, "since": since, "before": before})
        return [BlockPlace._make(row) for row in found]

    def summary_blocks_of_task(self, task: int, layer: str, since: int, until: int) -> list[BlockPlace]:
        asked = {"task": task, "layer": str(layer), "since": since, "until": until}
        return [BlockPlace._make(row) for row in self._select(query("summary_blocks_of_task"), asked)]

    def bodies(self, blocks: Sequence[int]) -> Iterator[bytes]:
        for block in blocks:
            yield from (body for (body,) in self._select(query("block_body"), {"id": block}))

    def tasks_of_runs(self, numbers: Sequence[int]) -> dict[int, tuple[str, bool]]:
        found = self._select(query("tasks_of_runs"), {"numbers": as_list(numbers)})
        return {number: (name, bool(check)) for number, name, check in found}


class SqliteRunLog:
    """The log of runs, read by one connection."""

    def __init__(self, select: Callable[[str, Parameters], Rows]) -> None:
        self._select = select

    def records(self, since: int, before: int) -> list[BlockPlace]:
        found = self._select(query("records"), {"since": since, "before": before})
        return [BlockPlace._make(row) for row in found]

    def bodies(self, records: Sequence[int]) -> Iterator[bytes]:
        for record in records:
            yield from (body for (body,) in self._select(query("record_body"), {"id": record}))


def _packed_run(row: Row, *, notable: bool) -> PackedRun:
    return PackedRun._make((*row[:10], row[10] == 1, *row[11:13], notable, False))


def _part(row: Row) -> Part:
    number, layer, *rest, is_merged = row
    return Part._make((number, Layer(layer), *rest, bool(is_merged)))
