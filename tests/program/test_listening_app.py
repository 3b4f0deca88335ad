"""`App(listen=...)`: the program serves the API and the page for as long as its node runs."""

import json
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from evenbeat.app import App
from evenbeat.model import Invalid
from evenbeat.store.opening import IN_MEMORY
from evenbeat.testing.reserved_ports import ReservedPort


@pytest.mark.parametrize("with_host", [False, True])
def test_an_app_serves_the_page_and_the_api_while_it_runs(tmp_path: Path, *, with_host: bool) -> None:
    port = ReservedPort().number
    place = f"127.0.0.1:{port}"
    app = App(tmp_path / "jobs.db", workers=1, listen=place if with_host else port)
    app.create("hello", every="1h", command=["noop"])
    app.start()
    try:
        with urlopen(f"http://{place}/", timeout=30) as page:
            assert b"<title>evenbeat</title>" in page.read()
        token = (tmp_path / "jobs.db.token").read_text().strip()
        asked = Request(f"http://{place}/v1/tasks", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked, timeout=30) as answer:
            assert [task["name"] for task in json.load(answer)["tasks"]] == ["hello"]
    finally:
        app.stop(wait=True)
    with pytest.raises(URLError):
        urlopen(f"http://{place}/", timeout=30)


def test_what_is_no_address_and_a_store_in_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nowhere"):
        App(tmp_path / "jobs.db", listen="nowhere:x")
    with pytest.raises(Invalid, match="SQLite and PostgreSQL only"):
        App(IN_MEMORY, listen=8629)
