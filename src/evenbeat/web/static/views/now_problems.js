// The open problems, newest first: who takes care of which, and what can be done with one of them or with many.

import { can, get, post, taskPath } from "../api.js";
import { fill, h, keep, say } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { announce, attempt, button, confirm, empty, panel, taskLink } from "../ui.js";
import { count, tasks as tasksWords } from "../words.js";
import { acknowledge, acknowledgedBy, problemBadge, problemsWords, sinceWhen, withdraw } from "./acknowledge.js";
import { setDowntime } from "./downtime.js";

const PAGE = 100;
const MOST = 1_000;
const PATTERN = /[*?]/;
const UNGROUPED = "";

export function problems(signal) {
  const list = h("ul", { class: "rows" });
  const none = empty("Nothing to worry about.");
  const total = h("span", { class: "muted total" });
  const open = h("input", { type: "checkbox", onchange: () => { limit = PAGE; selection.clear(); again(); } });
  const filter = h("label", { class: "choice muted", hidden: true }, open, "not acknowledged");
  const groups = h("select", { "aria-label": "Group by label", hidden: true, onchange: () => { by = groups.value; again(); } });
  const more = button("Show more", () => { limit = Math.min(MOST, limit + PAGE); again(); }, { hidden: true });
  const beyond = h("p", { class: "muted", hidden: true }, h("code", null, "evenbeat problems"), " lists all of them.");
  let shown = [];
  let all = 0;
  let limit = PAGE;
  let by = UNGROUPED;

  // Reading

  async function read() {
    const query = { limit, acknowledged: open.checked ? "false" : null };
    const answer = await get("/v1/problems", query, { signal });
    offerGroups(answer.problems);
    shown = grouped(answer.problems, by);
    all = answer.total;
    selection.retain(shown);
    keep(list, withHeadings(shown, by), (row) => row.id, () => h("li"), (node, row) =>
      row.group === undefined ? showRow(node, row) : showHeading(node, row));
    none.hidden = shown.length > 0;
    say(none, open.checked ? "Somebody takes care of each open problem." : "Nothing to worry about.");
    filter.hidden = !shown.length && !open.checked;
    say(total, all > shown.length ? `${count(shown.length)} of ${count(all)}` : all ? count(all) : "");
    more.hidden = answer.next === null || limit >= MOST;
    beyond.hidden = answer.next === null || limit < MOST;
    bulk.refresh();
  }

  const again = refresher(read, { signal, least: 1_500, each: 30_000 });

  /** The labels that these problems have; the one that was chosen stays. */
  function offerGroups(problems) {
    const keys = [...new Set([...problems.flatMap(({ labels }) => Object.keys(labels)), ...(by ? [by] : [])])].sort();
    groups.hidden = !keys.length;
    const options = [[UNGROUPED, "newest first"], ...keys.map((key) => [key, `by ${key}`])];
    fill(groups, ...options.map(([value, text]) => h("option", { value, selected: value === by }, text)));
  }

  function showHeading(node, { group, count: number }) {
    node.className = "group";
    fill(node, h("h3", null, h("bdi", null, group ?? `no ${by}`)), h("span", { class: "muted" }, problemsWords(number)));
  }

  // A row

  function showRow(node, problem) {
    const { id, task, output, ...rest } = problem;
    const seen = JSON.stringify([task, output, rest]);
    if (node.dataset.seen === seen) return chosen(node, id);
    node.dataset.seen = seen;
    const busy = node.contains(document.activeElement) ? document.activeElement.dataset.do : null;
    const box = h("input", { type: "checkbox", "aria-label": `Select the problem of ${task}`, "data-do": "select" });
    box.addEventListener("click", (event) => selection.pick(shown, problem, box.checked, event.shiftKey));
    fill(
      node,
      can("operate") ? box : null,
      problemBadge(problem),
      taskLink(task, { "data-walk": true, "data-do": "open" }),
      sinceWhen(problem),
      h("bdi", { class: "output-line" }, output.split("|", 1)[0].trim()),
      h("span", { class: "taken-care" }, acknowledgedBy(problem, { short: true })),
      can("operate") ? h("span", { class: "row-buttons" }, buttonsOf(problem)) : null,
    );
    chosen(node, id);
    if (busy) node.querySelector(`[data-do=${busy}]`)?.focus();
  }

  function buttonsOf(problem) {
    const only = { ids: [problem.id] };
    const { acknowledged, task } = problem;
    return [
      acknowledged === null
        ? button("Acknowledge", () => done(acknowledge(only, 1, signal)), { class: "quiet", "data-do": "acknowledge" })
        : button("Withdraw", () => done(withdraw(only, 1, signal)), { class: "quiet", "data-do": "acknowledge" }),
      button("Downtime", () => done(setDowntime({ names: [task] }, `Downtime for ${task}`, signal)),
        { class: "quiet", "data-do": "downtime" }),
      problem.passive ? null : button("Run now", () => runOne(task), { class: "quiet", "data-do": "run" }),
    ];
  }

  function chosen(node, id) {
    const box = node.querySelector("input");
    if (box === null) return;
    box.checked = selection.has(id);
    node.classList.toggle("chosen", box.checked);
  }

  // Doing

  async function done(doing) {
    if (await doing) again();
    return doing;
  }

  const runOne = (task) => attempt(() => post(taskPath(task, "run"), undefined), "Run requested").then(again);

  /** Names that look like patterns are run one by one: an action would take them for patterns. */
  async function runMany(names) {
    const patterns = names.filter((name) => PATTERN.test(name));
    const plain = names.filter((name) => !PATTERN.test(name));
    const yes = await confirm(`Run now: ${tasksWords(names.length)}?`, {
      list: names.slice(0, 8), more: names.length - Math.min(8, names.length), verb: `Run now (${count(names.length)})`,
    });
    if (!yes) return false;
    return attempt(async () => {
      const only = { action: "run", filter: { names: plain } };
      const asked = plain.length ? (await post("/v1/actions", only, { signal })).count : 0;
      for (const name of patterns) await post(taskPath(name, "run"), undefined, { signal });
      return asked + patterns.length;
    }, (asked) => `${tasksWords(asked)} requested to run`);
  }

  // Many at once

  const selection = createSelection(() => {
    for (const node of list.children) chosen(node, node.__key);
    bulk.refresh();
  });
  const bulk = bulkBar();

  function bulkBar() {
    const said = h("span", { class: "chosen-count", role: "status" });
    const everything = button("", () => selection.everything(), { class: "quiet" });
    const ids = () => (selection.isEverything() ? { all: true } : { ids: selection.ids() });
    const number = () => (selection.isEverything() ? all : selection.ids().length);
    const doing = async (work) => {
      if (!(await work())) return;
      selection.clear();
      again();
    };
    const chosenOnes = () => shown.filter(({ id }) => selection.has(id));
    const names = () => [...new Set(chosenOnes().map(({ task }) => task))];
    const runnable = () => [...new Set(chosenOnes().filter((one) => !one.passive).map(({ task }) => task))];
    const run = button("Run now", () => doing(() => runMany(runnable())));
    const downtime = button("Downtime", () => doing(() =>
      setDowntime({ names: names() }, `Downtime for ${tasksWords(names().length)}`, signal)));
    const node = h("div", { class: "bulk", role: "toolbar", "aria-label": "Selected problems", hidden: true },
      said, everything, h("span", { class: "push" }),
      button("Acknowledge", () => doing(() => acknowledge(ids(), number(), signal)), { class: "primary" }),
      button("Withdraw", () => doing(() => withdraw(ids(), number(), signal))),
      downtime,
      run,
      button("Clear", () => selection.clear(), { class: "quiet" }));
    function refresh() {
      const many = number();
      node.hidden = !many;
      say(said, selection.isEverything() ? `All ${problemsWords(many)}` : `${count(many)} selected`);
      everything.hidden = selection.isEverything() || open.checked || all <= many;
      say(everything, `Select all ${problemsWords(all)}`);
      downtime.hidden = selection.isEverything();
      run.hidden = selection.isEverything() || !runnable().length;
    }
    return { node, refresh };
  }

  const every = h("input", { type: "checkbox", "aria-label": "Select all problems that are shown" });
  every.addEventListener("click", () => selection.toggleAll(shown));
  const box = can("operate") ? h("label", { class: "choice muted" }, every, "select all") : null;
  selection.whenAll = (is, some) => {
    every.checked = is;
    every.indeterminate = !is && some;
  };

  // Living

  live.on("run", (run) => {
    // The first success after a failure is no notable run, but it closes the problem.
    if (run.notable || shown.some(({ task }) => task === run.task)) again();
    if (run.notable && run.hard && run.state) announce(`${run.task} is ${run.state}`);
  }, signal);
  live.on("task", again, signal);
  live.on("reset", again, signal);
  const aside = h("span", { class: "row" }, groups, filter, box, total);
  return panel("Problems", { class: "problems", aside }, bulk.node, list, none, more, beyond);
}

/** By the value of a label, newest first in each group; those without that label come last. */
function grouped(problems, key) {
  if (key === UNGROUPED) return problems;
  const value = ({ labels }) => labels[key];
  return problems.toSorted((one, other) => {
    if (value(one) === value(other)) return 0;
    if (value(one) === undefined || value(other) === undefined) return value(one) === undefined ? 1 : -1;
    return value(one) < value(other) ? -1 : 1;
  });
}

/** The same with a heading in front of each group. */
function withHeadings(problems, key) {
  if (key === UNGROUPED) return problems;
  const sizes = new Map();
  for (const { labels } of problems) sizes.set(labels[key], (sizes.get(labels[key]) ?? 0) + 1);
  return problems.flatMap((problem, i) => {
    const group = problem.labels[key] ?? null;
    const isFirst = i === 0 || problem.labels[key] !== problems[i - 1].labels[key];
    return isFirst ? [{ id: `group ${group}`, group, count: sizes.get(problem.labels[key]) }, problem] : [problem];
  });
}

/** Which problems are chosen, by id: one by one, or all that are open. */
function createSelection(changed) {
  const picked = new Set();
  let everything = false;
  let anchor = null;
  let known = [];
  const tell = () => {
    self.whenAll?.(everything || (known.length > 0 && picked.size >= known.length), everything || picked.size > 0);
    changed();
  };
  const self = {
    has: (id) => everything || picked.has(id),
    ids: () => [...picked],
    isEverything: () => everything,
    pick(list, problem, on, range) {
      if (everything) for (const { id } of list) picked.add(id);
      everything = false;
      const place = list.findIndex(({ id }) => id === problem.id);
      const start = range && anchor !== null ? list.findIndex(({ id }) => id === anchor) : -1;
      const [from, to] = start < 0 ? [place, place] : [Math.min(start, place), Math.max(start, place)];
      for (const { id } of list.slice(from, to + 1)) {
        if (on) picked.add(id);
        else picked.delete(id);
      }
      anchor = problem.id;
      tell();
    },
    toggleAll(list) {
      const clear = everything || picked.size >= list.length;
      everything = false;
      picked.clear();
      if (!clear) for (const { id } of list) picked.add(id);
      tell();
    },
    everything() {
      everything = true;
      tell();
    },
    /** Forget the problems that are not there any more. */
    retain(list) {
      known = list;
      const there = new Set(list.map(({ id }) => id));
      for (const id of [...picked]) if (!there.has(id)) picked.delete(id);
      if (!list.length) everything = false;
      tell();
    },
    clear() {
      everything = false;
      anchor = null;
      picked.clear();
      tell();
    },
  };
  return self;
}
