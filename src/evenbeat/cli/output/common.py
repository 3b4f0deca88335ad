"""Shared by many commands: the clock, parsing of options, JSON output, and a console for people."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from evenbeat.cli.output.terminal import raw_stream
from evenbeat.load.safe_text import escaped_text, safe_json
from evenbeat.model import NAME_LIMIT, SECOND, Instant, Invalid, Prefer, prefix_place
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.duration import format_duration, parse_duration
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import Zone

if TYPE_CHECKING:
    from evenbeat.load.config import Config
    from evenbeat.when.period import CompiledPeriod


def now() -> Instant:
    """The one place where the command line reads the clock."""
    return Instant(time.time_ns() // 1_000)


def at_option(text: str | None, zone: Zone, default: Instant, option: str) -> Instant:
    """The time given by an option."""
    if text is None:
        return default
    with prefix_place(option):
        return parse_instant(text, zone)


def number_option(value: int | None, option: str, most: int, least: int = 1) -> int | None:
    """A count given by an option; None if it was not."""
    if value is not None and not least <= value <= most:
        raise Invalid(f"{value} is out of range, accepted: {least} to {most}", place=option)
    return value


def log_to_stderr() -> None:
    """Write log records to stderr from now on."""
    from evenbeat.node.process.log_format import CondensingHandler, KeyValueFormatter  # noqa: PLC0415 - most commands log nothing

    handler = CondensingHandler()
    handler.setFormatter(KeyValueFormatter())
    for name, level in (("evenbeat", logging.INFO), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)


def warn_of_secret_argument(argument: str | None, option: str, variable: str, *, is_secret: bool) -> None:
    """Warn that a secret was given as an argument, which every user of this machine can read."""
    if argument and is_secret:
        problem = "every user of this machine can read its password in the list of processes"
        print(f"{option}: {problem}; set {variable} instead", file=sys.stderr)


def duration_option(text: str, option: str) -> int:
    """The duration given by an option."""
    with prefix_place(option):
        return parse_duration(text)


def time_option(text: str, option: str) -> Instant:
    """The time given by an option, in UTC unless it has an offset."""
    from evenbeat.when.instant import parse_instant  # noqa: PLC0415
    from evenbeat.when.zone import zone  # noqa: PLC0415

    with prefix_place(option):
        return parse_instant(text, zone("UTC"))


def end_option(length: str | None, until: str | None, start: Instant | None = None) -> Instant | None:
    """`--for D`, counted from now or from `start`, or `--until T`; None for neither."""
    if length is None:
        return None if until is None else time_option(until, "--until")
    found = duration_option(length, "--for")
    if not found:
        raise Invalid(f"{length} is no time at all, accepted: a duration such as 2h", place="--for")
    return Instant((now() if start is None else start) + found)


def seed_option(seed: int) -> int:
    """`--seed N`."""
    if seed < 0:
        raise Invalid(f"{seed} is out of range, accepted: a number from 0", place="--seed")
    return seed


def length_option(text: str, longest: int) -> int:
    """`--for D`, from a second up."""
    length = duration_option(text, "--for")
    if not SECOND <= length <= longest:
        raise Invalid(f"{text} is out of range, accepted: 1s to {format_duration(longest)}", place="--for")
    return length


def load_file_option(path: str) -> "Config":
    """Load a FILE of tasks; raise one Invalid for all of its errors."""
    from evenbeat.load.config import BadFileError  # noqa: PLC0415 - it needs numpy, for the periods
    from evenbeat.load.files import load_together  # noqa: PLC0415

    try:
        config = load_together([Path(path)], must_run=False)[0].config
    except BadFileError as e:
        raise Invalid(str(e)) from None
    if not config.tasks:
        raise Invalid(f"{path} has no tasks: add [checks.NAME] or [tasks.NAME]")
    return config


def second_option(text: str) -> int | None:
    """`--second N|spread`."""
    if text == "spread":
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= 2 and int(text) <= 59):
        raise Invalid(f"{text!r} is not a second, accepted: 0-59, or spread", place="--second")
    return int(text)


def period_option(
    lines: list[str], zone: str, *, include: list[str], exclude: list[str], prefer: Prefer = Prefer.INCLUDE
) -> "CompiledPeriod":
    """Compile a period from lines on the command line."""
    # Periods need numpy, whose import would delay commands without a period.
    from evenbeat.when.period import compile_period  # noqa: PLC0415

    others: dict[str, CompiledPeriod] = {}
    for option, ranges in (("--include", include), ("--exclude", exclude)):
        if ranges:
            with prefix_place(option):
                others[option] = compile_period(PeriodNoun(ranges=tuple(ranges), zone=zone))
    noun = PeriodNoun(
        ranges=tuple(lines),
        zone=zone,
        include=("--include",) if include else (),
        exclude=("--exclude",) if exclude else (),
        prefer=prefer,
    )
    return compile_period(noun, others)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    raw_stream(sys.stdout).write(safe_json(json.dumps(document, ensure_ascii=False)) + "\n")


class SafeConsole(Console):
    """Of all that reaches the terminal only the colours and movements that rich adds are escape sequences."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(file=raw_stream(sys.stderr if stderr else sys.stdout), highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """As rich does, with what the text has of control characters shown as escapes."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(escaped_text(text), style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # `main` knows what to do; rich would end the program itself


def console() -> Console:
    """For people: colours on a terminal, plain text elsewhere, long lines left whole."""
    return SafeConsole(soft_wrap=True, emoji=False, width=10_000)


def name_option(name: str) -> str:
    """`--name N`, as long as a task's name may be."""
    if len(name) > NAME_LIMIT:
        raise Invalid(f"a name of {len(name)} characters, accepted: at most {NAME_LIMIT}", place="--name")
    return name
