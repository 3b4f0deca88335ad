// Which tasks are selected, and what can be done to all of them at once.

import { can, post } from "../api.js";
import { h, say } from "../dom.js";
import { attempt, button, confirm, toast } from "../ui.js";
import { count, tasks as tasksWords } from "../words.js";
import { MOST_NAMES, setDowntime } from "./downtime.js";

const ACTIONS = [
  { action: "run", verb: "Run now", done: "requested to run", role: "operate" },
  { action: "pause", verb: "Pause", done: "paused", role: "operate" },
  { action: "resume", verb: "Resume", done: "resumed", role: "operate" },
  { action: "delete", verb: "Delete", done: "deleted", role: "admin", dangerous: true },
];

/** The bar of actions and its selection. `filter()` is what is searched for, `total()` how many that finds. */
export function bulkBar({ filter, total, done, signal }) {
  const selection = createSelection();
  const chosenCount = h("span", { class: "chosen-count", role: "status" });
  const everything = button("", () => selection.everything(), { class: "quiet" });
  const buttons = ACTIONS.filter(({ role }) => can(role)).map((entry) =>
    button(entry.verb, () => act(entry), { class: entry.dangerous ? "danger" : "" }));
  const node = h("div", { class: "bulk", role: "toolbar", "aria-label": "Selected tasks", hidden: true },
    chosenCount, everything, h("span", { class: "push" }), buttons,
    can("operate") ? button("Downtime", setOne) : null,
    button("Clear", () => selection.clear(), { class: "quiet" }));

  function refresh() {
    const chosen = selection.isEverything() ? total() : selection.size();
    node.hidden = !chosen;
    say(chosenCount, selection.isEverything() ? `All ${count(chosen)} that match` : `${count(chosen)} selected`);
    everything.hidden = selection.isEverything() || total() === null || total() <= selection.size();
    say(everything, `Select all ${count(total())} that match`);
  }

  async function act({ action, verb, done: past, dangerous }) {
    const order = { action, ...target() };
    const send = (dry_run) => post("/v1/actions", { ...order, dry_run }, { signal });
    let found = null;
    if (!(await attempt(async () => (found = await send(true))))) return;
    const shown = found.names.slice(0, 8);
    const yes = await confirm(`${verb}: ${tasksWords(found.count)}?`, {
      text: dangerous ? lasting(found.files) : "",
      list: shown, more: found.count - shown.length, verb: `${verb} (${count(found.count)})`, dangerous,
    });
    if (!yes) return;
    if (await attempt(() => send(false), (answer) => `${tasksWords(answer.count)} ${past}`)) {
      selection.clear();
      done();
    }
  }

  async function setOne() {
    const chosen = selection.isEverything() ? total() : selection.size();
    let selected = { names: selection.names() };
    if (selection.isEverything() && !(await attempt(async () => (selected = await allThatMatch())))) return;
    if (selected.names?.length > MOST_NAMES) {
      toast(`A downtime has up to ${count(MOST_NAMES)} names; filter by label or owner instead.`, "bad");
    } else if (await setDowntime(selected, `Downtime for ${tasksWords(chosen)}`, signal)) {
      selection.clear();
      done();
    }
  }

  /** By owner and labels where they say it all; else by the names that match now. */
  async function allThatMatch() {
    const { filter: only } = target();
    if (!Object.keys(only).length) return { names: ["*"] };
    if (!only.contains && !only.state) return { owner: only.owner ?? null, labels: only.labels ?? {} };
    const order = { action: "run", filter: only, dry_run: true, named: MOST_NAMES + 1 };
    return { names: (await post("/v1/actions", order, { signal })).names };
  }

  function target() {
    if (!selection.isEverything()) return { filter: { names: selection.ids() } };
    const { contains, owner, label, state } = filter();
    const pairs = label.split(",").map((one) => one.trim()).filter((one) => one.includes("="));
    const split = (one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
    const labels = Object.fromEntries(pairs.map(split));
    const only = {};
    if (contains) only.contains = contains;
    if (owner) only.owner = owner;
    if (state) only.state = state;
    if (pairs.length) only.labels = labels;
    return Object.keys(only).length ? { filter: only } : { filter: {}, all: true };
  }

  selection.onChange(refresh);
  return { node, selection, refresh };
}

function lasting(files) {
  if (!files.length) return "They are gone for good; their history is kept for the time that `keep` sets.";
  return `Those of ${files.join(", ")} are created again when that file is next applied.`;
}

/** Tasks that are chosen one by one (kept by id: a name may look like a pattern), or all that match the filter. */
function createSelection() {
  const chosen = new Map();
  const listeners = [];
  let everything = false;
  let anchor = null;
  const tell = () => listeners.forEach((listener) => listener());

  return {
    size: () => (everything ? Infinity : chosen.size),
    has: (name) => everything || chosen.has(name),
    ids: () => [...chosen.values()],
    names: () => [...chosen.keys()],
    isEverything: () => everything,
    onChange: (listener) => listeners.push(listener),
    /** Choose one of the tasks, or with `range` all from the last chosen one to it. */
    pick(tasks, place, on, range) {
      if (everything) for (const task of tasks) chosen.set(task.name, task.id);
      everything = false;
      const start = range && anchor !== null ? tasks.findIndex((task) => task.name === anchor) : -1;
      const [from, to] = start < 0 ? [place, place] : [Math.min(start, place), Math.max(start, place)];
      for (const task of tasks.slice(from, to + 1)) {
        if (on) chosen.set(task.name, task.id);
        else chosen.delete(task.name);
      }
      anchor = tasks[place].name;
      tell();
    },
    toggleAll(tasks) {
      const clear = everything || chosen.size >= tasks.length;
      everything = false;
      chosen.clear();
      if (!clear) for (const task of tasks) chosen.set(task.name, task.id);
      tell();
    },
    everything() {
      everything = true;
      tell();
    },
    drop(name) {
      if (chosen.delete(name)) tell();
    },
    clear() {
      everything = false;
      anchor = null;
      chosen.clear();
      tell();
    },
  };
}
