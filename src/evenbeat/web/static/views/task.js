// One task: how it is and why, when it runs next, what it is, and what became of it.

import { can, get, post, remove, taskPath } from "../api.js";
import { bar } from "../charts.js";
import { agoWords, clockWords, now, tick, wholeWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { bind } from "../keys.js";
import * as live from "../live.js";
import { readOutput } from "../perfdata.js";
import { refresher } from "../refresh.js";
import {
  announce, attempt, button, conditionBadge, confirm, countdown, editorHref, empty, facts, failure, headings, panel,
  trail, zoneNote,
} from "../ui.js";
import { attemptsOf, learnRun } from "../words.js";
import { definition } from "./task_definition.js";
import { history } from "./task_history.js";
import { openProblem } from "./task_problem.js";

const TIMES = 10;
const SOON = 300;

export function mount(root, { name }) {
  const gone = new AbortController();
  const { signal } = gone;
  const head = h("div", { class: "task-head" });
  const trouble = h("div");
  const about = h("div");
  const why = h("div", { class: "why" });
  const times = h("div");
  const output = h("div");
  const defined = h("div");
  const past = history(name, signal);
  const problem = openProblem(signal, () => again());
  let task = null;
  let shown = null;

  fill(
    root,
    h("nav", { class: "crumbs", "aria-label": "Where" },
      h("a", { href: trail.tasks }, "Tasks"), " / ", h("bdi", null, name)),
    head,
    trouble,
    problem.node,
    h("div", { class: "task-columns" },
      h("div", { class: "stack" },
        panel("Why", { class: "why-panel" }, why), panel("Next times", {}, times), panel("About", {}, about)),
      h("div", { class: "stack" },
        panel("Output of the last run", { class: "output" }, output), past.node, panel("Definition", {}, defined))),
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
    if (!about.contains(document.activeElement)) fill(about, aboutTask(task));
    showOutput();
    if (shown !== task.version) fill(defined, definition(task));
    shown = task.version;
    await Promise.all([problem.read(task), readWhy(), readTimes(), past.read(task)]);
  }

  async function readWhy() {
    const { answer, reasons } = await get(taskPath(name, "why"), {}, { signal });
    fill(why, h("p", { class: "answer" }, answer), h("ul", null, reasons.map((reason) => h("li", null, reason))));
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
      h("p", { class: "muted" }, found.text || found.schedule, found.zone ? ` (${found.zone})` : ""),
      resolved ? h("p", { class: "muted" }, "as ", h("code", null, resolved)) : null,
      h("ol", { class: "times" }, found.next.map((iso) => h("li", { title: wholeWords(iso, found.zone) },
        h("span", null, clockWords(iso)), zoneNote(iso, found.zone), countdown(iso, found.zone)))),
      found.next.length ? null : empty("It is never due again."),
      found.warnings.length ? h("ul", { class: "warnings" }, found.warnings.map((text) => h("li", null, text))) : null,
    );
  }

  // Showing

  function showHead() {
    const busy = head.contains(document.activeElement) ? document.activeElement.dataset.do : null;
    fill(
      head,
      h("div", { class: "task-title" }, h("h1", null, h("bdi", null, name)), conditionBadge(task)),
      h("div", { class: "row buttons" },
        can("operate") ? [
          button("Run now", run, { class: "primary", "data-do": "run", title: "r" }),
          button(task.paused ? "Resume" : "Pause", pause, { "data-do": "pause", title: "p" }),
        ] : null,
        can("admin") ? [
          h("a", { class: "as-button", href: editorHref(name), "data-do": "edit", title: "e" }, "Edit"),
          button("Delete", discard, { class: "danger", "data-do": "delete" }),
        ] : null),
    );
    if (busy) head.querySelector(`[data-do=${busy}]`)?.focus();
  }

  function showOutput() {
    const { text, perfdata } = readOutput(task.output);
    const ago = countdown(task.last_end, undefined, agoWords);
    const none = empty(task.last_end ? "No output." : "It has not run yet.");
    fill(
      output,
      task.last_end ? h("p", { class: "muted" }, task.outcome, ", ", ago) : null,
      text ? h("pre", { class: "plugin", tabindex: "0", "aria-label": "Output" }, text) : none,
      perfdata.length ? perfTable(perfdata) : null,
    );
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
  bind("r", () => can("operate") && (run(), true), signal);
  bind("p", () => can("operate") && task !== null && (pause(), true), signal);
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
    ["Next", task.next ? next() : never],
    ["Result expected by", time(task.expected_by)],
    ["Running since", time(task.running_since)],
    ["Last start", time(task.last_start)],
    ["Last end", time(task.last_end)],
    ["Attempt", task.state && task.state !== "ok" ? attempt : null],
    ["Pool", task.task?.pool && h("a", { href: "#/cluster" }, h("bdi", null, task.task.pool))],
    ["Labels", chips.length ? h("span", { class: "chips" }, chips) : null],
    ["Owner", h("a", { href: `#/tasks?owner=${encodeURIComponent(task.owner)}` }, h("bdi", null, task.owner))],
    ["Version", `${task.version}, changed ${clockWords(task.changed)}`],
    ["Created", clockWords(task.created)],
    ["Id", h("code", { class: "small" }, task.id)],
  ]);
}

function labelChip(label) {
  return h("a", { class: "chip", href: `#/tasks?label=${encodeURIComponent(label)}` }, h("bdi", null, label));
}

function perfTable(perfdata) {
  const value = (one) => (one.value === null ? "unknown" : `${one.value.toLocaleString("en-GB")} ${one.unit}`);
  const limit = ({ crit, max }) => Number(max) || Number(crit) || 0;
  return h("div", { class: "table-scroll" }, h("table", { class: "table perf" },
    headings(["What", "Value", "", "Warn", "Crit", "Min", "Max"], ["Value", "Warn", "Crit", "Min", "Max"]),
    h("tbody", null, perfdata.map((one) => h("tr", null,
      h("th", { scope: "row" }, h("bdi", null, one.label)),
      h("td", { class: "numeric" }, value(one)),
      h("td", { class: "perf-bar" }, limit(one) > 0 && one.value !== null ? bar(one.value / limit(one)) : null),
      [one.warn, one.crit, one.min, one.max].map((text) => h("td", { class: "numeric" }, text)))))));
}
