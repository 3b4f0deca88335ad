// The past of a task: its runs with their durations and lateness, and every skip with its reason.

import { get, taskPath } from "../api.js";
import { bar } from "../charts.js";
import { clockWords, lastedWords, precisely, wholeWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { attempt, badge, button, empty, headings, panel } from "../ui.js";
import { count, endingWords, kindWords, reasonWords, runLook } from "../words.js";

const PAGE = 50;
const MOST = 500;

/** A panel, and `read(task)` that brings its newest page up to date; older pages that were asked for stay. */
export function history(name, signal) {
  const body = h("tbody");
  const none = empty("No runs and no skips yet.");
  const failed = h("input", { type: "checkbox", onchange: () => start() });
  const older = button("Older", () => attempt(more), { class: "quiet" });
  const table = h("table", { class: "table history" },
    headings(["When", "How", "Took", "", "Late", "What"], ["Took", "Late"]), body);
  const aside = h("label", { class: "row muted" }, failed, "failed only");
  const scroll = h("div", { class: "table-scroll" }, table);
  const node = panel("History", { class: "history-panel", aside }, scroll, none, older);
  let runs = new Map();
  let skips = new Map();
  let next = null;
  let open = new Set();

  function ask(before) {
    return get(taskPath(name, "history"), { limit: PAGE, before, failed: failed.checked || null }, { signal });
  }

  function add(answer) {
    for (const run of answer.runs) runs.set(`${run.nominal} ${run.claimed}`, run);
    for (const skip of answer.skips) skips.set(`${skip.first} ${skip.reason} ${skip.kind}`, skip);
  }

  async function read() {
    const first = runs.size + skips.size === 0;
    const answer = await ask();
    add(answer);
    if (first) next = answer.next;
    show();
  }

  async function start() {
    runs = new Map();
    skips = new Map();
    await attempt(read);
  }

  async function more() {
    const answer = await ask(next);
    add(answer);
    next = answer.next;
    show();
  }

  function rows() {
    const all = [
      ...[...runs.values()].map((run) => ({ iso: run.claimed, run })),
      ...(failed.checked ? [] : [...skips.values()].map((skip) => ({ iso: skip.at, skip }))),
    ];
    return all.sort((a, b) => Date.parse(b.iso) - Date.parse(a.iso)).slice(0, MOST);
  }

  function show() {
    const all = rows();
    const longest = Math.max(1, ...all.map(({ run }) => (run?.ended ? took(run) : 0)));
    fill(body, all.map(({ run, skip }) => (run ? runRow(run, longest, open) : skipRow(skip))));
    none.hidden = all.length > 0;
    table.hidden = !all.length;
    older.hidden = !next || all.length >= MOST;
  }

  return { node, read };
}

function took(run) {
  return precisely(run.ended) - precisely(run.started ?? run.claimed);
}

function runRow(run, longest, open) {
  const look = runLook(run);
  const begun = run.started ?? run.claimed;
  const late = run.kind === "grid" ? precisely(begun) - precisely(run.nominal) : null;
  const soft = run.state && run.state !== "ok" && !run.hard ? ` (soft ${run.attempt})` : "";
  const label = run.state ? run.state.toUpperCase() + soft : endingWords(run);
  const id = `${run.nominal} ${run.claimed}`;
  const attempt = run.kind === "retry" && !run.state && run.attempt ? `, attempt ${run.attempt}` : "";
  const kind = run.kind === "grid" ? null : h("span", { class: "remark" }, kindWords(run.kind) + attempt);
  return h("tr", null,
    h("td", { title: `nominal ${wholeWords(run.nominal)}` }, clockWords(begun), kind),
    h("td", { title: endingWords(run) }, badge(look, label)),
    h("td", { class: "numeric" }, run.ended ? lastedWords(took(run)) : "…"),
    h("td", { class: "took" }, run.ended ? bar(took(run) / longest, look) : null),
    h("td", { class: "numeric" }, late === null ? "" : lastedWords(late)),
    h("td", { class: "run-output" }, outputOf(run, id, open)));
}

/** One line as it is; more behind it, to be opened, and `open` knows which are. */
function outputOf(run, id, open) {
  const text = (run.output ?? "").trim();
  if (!text.includes("\n") && text.length <= 200) return h("bdi", { class: "output-line" }, text);
  const toggled = (event) => (event.target.open ? open.add(id) : open.delete(id));
  return h("details", { open: open.has(id), ontoggle: toggled },
    h("summary", null, h("bdi", null, run.summary)), h("pre", { class: "plugin" }, text));
}

function skipRow(skip) {
  const range = skip.times > 1 ? `${count(skip.times)} times since ${clockWords(skip.first)}: ` : "";
  const what = skip.kind === "grid" ? "skipped" : `${kindWords(skip.kind)} refused`;
  const reason = reasonWords(skip.reason);
  return h("tr", { class: "skip" },
    h("td", { title: `from ${wholeWords(skip.first)} to ${wholeWords(skip.last)}` }, clockWords(skip.last)),
    h("td", null, badge("skipped", what)),
    h("td", { colspan: "4", class: "run-output" },
      `${range}${reason}`, reason === skip.reason ? null : h("span", { class: "muted" }, ` (${skip.reason})`)));
}
