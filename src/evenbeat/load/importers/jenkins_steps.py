"""Converts the shell steps of a Jenkins job to one command that does what Jenkins did."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

_WITH_C: Final = re.compile(r"(?:ba|da|a|k|mk|z|c|tc)?sh|fish|python[\d.]*|pypy[\d.]*")
"""Interpreters that read a script from the word behind -c; behind -e those that follow."""
_WITH_E: Final = re.compile(r"perl[\d.]*|ruby[\d.]*|node(?:js)?|lua[\d.]*|php[\d.]*|Rscript")
_DEFAULT: Final = ("/bin/sh", "-xe")
"""How Jenkins runs a step without a first line of its own."""
_JENKINS_VARIABLE: Final = re.compile(
    r"\$\{?(BUILD_[A-Z_]+|EXECUTOR_NUMBER|GIT_[A-Z_]+|HUDSON_[A-Z_]+|JENKINS_[A-Z_]+|NODE_[A-Z]+|RUN_[A-Z_]+|SVN_[A-Z_]+"
    r"|JOB_[A-Z_]+|WORKSPACE)\b"
)

_USED: Final = re.compile(r"\$(?:([A-Z][A-Z0-9_]*)|\{([A-Z][A-Z0-9_]*)\})")
_NOT_READ: Final = re.compile(r"(?<![$\w{])[A-Z][A-Z0-9_]*\b")
"""Words such as variables, where they are not read: they are set there."""
_OF_EVERY_SHELL: Final = frozenset(
    {"HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "TZ", "IFS", "PPID", "OPTARG"}
    | {"OPTIND", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "HOSTNAME", "REPLY", "BASHPID", "BASH_SOURCE"}
)


def step_command(script: str) -> tuple[str, ...]:
    """The words that run one step, by its first line if that names an interpreter."""
    script = script.replace("\r\n", "\n")
    if not script.startswith("#!"):
        return (*_DEFAULT, "-c", script)
    words = _words(script.split("\n", 1)[0][2:])
    if not words:
        return (*_DEFAULT, "-c", script)
    if PurePath(words[0]).name == "env" and words[1:2] == ["-S"]:
        del words[1]
    program = next((word for word in words if PurePath(word).name != "env" and "=" not in word), words[0])
    name = PurePath(program).name
    if _WITH_C.fullmatch(name):
        return (*words, "-c", script)
    if _WITH_E.fullmatch(name):
        option = "-r" if name.startswith("php") else "-e"
        # PHP's code begins without its first line and without <?php.
        code = re.sub(r"^#![^\n]*\n\s*(?:<\?php)?", "", script) if option == "-r" else script
        return (*words, option, code)
    return ("/bin/sh", "-ec", _FROM_A_FILE, script)


_FROM_A_FILE: Final = (
    'file=$(mktemp)\ntrap \'rm -f "$file"\' EXIT\nprintf %s "$0" >"$file"\nchmod 700 "$file"\n"$file"\n'
)
"""For an interpreter that wants a file: the script is in $0."""


def command_of_steps(scripts: Sequence[str]) -> tuple[str, ...]:
    """One command for all steps; the first that fails ends it."""
    commands = [step_command(script) for script in scripts]
    if len(commands) == 1:
        return commands[0]
    return ("/bin/sh", "-ec", "".join(" ".join(map(shlex.quote, words)) + "\n" for words in commands))


def jenkins_variables(scripts: Sequence[str]) -> list[str]:
    """The variables that only Jenkins sets and that the steps use."""
    return sorted({found[1] for script in scripts for found in _JENKINS_VARIABLE.finditer(script)})


def unset_variables(scripts: Sequence[str]) -> list[str]:
    """Variables in capital letters that steps for a shell use without a default and do not set: from Jenkins' settings,
    or from the machine that ran them.
    """
    found: set[str] = set()
    for script in scripts:
        if script.startswith("#!") and not _WITH_C.search(script.partition("\n")[0]):
            continue
        used = {one[1] or one[2] for one in _USED.finditer(re.sub(r"'[^']*'", "", script))}
        found |= used - {*_NOT_READ.findall(script)}
    return sorted(found - _OF_EVERY_SHELL - {*jenkins_variables(scripts)})


def _words(line: str) -> list[str]:
    """An interpreter and its argument: the kernel passes everything behind the first space as one."""
    first, _, rest = line.strip().partition(" ")
    if PurePath(first).name == "env" and rest.strip().startswith("-S"):
        return [first, *rest.split()]
    return [word for word in (first, rest.strip()) if word]
