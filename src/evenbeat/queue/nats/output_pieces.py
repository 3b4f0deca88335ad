"""Whole outputs that arrive in pieces, until the reports of their runs do."""

from typing import Final

from evenbeat.model import MAX_OUTPUT_KEEP
from evenbeat.wire.cluster_messages import OutputPiece
from evenbeat.wire.worker_frames import RunResult

_MAX_HELD: Final = 4 * MAX_OUTPUT_KEEP
"""Bytes of pieces whose reports have not come; with more the oldest outputs are dropped."""


class OutputPieces:
    """Pieces by run."""

    def __init__(self) -> None:
        self._pieces: dict[int, dict[int, bytes]] = {}
        self._counts: dict[int, int] = {}
        self._held = 0

    def add(self, piece: OutputPiece) -> None:
        """A piece has come, perhaps again."""
        if self._counts.get(piece.token, piece.count) != piece.count or not 0 <= piece.index < piece.count:
            return
        pieces = self._pieces.setdefault(piece.token, {})
        self._counts[piece.token] = piece.count
        self._held += len(piece.data) - len(pieces.get(piece.index, b""))
        pieces[piece.index] = piece.data
        while self._held > _MAX_HELD:
            self._take(next(iter(self._pieces)))

    def complete(self, results: list[RunResult]) -> None:
        """Give these results their whole outputs, as far as all pieces are there; nothing of them is kept."""
        for result in results if self._pieces else ():
            count = self._counts.get(result.token)
            pieces = self._take(result.token)
            if count is not None and len(pieces) == count:
                result.whole = b"".join(pieces[i] for i in range(count))

    def _take(self, token: int) -> dict[int, bytes]:
        pieces = self._pieces.pop(token, {})
        self._counts.pop(token, None)
        self._held -= sum(map(len, pieces.values()))
        return pieces
