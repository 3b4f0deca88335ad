// The output of a task's latest run: whole if it has ended, and growing while a run writes it.

import { get, taskPath } from "../api.js";
import { bar } from "../charts.js";
import { agoWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { readOutput } from "../perfdata.js";
import { countdown, empty, headings, panel } from "../ui.js";
import { count, tellsAtItsEnd } from "../words.js";

const WAIT = 5;
const PAUSE = 200;
const AFTER_A_FAILURE = 5_000;
const SHOWN = 200_000;
const NEAR_THE_END = 40;

/** A panel, and `show(task)`, which follows a run that is under way; `ended` is called when that has ended. */
export function outputOfTask(name, signal, ended) {
  const body = h("div");
  const download = h("a", { class: "muted", download: "", hidden: true }, "Download");
  const node = panel("Output of the last run", { class: "output", aside: download }, body);
  const title = node.querySelector("h2");
  let following = false;

  function show(task) {
    if (following) return;
    if (task.running_since) {
      follow();
      return;
    }
    title.textContent = "Output of the last run";
    const { text, perfdata } = task.check ? readOutput(task.output) : { text: task.output.trimEnd(), perfdata: [] };
    const ago = countdown(task.last_end, undefined, agoWords);
    const none = empty(task.last_end ? "No output." : "It has not run yet.");
    const lines = text ? h("pre", { class: "plugin", tabindex: "0", "aria-label": "Output" }, text) : none;
    const says = text && tellsAtItsEnd(task);
    fill(
      body,
      task.last_end ? h("p", { class: "muted" }, task.outcome, ", ", ago) : null,
      says ? h("p", { class: "bad-text" }, h("bdi", null, task.summary)) : null,
      lines,
      perfdata.length ? perfTable(perfdata) : null,
    );
    download.href = taskPath(name, "output");
    download.hidden = !text;
    if (says) lines.scrollTop = lines.scrollHeight;
  }

  async function follow() {
    following = true;
    try {
      await readToTheEnd();
    } catch (problem) {
      if (!signal.aborted) await pause(AFTER_A_FAILURE);
    } finally {
      following = false;
    }
    if (!signal.aborted) ended();
  }

  async function readToTheEnd() {
    const lines = h("pre", { class: "plugin", tabindex: "0", "aria-label": "Output", "aria-live": "off" });
    const none = empty("It runs, and has written nothing yet.");
    let run = null;
    let position = 0;
    let last = null;
    while (!signal.aborted && !last?.ended) {
      last = await get(taskPath(name, "output", "live"), { run, position: position || null, wait: run && WAIT }, { signal });
      if (!run && (!last.run || last.ended)) return; // it had ended before we looked
      if (!run) {
        title.textContent = "Output of the run under way";
        download.hidden = true;
        fill(body, none, lines);
      }
      run = last.run;
      position = last.position;
      append(lines, last);
      lines.hidden = !lines.textContent;
      none.hidden = !lines.hidden;
      if (!last.text) await pause(PAUSE);
    }
  }

  return { node, show };
}

/** Add a part, and keep its end in sight for a reader who is there. */
function append(lines, { text, left_out: missing }) {
  const follows = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR_THE_END;
  const mark = missing ? `\n[... ${count(missing)} bytes left out ...]\n` : "";
  if (mark || text) lines.append(mark + text);
  if (lines.textContent.length > SHOWN) lines.textContent = lines.textContent.slice(-SHOWN / 2);
  if (follows) lines.scrollTop = lines.scrollHeight;
}

function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

function perfTable(perfdata) {
  const value = (one) => (one.value === null ? "unknown" : `${one.value.toLocaleString("en-GB")} ${one.unit}`);
  const limit = ({ crit, max }) => Number(max) || Number(crit) || 0;
  return h("div", { class: "table-scroll" }, h("table", { class: "table perf" },
    headings(["What", "Value", "", "Warn", "Crit", "Min", "Max"], ["Value", "Warn", "Crit", "Min", "Max"]),
    h("tbody", null, perfdata.map((one) => h("tr", null,
      h("th", { scope: "row" }, h("bdi", null, one.label)),
      h("td", { class: "numeric" }, value(one)),
      h("td", { class: "perf-bar" }, limit(one) > 0 && one.value !== null ? bar(one.value / limit(one)) : null),
      [one.warn, one.crit, one.min, one.max].map((text) => h("td", { class: "numeric" }, text)))))));
}
