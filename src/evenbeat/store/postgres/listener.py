"""Listens for changes of other processes: one thread with its own connection, which is reopened when it is lost."""

import threading
from collections.abc import Callable
from typing import Final

import psycopg

from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import PostgresAddress

ALL_TOPICS: Final = ("tasks", "settings", "orders", "answers", "partitions", "shares")
_LOOK: Final = 0.5
"""Seconds between two checks whether the listener was closed."""


class ChangeListener:
    """Calls `heard` until it is closed, with every topic after a loss of the connection: anything may have changed."""

    def __init__(self, address: PostgresAddress, heard: Callable[[str], None]) -> None:
        self._address = address
        self._heard = heard
        self._over = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenbeat listener", daemon=True)
        self._thread.start()
        # A caller that reads the database after this returned misses no change.
        self._listening.wait(_LOOK)

    def close(self) -> None:
        """Stop: `heard` is not called after this."""
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
                        for topic in ALL_TOPICS:
                            self._heard(topic)
                    is_first = False
                    while not self._over.is_set():
                        for notification in connection.notifies(timeout=_LOOK):
                            if self._over.is_set():
                                return
                            self._heard(notification.payload)
            except (psycopg.Error, StoreError):
                is_first = False
                self._over.wait(_LOOK)
