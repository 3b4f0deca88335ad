from api_client import ApiClient


def test_slots_and_limits_are_told_set_and_reset(api: ApiClient) -> None:
    said = {"limits": {"cap-db": 3}, "tasks": {"cap-x": {"every": "1d", "command": ["noop"], "limit": "cap-db"}}}
    assert api.post("/v1/apply", json={"owners": {"cap": said}}).status_code == 200
    before = api.get("/v1/limits").json()
    assert before["limits"]["cap-db"] == {"most": 3, "running": 0, "source": "cap"}
    after = api.ask("PUT", "/v1/slots", json={"most": 77}).json()
    assert (after["slots"]["most"], after["slots"]["source"]) == (77, "set by admin")
    after = api.ask("PUT", "/v1/limits/cap-db", json={"most": 4}).json()
    assert after["limits"]["cap-db"] == {"most": 4, "running": 0, "source": "set by admin"}
    assert api.get("/v1/status").json()["limits"]["cap-db"]["most"] == 4
    assert api.ask("PUT", "/v1/limits/nobody", json={"most": 4}).status_code == 404
    assert api.ask("PUT", "/v1/slots", json={"most": 0}).status_code == 422
    api.ask("DELETE", "/v1/limits/cap-db")
    assert api.ask("DELETE", "/v1/slots").json()["slots"]["source"] == before["slots"]["source"]
    api.post("/v1/apply", json={"owners": {"cap": {}}})
