"""The page in a real browser, on a real node."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browser import CHROMIUMS, BrowserTab, NodeProcess, chromium, headless_browser
from playwright.sync_api import Browser, Page, expect
from waiting import eventually

from evenbeat.model import DAY, Cause, Instant, Job, Schedule, State, Task
from evenbeat.store.contract import Batch
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

[tasks.backup]
every = "1d"
shell = true
command = "[ -e FOLDER/room ] || { echo 'disk full'; exit 1; }"
"""
MANY_PROBLEMS = 10_000
PROBLEMS = ".problems .rows > li"
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
    page.get_by_role("dialog").get_by_role("button", name="Run now (2)").click()
    expect(page.locator("#toasts")).to_contain_text(
        "1 task requested to run", timeout=60_000
    )  # the other has no command
    expect(page.locator(PROBLEMS)).to_have_count(1, timeout=60_000)
    submit(watched, "<b>mail</b>", 0, "quick")
    shows(page, ".problems .empty", "Nothing to worry about")
    assert page.evaluate("window.stillHere") is True
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
    page.get_by_label("Interval").press("Enter")
    shows(page, "#toasts", "report")
    assert node.task("report")["schedule"].startswith("cron")
    page.get_by_label("Name").fill("made here")
    page.get_by_label("Command").fill("echo\nhello there")
    shows(page, ".editor-columns", "Peak per second")
    page.get_by_label("Interval").press("Enter")
    shows(page, ".task-head", "made here")
    assert node.task("made here")["task"]["command"] == ["echo", "hello there"]


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
    shows(page, ".view-periods", "There are no periods")
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
    expect(page.locator(".period-list .period-open")).to_have_count(5, timeout=60_000)
    page.get_by_role("link", name="office").click()
    expect(page.get_by_label("Ranges")).to_have_value("monday-friday 09:00-17:00", timeout=60_000)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    shows(page, ".view-periods", "There are no periods")


def test_who_makes_a_peak_is_told_by_keyboard(tab: BrowserTab) -> None:
    page = tab.go("/timetable")
    shows(page, ".summary", "peak / mean")
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    shows(page, ".who", "web")
    page.locator(".due-list a", has_text="web").click()
    shows(page, "h1", "web")


def test_nothing_is_wider_than_a_telephone(tab: BrowserTab) -> None:
    page = tab.page
    page.set_viewport_size({"width": 375, "height": 812})
    for place, what in FILLED.items():
        tab.go(place)
        expect(page.locator(what).first).to_be_visible(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, place


def test_a_node_that_is_alone_is_shown_and_how_it_could_grow(tab: BrowserTab) -> None:
    page = tab.go("/now")
    is_live(page)
    page.keyboard.press("g")
    page.keyboard.press("c")
    shows(page, ".summary", "1 node")
    shows(page, ".nodes tbody", "needs none")
    shows(page, ".pools tbody", "default")
    shows(page, ".grow", "evenbeat scheduler")
    expect(page.locator(".partitions .cell")).to_have_count(256, timeout=60_000)
    is_gone(page, ".notices li")


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
