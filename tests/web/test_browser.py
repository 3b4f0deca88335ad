"""The page in a real browser, on a real node."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browser import CHROMIUMS, BrowserTab, NodeProcess, chromium, headless_browser
from message_receivers import HttpReceiver
from playwright.sync_api import Browser, Page, Route, expect
from waiting import eventually

from evenbeat.client.store_based import wall_clock
from evenbeat.model import DAY, Cause, Instant, Job, Schedule, State, Task
from evenbeat.store.contract import Batch
from evenbeat.store.history_contract import Layer, RunSummary, Spread
from evenbeat.store.problem_records import ProblemChange
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import a_submitted_result

pytestmark = pytest.mark.skipif(chromium() is None, reason=f"no browser: none of {', '.join(CHROMIUMS)} is on the PATH")

MANY = 100_000
SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TASKS = f"""
[checks.web]
every = "1s"
attempts = 1
shell = true
command = "if [ -e broken ]; then echo 'no answer'; exit 2; fi; echo fine"
cwd = "FOLDER"

[tasks."on demand"]
every = "1d"
command = ["echo", "made to order"]

[tasks.talks]
every = "1d"
shell = true
command = "echo step one; until test -e 'go on'; do sleep 0.1; done; echo all is copied"
cwd = "FOLDER"

[tasks."bulk {{n}}"]
for.n = ["[1-30]"]
every = "1d"
command = ["noop"]

[tasks.report]
cron = "30 9 * * *"
second = 0
priority = 7
env = {{ MODE = "short" }}
command = ["printf", "a b", "two\\nlines"]
labels = {{ team = "ops" }}

[tasks.contested]
every = "1d"
command = ["noop"]

[checks."{SCRIPT}"]
every = "1d"
command = ["echo", "{SCRIPT}|<b>x</b>=1;2;3"]
"""
FILLED = {
    "/now": ".load svg",
    "/tasks": ".task-row a.task-name",
    "/tasks/web": ".times li",
    "/timetable": ".summary strong",
    "/editor": ".times li",
    "/editor/web": ".editor-columns table",
    "/periods/+": ".period-open",
    "/downtimes": ".downtimes .empty",
    "/contacts": ".contacts :is(li, .empty)",
    "/cluster": ".partitions .cell",
}
"""Places, and what is there once they are filled."""
WATCHED = """
[checks."<b>mail</b>"]
every = "1d"
passive = true

[checks.disk]
every = "1d"
passive = true
labels = { rack = "<b>7</b>", team = "web" }

[tasks.backup]
every = "1d"
labels = { team = "ops" }
shell = true
command = "[ -e FOLDER/room ] || { echo 'disk full'; exit 1; }"
"""
NOTIFIED = """
[contacts.ops]
webhook = "HOOK"
email = ["ops@localhost"]
smtp = "smtp://127.0.0.1:1"

[contacts.boss]
command = ["true"]

[checks.disk]
every = "1d"
passive = true
notify = ["ops", { to = "boss", after = "1d" }]
gather = "0s"
"""
MANY_PROBLEMS = 10_000
PROBLEMS = ".problems .rows > li:not(.group)"
SHORT = """
[checks.pulse]
every = "1s"
command = ["echo", "beats"]
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for most tests: each has tasks of its own."""
    folder = tmp_path_factory.mktemp("page")
    with NodeProcess(folder, TASKS.replace("FOLDER", str(folder))) as node:
        yield node


@pytest.fixture
def tab(browser: Browser, node: NodeProcess) -> Iterator[BrowserTab]:
    tab = BrowserTab(browser, node.url, node.token)
    yield tab
    tab.close()
    assert tab.complaints == []


def is_live(page: Page) -> None:
    expect(page.locator("#link-state")).to_have_text("live", timeout=60_000)


def shows(page: Page, where: str, text: str) -> None:
    expect(page.locator(where).first).to_contain_text(text, timeout=60_000)


def is_filled(page: Page) -> None:
    """The editor has the task: nobody can enter anything before."""
    shows(page, ".editor-columns table", "with this")


def sign_in(page: Page, node: NodeProcess) -> None:
    """Without TLS a session ends with the node: somebody else may have had its port, and the cookie, meanwhile."""
    assert node.token is not None
    page.get_by_label("Token").fill(node.token)
    page.get_by_label("Token").press("Enter")


def is_gone(page: Page, where: str) -> None:
    expect(page.locator(where)).to_have_count(0, timeout=60_000)


def test_a_check_that_becomes_critical_is_seen_without_a_reload(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/now")
    critical = ".tile.look-critical .tile-number"
    shows(page, critical, "0")
    page.evaluate("window.stillHere = true")
    (node.folder / "broken").touch()
    try:
        shows(page, critical, "1")
        shows(page, ".problems .rows", "web")
        shows(page, ".problems .rows", "no answer")
        shows(page, ".latest .rows", "CRITICAL")
    finally:
        (node.folder / "broken").unlink()
    shows(page, critical, "0")
    shows(page, ".problems", "Nothing to worry about")
    assert page.evaluate("window.stillHere") is True


def test_tasks_behind_a_check_that_fails_are_unreachable(browser: Browser, tmp_path: Path) -> None:
    quiet = '[checks.gw]\nevery = "1d"\npassive = true\n[checks.shop]\nevery = "1d"\npassive = true\ndepends = ["gw"]\n'
    with NodeProcess(tmp_path, quiet) as node:
        submit(node, "shop", 2, "no answer")
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/tasks/shop")
        shows(page, ".task-head", "CRITICAL")
        is_gone(page, ".task-head button:has-text('Run now')")  # it has nothing to run
        is_gone(page, ".remark-unreachable")
        is_live(page)
        submit(node, "gw", 2, "down")
        shows(page, ".task-head .remark-unreachable", "unreachable")
        shows(page, ".why", "'gw' is CRITICAL")
        page.get_by_text("Unreachable through").locator("xpath=..").locator("a").first.click()
        shows(page, ".task-head h1", "gw")
        tab.go("/now")
        expect(page.locator(PROBLEMS, has_text="shop").locator(".remark")).to_have_text("unreachable", timeout=60_000)
        tab.go("/tasks?state=unreachable")
        shows(page, ".total", "1 task")
        submit(node, "gw", 0, "up")
        shows(page, ".empty", "No task fits this filter")
        tab.close()
    assert tab.complaints == []


def test_what_a_task_depends_on_is_edited(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/editor/bulk%201")
    is_filled(page)
    page.get_by_label("Depends on", exact=True).fill("wbe")
    shows(page, "#error-depends", "there is no check 'wbe', did you mean 'web'?")
    page.get_by_label("Depends on", exact=True).fill("web")
    page.get_by_label("If unreachable").select_option(label="it does not run")
    expect(page.get_by_role("button", name="Save")).to_be_enabled(timeout=60_000)
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "bulk 1")
    found = node.task("bulk 1")["task"]
    assert (found["depends"], found["when_unreachable"]) == (["web"], "skip")
    shows(page, ".readable", "when_unreachable")
    tab.go("/editor/bulk%201")
    expect(page.get_by_label("Depends on", exact=True)).to_have_value("web", timeout=60_000)
    page.get_by_label("Depends on", exact=True).fill("")
    expect(page.get_by_label("If unreachable")).to_be_hidden(timeout=60_000)
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "bulk 1")
    eventually(lambda: not node.task("bulk 1")["task"].keys() & {"depends", "when_unreachable"})


def test_whom_a_task_notifies_is_edited(tab: BrowserTab, node: NodeProcess) -> None:
    for name in ("ops", "the boss"):
        node.ask("PUT", f"/v1/contacts/{name.replace(' ', '%20')}", {"email": ["ops@example.org"]})
    page = tab.go("/editor/bulk%202")
    is_filled(page)
    page.get_by_label("Notify", exact=True).fill("opps")
    shows(page, "#error-notify", "there is no contact 'opps', did you mean 'ops'?")
    page.get_by_label("Notify", exact=True).fill("ops\nthe boss after 30m")
    page.get_by_label("Remind").fill("4h")
    expect(page.get_by_role("button", name="Save")).to_be_enabled(timeout=60_000)
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "bulk 2")
    found = node.task("bulk 2")["task"]
    assert (found["notify"], found["repeat"]) == (["ops", {"to": "the boss", "after": "30m"}], "4h")
    tab.go("/editor/bulk%202")
    expect(page.get_by_label("Notify", exact=True)).to_have_value("ops\nthe boss after 30m", timeout=60_000)
    page.get_by_label("Notify", exact=True).fill("")
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "bulk 2")
    eventually(lambda: not node.task("bulk 2")["task"].keys() & {"notify", "repeat"})


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with three problems: the newest is that of a task that failed."""
    with NodeProcess(tmp_path, WATCHED.replace("FOLDER", str(tmp_path))) as node:
        submit(node, "disk", 2, "no answer|ms=1")
        submit(node, "<b>mail</b>", 1, "<b>slow</b>")
        node.ask("POST", "/v1/tasks/backup/run?wait=true")
        yield node


def test_a_problem_is_acknowledged_and_commented_on(browser: Browser, watched: NodeProcess) -> None:
    tab = BrowserTab(browser, watched.url, watched.token)
    page = tab.go("/now")
    expect(page.locator(PROBLEMS)).to_have_count(3, timeout=60_000)
    assert page.locator(".view-now > *").nth(1).get_attribute("class") == "panel problems"
    shows(page, f"{PROBLEMS}:first-child", "failing")
    shows(page, f"{PROBLEMS}:first-child", "disk full")
    row = page.locator(PROBLEMS, has_text="no answer")
    row.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Comment").fill("<b>on it</b>")
    page.get_by_label("Ends").select_option(label="in 4 hours")
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(row.locator(".acknowledged")).to_contain_text("<b>on it</b>", timeout=60_000)
    (problem,) = watched.ask("GET", "/v1/problems?name=disk")["problems"]
    assert problem["acknowledged"]["comment"] == "<b>on it</b>"
    assert problem["acknowledged"]["until"] is not None
    row.locator("a.task-name").click()
    shows(page, ".task-problem", "CRITICAL")
    shows(page, ".task-problem", "<b>on it</b>")
    page.get_by_role("button", name="Comment").click()
    page.get_by_role("dialog").get_by_label("Comment").fill("the cable\nagain")
    page.get_by_role("dialog").get_by_role("button", name="Comment").click()
    shows(page, ".task-problem .notes", "the cable\nagain")
    page.get_by_role("button", name="Withdraw acknowledgement").click()
    shows(page, ".task-problem .notes", "unacknowledged")
    assert watched.ask("GET", "/v1/problems?name=disk")["problems"][0]["acknowledged"] is None
    is_gone(page, "main b")
    page.set_viewport_size({"width": 375, "height": 812})
    for place, what in (("/tasks/disk", ".task-problem .notes"), ("/now", PROBLEMS)):
        tab.go(place)
        expect(page.locator(what).first).to_be_visible(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, place
    top = page.locator(".problems").bounding_box()
    assert top is not None
    assert top["y"] < 150  # a telephone shows them first
    tab.close()
    assert tab.complaints == []


def test_problems_are_acknowledged_at_once_and_go_when_they_are_over(browser: Browser, watched: NodeProcess) -> None:
    tab = BrowserTab(browser, watched.url, watched.token)
    page = tab.go("/now")
    expect(page.locator(PROBLEMS)).to_have_count(3, timeout=60_000)
    is_live(page)
    page.evaluate("window.stillHere = true")
    submit(watched, "disk", 0, "fine")
    expect(page.locator(PROBLEMS)).to_have_count(2, timeout=60_000)
    page.get_by_label("Select all problems that are shown").click()
    page.get_by_role("toolbar").get_by_role("button", name="Acknowledge").click()
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(page.locator(".problems .acknowledged")).to_have_count(2, timeout=60_000)
    page.get_by_label("not acknowledged").click()
    shows(page, ".problems .empty", "Somebody takes care of each open problem")
    page.get_by_label("not acknowledged").click()
    page.locator(PROBLEMS, has_text="backup").get_by_role("button", name="Run now").click()
    shows(page, "#toasts", "Run requested")
    (watched.folder / "room").touch()
    page.get_by_label("Select all problems that are shown").click()
    page.get_by_role("toolbar").get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now (1)").click()  # the other has no command
    expect(page.locator("#toasts")).to_contain_text("1 task requested to run", timeout=60_000)
    expect(page.locator(PROBLEMS)).to_have_count(1, timeout=60_000)
    submit(watched, "<b>mail</b>", 0, "quick")
    shows(page, ".problems .empty", "Nothing to worry about")
    assert page.evaluate("window.stillHere") is True
    tab.close()
    assert tab.complaints == []


def test_problems_are_grouped_by_a_label(browser: Browser, watched: NodeProcess) -> None:
    tab = BrowserTab(browser, watched.url, watched.token)
    page = tab.go("/now")
    expect(page.locator(PROBLEMS)).to_have_count(3, timeout=60_000)
    page.get_by_label("Group by label").select_option(label="by team")
    expect(page.locator(".problems .group")).to_have_text(
        ["ops1 problem", "web1 problem", "no team1 problem"], timeout=60_000
    )
    page.get_by_label("Group by label").select_option(label="by rack")
    expect(page.locator(".problems .group")).to_have_text(["<b>7</b>1 problem", "no rack2 problems"], timeout=60_000)
    page.get_by_label("Select all problems that are shown").click()
    shows(page, ".problems .chosen-count", "3 selected")
    page.set_viewport_size({"width": 375, "height": 812})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_label("Group by label").select_option(label="newest first")
    is_gone(page, ".problems .group")
    tab.close()
    assert tab.complaints == []


def submit(node: NodeProcess, name: str, status: int, output: str) -> None:
    node.ask("POST", f"/v1/tasks/{quote(name, safe='')}/result", {"status": status, "output": output})


def test_ten_thousand_problems_are_listed_and_acknowledged_without_a_frozen_page(
    browser: Browser, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "evenbeat.db")
    quiet = Schedule(every=365 * DAY, phase=1)
    job = Job(command=("noop",))
    at = Instant(1_700_000_000_000_000)
    tasks = [Task(f"host{i:05} ping", quiet, job, check=True, enabled=False) for i in range(MANY_PROBLEMS)]
    numbers = [entry.number for entry in store.create(tasks, "test", at)]
    bad = [a_submitted_result(number, at, "no answer", made=2)._replace(hard=True) for number in numbers]
    opened = [ProblemChange(number, Cause.STATE, at, at, State.CRITICAL, 3, is_open=True) for number in numbers]
    store.record(Batch(told=bad, problems=opened)).result()
    store.close()
    with NodeProcess(tmp_path) as node:
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/now")
        shows(page, ".problems .total", "100 of 10,000")
        tab.measure()
        expect(page.locator(PROBLEMS)).to_have_count(100)
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(PROBLEMS)).to_have_count(200, timeout=60_000)
        page.locator(f"{PROBLEMS} input").first.click()
        page.get_by_role("button", name="Select all 10,000 problems").click()
        page.get_by_role("toolbar").get_by_role("button", name="Acknowledge").click()
        page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
        shows(page, "#toasts", "10,000 problems acknowledged")
        expect(page.locator(".problems .acknowledged")).to_have_count(200, timeout=60_000)
        assert node.ask("GET", "/v1/problems?acknowledged=true&limit=1")["total"] == MANY_PROBLEMS
        assert tab.longest_silence() < 1
        tab.close()
    assert tab.complaints == []


def test_a_downtime_is_set_for_a_problem_and_for_tasks_and_ended(browser: Browser, watched: NodeProcess) -> None:
    tab = BrowserTab(browser, watched.url, watched.token)
    page = tab.go("/now")
    row = page.locator(PROBLEMS, has_text="no answer")
    row.get_by_role("button", name="Downtime").click()
    page.get_by_label("Lasts").select_option(label="4 hours")
    page.get_by_label("Reason").fill("<b>new disk</b>")
    page.get_by_role("dialog").get_by_role("button", name="Set downtime").click()
    shows(page, f"{PROBLEMS}:has-text('no answer')", "in downtime")
    (downtime,) = watched.ask("GET", "/v1/downtimes")["downtimes"]
    assert (downtime["names"], downtime["comment"], downtime["active"]) == (["disk"], "<b>new disk</b>", True)
    row.locator("a.task-name").click()
    shows(page, ".task-downtimes", "<b>new disk</b>")
    shows(page, ".why", f"it is in downtime {downtime['id']}")
    page.locator(".task-downtimes").get_by_role("button", name="End").click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    is_gone(page, ".task-downtimes p")
    tab.go("/tasks")
    page.get_by_label("Select disk").check()
    page.get_by_label("Select backup").check()
    page.get_by_role("toolbar").get_by_role("button", name="Downtime").click()
    page.get_by_label("Also for the tasks that depend on these").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Set downtime").click()
    shows(page, ".task-row:has-text('backup')", "in downtime")
    page.get_by_label("State").select_option(label="in downtime")
    shows(page, ".total", "2 tasks")
    tab.go("/downtimes")
    shows(page, ".downtimes .rows", "disk, backup, without dependents")
    page.set_viewport_size({"width": 375, "height": 812})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_role("button", name="New downtime").click()
    page.get_by_label("Names, with * and ?").fill("d*")
    page.get_by_label("Begins").fill("2150-01-01T08:00")
    page.get_by_role("dialog").get_by_role("button", name="Set downtime").click()
    shows(page, ".downtimes .rows li:nth-child(2)", "to come")
    for left in (1, 0):
        page.locator(".downtimes .rows li").first.get_by_role("button", name="End").click()
        page.get_by_role("dialog").get_by_role("button", name="End").click()
        expect(page.locator(".downtimes .rows li")).to_have_count(left, timeout=60_000)
    page.get_by_label("also those that are over").check()
    expect(page.locator(".downtimes .rows li")).to_have_count(2, timeout=60_000)
    is_gone(page, "main b")
    tab.close()
    assert tab.complaints == []


def test_who_was_notified_is_seen_with_the_problem_and_whether_contacts_are_reached(
    browser: Browser, tmp_path: Path
) -> None:
    with HttpReceiver() as receiver, NodeProcess(tmp_path, NOTIFIED.replace("HOOK", receiver.url())) as node:
        submit(node, "disk", 2, "<b>no answer</b>")
        receiver.wait_for(1)
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/tasks/disk")
        notes = ".task-problem .notes"
        shows(page, notes, "ops was told of the problem, by webhook http://127.0.0.1, delivered")
        shows(page, ".why", "boss is told in 23 h")
        page.get_by_role("button", name="Acknowledge").click()
        page.get_by_label("Comment").fill("<b>on it</b>")
        page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
        shows(page, notes, "<b>on it</b>")
        shows(page, notes, "ops was told of the acknowledgement, by webhook")
        found = page.locator(f"{notes} li").all_inner_texts()
        words = ("opened", "told of the problem", "acknowledged", "of the acknowledgement, by webhook")
        places = [next(i for i, text in enumerate(found) if word in text) for word in words]
        assert places == sorted(places), found
        shows(page, ".why", "boss is not told now")
        tab.go("/contacts")
        shows(page, ".contacts .rows", "webhook http://127.0.0.1")
        shows(page, ".contact-places li:has-text('email ops@localhost') .badge", "failing")
        shows(page, ".messages .rows", "delivered")
        page.locator(".contacts .rows > li", has_text="email").get_by_role("button", name="Send a test").click()
        outcome = page.get_by_role("dialog").locator("li")
        expect(outcome.filter(has_text="webhook").locator(".badge")).to_have_text("delivered", timeout=60_000)
        expect(outcome.filter(has_text="email").locator(".badge")).to_have_text("not delivered", timeout=60_000)
        assert any(request.document.get("test") for request in receiver.requests)
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        submit(node, "disk", 0, "fine")
        tab.go("/tasks/disk")
        page.locator(".last-problem summary").click()
        shows(page, ".last-problem", "ops was told that it is over, by webhook http://127.0.0.1, delivered")
        page.set_viewport_size({"width": 375, "height": 812})
        for place, what in (("/tasks/disk", ".last-problem summary"), ("/contacts", ".contacts .row-buttons button")):
            tab.go(place)
            expect(page.locator(what).first).to_be_visible(timeout=60_000)
            assert page.evaluate("document.documentElement.scrollWidth") <= 375, place
        is_gone(page, "main b")
        tab.close()
        assert tab.complaints == []


def test_slots_can_be_changed_and_reset(tab: BrowserTab) -> None:
    page = tab.go("/now")
    page.locator("[data-do=capacity]").click()
    shows(page, ".capacity", "default")
    page.get_by_role("spinbutton", name="All slots").fill("37")
    page.get_by_role("button", name="Set", exact=True).first.click()
    shows(page, ".capacity", "set by")
    page.get_by_role("button", name="Reset").first.click()
    shows(page, ".capacity", "default")
    page.get_by_role("button", name="Close").click()


@pytest.mark.parametrize("state", ["late", "stale", "disabled"])
def test_the_numbers_lead_to_the_tasks_that_they_count(tab: BrowserTab, state: str) -> None:
    page = tab.go("/now")
    number = page.locator(f'.measures a.number[href="#/tasks?state={state}"]')
    # The first status fills tiles and numbers and moves what is below them: nobody aims at a number before it is there.
    expect(number).to_have_text(re.compile(r"\d"), timeout=60_000)
    number.click()
    expect(page.get_by_label("State", exact=True)).to_have_value(state, timeout=60_000)
    shows(page, ".total", "")


def test_a_task_can_be_run_now(tab: BrowserTab) -> None:
    page = tab.go("/tasks/on%20demand")
    shows(page, ".output", "It has not run yet")
    page.get_by_role("button", name="Run now").click()
    shows(page, ".plugin", "made to order")
    shows(page, ".table tbody", "forced")


def test_the_days_of_a_task_are_seen_when_its_runs_are_gone(browser: Browser, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, '[checks.old]\nevery = "1h"\ncommand = ["true"]\nenabled = false\n') as node:
        node.stop()
        today = wall_clock() // DAY * DAY
        some = Spread(2_000_000, 3_000_000, 4_000_000)
        with closing(SqliteStore(node.database)) as store:
            (entry,) = store.entries()
            part = store.begin_part(Layer.DAYS, today - 20 * DAY, is_merged=True)
            good = RunSummary(entry.number, today - 20 * DAY, 24, {"succeeded": 24}, {0: 24}, some, some)
            bad = good._replace(since=today - 19 * DAY, outcomes={"failed": 12, "succeeded": 12}, states={0: 12, 2: 12})
            store.add_summaries(part, [good, bad])
            store.complete([part], [])
        node.start()
        tab = BrowserTab(browser, node.url, node.token)
        tab.go("/tasks/old")
        strip = tab.page.locator(".day-strip")
        expect(strip).to_have_attribute("aria-label", "last 30 days: 2 with runs, 1 not all good")
        expect(strip.locator("path.look-critical title")).to_have_text(re.compile("12 failed, 12 succeeded; took 2"))
        tab.page.get_by_label("How many days").select_option("400")
        expect(strip).to_have_attribute("aria-label", re.compile("last 400 days: 2 with runs"))
        assert not tab.complaints


def test_the_output_of_a_run_grows_while_the_run_writes_it(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/tasks/talks")
    page.get_by_role("button", name="Run now").click()
    shows(page, ".output h2", "Output of the run under way")
    shows(page, ".plugin", "step one")
    (node.folder / "go on").touch()
    shows(page, ".plugin", "all is copied")
    shows(page, ".output h2", "Output of the last run")
    path = page.get_by_role("link", name="Download").get_attribute("href")
    assert page.request.get(f"{node.url}{path}").text() == "step one\nall is copied\n"


def test_a_run_is_stopped_where_it_is_seen(tab: BrowserTab, node: NodeProcess) -> None:
    node.ask("POST", "/v1/tasks", {"name": "endless", "every": "1d", "command": ["sleep", "600"]})
    node.ask("POST", "/v1/tasks/endless/run")
    page = tab.go("/now")
    page.get_by_role("button", name="Stop endless").click()
    page.get_by_label("Reason").fill("wrong database")
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    shows(page, ".toast", "The run ends now")
    page = tab.go("/tasks/endless")
    shows(page, ".plugin", "wrong database")
    shows(page, ".table tbody", "cancelled")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="Stop run").click()
    page.keyboard.press("Enter")
    shows(page, ".table tbody tr:nth-child(2)", "cancelled")


def test_many_tasks_are_paused_and_resumed_at_once(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/tasks")
    page.get_by_label("Name contains").fill("bulk")
    shows(page, ".total", "30")
    for word, is_paused in (("Pause", True), ("Resume", False)):
        page.get_by_label("Select all rows that were read").click()
        page.get_by_role("toolbar").get_by_role("button", name=word, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=f"{word} (30)").click()
        shows(page, "#toasts", f"30 tasks {word.lower()}")
        found = node.ask("GET", "/v1/tasks?contains=bulk")["tasks"]
        assert [task["paused"] for task in found] == [is_paused] * 30
        remarks = page.locator(".task-row .remark-paused")
        expect(remarks.first if is_paused else remarks).to_have_count(1 if is_paused else 0, timeout=60_000)


def test_a_schedule_is_edited_with_its_times_shown_before_it_is_saved(tab: BrowserTab, node: NodeProcess) -> None:
    before = node.task("report")
    page = tab.go("/editor/report")
    shows(page, ".times", "09:30:00")
    page.get_by_label("Cron entry").fill("30 25 * * *")
    shows(page, "#error-cron", "25 is out of range")
    expect(page.get_by_label("Cron entry")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_label("Cron entry").fill("45 14 * * *")
    shows(page, ".times", "14:45:00")
    is_gone(page, ".field-error:visible")
    shows(page, ".editor-columns", "Peak per second")
    assert node.task("report")["version"] == before["version"]
    page.get_by_label("Cron entry").press("Enter")
    shows(page, ".task-head", "report")
    shows(page, ".times", "14:45:00")
    shows(page, ".view-task", "cron 45 14 * * *")
    after = node.task("report")
    assert after["task"] == {**before["task"], "cron": "45 14 * * *"}
    assert after["version"] == before["version"] + 1


def test_nobody_overwrites_unknowingly_what_another_has_changed(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/editor/contested")
    shows(page, ".editor-columns", "Every 1d")
    node.ask("PATCH", "/v1/tasks/contested", {"priority": 9})
    page.get_by_label("Interval").fill("2d")
    shows(page, ".editor-columns", "Every 2d")
    page.get_by_role("button", name="Save").click()
    shows(page, ".notice", "This task has been changed by another user")
    assert node.task("contested")["task"]["every"] == "1d"
    page.get_by_role("button", name="Save").click()
    shows(page, ".view-task", "every 2d")
    assert node.task("contested")["task"]["every"] == "2d"
    assert node.task("contested")["task"]["priority"] == 9


def test_a_new_task_is_made_by_keyboard_and_refused_at_its_field(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/now")
    is_live(page)
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.get_by_label("Name").fill("report")
    page.get_by_label("Interval").fill("7m")
    shows(page, ".editor-columns", "Every 7m")
    shows(page, ".editor-columns", "Enter what runs.")
    expect(page.get_by_role("button", name="Create")).to_be_disabled()
    page.get_by_label("Command").fill("echo\nhello there")
    is_gone(page, ".editor-columns :text('Enter what runs.')")
    expect(page.get_by_role("button", name="Create")).to_be_enabled(timeout=60_000)
    page.get_by_label("Interval").press("Enter")
    shows(page, "#toasts", "report")
    assert node.task("report")["schedule"].startswith("cron")
    page.get_by_label("Name").fill("made here")
    shows(page, ".editor-columns", "Peak per second")
    page.get_by_label("Interval").press("Enter")
    shows(page, ".task-head", "made here")
    assert node.task("made here")["task"]["command"] == ["echo", "hello there"]


CHECKS = (("asleep", "1d"), ("calm", "2d"), ("worried", "1d"), ("zonked", "1d"))
RICH: dict[str, Any] = {
    "every": "10m",
    "period": "night",
    "start_at": "2099-01-01T00:00:00+00:00",
    "function": "os:getcwd",
    "args": ["a b", 5, "5", True],
    "kwargs": {"to": "board", "n": 2.5, "is": True, "text": "true"},
    "env": {"LANG": "C", "EQUATION": "a=b"},
    "cwd": "/tmp",
    "timebox": "50%",
    "longer_than": "2h",
    "tolerance": "1m",
    "missed": "all",
    "catch_up": "2h",
    "backlog": "each",
    "priority": -7,
    "weight": 2.5,
    "pool": "berlin",
    "enabled": False,
    "attempts": 5,
    "retry": "20s",
    "grace": "3m",
    "depends": ["web"],
    "when_unreachable": "skip",
    "notify": ["night shift", {"to": "boss", "after": "30m"}],
    "repeat": "4h",
    "gather": "1m",
    "labels": {"team": "web"},
}


def test_the_editor_changes_nothing_that_was_not_touched(tab: BrowserTab, node: NodeProcess) -> None:
    for contact in ("night%20shift", "boss"):
        node.ask("PUT", f"/v1/contacts/{contact}", {"email": ["ops@example.org"]})
    node.ask("PUT", "/v1/periods/night", {"ranges": ["22:00-06:00"]})
    cron = {"cron": "H H 1-7 * 1", "days": "and", "hash": "jenkins", "second": 5, "zone": "Europe/Paris"}
    tasks = {
        "rich": RICH | {"check": True},
        "cronned": {**cron, "command": ["echo", "two\nlines", "x"]},
        "spread": {"every": "1h", "spread": "aligned", "shell": True, "command": "echo $HOME"},
        "phased": {"every": "1h", "phase": "90s", "command": ["true"]},
        "later": {"at": "2099-01-01T00:00:00+00:00", "command": ["true"]},
    }
    page = tab.page
    for name, keys in tasks.items():
        before = node.ask("POST", "/v1/tasks", {"name": name, **keys})["task"]
        tab.go(f"/editor/{name}")
        is_filled(page)
        expect(page.get_by_label("Labels")).to_have_value("team=web" if name == "rich" else "", timeout=60_000)
        page.get_by_label("Labels").fill("edited=yes")
        expect(page.get_by_role("button", name="Save")).to_be_enabled(timeout=60_000)
        page.get_by_role("button", name="Save").click()
        shows(page, ".task-head", name)
        assert node.task(name)["task"] == {**before, "labels": {"edited": "yes"}}


def test_the_editor_takes_nothing_before_it_has_its_task(tab: BrowserTab, node: NodeProcess) -> None:
    node.ask("POST", "/v1/tasks", {"name": "slow to load", "every": "1h", "command": ["true"]})
    page = tab.page
    held: list[Route] = []
    page.route("**/v1/tasks/slow%20to%20load", lambda route: held.append(route))  # noqa: PLW0108 - the driver marks it
    tab.go("/editor/slow%20to%20load")
    save, form = page.get_by_role("button", name="Save"), page.locator(".editor-form")
    shows(page, "h1", "Edit slow to load")
    # Saving now would create another task, and what is typed would be overwritten.
    assert form.evaluate("form => form.inert && form.querySelector('[type=submit]').disabled")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    is_filled(page)
    expect(save).to_be_enabled(timeout=60_000)
    assert not form.evaluate("form => form.inert")


def test_what_is_entered_in_the_editor_is_what_the_keys_are(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/editor?name=typed")
    page.get_by_label("What", exact=True).select_option("function")
    page.get_by_label("Function").fill("os:getcwd")
    page.get_by_label("Arguments").fill('a b\n5\n"5"')
    page.get_by_label("By keyword").fill("to=board\nn=2.5\nall=true")
    page.get_by_text("Times in detail").click()
    page.get_by_label("Spread").select_option("aligned")
    page.get_by_label("Enabled").select_option("false")
    page.get_by_text("Runs in detail").click()
    page.get_by_label("Priority").fill("high")
    shows(page, "#error-priority", "Expected `int`")
    page.get_by_label("Priority").fill("3")
    page.get_by_label("After a stop").select_option("all")
    page.get_by_label("Back for").fill("2h")
    page.get_by_label("Environment").fill("EQUATION=a=b")
    is_gone(page, ".field-error:visible")
    expect(page.get_by_role("button", name="Create")).to_be_enabled(timeout=60_000)
    page.get_by_role("button", name="Create").click()
    shows(page, ".task-head", "typed")
    assert node.task("typed")["task"] == {
        "every": "5m",
        "spread": "aligned",
        "function": "os:getcwd",
        "args": ["a b", 5, "5"],
        "kwargs": {"to": "board", "n": 2.5, "all": True},
        "enabled": False,
        "priority": 3,
        "missed": "all",
        "catch_up": "2h",
        "env": {"EQUATION": "a=b"},
    }
    tab.go("/editor/typed")
    expect(page.get_by_label("Priority")).to_have_value("3", timeout=60_000)
    page.get_by_label("When", exact=True).select_option("at")
    page.get_by_label("At", exact=True).fill("2099-01-01T00:00")
    expect(page.get_by_label("Spread")).to_be_hidden()
    expect(page.get_by_role("button", name="Save")).to_be_enabled(timeout=60_000)
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "typed")
    assert not node.task("typed")["task"].keys() & {"every", "spread", "phase"}


def test_script_in_names_and_output_stays_text(tab: BrowserTab) -> None:
    page = tab.go("/tasks")
    page.get_by_label("Name contains").fill("<img")
    page.locator(".task-row a.task-name").first.click()
    shows(page, "h1", SCRIPT)
    page.get_by_role("button", name="Run now").click()
    shows(page, ".plugin", SCRIPT)
    shows(page, ".perf", "<b>x</b>")
    page.get_by_role("link", name="Edit").click()
    shows(page, "h1", SCRIPT)
    expect(page.get_by_label("Command")).to_have_value(f"echo\n{SCRIPT}|<b>x</b>=1;2;3")
    tab.go("/timetable")
    shows(page, ".summary", "peak")
    is_gone(page, "main img, main script, main b")
    assert page.locator("script").count() == 2


LEAVE_IN_THE_MIDDLE = """
async () => {
  const { get } = await import("/static/api.js");
  const leaving = new AbortController();
  const real = window.fetch;
  window.fetch = async () => new Response(new ReadableStream({
    pull: (stream) => { leaving.abort(); stream.error(leaving.signal.reason); },
  }));
  return get("/v1/status", {}, { signal: leaving.signal })
    .then((found) => `answered: ${found}`, (error) => `none: ${error.name !== "Problem"}`)
    .finally(() => { window.fetch = real; });
}
"""


def test_who_leaves_in_the_middle_of_an_answer_gets_none(tab: BrowserTab) -> None:
    assert tab.go("/tasks").evaluate(LEAVE_IN_THE_MIDDLE) == "none: true"


def test_a_period_is_made_looked_at_and_deleted(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/periods")
    page.get_by_role("link", name="New period").click()
    page.get_by_label("Name").fill("office")
    page.get_by_label("Ranges").fill("monday-friday 09:00-17:00\nmonday-friday 25:00")
    shows(page, "#error-ranges", "line 2")
    page.get_by_label("Ranges").fill("monday-friday 09:00-17:00")
    expect(page.locator(".period-open")).to_have_count(25, timeout=60_000)
    page.get_by_role("button", name="Create").click()
    shows(page, "h1", "office")
    assert node.ask("GET", "/v1/periods/office")["ranges"] == ["monday-friday 09:00-17:00"]
    tab.go("/periods")
    page.get_by_role("link", name="office").click(timeout=60_000)
    expect(page.get_by_label("Ranges")).to_have_value("monday-friday 09:00-17:00", timeout=60_000)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="New period")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("link", name="office")).to_have_count(0, timeout=60_000)
    assert "office" not in {period["name"] for period in node.ask("GET", "/v1/periods")["periods"]}


def test_who_makes_a_peak_is_told_by_keyboard(tab: BrowserTab) -> None:
    page = tab.go("/timetable")
    shows(page, ".summary", "peak / mean")
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    shows(page, ".who", "web")
    page.locator(".due-list a", has_text="web").click()
    shows(page, "h1", "web")


def test_the_timetable_has_whole_hours_and_says_what_its_colours_mean(tab: BrowserTab) -> None:
    page = tab.go("/timetable")
    legends = page.locator(".heat-legend")
    expect(legends.first).to_contain_text("starts per second", timeout=60_000)
    expect(legends.nth(1)).to_contain_text("starts per minute")
    assert legends.first.locator(".heat-swatch").count() >= 2
    page.locator("canvas").nth(1).focus()
    tips = []
    for _ in range(2):
        page.keyboard.press("ArrowDown")
        tips.append(page.locator(".tip:visible").inner_text())
    (hour, minute, _), (later, same, _) = (tip.split(": ")[0].split(" ")[-1].split(":") for tip in tips)
    assert (int(later) - int(hour)) % 24 == 1, "a row is an hour"
    assert same == minute


def test_tasks_are_in_order_of_their_problems_names_or_times(browser: Browser, tmp_path: Path) -> None:
    checks = "".join(f'[checks.{name}]\npassive = true\nevery = "{every}"\n' for name, every in CHECKS)
    with NodeProcess(tmp_path, checks + '[tasks.soon]\nevery = "30s"\ncommand = ["true"]\n') as node:
        for name, status in (("calm", 0), ("worried", 1), ("zonked", 2)):
            submit(node, name, status, "so it is")
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/tasks")
        names = page.locator(".task-row .task-name")

        def shown() -> list[str]:
            rows = page.locator(".space .task-row").all()
            rows.sort(key=lambda row: int(row.get_attribute("aria-rowindex") or 0))
            return [row.locator(".task-name").inner_text() for row in rows]

        expect(names).to_have_count(5, timeout=60_000)
        eventually(lambda: shown() == ["zonked", "worried", "asleep", "calm", "soon"])
        page.get_by_role("columnheader", name="Name").get_by_role("button").click()
        eventually(lambda: shown() == ["asleep", "calm", "soon", "worried", "zonked"])
        assert page.url.endswith("order=name")
        page.get_by_label("Order").select_option(label="next run first")
        eventually(lambda: shown()[0] == "soon")
        expect(page.get_by_role("columnheader", name="Next")).to_have_attribute("aria-sort", "ascending")
        page.get_by_label("Order").select_option("problems")
        submit(node, "calm", 2, "no more")
        eventually(lambda: shown()[:3] == ["calm", "zonked", "worried"])
        tab.close()
    assert tab.complaints == []


def test_nothing_is_wider_than_a_telephone(tab: BrowserTab) -> None:
    page = tab.page
    page.set_viewport_size({"width": 375, "height": 812})
    for place, what in FILLED.items():
        tab.go(place)
        expect(page.locator(what).first).to_be_visible(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, place


def test_a_node_that_is_alone_is_shown_and_how_it_could_grow(tab: BrowserTab) -> None:
    page = tab.go("/cluster")
    shows(page, ".summary", "1 node")
    shows(page, ".nodes tbody", "needs none")
    shows(page, ".pools tbody", "default")
    shows(page, ".grow", "evenbeat scheduler")
    expect(page.locator(".partitions .cell")).to_have_count(256, timeout=60_000)
    is_gone(page, ".notices li")


def test_the_cluster_is_offered_only_where_there_is_one(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/now")
    place = page.locator(".places a[data-place=cluster]")
    expect(place).to_be_hidden(timeout=60_000)
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.keyboard.press("?")
    shows(page, "dialog", "Timetable")
    expect(page.locator("dialog")).not_to_contain_text("Cluster")
    assert page.url.endswith("/now")
    document = _cluster(node.ask("GET", "/v1/cluster")) | {"is_single": False}
    page.route("**/v1/cluster", lambda route: route.fulfill(json=document))
    page.reload()
    expect(place).to_be_visible(timeout=60_000)


def test_a_cluster_is_shown_with_what_is_wrong_with_it(tab: BrowserTab, node: NodeProcess) -> None:
    alone = node.ask("GET", "/v1/cluster")
    document = _cluster(alone)
    tab.page.route("**/v1/cluster", lambda route: route.fulfill(json=document))
    page = tab.go("/cluster")
    shows(page, ".summary", "2 nodes")
    shows(page, ".summary", "246 of 256 partitions held")
    label = page.locator(".partitions").get_attribute("aria-label") or ""
    assert label.startswith("256 partitions: 100 A, one 11; 146 B, two 12; 10 held by no node")
    assert page.locator(".partitions .cell").all_text_contents() == ["A"] * 100 + ["B"] * 146 + ["–"] * 10
    colours = {_colour(page, f".partitions .cell:nth-child({n})") for n in (1, 101, 256)}
    assert len(colours) == 3
    shows(page, ".nodes tbody", "out of reach")
    shows(page, ".nodes tbody", "ended")
    shows(page, ".workers tbody", "silent for")
    shows(page, ".pools tbody", "no worker for 1 min 5 s")
    notes = " ".join(page.locator(".notices li").all_text_contents())
    for sentence in (
        "10 partitions are held by no node",
        "Node two 12 cannot use the queue: nats://q is out of reach",
        "The lease of node three 13 has ended",
        "Pool <b>far</b> has no worker, and 3 runs wait",
        "Worker hand 21 is silent",
    ):
        assert sentence in notes
    is_gone(page, ".grow")
    is_gone(page, "main b")
    # What changes is seen without a reload, and each node keeps its letter.
    document["nodes"] = document["nodes"][1:]
    shows(page, ".summary", "1 node")
    assert (page.locator(".partitions").get_attribute("aria-label") or "").startswith("256 partitions: 146 B, two 12")


def test_a_pool_is_chosen_in_the_editor_and_shown(tab: BrowserTab, node: NodeProcess) -> None:
    page = tab.go("/editor")
    page.get_by_label("Name").fill("elsewhere")
    page.get_by_label("Command").fill("true")
    page.get_by_text("Runs in detail").click()
    page.get_by_label("Pool").fill("berlin")
    shows(page, ".editor-columns", "Peak per second")
    page.get_by_label("Pool").press("Enter")
    shows(page, ".task-head", "elsewhere")
    assert node.task("elsewhere")["task"]["pool"] == "berlin"
    shows(page, ".facts", "berlin")
    tab.go("/editor/elsewhere")
    expect(page.get_by_label("Pool")).to_have_value("berlin", timeout=60_000)
    page.get_by_label("Pool").fill("")
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "elsewhere")
    assert "pool" not in node.task("elsewhere")["task"]


def test_a_passive_check_keeps_what_it_runs_in_the_editor(tab: BrowserTab, node: NodeProcess) -> None:
    keys = {"name": "asked", "passive": True, "every": "1h", "command": ["true"], "when_missing": "warning"}
    node.ask("POST", "/v1/tasks", keys)
    page = tab.go("/editor/asked")
    expect(page.get_by_label("Passive")).to_be_checked(timeout=60_000)
    page.get_by_label("Grace").fill("2m")
    page.get_by_role("button", name="Save").click()
    shows(page, ".task-head", "asked")
    found = node.task("asked")["task"]
    assert {key: found[key] for key in ("passive", "command", "when_missing", "grace")} == {
        "passive": True,
        "command": ["true"],
        "when_missing": "warning",
        "grace": "2m",
    }


def test_the_heartbeat_of_a_passive_check_is_made_tested_and_removed(tab: BrowserTab, node: NodeProcess) -> None:
    node.ask("POST", "/v1/tasks", {"name": "beaten", "passive": True, "every": "1h"})
    page = tab.go("/tasks/beaten")
    expect(page.get_by_role("button", name="Heartbeat")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    page.get_by_role("button", name="Heartbeat").click()
    page.get_by_role("dialog").get_by_role("button", name="Make it").click()
    url = page.get_by_label("URL", exact=True)
    expect(url).to_have_value(re.compile(r"^http://.*/v1/beat/evb_beat_[\w-]{32}$"), timeout=60_000)
    expect(page.get_by_label("At the end of a script")).to_have_value(re.compile(r"/evb_beat_[\w-]{32}/\$\?$"))
    page.get_by_role("dialog").get_by_role("button", name="Test").click()
    shows(page, "#toasts", "It arrived")
    (run,) = node.ask("GET", "/v1/tasks/beaten/history?limit=5")["runs"]
    assert (run["kind"], run["output"], run["state"]) == ("log", "a test from the page", None)
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    shows(page, ".history", "a test from the page")
    shows(page, ".history", "logged")
    tab.go("/tasks/web")
    expect(page.get_by_role("button", name="Run now")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("button", name="Heartbeat")).to_have_count(0)


def test_a_page_finds_the_node_again_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SHORT) as node:
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/now")
        is_live(page)
        page.locator(".latest").first.wait_for(timeout=60_000)
        page.evaluate("window.stillHere = true")
        node.stop()
        expect(page.locator("#link-state")).to_have_text("reconnecting", timeout=60_000)
        node.start()
        sign_in(page, node)
        is_live(page)
        node.ask("POST", "/v1/tasks/pulse/pause")
        # That a task was changed is known from events alone.
        shows(page, ".latest .rows", "changed")
        shows(page, ".latest .rows", "pulse")
        assert page.evaluate("window.stillHere") is True
        tab.go("/tasks/pulse")
        shows(page, ".warnings", "it is paused, so it does not run")
        is_gone(page, "text=It is never due again")
        tab.close()
    assert tab.complaints == []


def test_a_banner_says_that_the_files_are_broken_until_they_are_not(browser: Browser, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SHORT) as node:
        node.stop()
        file = tmp_path / "tasks.toml"
        file.write_text(SHORT + "[tasks.torn\n")
        node.start()
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/now")
        shows(page, "#banner", "The files could not be applied; their last applied versions are in effect:")
        shows(page, "#banner", "tasks.toml:5:")
        is_live(page)
        before = len(node.ask("GET", "/v1/tasks/pulse/history")["runs"])
        eventually(lambda: len(node.ask("GET", "/v1/tasks/pulse/history")["runs"]) > before)
        file.write_text(SHORT)
        node.reload()
        expect(page.locator("#banner")).to_be_hidden(timeout=60_000)
        tab.close()
        assert tab.complaints == []


def test_a_view_that_could_not_be_loaded_is_loaded_when_the_node_is_back(browser: Browser, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SHORT) as node:
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/now")
        is_live(page)
        page.locator(".latest").first.wait_for(timeout=60_000)
        node.stop()
        expect(page.locator("#link-state")).to_have_text("reconnecting", timeout=60_000)
        page.get_by_role("link", name="Tasks", exact=True).click()
        shows(page, "main", "Tasks is not available")
        node.start()
        sign_in(page, node)
        shows(page, ".total", "1 ")
        shows(page, ".task-row a.task-name", "pulse")
        tab.close()


def test_a_hundred_thousand_tasks_are_filtered_without_a_frozen_page(browser: Browser, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "evenbeat.db")
    quiet = Schedule(every=365 * DAY, phase=1)
    job = Job(command=("noop",))
    tasks = [Task(f"host{i:06} ping", quiet, job, enabled=False) for i in range(MANY)]
    store.create(tasks, "test", Instant(1_700_000_000_000_000))
    store.close()
    with NodeProcess(tmp_path) as node:
        tab = BrowserTab(browser, node.url, node.token)
        page = tab.go("/tasks")
        shows(page, ".total", "100,000")
        tab.measure()
        page.get_by_label("Name contains").press_sequentially("host09999", delay=30)
        shows(page, ".total", "10 ")
        shows(page, ".task-row a.task-name", "host099990 ping")
        names = page.locator(".task-row a.task-name").all_text_contents()
        assert sorted(names) == [f"host09999{i} ping" for i in range(10)]
        page.get_by_label("Name contains").fill("")
        shows(page, ".total", "100,000")
        eventually(lambda: _scrolled(page) > 300)
        assert page.locator("[data-row]").count() < 500
        assert tab.longest_silence() < 1
        tab.close()
    assert tab.complaints == []


def test_a_token_opens_the_page_and_says_what_may_be_done(browser: Browser, tmp_path: Path) -> None:
    tokens = {role: _token(tmp_path / "evenbeat.db", role) for role in ("read", "admin")}
    with NodeProcess(tmp_path, SHORT, token=tokens["admin"]) as node:
        tab = BrowserTab(browser, node.url)
        page = tab.go("/tasks/pulse")
        field = page.get_by_label("Token")
        field.fill("evb_wrong")
        field.press("Enter")
        shows(page, ".dialog", "This token is not known")
        is_gone(page, ".task-head h1")
        field.fill(tokens["read"])
        field.press("Enter")
        shows(page, ".task-head", "pulse")
        shows(page, ".plugin", "beats")
        is_live(page)
        for name in ("Run now", "Pause", "Delete"):
            is_gone(page, f".task-head button:has-text('{name}')")
        is_gone(page, ".task-head a:has-text('Edit')")
        expect(page.get_by_role("link", name="New task")).to_be_hidden()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").fill(tokens["admin"])
        page.get_by_label("Token").press("Enter")
        shows(page, ".task-head", "Run now")
        is_live(page)
        # A token that is removed ends the session and its events: the page asks without being touched.
        command = [sys.executable, "-m", "evenbeat", "token", "rm", "admin", "--db", str(tmp_path / "evenbeat.db")]
        subprocess.run(command, check=True, capture_output=True)
        shows(page, ".dialog", "Sign in")
        tab.close()
    assert tab.complaints == []


def test_a_link_signs_in_once_and_says_kindly_that_it_was_used(browser: Browser, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SHORT) as node:
        command = [sys.executable, "-m", "evenbeat", "token", "link", "--db", str(node.database)]
        link = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        code = link.partition("#/sign-in/")[2]
        assert code
        tab = BrowserTab(browser, node.url)
        requested: list[str] = []
        tab.page.on("request", lambda request: requested.append(request.url + str(request.headers)))
        page = tab.page
        page.goto(link)
        is_live(page)
        page.locator(".load svg").first.wait_for(timeout=60_000)
        assert page.url == f"{node.url}/#/now"
        assert not any(code in request for request in requested)
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        # Who is signed in already stays so.
        page.goto("about:blank")
        page.goto(link)
        shows(page, ".toast", "This link has been used, or is too old; `evenbeat token link` makes another.")
        is_live(page)
        tab.close()

        other = BrowserTab(browser, node.url)
        other.page.goto(link)
        shows(other.page, ".dialog", "This link has been used, or is too old; `evenbeat token link` makes another.")
        assert other.page.url == f"{node.url}/#/now"
        # The form of the same page takes a token, and a new link in the same tab is followed too.
        link = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        other.page.goto(link)
        is_live(other.page)
        is_gone(other.page, ".dialog")
        other.close()
    assert tab.complaints == other.complaints == []


def _cluster(alone: Any) -> dict[str, Any]:
    """Two nodes and one that is gone, made out of a document of one."""
    node, worker = alone["nodes"][0], alone["workers"][0]

    def one(name: str, pid: int, held: range, ends: float, **more: Any) -> dict[str, Any]:
        about = {"id": name, "name": name, "pid": pid, "expires_in": ends, "is_alive": ends > 0}
        return {**node, **about, "partitions": list(held), "partition_count": len(held), **more}

    return {
        **alone,
        "is_single": False,
        "nodes": [
            one("one", 11, range(100), 4.5),
            one("two", 12, range(100, 246), 3.9, queue="nats://q is out of reach"),
            one("three", 13, range(246, 250), -3.0),
        ],
        "workers": [{**worker, "name": "hand", "pid": 21, "silent_for": 30.0}, {**worker, "id": "x"}],
        "pools": {"<b>far</b>": {"workers": 0, "slots": 0, "waiting": 3, "without_worker_for": 65.0}},
        "unheld": list(range(246, 256)),
    }


def _colour(page: Page, where: str) -> str:
    return str(page.locator(where).evaluate("(node) => getComputedStyle(node).backgroundColor"))


def _scrolled(page: Page) -> int:
    """Go to the end of what was read; the number of the last row there."""
    page.locator(".scroller").evaluate("(node) => { node.scrollTop = node.scrollHeight; }")
    rows = page.locator("[data-row]").evaluate_all("(rows) => rows.map((row) => Number(row.ariaRowIndex))")
    return int(max(rows, default=0))


def _token(database: Path, role: str) -> str:
    command = [sys.executable, "-m", "evenbeat", "token", "add", role, "--role", role, "--db", str(database)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next(word for word in text.split() if word.startswith("evb_"))
