"""The page knows each key of a task: the editor has a field for it, and the definition shows it in its group."""

import re
from pathlib import Path

import evenbeat.web
from evenbeat.load.task_keys import TASK_KEYS

VIEWS = Path(evenbeat.web.__path__[0]) / "static" / "views"
OF_THE_FORM = {"name", "check", "when", "what", "line"}
"""Fields that are no key of a task in a file."""
SAID_BY_ANOTHER = {"shell"}
"""Keys that a field says which has another name: `line` is a command for the shell."""


def test_the_editor_has_a_field_for_each_key() -> None:
    text = (VIEWS / "editor_fields.js").read_text()
    fields = re.findall(r'^  \{ key: "(\w+)", label: "', text, re.MULTILINE)
    assert len(fields) == len(set(fields))
    assert set(fields) - OF_THE_FORM | SAID_BY_ANOTHER == set(TASK_KEYS)


def test_the_definition_of_a_task_shows_each_key_in_its_group() -> None:
    text = (VIEWS / "task_definition.js").read_text()
    groups = text[text.index("const ORDER") : text.index("];\n", text.index("const ORDER"))]
    keys = set(re.findall(r'"([a-z_]+)"', groups))
    assert keys == set(TASK_KEYS) - {"labels", "enabled"}
