// Words for people: states, outcomes, reasons of skips, kinds of runs.

const FAILURES = new Set(["failed", "killed", "timeboxed", "broken", "lost"]);

/** Why a nominal time had no run, in a sentence. Keys are the server's words. */
const BECAUSE = {
  "another node has authority": "another node runs this task",
  disabled: "the task was paused or disabled",
  "period closed": "its period was closed",
  unreachable: "a check that it depends on was not fine",
  coalesced: "an earlier run was still waiting or running, so these times were merged into it",
  "dropped: too soon after the last start": "it came too soon after the last start, so the guard dropped it",
  "missed while stopped": "no node was running then",
  "postponed by start_at": "start_at lay in the future",
  "the clock was set back": "the clock was set back, and this run had been made already",
  removed: "the task was removed",
  "not from a file": 'commands = "files", and no file named at evenbeat up says what it executes',
};

const KINDS = {
  grid: "by its schedule",
  first: "first run",
  "catch-up": "catch-up",
  chain: "after its parents",
  retry: "retry",
  "start-at": "start_at",
  occasion: "at start or stop of the node",
  forced: "forced",
  told: "submitted externally",
  stale: "no result came",
  freshness: "because no result came",
  log: "logged",
};

export const STATES = ["ok", "warning", "critical", "unknown"];

export function kindWords(kind) {
  return KINDS[kind] ?? kind;
}

export function reasonWords(reason) {
  return BECAUSE[reason] ?? reason;
}

export function count(number) {
  return number === null || number === undefined ? "–" : number.toLocaleString("en-GB");
}

/** "1 task", "2,000 tasks". */
export function tasks(number) {
  return `${count(number)} ${number === 1 ? "task" : "tasks"}`;
}

/** Problems in a row until a check is hard. Takes a task document. */
export function attemptsOf(task) {
  return task.task?.attempts ?? (task.task?.passive ? 1 : 3);
}

/** The condition of a task: `look` chooses colour and shape, `label` says it, `more` are remarks. Takes a task document. */
export function condition(task) {
  const more = [];
  if (task.running_since) more.push(task.long ? "running unusually long" : "running");
  if (task.blocked) more.push(task.blocked);
  if (task.set_aside) more.push("set aside");
  if (task.paused) more.push("paused");
  else if (task.enabled === false) more.push("disabled");
  if (task.downtime) more.push("in downtime");
  if (task.flapping) more.push("flapping");
  if (task.unreachable) more.push("unreachable");
  if (task.stale) more.push("stale");
  else if (task.late) more.push("late");
  if (task.state) {
    if (!task.hard && task.state !== "ok") more.unshift(`soft ${task.attempt}/${attemptsOf(task)}`);
    return { look: task.state, label: task.state.toUpperCase(), more };
  }
  if (task.retry && !task.running_since) {
    more.unshift(`${attemptWords(task.retry)} is next`);
    return { look: "warning", label: task.outcome ?? "failed", more };
  }
  if (task.outcome) return { look: outcomeLook(task.outcome), label: task.outcome, more };
  return { look: "new", label: task.check ? "not yet checked" : "new", more };
}

/** "attempt 2 of 4": which attempt a retry of a task is. */
export function attemptWords(retry) {
  return `attempt ${retry.attempt} of ${retry.attempts}`;
}

/** Is a task due by what becomes of others? */
export function followsOthers(task) {
  return Boolean(task.task?.after?.length || task.task?.after_failure?.length);
}

/** What stands for the next time of a task that waits for others; null for any other. */
export function waitsForWords(task) {
  if (!task.waits_for?.length || task.blocked || task.paused || task.enabled === false) return null;
  return `${task.schedule.startsWith("after failure") ? "after failure of" : "after"} ${task.waits_for.join(", ")}`;
}

/** Does a task depend on this one? Takes a task document. */
export function dependsOn(task, name) {
  return [...(task.task?.depends ?? []), ...(task.task?.depends_any ?? [])].includes(name);
}

/** Update a task document with a run that has ended (a `run` event). */
export function learnRun(task, run) {
  task.state = run.state ?? task.state;
  task.flapping = run.flapping ?? task.flapping;
  task.running_since = null;
  task.long = false;
  task.next = run.next === undefined ? task.next : run.next;
  Object.assign(task, { hard: run.hard, attempt: run.attempt, late: false, retry: run.retry ?? null });
  if (run.newest === false) return; // outcome and output stay those of the latest result
  task.output = task.summary = run.output ?? task.summary;
  task.outcome = run.outcome;
  task.stale = run.kind === "stale";
}

/** The look of a run: that of its state where it is a check's, else of its outcome. */
export function runLook(run) {
  if (!run.ended && !run.outcome) return "running";
  return run.state ?? outcomeLook(run.outcome);
}

export function outcomeLook(outcome) {
  if (outcome === "succeeded") return "ok";
  return FAILURES.has(outcome) ? "critical" : "unknown";
}

/** "failed with status 2", as the command line says it. */
export function endingWords(run) {
  if (!run.outcome) return run.started === null ? "claimed" : "running";
  if (!run.status || run.outcome === "cancelled" || run.outcome === "interrupted") return run.outcome;
  return run.status < 0 ? `${run.outcome} by signal ${-run.status}` : `${run.outcome} with status ${run.status}`;
}

/** The line of an output that says most, as the node has chosen it; for a check without its performance data. */
export function saidLine(summary, check) {
  return check ? summary.split("|", 1)[0].trim() : summary;
}

/** Do the last lines of an output say more than the first ones? Takes a run, or a task document. */
export function tellsAtItsEnd({ output, summary, outcome }) {
  const lines = output.trim().split("\n");
  return outcome !== "succeeded" && lines.length > 1 && !lines[0].trim().startsWith(summary);
}

/** "830 MB": two or three digits, in powers of 1,000 as disks have them. */
export function bytesWords(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const value = bytes / 1_000 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}
