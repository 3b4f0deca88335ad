"""Two import-linter contracts: the table of packages (what each may import and must never reach), and no cycles."""

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def _read_rows(lines: Any) -> dict[str, set[str]]:
    rows = (line.partition(":") for line in lines)
    return {package.strip(): {name.strip() for name in names.split(",")} for package, _, names in rows}


def _is_inside(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


class _NamedLines(Contract):  # type: ignore[misc, unused-ignore]
    """A contract that is broken if it has something to complain about, and prints it line by line."""

    def render_broken_contract(self, check: ContractCheck) -> None:
        metadata: dict[str, Any] = check.metadata
        for line in metadata["broken"]:
            output.print_error(line)


class PackageTable(_NamedLines):
    """One row per package or sub-package: what it may import, besides itself and the standard library.

    The row of a sub-package replaces that of its package: with a row `node.loop`, modules of node/loop/ may not import
    from other folders of node/ unless the row says so. Rows of packages that do not exist have no effect.
    `never` names what a package must not reach, through other modules either (of the standard library: directly).
    """

    may_import = fields.ListField(subfield=fields.StringField())
    never = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        root = self.session_options["root_packages"][0]
        allowed, never = _read_rows(self.may_import), _read_rows(self.never)
        broken: list[str] = []
        for module in sorted(m for m in graph.modules if m.startswith(root + ".")):
            name = module.removeprefix(root + ".")
            row = max((package for package in allowed if _is_inside(name, [package])), key=len, default=None)
            if row is None:
                broken.append(f"{module}: the table has no row for '{name.split('.')[0]}'")
                continue
            forbidden = {t for package, targets in never.items() if _is_inside(name, [package]) for t in targets}
            imports = sorted(graph.find_modules_directly_imported_by(module))
            refused = [i for i in imports if self._is_refused(i, root, {row, *allowed[row]}, forbidden)]
            for imported in refused:
                lines = sorted(d["line_number"] for d in graph.get_import_details(importer=module, imported=imported))
                broken.append(f"{module} imports {imported} (line {', '.join(map(str, lines))})")
            broken.extend(
                f"{module} reaches {target}: {' -> '.join(chain)}"
                for target in sorted(forbidden - set(sys.stdlib_module_names))
                if (chain := self._chain(graph, module, f"{root}.{target}") or self._chain(graph, module, target))
                and chain[1] not in refused
            )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    @staticmethod
    def _chain(graph: ImportGraph, module: str, target: str) -> tuple[str, ...] | None:
        if target not in graph.modules:
            return None
        # In the graph a package is only its __init__: a module that reaches any of its modules has reached the package.
        parts = set() if graph.is_module_squashed(target) else graph.find_descendants(target)
        chains = (graph.find_shortest_chain(importer=module, imported=t) for t in sorted({target, *parts}))
        return min(filter(None, chains), key=len, default=None)

    @staticmethod
    def _is_refused(imported: str, root: str, allowed: set[str], never: set[str]) -> bool:
        if imported == root:
            return False
        if imported.startswith(root + "."):
            return not _is_inside(imported.removeprefix(root + "."), allowed)
        top = imported.split(".", maxsplit=1)[0]
        return top in never or (top not in sys.stdlib_module_names and top not in allowed)


class NoImportCycles(_NamedLines):
    """No module imports itself through others, imports under TYPE_CHECKING and inside functions included.

    `known` lists single imports ("node.loop.turn -> node.scheduler") that close a cycle and are to be removed. An entry
    that closes no cycle any more breaks the contract, so that the list can only shrink.
    """

    known = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        root = self.session_options["root_packages"][0]
        modules = {m for m in graph.modules if _is_inside(m, [root])}
        imports = {m: {i for i in graph.find_modules_directly_imported_by(m) if i in modules} for m in modules}
        broken: list[str] = []
        known: list[str] = [str(line) for line in cast("Any", self.known)]
        edges = [[f"{root}.{name.strip()}" for name in line.split("->")] for line in known]
        for line, (importer, imported) in zip(known, edges, strict=True):
            if imported not in imports.get(importer, ()) or not _shortest_path(imports, imported, importer):
                broken.append(f"{line}: closes no cycle (any more): remove it from the list")
        for importer, imported in edges:
            imports.get(importer, set()).discard(imported)
        while cycle := _shortest_cycle(imports):
            broken.append(f"import cycle: {' -> '.join(cycle)}")
            for module in cycle:  # so that the next cycle has no module in common with this one
                imports[module] = set()
        return ContractCheck(kept=not broken, metadata={"broken": broken})


def _shortest_cycle(imports: dict[str, set[str]]) -> list[str] | None:
    cycles = (_shortest_path(imports, imported, module) for module in sorted(imports) for imported in imports[module])
    shortest = min(filter(None, cycles), key=lambda path: (len(path), path), default=None)
    return shortest and [shortest[-1], *shortest]


def _shortest_path(imports: dict[str, set[str]], start: str, end: str) -> list[str] | None:
    previous: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        module: str | None = queue.popleft()
        if module == end:
            path = []
            while module is not None:
                path.append(module)
                module = previous[module]
            return path[::-1]
        assert module is not None
        for imported in sorted(imports.get(module, ())):
            if imported not in previous:
                previous[imported] = module
                queue.append(imported)
    return None
