"""What a user does after `evenbeat import`, without an edit: check it, apply it, start a node, run the checks."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waiting import eventually

from conftest import Evenbeat
from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.load.toml import parse_toml

if TYPE_CHECKING:
    from evenbeat.model import Task

_PLUGIN = f"""#!{sys.executable}
import json, os, sys
with open({{log!r}}, "a") as file:
    call = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    file.write(json.dumps([os.environ["EVENBEAT_NAME"], call]) + "\\n")
print("OK - as the plugin says | calls=1")
"""


class ImportedNode:
    """An import, and the node that has it."""

    def __init__(self, evenbeat: Evenbeat, folder: Path) -> None:
        self._evenbeat = evenbeat
        self._folder = folder
        self._database = folder / "imported.db"
        self.plugins = folder / "plugins"
        self.report: dict[str, Any] = {}
        self.toml = ""
        self.tasks: dict[str, Task] = {}

    def make_plugins(self, *names: str) -> None:
        """Plugins that are fine, and write down how they are called."""
        self.plugins.mkdir()
        for name in names:
            plugin = self.plugins / name
            plugin.write_text(_PLUGIN.format(log=str(self._folder / "calls")))
            plugin.chmod(0o755)

    def import_and_apply(self, kind: str, *argv: str) -> None:
        """Import what the arguments name, check the result and apply it."""
        self.report = self._evenbeat("import", kind, *argv, "--json").json
        self.toml = self.report["toml"]
        file = self._folder / "imported.toml"
        file.write_text(self.toml)
        checked = self._evenbeat("check-config", str(file), "--json").json
        assert checked["errors"] == []
        assert checked["tasks"] == self.report["tasks"] + self.report["checks"] > 0
        applied = self._evenbeat("apply", str(file), "--db", str(self._database))
        assert applied.code == 0, applied.err
        self.tasks = {task.name: task for task in parse_toml(self.toml, "imported.toml").tasks}

    @contextmanager
    def running(self) -> Iterator[None]:
        """While a node has what was applied."""
        command = [sys.executable, "-m", "evenbeat", "up", "--workers", "1", "--db", str(self._database)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as node:
            try:
                eventually(lambda: self._answers() or node.poll() is not None)
                yield
            finally:
                node.kill()

    def _answers(self) -> bool:
        client = connect_to_live_node(self._database)
        if client is not None:
            client.close()
        return client is not None

    def run(self, name: str) -> list[str]:
        """Run a check; return how its plugin was called."""
        done = self._evenbeat("run", name, "--wait", "--json", "--db", str(self._database))
        assert done.code == 0, (done.out, done.err)
        calls = dict(json.loads(line) for line in (self._folder / "calls").read_text().splitlines())
        return list(calls[name])

    def ask(self, *argv: str) -> Any:
        """What a command answers about the database."""
        return self._evenbeat(*argv, "--json", "--db", str(self._database)).json
