import rtoml

from evenbeat.load.locate import TomlPositions

TEXT = '''
top = 1
[tasks."a.b"]   # a name with a dot
command = ["""
[ -f x ]
key = "not ours"
""", "last"]
labels = { one = "uno", two = "due" }
[tasks.'c']
d.e = "deep"
"q\\u0041" = "escaped"
list = [
  "first",
  "second",
]
'''


def places() -> TomlPositions:
    return TomlPositions(TEXT, rtoml.loads(TEXT))


def test_values_and_tables_are_found() -> None:
    assert places().position_of(("top",)) == (2, 7)
    assert places().position_of(("tasks", "a.b")) == (3, 2)
    assert places().position_of(("tasks", "c", "d", "e")) == (10, 8)
    assert places().position_of(("tasks", "c", "qA")) == (11, 14)


def test_the_column_within_a_text_is_counted_from_its_first_character() -> None:
    assert places().position_of(("tasks", "c", "d", "e"), 3) == (10, 10)
    assert places().position_of(("tasks", "c", "list", 1), 1) == (14, 4)
    assert places().position_of(("tasks", "a.b"), 3) == (3, 11)


def test_a_text_within_a_table_of_one_line_is_found_too() -> None:
    assert places().position_of(("tasks", "a.b", "labels", "two"), 2) == (8, 33)


def test_lines_of_a_long_text_are_not_taken_for_keys() -> None:
    assert places().position_of(("tasks", "a.b", "key")) == (3, 2)


def test_what_is_not_there_is_looked_for_around_it() -> None:
    assert places().position_of(("tasks", "c", "nothing", "here")) == (9, 2)
    assert places().position_of(("nothing",)) is None
