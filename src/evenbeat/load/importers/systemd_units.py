"""Reads unit files of systemd: directives with their places, drop-ins, templates, and which of them are still left."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.load.config import BadFileError, ConfigError, FilePosition
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.secret_values import sounds_secret
from evenbeat.load.importers.source_files import check_exists, files_in, read_source

_MAX_UNIT: Final = 1 << 20
"""Characters of a unit file."""
_SECTION: Final = re.compile(r"\[(?P<name>[^\]\[]+)\]")
_DIRECTIVE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)\s*=\s*(?P<value>.*)", re.DOTALL | re.ASCII)


class Directive(NamedTuple):
    """One `Key=Value`, lines that go on joined."""

    section: str
    key: str
    value: str
    file: str
    place: FilePosition

    def __str__(self) -> str:
        """As a report shows it: without values that sound secret."""
        is_secret = sounds_secret(self.key, self.value) or (self.key == "Environment" and sounds_secret(self.value))
        return f"{self.key}=(not shown)" if is_secret else f"{self.key}={self.value}"


class Unit:
    """A unit with its drop-ins. Whoever uses a directive takes it; `left` are those that nobody took."""

    def __init__(self, name: str, file: str, directives: Sequence[Directive], report: ImportReport) -> None:
        self.name = name
        self.file = file
        self._report = report
        self._left = list(directives)

    @property
    def stem(self) -> str:
        """The name without its type: `backup@home`."""
        return self.name.rpartition(".")[0]

    @property
    def prefix(self) -> str:
        """The part of the name before an instance."""
        return self.stem.partition("@")[0]

    @property
    def instance(self) -> str:
        """The part behind the @."""
        return self.stem.partition("@")[2]

    def take(self, section: str, *keys: str) -> list[Directive]:
        """Directives of a list, in order. An empty one takes away what stands before it."""
        found: list[Directive] = []
        for one in self._taken(section, keys):
            if one.value:
                found.append(one)
            else:
                for before in found:
                    self._omit_overridden(before, one)
                found = []
        return found

    def take_last(self, section: str, *keys: str) -> Directive | None:
        """The directive that counts: the last one, unless it is empty."""
        found = self._taken(section, keys)
        for one in found[:-1]:
            if one.value:
                self._omit_overridden(one, found[-1])
        return found[-1] if found and found[-1].value else None

    def left(self) -> Iterator[Directive]:
        """What nobody took."""
        return (one for one in self._left if one.value)

    def _taken(self, section: str, keys: tuple[str, ...]) -> list[Directive]:
        found = [one for one in self._left if one.section == section and one.key in keys]
        taken = set(map(id, found))
        self._left = [one for one in self._left if id(one) not in taken]
        return found

    def _omit_overridden(self, one: Directive, by: Directive) -> None:
        why = f"{by.file}:{by.place.line} overrides it"
        self._report.omit(one.file, one.place, str(one), why)


def is_of_user(file: str | Path) -> bool:
    """Does a unit belong to a user, not to the system?"""
    return "/systemd/user/" in f"{Path(file).absolute()}/"


def home_of_user_unit(file: str) -> str:
    """The home folder of the user whose unit it is; empty if it is not one of a single user."""
    home, found, _ = str(Path(file).absolute()).partition("/.config/systemd/user/")
    return home if found else ""


class UnitFolders:
    """The folders that units are looked for in: the first one that has a unit wins, as in systemd."""

    def __init__(self, paths: Sequence[Path], report: ImportReport) -> None:
        self._report = report
        self._folders: list[Path] = []
        self.timers: dict[str, Path] = {}
        """The files of timers, by the names of their units."""
        for path in paths:
            check_exists(path)
            if path.is_dir():
                self._add_folder(path)
                for file in files_in(path):
                    self._add_timer(file)
            else:
                self._add_folder(path.parent)
                if path.suffix == ".timer":
                    self._add_timer(path)
                elif path.suffix not in (".service", ".conf"):
                    raise BadFileError([ConfigError(str(path), None, "accepted: .timer files and folders of units")])
        self._enabled = {of_user: self._linked_timers(of_user=of_user) for of_user in (False, True)}
        self._find_instances()

    def _add_folder(self, folder: Path) -> None:
        if folder not in self._folders:
            self._folders.append(folder)

    def _add_timer(self, file: Path) -> None:
        if file.suffix != ".timer" or file.is_dir():
            return
        if file.name in self.timers:
            if self.timers[file.name] != file:
                self._report.omit(str(file), None, file.name, f"{self.timers[file.name]} overrides it")
        elif _is_masked(file):
            self._report.omit(str(file), None, file.name, "it is masked, so it never runs")
        else:
            self.timers[file.name] = file

    def _linked_timers(self, *, of_user: bool) -> set[str] | None:
        """The timers that are enabled, of users or of the system; None if the folders do not say."""
        own = [folder for folder in self._folders if is_of_user(folder) == of_user]
        wants = [each for folder in own for each in folder.glob("*.wants") if each.is_dir()]
        names = {file.name for folder in wants for file in files_in(folder) if file.suffix == ".timer"}
        return names if names or any(folder.name == "timers.target.wants" for folder in wants) else None

    def _find_instances(self) -> None:
        """Replace templates by their instances that are enabled."""
        for name, file in list(self.timers.items()):
            prefix, at, rest = name.partition("@")
            if not at or rest != ".timer":
                continue
            del self.timers[name]
            instances = sorted(
                one for one in self._enabled[is_of_user(file)] or () if one.startswith(f"{prefix}@") and one != name
            )
            for one in instances:
                self.timers.setdefault(one, file)
            if not instances and not any(one.startswith(f"{prefix}@") for one in self.timers):
                why = "a template of which no instance is enabled here: no folder *.wants has a link to one"
                self._report.omit(str(file), None, name, why)

    def is_enabled(self, timer: str) -> bool:
        """Is a timer enabled, as far as the folders say?"""
        enabled = self._enabled[is_of_user(self.timers[timer])]
        return enabled is None or timer in enabled

    def unit(self, name: str, file: Path | None = None) -> Unit | None:
        """A unit with its drop-ins; None if there is none of this name."""
        file = file or self._find(name)
        if file is None or _is_masked(file):
            return None
        directives = _directives(file, self._report)
        for drop_in in self._drop_ins(name):
            directives += _directives(drop_in, self._report)
        return Unit(name, str(file), directives, self._report)

    def _find(self, name: str) -> Path | None:
        prefix, at, rest = name.partition("@")
        template = f"{prefix}@.{rest.rpartition('.')[2]}" if at else name
        for candidate in dict.fromkeys((name, template)):
            for folder in self._folders:
                path = folder / candidate
                if "/" not in candidate and (path.is_file() or path.is_symlink()):
                    return path
        return None

    def _drop_ins(self, name: str) -> list[Path]:
        """Files of NAME.d and the like, by their names; of two with one name that in the more special folder counts."""
        stem, _, kind = name.rpartition(".")
        folders = [f"{name}.d"]
        if "@" in stem:
            folders.append(f"{stem.partition('@')[0]}@.{kind}.d")
        words = stem.split("-")
        folders += [f"{'-'.join(words[:count])}-.{kind}.d" for count in range(len(words) - 1, 0, -1)]
        folders.append(f"{kind}.d")
        found: dict[str, Path] = {}
        for folder in folders:
            for root in self._folders:
                if "/" not in folder and (root / folder).is_dir():
                    for file in files_in(root / folder):
                        if file.suffix == ".conf" and not file.is_dir():
                            found.setdefault(file.name, file)
        return [found[name] for name in sorted(found) if not _is_masked(found[name])]


def _is_masked(file: Path) -> bool:
    """A link to /dev/null or an empty file takes the place of a unit that must not run."""
    return (file.is_symlink() and str(file.resolve()) == "/dev/null") or (file.is_file() and not file.stat().st_size)


def _directives(file: Path, report: ImportReport) -> list[Directive]:
    text = read_source(file, report)
    if len(text) > _MAX_UNIT:
        raise BadFileError([ConfigError(str(file), None, f"larger than {_MAX_UNIT >> 20} MiB")])
    found: list[Directive] = []
    section = ""
    for number, column, line in _whole_lines(text):
        place = FilePosition(number, column)
        if header := _SECTION.fullmatch(line):
            section = header["name"]
        elif (pair := _DIRECTIVE.fullmatch(line)) and section:
            found.append(Directive(section, pair["key"], pair["value"].strip(), str(file), place))
        else:
            why = "it stands in no section" if pair else "neither [Section] nor Key=Value: systemd ignores it too"
            report.omit(str(file), place, line, why)
    return found


def _whole_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Number, column and text of each line that says something; those that end in a backslash go on in the next."""
    begun: list[str] = []
    start, column = 0, 1
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r")
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or (not stripped and not begun):
            continue
        if not begun:
            start, column = number, len(line) - len(line.lstrip()) + 1
        goes_on = stripped.endswith("\\") and stripped != ""
        begun.append(stripped[:-1].rstrip() if goes_on else stripped)
        if not goes_on:
            yield start, column, " ".join(filter(None, begun))
            begun = []
    if any(begun):
        yield start, column, " ".join(filter(None, begun))
