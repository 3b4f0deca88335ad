// The fields of the editor: one for each key of a task, in groups, and when each of them has an effect.

import { CHOICE, CONTACTS, LINE, NAMES, NUMBER, PAIRS, SETTINGS, TEXT, TICK, VALUES } from "./editor_inputs.js";

export const SCHEDULES = ["every", "cron", "calendar", "at", "after", "after_failure"];
const ONCE = ["@reboot", "@shutdown"];

const by = (...whens) => ({ when }) => whens.includes(when);
const runs = ({ what }) => what !== "passive";
const isCheck = ({ check }) => check;
const tries = (state) => !state.check && !(state.when === "cron" && state.cron === "@shutdown");
const triesAgain = (state) => tries(state) && state.retries;
const followsOthers = ({ when }) => when === "after" || when === "after_failure";
const repeats = (state) =>
  runs(state) && state.when !== "at" && !followsOthers(state) && !(state.when === "cron" && ONCE.includes(state.cron));

/** The groups of the form: `isOpen` says whether one is open though nothing in it is set. */
export const GROUPS = [
  { key: "main", title: "" },
  { key: "times", title: "Times in detail" },
  { key: "runs", title: "Runs in detail" },
  { key: "problems", title: "Problems", isOpen: true },
];

/** `only`: shown, and part of the task, only in this state of the form. `of: "form"`: not a key of a task as it is. */
export const FIELDS = [
  { key: "name", label: "Name", type: LINE, of: "form", attributes: { required: true, maxlength: "256" } },
  { key: "check", label: "Check", type: TICK, of: "form",
    hint: "The exit status is a monitoring state: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN." },
  { key: "when", label: "When", type: CHOICE, of: "form",
    options: [["every", "every so often"], ["cron", "by a cron entry"], ["calendar", "by a calendar expression"],
      ["at", "once"], ["after", "after other tasks"], ["after_failure", "when another task has failed"]] },
  { key: "every", label: "Interval", type: LINE, only: by("every"), attributes: { placeholder: "5m" },
    hint: "30s, 5m, 1h30m, 1d. Its place within the interval is chosen for an even load." },
  { key: "cron", label: "Cron entry", type: LINE, only: by("cron"), attributes: { placeholder: "H 3 * * 1-5" },
    hint: "minute hour day month weekday; H spreads by name." },
  { key: "calendar", label: "Calendar", type: LINE, only: by("calendar"), attributes: { placeholder: "Mon..Fri 09:00" } },
  { key: "at", label: "At", type: LINE, only: by("at"), attributes: { placeholder: "2026-12-01T09:00" },
    hint: "A time, or a delay such as +10m." },
  { key: "after", label: "After", type: NAMES, only: by("after"),
    hint: "Tasks, one per line: it runs when each of them has succeeded since its last run." },
  { key: "after_failure", label: "After failure of", type: NAMES, only: by("after_failure"),
    hint: "Tasks, one per line: it runs when one of them has failed and is not tried again." },
  { key: "zone", label: "Zone", type: LINE, attributes: { placeholder: "UTC", list: "known-zones" } },
  { key: "period", label: "Only in period", type: LINE, attributes: { placeholder: "always", list: "known-periods" } },
  { key: "what", label: "What", type: CHOICE, of: "form",
    options: [["command", "a command"], ["line", "a line for the shell"], ["function", "a Python function"],
      ["passive", "nothing: results are submitted"]] },
  { key: "command", label: "Command", type: TEXT, of: "form", only: ({ what }) => what === "command",
    attributes: { rows: 3, placeholder: "check_disk\n-w\n10%" }, hint: "One word per line, run without a shell." },
  { key: "line", label: "Line", type: TEXT, of: "form", only: ({ what }) => what === "line" },
  { key: "function", label: "Function", type: LINE, only: ({ what }) => what === "function",
    attributes: { placeholder: "module:function" } },
  { key: "args", label: "Arguments", type: VALUES, only: ({ what }) => what === "function",
    hint: 'One per line: a text, or JSON: 5 is a number, "5" a text.' },
  { key: "kwargs", label: "By keyword", type: SETTINGS, only: ({ what }) => what === "function",
    hint: "key=value, one per line: a text, or JSON." },
  { key: "passive", label: "Passive", type: TICK, of: "form", only: runs,
    hint: "Results are submitted externally; this runs only when one is missing." },
  { key: "when_missing", label: "If none comes", type: CHOICE, only: ({ passive }) => passive,
    options: [["", "CRITICAL"], ["unknown", "UNKNOWN"], ["warning", "WARNING"]],
    hint: "Its state when a result is missing." },
  { key: "timebox", label: "Timebox", type: LINE, attributes: { placeholder: "by default" },
    hint: "Maximum duration of a run, or of the program that submits results. By default 60s for a check, none for " +
      "a task." },
  { key: "grace", label: "Grace", type: LINE, attributes: { placeholder: "by default" },
    hint: "Extra wait for an expected result. The default for a passive check is half the interval, at most 1h." },
  { key: "labels", label: "Labels", type: PAIRS, hint: "key=value, one per line." },

  { key: "enabled", label: "Enabled", type: CHOICE, group: "times", options: [["", "yes"], ["false", "no: it does not run"]],
    values: { false: false } },
  { key: "start_at", label: "First run at", type: LINE, group: "times", only: (state) => !followsOthers(state), attributes: { placeholder: "2026-12-01T09:00" },
    hint: "It runs exactly then, not before, and follows its schedule after it." },
  { key: "spread", label: "Spread", type: CHOICE, group: "times", only: by("every"),
    options: [["", "even: where the load is least"], ["hash", "hash: by name"], ["icinga", "as Icinga does"],
      ["bergamot", "at random"], ["aligned", "aligned: on the minute"]] },
  { key: "phase", label: "Phase", type: LINE, group: "times", only: by("every"), attributes: { placeholder: "chosen" },
    hint: "Its place within every, such as 10s. Empty: chosen anew." },
  { key: "hash", label: "H stands for", type: CHOICE, group: "times", only: by("cron"),
    options: [["", "a value of evenbeat"], ["jenkins", "the value that Jenkins has"]] },
  { key: "days", label: "Days", type: CHOICE, group: "times", only: by("cron"),
    options: [["", "day of month or weekday"], ["and", "day of month and weekday"]],
    hint: "If both are restricted: either must match, or both." },
  { key: "second", label: "Second", type: NUMBER, group: "times", only: by("cron"), attributes: { placeholder: "spread" },
    hint: "0 to 59 within the minute." },

  { key: "longer_than", label: "Longer than", type: LINE, group: "runs", attributes: { placeholder: "by default" },
    hint: "A run that lasts longer is a problem; it is not ended. By default twice the time between runs, at least 1h." },
  { key: "pool", label: "Pool", type: LINE, group: "runs", only: runs,
    attributes: { placeholder: "default", list: "known-pools", maxlength: "256" },
    hint: "In a cluster: only workers of this pool run it." },
  { key: "limit", label: "Limit", type: LINE, group: "runs", only: runs, attributes: { placeholder: "none", maxlength: "256" },
    hint: "Each run takes a slot of this limit, which a file declares." },
  { key: "priority", label: "Priority", type: NUMBER, group: "runs", only: runs, attributes: { placeholder: "0" },
    hint: "-100 to 100: who goes first when slots are short." },
  { key: "missed", label: "After a stop", type: CHOICE, group: "runs", only: runs,
    options: [["", "once: one run for all that were missed"], ["skip", "skip"], ["all", "all of them"]] },
  { key: "catch_up", label: "Back for", type: LINE, group: "runs", only: (state) => runs(state) && state.missed === "all",
    attributes: { placeholder: "1h" }, hint: "How far back all missed runs are made up for." },
  { key: "backlog", label: "Backlog", type: CHOICE, group: "runs", only: repeats,
    options: [["", "merge: one run for times that pass meanwhile"], ["each", "each: a run for each of them"]] },
  { key: "tolerance", label: "Tolerance", type: LINE, group: "runs", only: repeats, attributes: { placeholder: "by default" },
    hint: "How much earlier than the time between runs one may follow the previous one." },
  { key: "weight", label: "Weight", type: NUMBER, group: "runs", only: runs, attributes: { placeholder: "1" },
    hint: "Expected run time in seconds, for spreading the load." },
  { key: "env", label: "Environment", type: PAIRS, group: "runs", only: runs,
    hint: "NAME=value, one per line; env:NAME and file:PATH are read when a run starts." },
  { key: "cwd", label: "Folder", type: LINE, group: "runs", only: runs, attributes: { placeholder: "that of the node" } },
  { key: "user", label: "User", type: LINE, group: "runs", only: runs, attributes: { placeholder: "that of the node" } },
  { key: "output_keep", label: "Keep of the output", type: LINE, group: "runs", only: runs, attributes: { placeholder: "64KB" },
    hint: "Of each run, compressed, for as long as the run is kept: 1KB to 16MB." },

  { key: "attempts", label: "Attempts", type: NUMBER, group: "problems", only: isCheck, attributes: { placeholder: "by default" },
    hint: "Bad results in a row until a problem is HARD. By default 3, of a passive check 1." },
  { key: "retry", label: "Retry after", type: LINE, group: "problems", only: (state) => isCheck(state) && runs(state),
    attributes: { placeholder: "by default" }, hint: "How soon it runs again while a problem is SOFT." },
  { key: "retries", label: "Retries", type: NUMBER, group: "problems", only: tries, attributes: { placeholder: "0" },
    hint: "How often a run that failed tries again." },
  { key: "backoff", label: "Try again after", type: LINE, group: "problems", only: triesAgain, attributes: { placeholder: "10s" },
    hint: "Twice as long after each further failure." },
  { key: "backoff_max", label: "At the latest", type: LINE, group: "problems", only: triesAgain,
    attributes: { placeholder: "10m" } },
  { key: "retry_on", label: "Only on", type: VALUES, group: "problems", only: triesAgain,
    hint: "Exit statuses, and of a function names of exceptions, one per line." },
  { key: "depends", label: "Depends on", type: NAMES, group: "problems",
    hint: "Checks, one per line: while one of them is not fine, this task is unreachable." },
  { key: "depends_any", label: "Depends on one of", type: NAMES, group: "problems",
    hint: "Checks, one per line: unreachable only while none of them is fine." },
  { key: "when_unreachable", label: "If unreachable", type: CHOICE, group: "problems",
    only: (state) => runs(state) && state.depends, options: [["", "it runs all the same"], ["skip", "it does not run"]] },
  { key: "notify", label: "Notify", type: CONTACTS, group: "problems",
    hint: "Contacts that get messages about its problems, one per line: ops, or boss after 30m." },
  { key: "repeat", label: "Remind", type: LINE, group: "problems", only: ({ notify }) => notify, attributes: { placeholder: "never" },
    hint: "How often those contacts are reminded while a problem lasts." },
  { key: "gather", label: "Gather", type: LINE, group: "problems", only: ({ notify }) => notify, attributes: { placeholder: "30s" },
    hint: "How long a message waits for more problems." },
];

/** What decides which fields have an effect. */
export function stateOf(inputs) {
  const value = (key) => inputs[key].input.value.trim();
  const what = value("what");
  const passive = what === "passive" || inputs.passive.input.checked;
  return {
    when: value("when"), what, passive, cron: value("cron"), missed: value("missed"),
    check: passive || inputs.check.input.checked,
    retries: Number(value("retries")) > 0,
    depends: Boolean(value("depends") || value("depends_any")),
    notify: Boolean(value("notify")),
  };
}

export function hasEffect(field, state) {
  return field.only === undefined || field.only(state);
}

/** Fill the form with a task as the API tells it. */
export function write(inputs, task) {
  const runsSomething = Boolean(task.function || (task.command?.length ?? 0) > 0);
  const words = Array.isArray(task.command) ? task.command : task.command ? [task.command] : [];
  const form = {
    name: task.name,
    check: task.check,
    when: SCHEDULES.find((key) => task[key] !== undefined && task[key] !== null) ?? "every",
    what: task.passive && !runsSomething ? "passive" : task.function ? "function" : task.shell ? "line" : "command",
    passive: task.passive && runsSomething,
    command: task.shell ? "" : words.join("\n"),
    line: task.shell ? words.join(" ") : "",
  };
  for (const { field, input } of Object.values(inputs)) {
    const shown = field.of === "form" ? form[field.key] : task[field.key];
    field.type.show(input, shown, field);
    inputs[field.key].written = input.value;
  }
}

/** The task that the form describes. Keys it has no field for stay as they were, and so does what was not touched. */
export function read(inputs, before) {
  const value = (key) => inputs[key].input.value.trim();
  const untouched = (key) => inputs[key].input.value === inputs[key].written;
  const state = stateOf(inputs);
  const task = { ...(before ?? {}) };
  for (const key of ["name", "command", "shell", "passive"]) delete task[key];
  for (const { field, input } of Object.values(inputs)) {
    const { key } = field;
    if (field.of === "form") continue;
    const isKept = hasEffect(field, state) && before?.[key] !== undefined && untouched(key);
    if (isKept) continue;
    const given = hasEffect(field, state) ? field.type.read(input.value, field) : undefined;
    if (given === undefined) delete task[key];
    else task[key] = given;
  }
  if (value("name")) task.name = value("name");
  task.check = state.check;
  task[state.when] ??= "";
  // The phase of another interval, or of another strategy, says nothing.
  if (untouched("phase") && (before?.every !== task.every || before?.spread !== task.spread)) delete task.phase;
  if (state.what === "command") {
    // A word may hold what a line cannot, such as a line's end: what was not touched stays as it was.
    const words = () => inputs.command.input.value.split("\n").filter((word) => word.trim());
    const given = untouched("command") && before?.command && !before.shell ? before.command : words();
    if (given.length) task.command = given;
  }
  if (state.what === "line") Object.assign(task, { command: value("line"), shell: true });
  if (state.passive) task.passive = true;
  return task;
}

/** The keys of a task that the form has no field for. */
export function others(task) {
  const known = new Set(["shell", ...FIELDS.map((field) => field.key)]);
  return Object.keys(task).filter((key) => !known.has(key));
}
