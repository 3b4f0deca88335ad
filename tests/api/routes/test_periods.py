from pathlib import Path
from typing import Any

import pytest
from api_client import ApiClient

from conftest import Evenbeat
from evenbeat.api.http.context import ApiContext
from evenbeat.client.socket import SocketBackend
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.requests import GetLiveTaskState

LINES = ["monday-friday 09:00-17:00", "december 24 10:00-12:00"]
FROM, TO = "2026-12-21T00:00:00+01:00", "2026-12-26T00:00:00+01:00"


def pointers(answer: Any) -> list[tuple[str, int | None]]:
    assert answer.status_code == 422, answer.text
    return [(error["pointer"], error.get("column")) for error in answer.json()["errors"]]


def test_a_period_is_created_replaced_read_and_deleted(api: ApiClient) -> None:
    made = api.ask("PUT", "/v1/periods/office", json={"ranges": LINES, "zone": "Europe/Berlin"})
    assert made.status_code == 201
    expected = {
        "name": "office",
        "owner": "admin",
        "ranges": LINES,
        "holidays": None,
        "include": [],
        "exclude": [],
        "prefer": "include",
        "zone": "Europe/Berlin",
    }
    assert made.json() == expected
    changed = api.ask("PUT", "/v1/periods/office", json={"ranges": LINES[:1]})
    assert (changed.status_code, changed.json()["ranges"], changed.json()["zone"]) == (200, LINES[:1], "UTC")
    assert api.get("/v1/periods/office").json() == changed.json()
    assert changed.json() in api.get("/v1/periods").json()["periods"]
    gone = api.ask("DELETE", "/v1/periods/office")
    assert (gone.status_code, gone.content) == (204, b"")
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/windows")):
        assert api.ask(method, f"/v1/periods/office{path}").status_code == 404


def test_a_period_stays_as_long_as_it_is_used(api: ApiClient) -> None:
    api.ask("PUT", "/v1/periods/base", json={"ranges": ["08:00-20:00"]})
    api.ask("PUT", "/v1/periods/derived", json={"exclude": ["base"]})
    api.add("user", period="derived")
    for name, user in (("base", "derived"), ("derived", "user")):
        refused = api.ask("DELETE", f"/v1/periods/{name}")
        assert refused.status_code == 409
        assert user in refused.json()["detail"]
    api.ask("DELETE", "/v1/tasks/user")
    assert api.ask("DELETE", "/v1/periods/derived").status_code == 204
    assert api.ask("DELETE", "/v1/periods/base").status_code == 204


def test_a_task_goes_by_a_changed_period_at_once(api: ApiClient, context: ApiContext) -> None:
    api.ask("PUT", "/v1/periods/moving", json={"ranges": ["2031-01-01"]})
    api.add("mover", every="1m", phase="0s", period="moving")
    entry = context.store.find("mover")
    assert entry is not None
    client = SocketBackend(Path(context.database))
    for day in ("2031-01-01", "2032-02-02"):
        api.ask("PUT", "/v1/periods/moving", json={"ranges": [day]})
        moment = client.ask(GetLiveTaskState(entry.number)).moment
        assert moment is not None
        assert moment.due == parse_instant(day, zone("UTC"))
    client.close()


def test_windows_are_those_that_the_command_line_tells(api: ApiClient, evenbeat: Evenbeat) -> None:
    body = {"ranges": LINES, "zone": "Europe/Berlin", "exclude": []}
    assert api.ask("PUT", "/v1/periods/shown", json=body).status_code == 201
    argv = ["period", *LINES, "--zone", "Europe/Berlin", "--from", FROM, "--to", TO, "--json"]
    expected = evenbeat(*argv).json
    params = {"from": FROM, "to": TO}
    assert api.get("/v1/periods/shown/windows", params=params).json() == expected
    assert api.post("/v1/periods/preview", params=params, json=body).json() == expected


@pytest.mark.parametrize("at", ["2026-12-21T08:59:59", "2026-12-21T09:00", "2026-12-21T16:59", "2026-12-21T17:00"])
def test_whether_it_is_open_and_when_that_changes(api: ApiClient, evenbeat: Evenbeat, at: str) -> None:
    found = api.post("/v1/periods/preview", params={"from": at}, json={"ranges": LINES}).json()
    assert found == evenbeat("period", *LINES, "--from", at, "--json").json


def test_a_preview_may_refer_to_periods_that_are_there(api: ApiClient) -> None:
    api.ask("PUT", "/v1/periods/lunch", json={"ranges": ["12:00-13:00"]})
    body = {"ranges": ["11:00-14:00"], "exclude": ["lunch"]}
    query = {"from": "2026-01-01", "to": "2026-01-02"}
    windows = api.post("/v1/periods/preview", params=query, json=body).json()["windows"]
    assert [[t[11:16] for t in window] for window in windows] == [["11:00", "12:00"], ["13:00", "14:00"]]


def test_what_is_always_or_never_open(api: ApiClient) -> None:
    always = api.post("/v1/periods/preview", json={}).json()
    assert (always["inside"], always["next_open"], always["next_close"]) == (True, None, None)
    assert len(always["windows"]) == 1
    never = api.post("/v1/periods/preview", json={"ranges": ["2020-01-01"]}).json()
    assert never == {"inside": False, "next_open": None, "next_close": None, "windows": []}


def test_a_line_that_is_wrong_is_pointed_at(api: ApiClient) -> None:
    body = {"ranges": ["monday", "monday 9:00-25:00"]}
    for answer in (api.post("/v1/periods/preview", json=body), api.ask("PUT", "/v1/periods/bad", json=body)):
        ((pointer, column),) = pointers(answer)
        assert pointer == "/ranges/1"
        assert column is not None
        assert column > 8
    assert api.get("/v1/periods/bad").status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"include": ["nobody"]}, "/include"),
        ({"zone": "Mars/Phobos"}, "/zone"),
        ({"holidays": "XX"}, "/holidays"),
        ({"prefer": "none"}, "/prefer"),
        ({"hours": []}, "/hours"),
        ({"ranges": ["monday"] * 501}, "/ranges"),
        ({"ranges": [""]}, "/ranges"),
    ],
)
def test_what_cannot_be_a_period_is_refused(api: ApiClient, body: dict[str, Any], pointer: str) -> None:
    for answer in (api.post("/v1/periods/preview", json=body), api.ask("PUT", "/v1/periods/bad", json=body)):
        assert pointers(answer)[0][0].startswith(pointer)


def test_a_circle_of_periods_is_refused(api: ApiClient) -> None:
    api.ask("PUT", "/v1/periods/ring-a", json={"ranges": ["monday"]})
    api.ask("PUT", "/v1/periods/ring-b", json={"include": ["ring-a"]})
    refused = api.ask("PUT", "/v1/periods/ring-a", json={"include": ["ring-b"]})
    assert refused.status_code == 422
    assert "circle" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "2026-01-01", "to": "2026-01-01"}, "/query/to"),
        ({"from": "2026-01-01", "to": "2031-01-10"}, "/query/to"),
        ({"from": "2026-01-01", "to": "2030-01-01"}, "/query/to"),
        ({"from": "2199-01-01"}, "/query/from"),
        ({"from": "soon"}, "/query/from"),
        ({"to": "later"}, "/query/to"),
    ],
)
def test_windows_are_bounded(api: ApiClient, query: dict[str, str], pointer: str) -> None:
    body = {"ranges": ["00:00-06:00", "12:00-18:00"]}
    assert pointers(api.post("/v1/periods/preview", params=query, json=body))[0][0] == pointer


def test_a_name_with_a_slash_is_one_segment(api: ApiClient) -> None:
    assert api.ask("PUT", "/v1/periods/site%2Fnight", json={"ranges": ["22:00-06:00"]}).status_code == 201
    assert api.get("/v1/periods/site%2Fnight").json()["name"] == "site/night"
    assert api.get("/v1/periods/site%2Fnight/windows").status_code == 200
    assert api.ask("PUT", f"/v1/periods/{'x' * 257}", json={}).status_code == 422
