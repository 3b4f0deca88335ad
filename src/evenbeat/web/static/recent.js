// The last runs of tasks, for their strips: read once when a row is looked at, then kept up by what happens.

import { get, taskPath } from "./api.js";
import * as live from "./live.js";

const KEPT = 20;
const MOST_TASKS = 2_000;
const AT_ONCE = 3;

const known = new Map();
const waiting = new Set();
const listeners = new Set();
let reading = 0;

/** The runs of a task, oldest first; undefined if they have not been read. */
export function recent(name) {
  return known.get(name);
}

/** Subscribe to changes of strips, by the name of the task. */
export function onRecent(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

/** Read the runs of these tasks, and forget who was asked for before: those rows have scrolled away. */
export function want(names) {
  waiting.clear();
  for (const name of names) if (!known.has(name)) waiting.add(name);
  pump();
}

function pump() {
  while (reading < AT_ONCE && waiting.size) {
    const [name] = waiting;
    waiting.delete(name);
    reading += 1;
    read(name).finally(() => {
      reading -= 1;
      pump();
    });
  }
}

async function read(name) {
  try {
    const { runs } = await get(taskPath(name, "history"), { limit: KEPT });
    remember(name, runs.reverse());
  } catch (problem) {
    if (problem.status === 404) remember(name, []);
  }
}

function remember(name, runs) {
  known.delete(name);
  known.set(name, runs.slice(-KEPT));
  if (known.size > MOST_TASKS) known.delete(known.keys().next().value);
  for (const listener of listeners) listener(name);
}

live.on("run", (run) => {
  const runs = known.get(run.task);
  if (runs === undefined) return;
  remember(run.task, [...runs.filter((one) => one.started !== run.started && one.ended), run]);
});
live.on("reset", () => known.clear());
