import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.function_call import is_call, parse_call
from evenbeat.model import ArgumentValue, Invalid, Job


@pytest.mark.parametrize(
    ("command", "job"),
    [
        ("py reports:daily", Job(function="reports:daily")),
        ("py  reports:daily()", Job(function="reports:daily")),
        ("py a.b.c:f(1)", Job(function="a.b.c:f", args=(1,))),
        ("py job.py:main('x', -1.5, None, True)", Job(function="job.py:main", args=("x", -1.5, None, True))),
        (r'py m:f("\d")', Job(function="m:f", args=(r"\d",))),
        ('py m:f("a)b", key="(", n=0)', Job(function="m:f", args=("a)b",), kwargs={"key": "(", "n": 0})),
    ],
)
def test_a_call_is_a_function_with_literal_arguments(command: str, job: Job) -> None:
    assert parse_call(command) == job


@pytest.mark.parametrize(
    ("command", "column", "message"),
    [
        ("py daily", 4, "'daily' is not a function"),
        ("py :f", 4, "':f' is not a function"),
        ("py m:f(1", 1, "is not understood"),
        ("py m:f(1) && ls", 1, "is not understood"),
        ("py m:f(1,, 2)", 10, "invalid syntax"),
        ("py m:f(__import__('os').system('id'))", 8, "not a literal"),
        ("py m:f(1, x)", 11, "not a literal"),
        ("py m:f(1, k=x)", 13, "not a literal"),
        ("py m:f([1])", 8, "a list cannot be an argument"),
        ("py m:f(b'x')", 8, "a bytes cannot be an argument"),
        ("py m:f(9223372036854775808)", 8, "so large a number cannot be an argument"),
        ("py m:f(*'ab')", 8, "not a literal"),
        ("py m:f(**{})", 8, "only key=value"),
        ("py m:f(a=1, a=2)", 13, "each key once"),
        ("py m:f(1)(2)", 8, "is more than arguments"),
        ("py m:f(1).g(2)", 8, "is more than arguments"),
        ("py m:f(" + "(" * 5_000 + ")" * 5_000 + ")", 71, "nested too deep"),
        ("py m:f(1, " + "-" * 5_000 + "1)", 74, "nested too deep"),
        ("py m:f(" + "not " * 5_000 + "1)", 260, "nested too deep"),
        ("py m:f(" + "1**" * 5_000 + "1)", 71, "nested too deep"),
        ("py m:f(x" + "(1, 2)" * 5_000 + ")", 376, "nested too deep"),
        ("py m:f(" + "[1," * 5_000 + "]" * 5_000 + ")", 195, "nested too deep"),
        ("py m:f('\0')", 9, "a NUL"),
    ],
)
def test_anything_else_is_refused_with_its_column(command: str, column: int, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_call(command)
    assert message in str(caught.value)
    assert caught.value.column == column


@pytest.mark.parametrize("text", ["(" * 1_000, "-" * 1_000, "[1," * 1_000])
def test_texts_and_long_lists_of_arguments_are_not_deep(text: str) -> None:
    assert parse_call(f"py m:f({text!r}, {', '.join(['-1'] * 500)})").args == (text, *[-1] * 500)


LITERALS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"])) | st.integers(-(2**63) + 1, 2**63 - 1)
LITERALS_ALL = LITERALS | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(LITERALS_ALL, max_size=4), st.dictionaries(st.from_regex(r"\A[a-z]{2,6}_\Z"), LITERALS_ALL, max_size=3))
def test_what_python_writes_is_read_back(args: list[ArgumentValue], kwargs: dict[str, ArgumentValue]) -> None:
    words = [repr(arg) for arg in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    job = parse_call(f"py m:f({', '.join(words)})")
    assert job.args == tuple(args)
    assert [type(arg) for arg in job.args] == [type(arg) for arg in args]
    assert job.kwargs == kwargs


def test_only_the_word_py_means_us() -> None:
    assert is_call("py m:f")
    assert not is_call("python3 x.py")
    assert not is_call("py")
    assert not is_call("pytest x")
