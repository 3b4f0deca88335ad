"""The SQL of the PostgreSQL store: statements by their names, and migrations."""

from functools import cache
from importlib.resources import files
from typing import Final

from evenbeat.store.common.sql_files import SqlFiles, migration_scripts
from evenbeat.store.contract import PLAIN_OUTPUT_LENGTH

_FOLDER: Final = files(__package__) / "sql"
_sql: Final = SqlFiles(_FOLDER, {":plain_output": PLAIN_OUTPUT_LENGTH})
query: Final = _sql.query
fill_in: Final = _sql.fill_in


@cache
def migrations() -> list[str]:
    """All scripts in order."""
    return migration_scripts(_FOLDER)
