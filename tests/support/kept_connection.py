"""A connection to PostgreSQL that stays from test to test: for a new one the server reads its catalogue anew."""

import psycopg


class KeptConnection:
    """Made when it is first used, and again if a test has ended it. Each statement is a transaction of its own."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def run(self, statement: bytes) -> None:
        if self._connection is not None:
            try:
                self._connection.execute(statement)
            except psycopg.OperationalError:
                self.close()
            else:
                return
        self._connection = psycopg.connect(self._dsn, autocommit=True)
        self._connection.execute(statement)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
