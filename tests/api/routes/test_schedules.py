from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from api_client import ApiClient

from conftest import Evenbeat
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

FROM = "2026-03-27T12:00:00+00:00"


def validate(api: ApiClient, **body: Any) -> dict[str, Any]:
    answer = api.post("/v1/validate", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_next_times_of_a_task_are_those_that_the_command_line_tells(api: ApiClient, evenbeat: Evenbeat) -> None:
    task = {"name": "report", "cron": "H 2 * * *", "zone": "Europe/Paris", "command": ["noop"]}
    assert api.post("/v1/tasks", json=task).status_code == 201
    document = api.get("/v1/tasks/report/next", params={"n": 5, "from": FROM}).json()
    argv = ["next", "H 2 * * *", "--zone", "Europe/Paris", "--name", "report", "-n", "5", "--from", FROM, "--json"]
    expected = evenbeat(*argv).json
    assert {key: document[key] for key in ("resolved", "zone", "next", "warnings")} == {
        key: expected[key] for key in ("resolved", "zone", "next", "warnings")
    }
    explained = evenbeat("explain", "H 2 * * *", "--zone", "Europe/Paris", "--name", "report", "--json").json
    assert document["text"] == explained["text"]
    assert document["schedule"] == "cron H 2 * * *"


def test_an_interval_task_tells_its_phase_and_its_grid(api: ApiClient) -> None:
    api.add("grid", every="5m", phase="63s")
    document = api.get("/v1/tasks/grid/next", params={"n": 2, "from": "2026-01-01T00:01:03"}).json()
    assert document["next"] == ["2026-01-01T00:06:03+00:00", "2026-01-01T00:11:03+00:00"]
    assert document["text"] == "Every 5m, phase 1m3s, on the grid of the Unix epoch."
    assert document["resolved"] is None


def test_periods_and_starts_count(api: ApiClient) -> None:
    assert api.ask("PUT", "/v1/periods/mornings", json={"ranges": ["09:00-09:30"]}).status_code == 201
    today = datetime.now(UTC).date()
    tomorrow, next_day = today + timedelta(days=1), today + timedelta(days=2)
    api.add("inside", every="10m", phase="0s", period="mornings", start_at=f"{tomorrow}T09:05")
    document = api.get("/v1/tasks/inside/next", params={"n": 4, "from": f"{today}T09:00"}).json()
    assert [t[:16] for t in document["next"]] == [
        f"{tomorrow}T09:05",
        f"{tomorrow}T09:10",
        f"{tomorrow}T09:20",
        f"{next_day}T09:00",
    ]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ({"at": "2031-05-01T09:00", "zone": "Europe/Paris"}, "Once, Thu 2031-05-01 09:00:00+02:00, Europe/Paris time."),
        ({"calendar": "Mon..Fri 09:00"}, "By the calendar expression Mon..Fri 09:00, UTC time."),
        ({"cron": "@reboot"}, "At every start of the node."),
    ],
)
def test_every_kind_of_schedule_is_told_in_words(api: ApiClient, schedule: dict[str, str], text: str) -> None:
    found = validate(api, **schedule)
    assert (found["valid"], found["text"], found["errors"]) == (True, text, [])


def test_a_schedule_alone_can_be_looked_at(api: ApiClient) -> None:
    found = validate(api, cron="*/5 * * * *")
    assert found["valid"] is True
    assert len(found["next"]) == 10
    assert found["zone"] == "UTC"
    assert any("H/5" in warning for warning in found["warnings"])


def test_its_name_decides_what_h_stands_for(api: ApiClient) -> None:
    assert (
        validate(api, cron="H H * * *", name="a")["resolved"] != validate(api, cron="H H * * *", name="b")["resolved"]
    )


def test_a_new_interval_task_is_shown_where_a_node_would_place_it(api: ApiClient) -> None:
    shown = validate(api, name="placed", every="1h", command=["noop"])
    again = validate(api, name="placed", every="1h", command=["noop"])
    assert shown["text"] == again["text"]
    api.add("placed", every="1h")
    phase = api.get("/v1/tasks/placed").json()["task"]["phase"]
    assert shown["text"] == f"Every 1h, phase {phase}, on the grid of the Unix epoch."
    kept = validate(api, name="placed", every="1h", timebox="10s")
    assert kept["text"] == shown["text"]
    first, second = (parse_instant(t, zone("UTC")) for t in kept["next"][:2])
    assert second - first == 3_600_000_000


def test_all_that_is_wrong_is_told_at_once_with_pointers_and_columns(api: ApiClient) -> None:
    found = validate(api, cron="5 25 * * *", timebox="soon", zone="Mars/Phobos")
    assert found["valid"] is False
    where = {error["pointer"]: error.get("column") for error in found["errors"]}
    assert where.keys() == {"/cron", "/timebox", "/zone"}
    assert where["/cron"] == 3
    assert (found["text"], found["next"]) == (None, [])


@pytest.mark.parametrize(
    ("keys", "pointer", "words"),
    [
        ({"period": "nights"}, "/period", "there is no period 'nights'"),
        ({"limit": "db"}, "/limit", "there is no limit 'db'"),
        ({"wrong": 1}, "/wrong", "is not a key here"),
        ({"name": ""}, "/name", "1 to 256 characters"),
    ],
)
def test_what_the_node_would_refuse_is_not_valid(
    api: ApiClient, keys: dict[str, Any], pointer: str, words: str
) -> None:
    found = validate(api, **{"every": "5m", **keys})
    assert found["valid"] is False
    (error,) = found["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def test_a_schedule_that_is_over_is_said_to_be(api: ApiClient) -> None:
    found = validate(api, at="2020-01-01")
    assert (found["valid"], found["next"], found["warnings"]) == (True, [], ["no nominal time is left"])


def test_only_bad_json_is_an_error_of_the_request(api: ApiClient) -> None:
    headers = {"content-type": "application/json"}
    assert api.post("/v1/validate", content=b"{", headers=headers).status_code == 400
    assert api.post("/v1/validate", json=[]).status_code == 422


def test_next_is_bounded_and_knows_who_is_not_there(api: ApiClient) -> None:
    api.add("bounded")
    assert len(api.get("/v1/tasks/bounded/next?n=100").json()["next"]) == 100
    assert api.get("/v1/tasks/bounded/next?n=101").status_code == 422
    assert api.get("/v1/tasks/bounded/next?from=never").json()["errors"][0]["pointer"] == "/query/from"
    assert api.get("/v1/tasks/nobody/next").status_code == 404


def test_times_have_the_offset_of_the_zone(api: ApiClient) -> None:
    found = validate(api, cron="0 12 * * *", zone="Asia/Kolkata", second=0)
    assert {datetime.fromisoformat(t).strftime("%H:%M:%S%z") for t in found["next"]} == {"12:00:00+0530"}
