"""An import-linter contract that checks the table of the house: what each room may import, and must never reach."""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def _table(lines: Any) -> dict[str, set[str]]:
    rows = (line.partition(":") for line in lines)
    return {room.strip(): {name.strip() for name in names.split(",")} for room, _, names in rows}


class RoomsContract(Contract):  # type: ignore[misc, unused-ignore]
    """One row per room; a room that does not exist yet is passed over."""

    may_import = fields.ListField(subfield=fields.StringField())
    never = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        root = self.session_options["root_packages"][0]
        allowed, never = _table(self.may_import), _table(self.never)
        broken: list[str] = []
        modules = [m for m in graph.modules if m.startswith(root + ".")]
        for module in sorted(modules):
            room = module.split(".")[1]
            if room not in allowed:
                broken.append(f"{module}: the table has no room '{room}'")
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if self._refused(imported, room, root, allowed[room], never.get(room, set())):
                    lines = sorted(
                        d["line_number"] for d in graph.get_import_details(importer=module, imported=imported)
                    )
                    broken.append(f"{module} imports {imported} (line {', '.join(map(str, lines))})")
            broken.extend(
                f"{module} reaches {target}: {' -> '.join(chain)}"
                for target in sorted(never.get(room, set()) - set(sys.stdlib_module_names))
                if (chain := self._chain(graph, module, f"{root}.{target}") or self._chain(graph, module, target))
            )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    @staticmethod
    def _chain(graph: ImportGraph, module: str, target: str) -> tuple[str, ...] | None:
        if target not in graph.modules:
            return None
        # To the graph a room is only its __init__: whoever reaches a module of it has reached the room.
        parts = set() if graph.is_module_squashed(target) else graph.find_descendants(target)
        chains = (graph.find_shortest_chain(importer=module, imported=t) for t in sorted({target, *parts}))
        return min(filter(None, chains), key=len, default=None)

    @staticmethod
    def _refused(imported: str, room: str, root: str, allowed: set[str], never: set[str]) -> bool:
        if imported == root:
            return False
        if imported.startswith(root + "."):
            inside = imported.removeprefix(root + ".")
            top = inside.split(".")[0]
            return (
                top != room
                and top not in allowed
                and not any(inside == a or inside.startswith(a + ".") for a in allowed)
            )
        top = imported.split(".", maxsplit=1)[0]
        return top in never or (top not in sys.stdlib_module_names and top not in allowed)

    def render_broken_contract(self, check: ContractCheck) -> None:
        metadata: dict[str, Any] = check.metadata
        for line in metadata["broken"]:
            output.print_error(line)
