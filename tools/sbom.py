"""A bill of materials in CycloneDX's JSON: what evenbeat is made of, by what is pinned and installed. `make sbom`.

No network: names and versions come from constraints.txt, hashes from constraints-hashes.txt, licences and who needs
whom from the metadata of the installed packages. The same input gives the same document.
"""

import argparse
import json
import sys
import tomllib
import uuid
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from tools.pinned import ROOT, canonical, hashes, pinned

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/evenbeat")
_CLASSIFIER: Final = "License :: "
_LONGEST: Final = 80
"""Characters of a licence's name: some write its whole text there."""


def bill() -> dict[str, Any]:
    """The document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {canonical(name): version for name, version in pinned().items()}
    known = hashes()
    needs = {name: _needs(name, versions) for name in versions}
    direct = _names(project["dependencies"], versions)
    required = _closure(direct, needs)
    components = [
        _component(name, version, known.get(name, ()), name in required) for name, version in versions.items()
    ]
    itself = f"pkg:pypi/{project['name']}@{project['version']}"
    optional = {name for extra in project["optional-dependencies"].values() for name in _names(extra, versions)}
    edges = {itself: direct | optional} | {_purl(name, versions[name]): some for name, some in needs.items()}
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": itself,
                "name": project["name"],
                "version": project["version"],
                "purl": itself,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": sorted(components, key=lambda component: str(component["bom-ref"])),
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(_purl(name, versions[name]) for name in some)}
            for ref, some in sorted(edges.items())
        ],
    }
    content = json.dumps(document, sort_keys=True)
    return {**document, "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}"}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _component(name: str, version: str, digests: Iterable[str], is_required: bool) -> dict[str, Any]:  # noqa: FBT001
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": _purl(name, version),
        "name": name,
        "version": version,
        "purl": _purl(name, version),
        "scope": "required" if is_required else "optional",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
    }
    if licence := _licence(_installed(name)):
        found["licenses"] = [licence]
    return found


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _licence(package: Distribution | None) -> dict[str, Any] | None:
    if package is None:
        return None
    said = {key: str(package.metadata[key]) for key in ("License-Expression", "License") if key in package.metadata}
    if expression := said.get("License-Expression"):
        return {"expression": expression}
    classifiers = package.metadata.get_all("Classifier") or []
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith(_CLASSIFIER)]
    text = said.get("License", "").strip()
    name = named[0] if named else text if len(text) <= _LONGEST and "\n" not in text else ""
    return {"license": {"name": name}} if name else None


def _needs(name: str, versions: dict[str, str]) -> set[str]:
    package = _installed(name)
    return set() if package is None else _names(package.requires or (), versions)


def _names(requirements: Iterable[str], versions: dict[str, str]) -> set[str]:
    """Of what is pinned, what these ask for on this machine."""
    found = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.add(canonical(requirement.name))
            found |= {canonical(f"{requirement.name}-{extra}") for extra in requirement.extras}
    return found & versions.keys()


def _closure(names: set[str], needs: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    while names:
        found |= names
        names = set().union(*(needs[name] for name in names)) - found
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Write it; exit 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", default="out/sbom.cdx.json", help="where to (default: %(default)s)")
    target = Path(parser.parse_args(argv).file)
    target.parent.mkdir(parents=True, exist_ok=True)
    document = bill()
    target.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{target}: {len(document['components'])} components")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
