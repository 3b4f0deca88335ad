"""Hears what others have changed: one thread with a connection of its own, which comes back when it was lost."""

import threading
from collections.abc import Callable
from typing import Final

import psycopg

from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import PostgresAddress

ALL_TOPICS: Final = ("tasks", "settings", "orders", "answers", "partitions", "shares")
_LOOK: Final = 0.5
"""Seconds between two looks whether it is over."""


class ChangeListener:
    """Tells `heard` until it is closed. After each loss of the connection everything may have changed."""

    def __init__(self, address: PostgresAddress, heard: Callable[[str], None]) -> None:
        self._address = address
        self._heard = heard
        self._over = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenbeat listener", daemon=True)
        self._thread.start()
        # Whoever looks after this returned, and hears from then on, misses nothing.
        self._listening.wait(_LOOK)

    def close(self) -> None:
        """Nothing is told after this."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        is_first = True
        while not self._over.is_set():
            try:
                with self._address.connect() as connection:
                    connection.execute("LISTEN evenbeat")
                    self._listening.set()
                    if not is_first:
                        for what in ALL_TOPICS:
                            self._heard(what)
                    is_first = False
                    while not self._over.is_set():
                        for told in connection.notifies(timeout=_LOOK):
                            if self._over.is_set():
                                return
                            self._heard(told.payload)
            except (psycopg.Error, StoreError):
                is_first = False
                self._over.wait(_LOOK)
