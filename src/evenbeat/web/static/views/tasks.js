// Tasks: filter as you type, one row for each of however many, and actions on many at once.

import { can, get } from "../api.js";
import { fill, h, say } from "../dom.js";
import { bind } from "../keys.js";
import * as live from "../live.js";
import { debounced, refresher } from "../refresh.js";
import { failure, trail } from "../ui.js";
import { count, tasks as tasksWords } from "../words.js";
import { bulkBar } from "./tasks_bulk.js";
import { taskList } from "./tasks_list.js";
import { ORDERS, readFirst, sortByTime } from "./tasks_order.js";

const PAGE = 100;
const TYPING = 180;
const REREAD = 500;
const MOST_OWNERS = 200;
const MOST_LABELS = 500;
const STATES = [
  ["", "any state"],
  ["critical", "critical"],
  ["warning", "warning"],
  ["unknown", "unknown"],
  ["ok", "ok"],
  ["unchecked", "not yet checked"],
  ["failed", "failed"],
  ["running", "running"],
  ["disabled", "disabled"],
  ["paused", "paused"],
  ["problem", "with a problem"],
  ["late", "late"],
  ["stale", "stale"],
  ["long", "running unusually long"],
  ["unreachable", "unreachable"],
  ["downtime", "in downtime"],
];

export function mount(root, { query }) {
  const gone = new AbortController();
  const { signal } = gone;
  const only = {
    contains: query.get("contains") ?? "",
    state: query.get("state") ?? "",
    owner: query.get("owner") ?? "",
    label: query.get("label") ?? "",
  };
  let order = ORDERS.some(([key]) => key === query.get("order")) ? query.get("order") : ORDERS[0][0];
  const page = { tasks: [], next: null, total: null, note: "", reading: null };

  const total = h("span", { class: "muted total", role: "status" });
  const trouble = h("div");
  const bulk = bulkBar({ filter: () => ({ ...only }), total: () => page.total, done: () => again(), signal });
  const list = taskList({ signal, more, selection: bulk.selection, sort });
  const fields = filterFields(only, changed, signal);
  const orders = h("select", { "aria-label": "Order", onchange: () => sort(orders.value) },
    ORDERS.map(([key, words]) => h("option", { value: key }, words)));
  fill(
    root,
    h("h1", { class: "unseen" }, "Tasks"),
    h("div", { class: "toolbar" }, fields.node, orders, total,
      can("admin") ? h("a", { class: "as-button", href: "#/editor" }, "New task") : null),
    bulk.node,
    trouble,
    list.node,
  );
  if (query.has("focus")) fields.focus();
  else trail.tasks = location.hash;

  // Pages

  function filter() {
    const label = only.label.split(",").map((one) => one.trim()).filter((one) => one.includes("="));
    return { contains: only.contains, state: only.state, owner: only.owner, label };
  }

  async function first(limit = PAGE) {
    page.reading?.abort();
    const reading = (page.reading = new AbortController());
    const stop = () => reading.abort();
    signal.addEventListener("abort", stop, { once: true });
    root.classList.add("is-busy");
    try {
      const { tasks, next, total, note = "" } = await readFirst(order, filter(), limit, reading.signal);
      Object.assign(page, { tasks, next, total, note, reading: null });
      root.classList.remove("is-busy");
      fill(trouble);
      show();
    } catch (problem) {
      if (!reading.signal.aborted) fill(trouble, failure(problem, () => first()));
    } finally {
      signal.removeEventListener("abort", stop);
      if (page.reading === reading) {
        page.reading = null;
        root.classList.remove("is-busy");
      }
    }
  }

  async function more() {
    if (page.next === null || page.reading !== null) return;
    const reading = (page.reading = new AbortController());
    try {
      const wanted = { ...filter(), limit: PAGE * 2, after: page.next };
      const answer = await get("/v1/tasks", wanted, { signal: reading.signal });
      const known = new Set(page.tasks.map((task) => task.name));
      const tasks = [...page.tasks, ...answer.tasks.filter((task) => !known.has(task.name))];
      Object.assign(page, { tasks, next: answer.next, total: answer.total, reading: null });
      show();
    } catch (problem) {
      if (!reading.signal.aborted) fill(trouble, failure(problem, more));
    } finally {
      if (page.reading === reading) page.reading = null;
    }
  }

  function show() {
    list.show(page.tasks, order);
    orders.value = order;
    fields.learn(page.tasks);
    bulk.refresh();
    const all = page.total ?? page.tasks.length;
    const number = page.next === null ? tasksWords(all) : `${count(page.tasks.length)} of ${tasksWords(all)}`;
    say(total, page.note ? `${number}, ${page.note}` : number);
  }

  function sort(by) {
    if (by === order) return;
    order = by;
    changed();
  }

  // Filters

  const search = debounced(() => {
    list.top();
    first();
  }, TYPING, signal);

  function changed() {
    const chosen = order === ORDERS[0][0] ? {} : { order };
    const searched = new URLSearchParams(Object.entries({ ...only, ...chosen }).filter(([, value]) => value));
    history.replaceState(null, "", `#/tasks${searched.size ? `?${searched}` : ""}`);
    trail.tasks = location.hash;
    bulk.selection.clear();
    search();
  }

  // What happens meanwhile

  const again = refresher(() => first(Math.min(1_000, Math.max(PAGE, page.tasks.length))), { signal, least: 3_000 });
  const resort = refresher(async () => {
    if (page.total === null || page.next !== null || page.reading !== null) return;
    if (order === "next" || order === "last") sortByTime(order, page.tasks);
    list.show(page.tasks, order);
  }, { signal, least: 2_000 });
  live.on("reset", again, signal);
  live.on("task", ({ name, change }) => {
    const here = name !== null && page.tasks.some((task) => task.name === name);
    if (here && change === "removed") {
      page.tasks = page.tasks.filter((task) => task.name !== name);
      page.total -= 1;
      bulk.selection.drop(name);
      show();
    } else if (here) {
      list.stale(name);
    } else if (page.tasks.length <= REREAD) {
      again();
    }
  }, signal);
  live.on("run", (run) => {
    list.ran(run);
    if ((only.state || order === "problems") && run.notable && page.tasks.length <= REREAD) again();
    if (order === "next" || order === "last") resort();
  }, signal);
  bind("Escape", () => {
    if (fields.leave()) return true;
    if (bulk.selection.size() === 0) return false;
    bulk.selection.clear();
    return true;
  }, signal);
  return () => {
    page.reading?.abort();
    gone.abort();
  };
}

/** The fields of the filter; `only` is kept in step with them. */
function filterFields(only, changed, signal) {
  const seen = { owner: new Set(only.owner ? [only.owner] : []), label: new Set() };
  const contains = h("input", {
    type: "search", placeholder: "Filter by name  ( / )", "aria-label": "Name contains", autocomplete: "off",
    spellcheck: "false", maxlength: "256", value: only.contains, oninput: () => take("contains", contains.value),
  });
  const state = h("select", { "aria-label": "State", onchange: () => take("state", state.value) },
    STATES.map(([value, text]) => h("option", { value, selected: value === only.state }, text)));
  const owner = h("select", { "aria-label": "Owner", onchange: () => take("owner", owner.value) });
  const labels = h("datalist", { id: "known-labels" });
  const label = h("input", {
    type: "text", placeholder: "label=value", "aria-label": "Label", list: "known-labels", autocomplete: "off",
    spellcheck: "false", maxlength: "256", value: only.label, class: "label-field",
    oninput: () => take("label", label.value),
  });
  contains.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    document.querySelector(".task-list [data-row] a")?.focus();
  }, { signal });

  function take(key, value) {
    if (only[key] === value.trim()) return;
    only[key] = value.trim();
    changed();
  }

  function learn(tasks) {
    const before = seen.owner.size + seen.label.size;
    for (const task of tasks) {
      if (seen.owner.size < MOST_OWNERS) seen.owner.add(task.owner);
      for (const [key, value] of Object.entries(task.task?.labels ?? {})) {
        if (seen.label.size < MOST_LABELS) seen.label.add(`${key}=${value}`);
      }
    }
    if (before === seen.owner.size + seen.label.size && owner.options.length) return;
    const option = (value) => h("option", { value, selected: value === only.owner }, value || "any owner");
    fill(owner, ["", ...[...seen.owner].sort()].map(option));
    fill(labels, [...seen.label].sort().map((value) => h("option", { value })));
  }

  learn([]);
  return {
    node: h("search", { class: "filters" }, contains, state, owner, label, labels),
    learn,
    focus: () => contains.focus(),
    leave: () => {
      const inside = document.activeElement === contains;
      if (inside) contains.blur();
      return inside;
    },
  };
}
