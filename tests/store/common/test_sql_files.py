"""Statements by their names, and numbered migrations, as they stand in .sql files."""

from pathlib import Path

import pytest

from evenbeat.store.common.sql_files import SqlFiles, migration_scripts


@pytest.fixture
def sql(tmp_path: Path) -> SqlFiles:
    (tmp_path / "queries.sql").write_text(
        "-- A heading\n\n-- name: first\n-- Why it is so.\nSELECT left(output, :most) FROM :table;\n\n"
        "-- name: second\nSELECT 2 -- inline\n"
    )
    return SqlFiles(tmp_path, {":most": 200})


def test_a_statement_has_a_name_and_loses_its_comment_and_semicolon(sql: SqlFiles) -> None:
    assert sql.query("first") == "SELECT left(output, 200) FROM :table"
    assert sql.query("second") == "SELECT 2 -- inline"
    with pytest.raises(KeyError):
        sql.query("third")


def test_a_part_of_a_statement_can_be_filled_in(sql: SqlFiles) -> None:
    assert sql.fill_in("first", ":table", "runs") == "SELECT left(output, 200) FROM runs"


def test_migrations_come_in_order_and_without_a_gap(sql: SqlFiles, tmp_path: Path) -> None:
    assert migration_scripts(tmp_path) == []
    (tmp_path / "002_second.sql").write_text("b")
    with pytest.raises(AssertionError, match="without a gap"):
        migration_scripts(tmp_path)
    (tmp_path / "001_first.sql").write_text("a")
    assert migration_scripts(tmp_path) == ["a", "b"]
