"""A shop on a schedule. `python shop.py` runs it, `pytest shop.py` lets an hour pass."""

from datetime import timedelta

from evenbeat.app import App
from evenbeat.testing.app import TestApp

app = App("shop.db")


@app.task(every=timedelta(minutes=10), timebox="1m")
def fetch_orders(run):
    run.cursor = (run.cursor or 0) + 3  # where the next run goes on
    return {"orders": 3, "total": run.cursor}


@app.task(every="30m", retries=2, backoff="10s")
async def charge_cards(run):
    if run.attempt == 1:
        raise ConnectionError("the bank does not answer")


@app.check(every="1h", retry="1m")
def stock():
    return 1, "few apples"


@app.task(after=fetch_orders)  # each time when that has succeeded
def pack():
    return "packed"


@app.task(timebox="30s")  # runs when it is asked for
def thank(customer, lines=()):
    return f"thanks, {customer}: {len(lines)} lines"


@app.on_success("fetch_orders")
def then(run):
    app.later(thank, ["ana"], timedelta(minutes=5), kwargs={"lines": [{"apples": app.result(run)["orders"]}]})


def test_an_hour_passes():
    with TestApp(app) as shop:
        runs = shop.advance(timedelta(hours=1))
        assert [run.task for run in runs].count("fetch_orders") == 6
        assert [run.outcome for run in runs if run.task == "charge_cards"] == ["failed", "succeeded"] * 2
        assert [run.task for run in runs].count("pack") == 6
        assert app.result("fetch_orders") == {"orders": 3, "total": 18}
        assert "thanks, ana: 1 lines\n" in {run.output for run in runs}
        assert [problem.task for problem in app.problems()] == ["stock"]


if __name__ == "__main__":
    app.run()
