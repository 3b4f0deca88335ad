// The rows of Tasks: only those that can be seen are in the page, however many there are.

import { get } from "../api.js";
import { strip } from "../charts.js";
import * as clock from "../clock.js";
import { fill, h, say } from "../dom.js";
import { bind } from "../keys.js";
import { onRecent, recent, want } from "../recent.js";
import { debounced, refresher } from "../refresh.js";
import { conditionBadge, countdown, taskHref, taskLink, zoneNote } from "../ui.js";
import { dependsOn, learnRun, saidLine, waitsForWords } from "../words.js";
import { ORDERS } from "./tasks_order.js";

const SHOWN = [
  "retry", "late", "stale", "long", "unreachable", "downtime", "version", "state", "hard", "attempt", "outcome", "flapping", "next", "waits_for", "running_since", "paused", "blocked", "set_aside", "enabled", "summary",
];
const BEYOND = 12;
const NEAR_THE_END = 40;
const LOOKED_AT = 150;
const AT_ONCE = 50;
const PAST = 1_500;
const COLUMNS = [
  ["state", "State"],
  ["name", "Name"],
  ["strip", "Last runs"],
  ["next", "Next"],
  ["schedule", "Schedule"],
  ["output", "Output"],
];

const ORDER_OF_COLUMN = new Map(ORDERS.map(([key, words, column]) => [column, [key, words]]));

export function taskList({ signal, more, selection, sort }) {
  const space = h("div", { class: "space", role: "rowgroup" });
  const all = h("input", { type: "checkbox", "aria-label": "Select all rows that were read" });
  all.addEventListener("click", () => selection.toggleAll(tasks));
  const none = h("p", { class: "empty", hidden: true }, "No task fits this filter.");
  const head = h("div", { class: "task-row head", role: "row" }, h("span", { role: "columnheader" }, all),
    COLUMNS.map(([key, name]) => heading(key, name)));
  const view = h("div", { class: "scroller" }, head, space);
  const node = h("div", { class: "task-list", role: "table", "aria-label": "Tasks" }, view, none);

  let tasks = [];
  let places = new Map();
  let height = 34;
  let here = -1;
  const rows = new Map();
  const old = new Set();

  function heading(key, name) {
    const [order, words] = ORDER_OF_COLUMN.get(key) ?? [];
    const shown = order ? h("button", { type: "button", class: "sorts", title: words, onclick: () => sort(order) }, name) : name;
    return h("span", { role: "columnheader", class: `cell-${key}`, dataset: order ? { order } : {} }, shown);
  }

  function show(list, order) {
    for (const cell of head.querySelectorAll("[data-order]")) {
      if (cell.dataset.order === order) cell.setAttribute("aria-sort", order === "name" || order === "next" ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    const name = tasks[here]?.name;
    tasks = list;
    places = new Map(tasks.map((task, i) => [task.name, i]));
    here = name === undefined ? -1 : (places.get(name) ?? -1);
    none.hidden = tasks.length > 0;
    node.setAttribute("aria-rowcount", tasks.length + 1);
    paint();
  }

  function paint() {
    height = parseFloat(getComputedStyle(node).getPropertyValue("--row-height")) || 34;
    space.style.height = `${tasks.length * height}px`;
    const first = Math.max(0, Math.floor(view.scrollTop / height) - BEYOND);
    const last = Math.min(tasks.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + BEYOND);
    const visible = tasks.slice(first, last);
    const names = new Set(visible.map((task) => task.name));
    for (const [name, row] of rows) {
      if (names.has(name)) continue;
      row.node.remove();
      rows.delete(name);
    }
    visible.forEach((task, i) => {
      let row = rows.get(task.name);
      if (row === undefined) {
        row = createRow(task);
        rows.set(task.name, row);
        space.append(row.node);
      }
      row.show(task);
      row.move(first + i);
    });
    look();
    if (last > tasks.length - NEAR_THE_END) more();
  }

  const look = debounced(() => want([...rows.keys()]), LOOKED_AT, signal);

  // A row

  function createRow(task) {
    const picked = (event) => selection.pick(tasks, places.get(task.name), event.target.checked, event.shiftKey);
    const box = h("input", { type: "checkbox", "aria-label": `Select ${task.name}`, onclick: picked });
    const cells = Object.fromEntries(COLUMNS.map(([key]) => [key, h("span", { role: "cell", class: `cell-${key}` })]));
    cells.name.append(taskLink(task.name, { onfocus: () => (here = places.get(task.name) ?? -1) }));
    const row = h("div", { class: "task-row", role: "row", "data-row": true },
      h("span", { role: "cell", class: "cell-box" }, box), COLUMNS.map(([key]) => cells[key]));
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a, input") && String(getSelection()) === "") location.hash = taskHref(task.name);
    });
    let seen = "";
    return {
      node: row,
      strip: () => fill(cells.strip, strip(recent(task.name) ?? [])),
      chosen: () => {
        box.checked = selection.has(task.name);
        row.classList.toggle("chosen", box.checked);
      },
      move(place) {
        row.style.setProperty("--y", `${place * height}px`);
        row.setAttribute("aria-rowindex", place + 2);
      },
      show(found) {
        const zone = found.task?.zone ?? "UTC";
        const now = JSON.stringify(SHOWN.map((key) => found[key]));
        this.chosen();
        if (now === seen) return;
        seen = now;
        fill(cells.state, conditionBadge(found));
        fill(cells.next, (!found.next && waitsForWords(found)) || countdown(found.next, zone), found.next ? zoneNote(found.next, zone) : null);
        say(cells.schedule, found.schedule);
        cells.schedule.title = found.task?.zone ? `${found.schedule} (${zone})` : found.schedule;
        fill(cells.output, h("bdi", null, saidLine(found.summary ?? "", found.check)));
        this.strip();
      },
    };
  }

  // Staying true: rows that ran or were changed are read again, those in sight only, a few at a time

  const reread = refresher(async () => {
    const before = clock.now() - PAST;
    const isOld = (task) => task && (old.has(task.name) || Date.parse(task.next) < before);
    const due = [...rows.keys()].map((name) => tasks[places.get(name)]).filter(isOld);
    if (!due.length) return;
    const asked = due.slice(0, AT_ONCE);
    for (const task of asked) old.delete(task.name);
    const answer = await get("/v1/tasks", { name: asked.map((task) => task.id), limit: AT_ONCE }, { signal });
    for (const task of answer.tasks) {
      const place = places.get(task.name);
      if (place === undefined) continue;
      tasks[place] = task;
      rows.get(task.name)?.show(task);
    }
  }, { signal, least: 1_000, each: 2_500 });

  function ran(run) {
    if (run.notable) {
      for (const name of rows.keys()) if (dependsOn(tasks[places.get(name)] ?? {}, run.task)) old.add(name);
      if (old.size) reread();
    }
    const task = tasks[places.get(run.task)];
    if (task === undefined) return;
    learnRun(task, run);
    const row = rows.get(run.task);
    if (row === undefined) return;
    row.show(task);
    old.add(run.task);
    reread();
  }

  onRecent((name) => rows.get(name)?.strip(), signal);
  selection.onChange(() => {
    for (const row of rows.values()) row.chosen();
    all.checked = tasks.length > 0 && selection.size() >= tasks.length;
    all.indeterminate = !all.checked && selection.size() > 0;
  });
  view.addEventListener("scroll", () => requestAnimationFrame(paint), { signal, passive: true });
  const observer = new ResizeObserver(paint);
  observer.observe(view);
  signal.addEventListener("abort", () => observer.disconnect());

  // Keys

  function go(place) {
    if (!tasks.length) return false;
    here = Math.max(0, Math.min(tasks.length - 1, place));
    const y = here * height;
    const below = y + height + head.offsetHeight - view.clientHeight;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (below > view.scrollTop) view.scrollTop = below;
    paint();
    rows.get(tasks[here].name)?.node.querySelector("a").focus({ preventScroll: true });
    return true;
  }

  const visibleRows = () => Math.max(1, Math.floor(view.clientHeight / height) - 1);
  for (const [key, to] of [
    ["j", () => here + 1], ["ArrowDown", () => here + 1], ["PageDown", () => here + visibleRows()], ["Home", () => 0],
    ["k", () => here - 1], ["ArrowUp", () => here - 1], ["PageUp", () => here - visibleRows()], ["End", () => Infinity],
  ]) bind(key, () => go(to()), signal);
  bind("x", (event) => {
    if (here < 0) return false;
    selection.pick(tasks, here, !selection.has(tasks[here].name), event.shiftKey);
    return true;
  }, signal);

  return {
    node,
    show,
    ran,
    top: () => (view.scrollTop = 0),
    stale(name) {
      old.add(name);
      reread();
    },
  };
}
