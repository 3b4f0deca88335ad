// The fields of the editor, and how they become the keys of a task and back.

import { h } from "../dom.js";

const SCHEDULES = ["every", "cron", "calendar", "at"];
const SHOWN = [
  ...SCHEDULES, "command", "shell", "function", "passive", "when_missing", "zone", "period", "timebox", "grace", "pool",
  "labels",
];

const text = (attributes = {}) => (changed) => h("input", { type: "text", oninput: changed, spellcheck: "false",
  autocomplete: "off", ...attributes });
const area = (rows) => (changed) => h("textarea", { rows, oninput: changed, spellcheck: "false" });
const choice = (...options) => (changed) => h("select", { onchange: changed },
  options.map(([value, label]) => h("option", { value }, label)));
const tick = (changed) => h("input", { type: "checkbox", onchange: changed });

/** `when` and `what`: shown only with these schedules and kinds of work. */
export const FIELDS = [
  { key: "name", label: "Name", input: text({ required: true, maxlength: "256" }) },
  { key: "check", label: "Check", kind: "tick", input: tick,
    hint: "The exit status is a monitoring state: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN." },
  { key: "when", label: "When",
    input: choice(["every", "every so often"], ["cron", "by a cron entry"], ["calendar", "by a calendar expression"],
      ["at", "once"]) },
  { key: "every", label: "Interval", when: ["every"], input: text({ placeholder: "5m" }),
    hint: "30s, 5m, 1h30m, 1d. Its place within the interval is chosen for an even load." },
  { key: "cron", label: "Cron entry", when: ["cron"], input: text({ placeholder: "H 3 * * 1-5" }),
    hint: "minute hour day month weekday; H spreads by name." },
  { key: "calendar", label: "Calendar", when: ["calendar"], input: text({ placeholder: "Mon..Fri 09:00" }) },
  { key: "at", label: "At", when: ["at"], input: text({ placeholder: "2026-12-01T09:00" }) },
  { key: "zone", label: "Zone", input: text({ placeholder: "UTC", list: "known-zones" }) },
  { key: "period", label: "Only in period", input: text({ placeholder: "always", list: "known-periods" }) },
  { key: "what", label: "What",
    input: choice(["command", "a command"], ["line", "a line for the shell"], ["function", "a Python function"],
      ["passive", "nothing: results are submitted"]) },
  { key: "command", label: "Command", what: ["command"], kind: "area", input: area(3),
    hint: "One word per line, run without a shell." },
  { key: "line", label: "Line", what: ["line"], kind: "area", input: area(2) },
  { key: "function", label: "Function", what: ["function"], input: text({ placeholder: "module:function" }) },
  { key: "timebox", label: "Timebox", input: text({ placeholder: "by default" }),
    hint: "Maximum duration of a run, or of the program that submits results." },
  { key: "passive", label: "Passive", kind: "tick", what: ["command", "line", "function"], input: tick,
    hint: "Results are submitted externally; this runs only when one is missing." },
  { key: "when_missing", label: "If none comes", what: ["passive"],
    input: choice(["", "CRITICAL"], ["unknown", "UNKNOWN"], ["warning", "WARNING"]),
    hint: "Its state when a result is missing." },
  { key: "grace", label: "Grace", input: text({ placeholder: "by default" }),
    hint: "Extra wait for an expected result. The default for a passive check is half the interval, " +
      "at most 1h." },
  { key: "pool", label: "Pool", what: ["command", "line", "function"],
    input: text({ placeholder: "default", list: "known-pools", maxlength: "256" }),
    hint: "In a cluster: only workers of this pool run it." },
  { key: "labels", label: "Labels", kind: "area", input: area(2), hint: "key=value, one per line." },
];

/** Fill the form with a task as the API tells it. */
export function write(inputs, task) {
  const put = (key, value) => {
    const { input } = inputs[key];
    if (input.type === "checkbox") input.checked = Boolean(value);
    else input.value = value ?? "";
    inputs[key].written = input.value;
  };
  put("name", task.name);
  put("check", task.check);
  put("when", SCHEDULES.find((key) => task[key] !== undefined && task[key] !== null) ?? "every");
  for (const key of [...SCHEDULES, "zone", "period", "function", "timebox", "grace", "pool"]) put(key, task[key]);
  const runs = task.function || (task.command?.length ?? 0) > 0;
  put("what", task.passive && !runs ? "passive" : task.function ? "function" : task.shell ? "line" : "command");
  put("passive", task.passive && runs);
  put("when_missing", task.when_missing === "critical" ? "" : task.when_missing);
  const words = Array.isArray(task.command) ? task.command : task.command ? [task.command] : [];
  put("command", task.shell ? "" : words.join("\n"));
  put("line", task.shell ? words.join(" ") : "");
  put("labels", Object.entries(task.labels ?? {}).map(([key, value]) => `${key}=${value}`).join("\n"));
}

/** The task that the form describes. Keys it has no field for stay as they were. */
export function read(inputs, before) {
  const value = (key) => inputs[key].input.value.trim();
  const untouched = (key) => inputs[key].input.value === inputs[key].written;
  const task = { ...(before ?? {}) };
  for (const key of SHOWN) delete task[key];
  const put = (key, given) => {
    if (given) task[key] = given;
  };
  const when = value("when");
  const what = value("what");
  put("name", value("name"));
  const passive = what === "passive" || inputs.passive.input.checked;
  task.check = inputs.check.input.checked || passive;
  task[when] = value(when);
  if (when !== "every") for (const key of ["phase", "spread"]) delete task[key];
  if (when !== "cron") for (const key of ["hash", "days", "second"]) delete task[key];
  if (when === "every" && before?.every !== task.every) delete task.phase;
  for (const key of ["zone", "period"]) put(key, value(key));
  if (what === "command") {
    // A word may hold what a line cannot, such as a line's end: what was not touched stays as it was.
    const words = () => inputs.command.input.value.split("\n").filter((word) => word.trim());
    task.command = untouched("command") && before?.command && !before.shell ? before.command : words();
  }
  if (what === "line") Object.assign(task, { command: value("line"), shell: true });
  if (what === "function") task.function = value("function");
  else for (const key of ["args", "kwargs"]) delete task[key];
  if (passive) task.passive = true;
  if (passive) put("when_missing", value("when_missing"));
  for (const key of ["timebox", "grace"]) put(key, value(key));
  if (what !== "passive") put("pool", value("pool"));
  const labels = value("labels").split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [key, ...rest] = line.split("=");
    return [key.trim(), rest.join("=").trim()];
  });
  if (untouched("labels") && before?.labels) task.labels = before.labels;
  else if (labels.length) task.labels = Object.fromEntries(labels);
  return task;
}

/** The keys of a task that the form has no field for. */
export function others(task) {
  return Object.keys(task).filter((key) => !["name", "check", ...SHOWN].includes(key));
}
