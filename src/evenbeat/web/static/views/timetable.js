// The timetable: how even the load is, second by second and over the day, and which tasks make a peak.

import { get } from "../api.js";
import { heatMap, isMany, round, timeChart } from "../charts.js";
import { clockWords, minuteWords } from "../clock.js";
import { fill, h } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { empty, failure, panel, taskLink } from "../ui.js";
import { count, kindWords, tasks as taskWords } from "../words.js";

const AHEAD = 1_800;
const SECONDS = 60;
const MINUTES = 60;
const SHOWN = 200;

export function mount(root) {
  const gone = new AbortController();
  const { signal } = gone;
  const trouble = h("div");
  const summary = h("p", { class: "summary" });
  const curveBox = h("div");
  const secondsBox = h("div");
  const dayBox = h("div");
  const who = h("div");
  let load = null;
  let day = null;

  fill(
    root,
    h("h1", null, "Timetable"),
    trouble,
    panel("The next half hour, starts per second", { class: "wide", aside: null }, summary, curveBox),
    h("div", { class: "planning-columns" },
      h("div", { class: "stack" },
        panel("Second by second", {}, h("p", { class: "muted" },
          "A row is a minute. Click a cell, or move to it with the arrow keys and press Enter, to see what is due."), secondsBox),
        panel("The next 24 hours", {}, h("p", { class: "muted" }, "A row is an hour."), dayBox)),
      panel("Who is due", { class: "who" }, who)),
  );
  fill(who, empty("Click a second or a minute."));

  const curve = timeChart(curveBox, { height: 170, signal, onPick: (t) => show(Math.floor(t / 1_000) * 1_000, 1) });
  const seconds = heatMap(secondsBox, {
    signal,
    label: "starts per second, a row is a minute",
    unit: "starts per second",
    describe: (i) => `${clockWords(new Date(load.rows.from + i * 1_000).toISOString())}: ${count(load.rows.values[i])}`,
    onPick: (i) => show(load.rows.from + i * 1_000, 1),
  });
  const hours = heatMap(dayBox, {
    signal,
    label: "starts per minute, a row is an hour",
    unit: "starts per minute",
    describe: (i) => `${clockWords(new Date(day.rows.from + i * 60_000).toISOString())}: ${count(day.rows.values[i])}`,
    onPick: (i) => show(day.rows.from + i * 60_000, 60),
  });

  async function read() {
    try {
      const [soon, whole] = await Promise.all([
        get("/v1/load", { back: 0, ahead: AHEAD, step: 1 }, { signal }),
        get("/v1/load/day", { step: 60 }, { signal }),
      ]);
      load = { ...soon, from: Date.parse(soon.from) };
      load.rows = wholeRows(load.from, load.planned, 1_000);
      day = { rows: wholeRows(Date.parse(whole.from), whole.planned, 60_000) };
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failure(problem, again));
      return;
    }
    fill(trouble);
    draw();
  }

  function draw() {
    const { from, planned, peak, mean, peak_to_mean: ratio } = load;
    fill(
      summary,
      h("span", null, "peak ", h("strong", null, round(peak))),
      h("span", null, "mean ", h("strong", null, round(mean))),
      isMany(mean) ? h("span", { title: "1 is perfectly even" }, "peak / mean ", h("strong", null, ratio.toFixed(2))) : null,
    );
    curve.draw({
      from, to: from + planned.length * 1_000, now: null, step: 1_000, unit: "starts/s", label: "planned load",
      series: [{ name: "planned", look: "planned", kind: "solid", from, values: planned }],
    });
    drawRows(seconds, load.rows, SECONDS, (i) => (new Date(load.rows.from + i * 60_000).getMinutes() % 5 ? "" : i * 60_000));
    drawRows(hours, day.rows, MINUTES, (i) => i * 3_600_000);
  }

  /** `after`: the milliseconds after which a row begins, "" for a row without a label. */
  function drawRows(map, { from, values }, columns, after) {
    map.draw({
      values, columns,
      rowLabels: labels(Math.ceil(values.length / columns), (i) => (after(i) === "" ? "" : minuteWords(from + after(i)))),
      columnLabels: labels(columns, (i) => (i % 10 ? "" : `:${String(i).padStart(2, "0")}`)),
    });
  }

  async function show(at, length) {
    const from = new Date(at).toISOString();
    let found;
    try {
      found = await get("/v1/load/tasks", { from, seconds: length, limit: SHOWN }, { signal });
    } catch (problem) {
      if (!signal.aborted) fill(who, failure(problem));
      return;
    }
    const rest = found.total - found.tasks.length;
    fill(
      who,
      h("p", null, h("strong", null, clockWords(from)), length > 1 ? " and the minute after it: " : ": ",
        taskWords(found.total)),
      found.tasks.length ? h("ol", { class: "due-list" }, found.tasks.map((one) => h("li", null,
        taskLink(one.task), h("span", { class: "muted" }, clockWords(one.at)),
        one.kind === "grid" ? null : h("span", { class: "muted" }, kindWords(one.kind))))) : empty("Nobody."),
      rest > 0 ? h("p", { class: "muted" }, `and ${count(rest)} more`) : null,
    );
  }

  const again = refresher(read, { signal, least: 2_000, each: 30_000 });
  live.on("task", again, signal);
  live.on("reset", again, signal);
  return () => gone.abort();
}

/** Values that begin anywhere, in rows that begin on the full minute or hour: what is over by then is null. */
function wholeRows(from, values, step) {
  const start = new Date(from);
  const passed = step === 60_000 ? start.getMinutes() : start.getSeconds();
  return { from: from - passed * step, values: [...Array(passed).fill(null), ...values] };
}

function labels(number, word) {
  return Array.from({ length: number }, (_, i) => word(i));
}
