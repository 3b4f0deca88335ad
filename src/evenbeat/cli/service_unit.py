"""The systemd unit of a node on one machine, for root or for one user: the text that `install-service` writes."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
HIDDEN_FROM_SYSTEM_UNIT: Final = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108
"""By ProtectHome and PrivateTmp."""
_KEYS_OF_SYSTEM_UNITS: Final = (
    *("User", "StateDirectory", "StateDirectoryMode", "CapabilityBoundingSet", "AmbientCapabilities", "ProtectSystem"),
    *("ProtectHome", "PrivateTmp", "PrivateDevices", "DevicePolicy", "ProtectKernelTunables", "ProtectKernelModules"),
    *("ProtectKernelLogs", "ProtectControlGroups", "ProtectClock", "ProtectHostname", "RemoveIPC", "ProtectProc"),
    *("After", "Wants"),
)
"""What the manager of a user may not set, or cannot set on every kernel: the service would not start."""


class ServiceUnit(NamedTuple):
    """What a unit is made of."""

    name: str
    command: Sequence[str]
    """What starts evenbeat."""
    files: Sequence[Path]
    database: Path
    listen: str | None
    run_as: str | None
    """The user of a system unit; None for a unit of the calling user."""

    @property
    def path(self) -> Path:
        """Where systemd finds it."""
        folder = Path.home() / ".config" / "systemd" / "user" if self.run_as is None else SYSTEM_FOLDER
        return folder / f"{self.name}.service"

    @property
    def start_words(self) -> tuple[str, ...]:
        """The command that the service runs."""
        listen = () if self.listen is None else ("--listen", self.listen)
        return (*self.command, "up", *map(str, self.files), "--db", str(self.database), *listen)

    def text(self) -> str:
        """The unit."""
        lines = template().splitlines()
        if self.run_as is None:
            lines = _for_user(lines)
        values = {
            "User": self.run_as,
            "StateDirectory": self.name,
            "WorkingDirectory": f"%S/{self.name}" if self.run_as is not None else _quoted(str(self.database.parent)),
            "ExecStart": " ".join(map(_quoted, self.start_words)),
        }
        return "".join(f"{_with_value(line, values)}\n" for line in lines)


def template() -> str:
    """The unit of the documentation, for /opt/evenbeat and the user evenbeat."""
    return files("evenbeat.cli").joinpath("evenbeat.service").read_text()


def _with_value(line: str, values: dict[str, str | None]) -> str:
    key, equals, _ = line.partition("=")
    value = values.get(key)
    return f"{key}={value}" if equals and value is not None else line


def _for_user(lines: Sequence[str]) -> list[str]:
    found = [line for line in lines if line.partition("=")[0] not in _KEYS_OF_SYSTEM_UNITS]
    # The advice on what to loosen is about those keys.
    found = [line for line in found if not line.startswith("#")]
    return [line.replace("WantedBy=multi-user.target", "WantedBy=default.target") for line in found]


def _quoted(word: str) -> str:
    """A word of a command line as systemd reads it: no specifiers, no variables, quotes where it has to."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and all(char.isalnum() or char in "%$@+=:,./_-" for char in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
