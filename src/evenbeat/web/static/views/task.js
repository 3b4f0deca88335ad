// One task: how it is and why, when it runs next, what it is, and what became of it.

import { can, get, post, remove, taskPath } from "../api.js";
import { agoWords, clockWords, now, spanWords, tick, wholeWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { bind } from "../keys.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import {
  announce, attempt, button, conditionBadge, confirm, countdown, editorHref, empty, facts, failure, panel,
  taskLink, trail, zoneNote,
} from "../ui.js";
import { attemptWords, attemptsOf, dependsOn, followsOthers, learnRun } from "../words.js";
import { downtimeWords, endDowntime, pauseWords, setDowntime } from "./downtime.js";
import { definition } from "./task_definition.js";
import { makeHeartbeat } from "./heartbeat.js";
import { history } from "./task_history.js";
import { pastOf } from "./task_past.js";
import { outputOfTask } from "./task_output.js";
import { problemOfTask } from "./task_problem.js";
import { stopRun } from "./stop_run.js";

const TIMES = 10;
const SOON = 300;

export function mount(root, { name }) {
  const gone = new AbortController();
  const { signal } = gone;
  const head = h("div", { class: "task-head" });
  const trouble = h("div");
  const downtimes = h("div", { class: "task-downtimes" });
  const about = h("div");
  const why = h("div", { class: "why" });
  const times = h("div");
  const output = outputOfTask(name, signal, () => again());
  const defined = h("div");
  const past = history(name, signal);
  const days = pastOf(name, signal);
  const problem = problemOfTask(signal, () => again());
  let task = null;
  let shown = null;

  fill(
    root,
    h("nav", { class: "crumbs", "aria-label": "Where" },
      h("a", { href: trail.tasks }, "Tasks"), " / ", h("bdi", null, name)),
    head,
    trouble,
    downtimes,
    problem.node,
    problem.last,
    h("div", { class: "task-columns" },
      h("div", { class: "stack" },
        panel("Why", { class: "why-panel" }, why), panel("Next times", {}, times), panel("About", {}, about)),
      h("div", { class: "stack" },
        output.node, days.node, past.node, panel("Definition", {}, defined))),
  );

  // Reading

  async function read() {
    try {
      task = await get(taskPath(name), {}, { signal });
    } catch (problem) {
      const reason = problem.status === 404 ? { title: "Not found", message: "There is no task with this name." } : problem;
      if (!signal.aborted) fill(trouble, failure(reason, again));
      return;
    }
    fill(trouble);
    showHead();
    showDowntimes();
    if (!about.contains(document.activeElement)) fill(about, aboutTask(task));
    output.show(task);
    if (shown !== task.version) fill(defined, definition(task));
    shown = task.version;
    await Promise.all([problem.read(task), readWhy(), readTimes(), past.read(task), days.read()]);
  }

  async function readWhy() {
    const { answer, reasons, notified } = await get(taskPath(name, "why"), {}, { signal });
    const list = (lines) => h("ul", null, lines.map((line) => h("li", null, line)));
    const told = notified.length ? [h("h3", null, "Notified"), list(notified.map(({ text }) => text))] : null;
    fill(why, h("p", { class: "answer" }, answer), list(reasons), told);
  }

  async function readTimes() {
    let found;
    try {
      found = await get(taskPath(name, "next"), { n: TIMES }, { signal });
    } catch (problem) {
      if (!signal.aborted) fill(times, empty(problem.message));
      return;
    }
    const resolved = found.resolved !== found.schedule ? found.resolved : null;
    fill(
      times,
      h("p", { class: "muted" }, found.text || found.schedule,
        found.zone && !found.text?.includes(`${found.zone} time`) ? ` (${found.zone})` : ""),
      resolved ? h("p", { class: "muted" }, "as ", h("code", null, resolved)) : null,
      h("ol", { class: "times" }, found.next.map((iso) => h("li", { title: wholeWords(iso, found.zone) },
        h("span", null, clockWords(iso)), zoneNote(iso, found.zone), countdown(iso, found.zone)))),
      found.next.length || task.paused || task.task?.enabled === false || followsOthers(task)
        ? null : empty("It is never due again."),
      found.warnings.length ? h("ul", { class: "warnings" }, found.warnings.map((text) => h("li", null, text))) : null,
    );
  }

  // Showing

  function hasSomethingToRun() {
    const { passive, command, function: called } = task?.task ?? {};
    return !passive || Boolean(command?.length || called);
  }

  function showHead() {
    const busy = head.contains(document.activeElement) ? document.activeElement.dataset.do : null;
    fill(
      head,
      h("div", { class: "task-title" }, h("h1", null, h("bdi", null, name)), conditionBadge(task)),
      h("div", { class: "row buttons" },
        can("operate") ? [
          hasSomethingToRun() ? button("Run now", run, { class: "primary", "data-do": "run", title: "r" }) : null,
          task.running_since ? button("Stop run", stop, { "data-do": "stop", title: "s" }) : null,
          button(task.paused ? "Resume" : "Pause", pause, { "data-do": "pause", title: "p" }),
          button("Downtime", downtime, { "data-do": "downtime", title: "d" }),
        ] : null,
        can("admin") ? [
          task.task?.passive ? button("Heartbeat", () => makeHeartbeat(name).then(again), { "data-do": "heartbeat" }) : null,
          h("a", { class: "as-button", href: editorHref(name), "data-do": "edit", title: "e" }, "Edit"),
          button("Delete", discard, { class: "danger", "data-do": "delete" }),
        ] : null),
    );
    if (busy) head.querySelector(`[data-do=${busy}]`)?.focus();
  }

  function showDowntimes() {
    if (downtimes.contains(document.activeElement) && task.downtime) return;
    const paused = task.pause ? h("p", { class: "notice" }, "Paused ", h("bdi", null, pauseWords(task.pause))) : null;
    fill(downtimes, paused, (task.downtimes ?? []).map((one) => h("p", { class: "notice" },
      h("span", null, "In downtime ", h("bdi", null, downtimeWords(one)), " "),
      can("operate") ? button("End", () => end(one), { class: "quiet" }) : null)));
  }

  // Doing

  const run = () => attempt(() => post(taskPath(name, "run"), undefined), "Run requested").then(again);

  async function pause() {
    const was = task.paused;
    const change = async () => (task = await post(taskPath(name, was ? "resume" : "pause")));
    await attempt(change, was ? "Resumed" : "Paused");
    showHead();
    again();
  }

  async function stop() {
    if (await stopRun(task.name, signal)) again();
  }

  async function downtime() {
    if (await setDowntime({ names: [task.name] }, `Downtime for ${task.name}`, signal)) again();
  }

  async function end(one) {
    if (await endDowntime(one, signal)) again();
  }

  async function discard() {
    const text = task?.owner.startsWith("file:")
      ? `It belongs to ${task.owner.slice(5)}, which creates it again when it is next applied.`
      : "It is gone for good; its history is kept for the time that `keep` sets.";
    const yes = await confirm("Delete this task?", { text, list: [name], verb: "Delete", dangerous: true });
    if (yes && (await attempt(() => remove(taskPath(name)), "Deleted"))) location.hash = trail.tasks;
  }

  // Living

  const again = refresher(read, { signal, least: 1_500, each: 30_000 });
  live.on("reset", again, signal);
  live.on("run", (event) => {
    if (task && event.notable && dependsOn(task, event.task)) again();
    if (event.task !== name) return;
    const before = task?.state;
    if (task) learnRun(task, event);
    if (task) showHead();
    if (event.state && before !== event.state) announce(`${name} is ${event.state}`);
    again();
  }, signal);
  live.on("task", (event) => {
    if (event.name === name || event.name === null) again();
  }, signal);
  // Starts send no event, only ends do: refresh once it is due, to see it run.
  tick(() => task?.next && !task.running_since && Date.parse(task.next) + SOON < now() && again(), signal);
  bind("r", () => can("operate") && hasSomethingToRun() && (run(), true), signal);
  bind("p", () => can("operate") && task !== null && (pause(), true), signal);
  bind("s", () => can("operate") && Boolean(task?.running_since) && (stop(), true), signal);
  bind("d", () => can("operate") && task !== null && (downtime(), true), signal);
  bind("e", () => can("admin") && ((location.hash = editorHref(name)), true), signal);
  bind("Escape", () => {
    if (root.contains(document.activeElement)) return false;
    location.hash = trail.tasks;
    return true;
  }, signal);
  return () => gone.abort();
}

function aboutTask(task) {
  const { zone = "UTC", labels = {} } = task.task ?? {};
  const time = (iso) => iso && h("span", { title: wholeWords(iso, zone) }, clockWords(iso));
  const never = task.blocked ? `never, it is ${task.blocked}` : task.paused ? "never, it is paused" : "never";
  const next = () => [countdown(task.next, zone), " at ", clockWords(task.next), " ", zoneNote(task.next, zone)];
  const chips = Object.entries(labels).map(([key, value]) => labelChip(`${key}=${value}`));
  const attempt = `${task.attempt} of ${attemptsOf(task)}, ${task.hard ? "hard" : "soft"}`;
  return facts([
    ["Kind", task.check ? "check" : "task"],
    ["Schedule", h("code", null, task.schedule)],
    ["Next", task.next ? next() : waitsFor(task) ?? never],
    ["Result expected by", time(task.expected_by)],
    ["Timebox", (task.next || task.waits_for?.length) && (task.timebox == null ? "none" : spanWords(task.timebox * 1_000))],
    ["Unusually long after", task.longer_than == null ? null : spanWords(task.longer_than * 1_000)],
    ["Running since", time(task.running_since)],
    ["Last start", time(task.last_start)],
    ["Last end", time(task.last_end)],
    ["Attempt", task.state && task.state !== "ok" ? attempt : null],
    ["Tries again", task.retry && [`${attemptWords(task.retry)}, at `, time(task.retry.at)]],
    ["After", taskLinks(task.task?.after)],
    ["After failure of", taskLinks(task.task?.after_failure)],
    ["Depends on", taskLinks(task.task?.depends)],
    ["Depends on one of", taskLinks(task.task?.depends_any)],
    ["Unreachable through", taskLinks(task.unreachable_through)],
    ["Pool", task.task?.pool && h("a", { href: "#/cluster" }, h("bdi", null, task.task.pool))],
    ["Labels", chips.length ? h("span", { class: "chips" }, chips) : null],
    ["Owner", h("a", { href: `#/tasks?owner=${encodeURIComponent(task.owner)}` }, h("bdi", null, task.owner))],
    ["Version", `${task.version}, changed ${clockWords(task.changed)}`],
    ["Created", clockWords(task.created)],
    ["Id", h("code", { class: "small" }, task.id)],
  ]);
}

/** What a task waits for that runs after others; null for any other. */
function waitsFor(task) {
  if (!task.waits_for?.length || task.blocked || task.paused || !task.enabled) return null;
  return h("span", null, task.task?.after ? "after " : "after failure of ", taskLinks(task.waits_for));
}

function taskLinks(names = []) {
  return names.length ? h("span", { class: "chips" }, names.map((name) => taskLink(name, { class: "chip" }))) : null;
}

function labelChip(label) {
  return h("a", { class: "chip", href: `#/tasks?label=${encodeURIComponent(label)}` }, h("bdi", null, label));
}
