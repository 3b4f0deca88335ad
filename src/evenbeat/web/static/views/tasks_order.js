// The order of Tasks: problems first, by name, or by time. Reads the first tasks in this order.

import { get } from "../api.js";

/** [key, words, column]: the orders there are, and the column whose heading chooses each. */
export const ORDERS = [
  ["problems", "problems first", "state"],
  ["name", "by name", "name"],
  ["next", "next run first", "next"],
  ["last", "last run first", "strip"],
];

const PAGE = 1_000;
/** So many are sorted by time here: the server has them by name. */
const MOST_SORTED = 5_000;
const MOST_PROBLEMS = 200;
const NAMES_AT_ONCE = 50;
const SEVERITY = ["critical", "unknown", "warning"];

/**
 * The first tasks of a filter: {tasks, next, total, note}. `next` is for the page after, by name, and null if these are
 * all; `note` says so if there are too many to sort.
 */
export async function readFirst(order, filter, limit, signal) {
  if (order === "problems" && !filter.state) return problemsFirst(filter, limit, signal);
  if (order === "next" || order === "last") return sorted(order, filter, limit, signal);
  return get("/v1/tasks", { ...filter, limit }, { signal });
}

async function problemsFirst(filter, limit, signal) {
  const [first, page] = await Promise.all([
    withProblems(filter, signal), get("/v1/tasks", { ...filter, limit }, { signal }),
  ]);
  const known = new Set(first.map((task) => task.name));
  return { ...page, tasks: [...first, ...page.tasks.filter((task) => !known.has(task.name))] };
}

/** Tasks with an open problem, the worst and then the newest first. */
async function withProblems({ contains, owner, label }, signal) {
  const { problems } = await get("/v1/problems", { contains, owner, label, limit: 1_000 }, { signal });
  const ranked = problems.sort((a, b) => SEVERITY.indexOf(a.state) - SEVERITY.indexOf(b.state));
  const names = [...new Set(ranked.map((problem) => problem.task))].slice(0, MOST_PROBLEMS);
  const parts = [];
  for (let i = 0; i < names.length; i += NAMES_AT_ONCE) {
    const name = names.slice(i, i + NAMES_AT_ONCE);
    parts.push(get("/v1/tasks", { name, limit: NAMES_AT_ONCE }, { signal }));
  }
  const found = new Map((await Promise.all(parts)).flatMap(({ tasks }) => tasks).map((task) => [task.name, task]));
  return names.map((name) => found.get(name)).filter(Boolean);
}

async function sorted(order, filter, limit, signal) {
  const all = await get("/v1/tasks", { ...filter, limit: PAGE }, { signal });
  if (all.total > MOST_SORTED) {
    const note = `by name: more than ${MOST_SORTED.toLocaleString("en-GB")} are not sorted by time`;
    return { ...(await get("/v1/tasks", { ...filter, limit }, { signal })), note };
  }
  while (all.next !== null) {
    const page = await get("/v1/tasks", { ...filter, limit: PAGE, after: all.next }, { signal });
    all.tasks.push(...page.tasks);
    all.next = page.next;
  }
  sortByTime(order, all.tasks);
  return all;
}

/** Sort tasks that were all read; `order` is "next" or "last". */
export function sortByTime(order, tasks) {
  tasks.sort(order === "next" ? earliestFirst : latestFirst);
}

const at = (iso, otherwise) => (iso ? Date.parse(iso) : otherwise);
const earliestFirst = (a, b) => at(a.next, Infinity) - at(b.next, Infinity) || 0;
const latestFirst = (a, b) => at(b.last_start ?? b.last_end, 0) - at(a.last_start ?? a.last_end, 0);
