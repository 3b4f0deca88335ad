// The definition of a task: readable, and as the text a file would have.

import { h } from "../dom.js";
import { button, facts } from "../ui.js";

const ORDER = [
  ["Runs", ["command", "shell", "function", "args", "kwargs", "env", "cwd", "user", "pool"]],
  ["When", ["every", "cron", "calendar", "at", "after", "after_failure", "zone", "spread", "phase", "hash", "days", "second"]],
  ["Not always", ["period", "start_at"]],
  ["How", ["timebox", "longer_than", "tolerance", "missed", "catch_up", "backlog", "limit", "priority", "weight", "output_keep"]],
  ["Tries again", ["retries", "backoff", "backoff_max", "retry_on"]],
  ["Depends", ["depends", "depends_any", "when_unreachable"]],
  ["Notifies", ["notify", "repeat", "gather"]],
  ["Check", ["retry", "attempts", "grace", "passive", "when_missing"]],
];

/** Both forms, with a way to go from one to the other. */
export function definition(task) {
  const readable = h("div", { class: "readable" }, groups(task.task ?? {}));
  const text = h("pre", { class: "plugin", tabindex: "0", "aria-label": "Definition as in a file" }, toml(task));
  const written = h("div", { hidden: true }, text);
  const turn = button("As in a file", () => {
    written.hidden = !written.hidden;
    readable.hidden = !written.hidden;
    turn.textContent = written.hidden ? "As in a file" : "Readable";
  }, { class: "quiet" });
  return [readable, written, h("div", { class: "row" }, turn)];
}

function groups(table) {
  const known = new Set(ORDER.flatMap(([, keys]) => keys));
  const rest = Object.keys(table).filter((key) => !known.has(key) && key !== "labels");
  return [...ORDER, ["More", rest]].map(([title, keys]) => {
    const there = keys.filter((key) => key in table);
    return there.length ? [h("h3", null, title), facts(there.map((key) => [key, shown(key, table[key])]))] : null;
  });
}

function shown(key, found) {
  if (key === "command" && Array.isArray(found)) return h("code", { class: "command" }, found.map(quoted).join(" "));
  return h("code", null, typeof found === "string" ? found : value(found));
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The table that a file would have. */
export function toml(task) {
  const lines = Object.entries(task.task ?? {}).map(([name, found]) => `${key(name)} = ${value(found)}`);
  return [`[${task.check ? "checks" : "tasks"}.${key(task.name)}]`, ...lines, ""].join("\n");
}

function key(text) {
  return /^[A-Za-z0-9_-]+$/.test(text) ? text : JSON.stringify(text);
}

function value(found) {
  if (Array.isArray(found)) return `[${found.map(value).join(", ")}]`;
  if (found !== null && typeof found === "object") {
    const entries = Object.entries(found).map(([name, one]) => `${key(name)} = ${value(one)}`);
    return entries.length ? `{ ${entries.join(", ")} }` : "{}";
  }
  return JSON.stringify(found);
}
