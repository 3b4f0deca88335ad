"""What Jenkins' home says of all jobs together: variables that every run gets, and sizes of throttled categories."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evenbeat.load.importers.report import ImportReport, shown
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret
from evenbeat.load.importers.xml_tree import XmlElement, parse_xml
from evenbeat.model import COMMAND_LIMIT

CATEGORIES_FILE: Final = "hudson.plugins.throttleconcurrents.ThrottleJobProperty.xml"
"""The file of Jenkins' home that says how many jobs of each category run at the same time."""
_CATEGORY: Final = "hudson.plugins.throttleconcurrents.ThrottleJobProperty_-ThrottleCategory"
_VARIABLES: Final = "hudson.slaves.EnvironmentVariablesNodeProperty"
_HOME: Final = re.compile(r"\s*(?:<\?xml.*?\?>)?\s*<hudson[\s>]", re.DOTALL)
"""How the config.xml of Jenkins itself begins."""
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_of_home(text: str, file: str) -> bool:
    """Is this file not about one job?"""
    return Path(file).name == CATEGORIES_FILE or is_of_node(Path(file)) or _HOME.match(text) is not None


def is_of_node(file: Path) -> bool:
    """Is it the config.xml of a machine that runs jobs?"""
    return file.name == "config.xml" and file.parent.parent.name == "nodes"


class JenkinsHome:
    """What is known of all jobs together."""

    def __init__(self, report: ImportReport, secrets: SecretFiles) -> None:
        self.categories: dict[str, int] = {}
        """How many jobs of each category run at the same time."""
        self.variables: dict[str, str] = {}
        """Of every run."""
        self._report = report
        self._secrets = secrets

    def read(self, text: str, file: str) -> None:
        """One file; raise BadFileError."""
        root = parse_xml(text, file)
        if Path(file).name == CATEGORIES_FILE:
            self._read_categories(root, file)
        elif is_of_node(Path(file)):
            for name, _, one in _variables(root):
                why = "a variable of one machine: it belongs into the tasks that run there"
                self._report.omit(file, one.place, name, why)
        else:
            for name, value, one in _variables(root):
                self._add_variable(name, value, one, file)
            why = "it is about Jenkins itself, but for the variables of its runs"
            self._report.omit(file, root.place, f"the other settings of {root.tag}", why)

    def _add_variable(self, name: str, value: str, one: XmlElement, file: str) -> None:
        if not _VARIABLE.fullmatch(name) or "\0" in value or len(value) > COMMAND_LIMIT:
            self._report.omit(file, one.place, f"the variable {shown(name)}", "no variable of a command can be so")
            return
        if value and sounds_secret(name, value):
            value = self._secrets.reference(self._secrets.add(f"jenkins-{name}", value))
        elif "$" in value:
            self._report.warn(file, one.place, f"{name}: what $ stands for in it, Jenkins filled in; here it stays")
        self.variables[name] = value

    def _read_categories(self, root: XmlElement, file: str) -> None:
        for one in root.below(_CATEGORY):
            name, most = one.take().value("categoryName"), one.value("maxConcurrentTotal")
            if re.fullmatch("[0-9]{1,6}", most) and int(most):
                self.categories[name] = int(most)
            for each in one.all("maxConcurrentPerNode"):
                if (number := each.take().text.strip()) not in ("", "0"):
                    why = "a limit counts on all workers together"
                    what = f"maxConcurrentPerNode of the category {shown(name)}: {shown(number)}"
                    self._report.omit(file, each.place, what, why)
        for path, left in root.left():
            if left.children or left.text.strip():
                self._report.omit(file, left.place, path, "evenbeat has nothing like it")


def _variables(root: XmlElement) -> Iterator[tuple[str, str, XmlElement]]:
    """Names and values: they stand one after the other."""
    for one in root.below(_VARIABLES):
        texts = [text for tree in one.below("tree-map") for text in tree.all("string")]
        for name, value in zip(texts[::2], texts[1::2], strict=False):
            yield name.text, value.text, name
