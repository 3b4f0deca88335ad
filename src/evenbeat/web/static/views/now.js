// Now: how everything is at a glance - problems, states, slots, lateness, load, what runs, what happened.

import { get } from "../api.js";
import { bar, isMany, setBar, timeChart } from "../charts.js";
import { clockWords, lastedWords, now, spanWords, sync, tick } from "../clock.js";
import { fill, h, say } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { panel, sign } from "../ui.js";
import { bytesWords, count } from "../words.js";
import { capacityButton } from "./capacity.js";
import { feed, running } from "./now_lists.js";
import { problems } from "./now_problems.js";

const REACH = 600;
const STEP = 5;
const TILES = [
  ["critical", "Critical", "critical"],
  ["warning", "Warning", "warning"],
  ["unknown", "Unknown", "unknown"],
  ["ok", "OK", "ok"],
  ["new", "Not yet checked", "unchecked"],
];

const LISTS = {
  late: "#/tasks?state=late",
  stale: "#/tasks?state=stale",
  disabled: "#/tasks?state=disabled",
  tasks: "#/tasks",
};

export function mount(root, _params) {
  const gone = new AbortController();
  const { signal } = gone;
  const parts = [problems(signal), tiles(signal), numbers(signal), load(signal), running(signal), feed(signal)];
  fill(root, h("h1", { class: "unseen" }, "Now"), parts);
  return () => gone.abort();
}

// States, as large numbers

function tiles(signal) {
  const nodes = TILES.map(([look, label, state]) => {
    const number = h("span", { class: "tile-number" }, "–");
    const inside = [h("span", { class: "tile-label" }, sign(look), label), number];
    const node = h("a", { class: `tile look-${look}`, href: `#/tasks?state=${state}`, "data-walk": true }, inside);
    return { state, node, number };
  });
  whileStatus(signal, (status) => {
    for (const { state, node, number } of nodes) {
      const found = status.states?.[state];
      node.hidden = state === "unchecked" && found === undefined;
      say(number, count(found));
      node.classList.toggle("is-zero", !found);
    }
  });
  return h("nav", { class: "tiles", "aria-label": "Checks by state" }, nodes.map(({ node }) => node));
}

// Numbers of the node

function numbers(signal) {
  const cells = {};
  const slots = bar(0);
  const cell = (key, label, hint, extra = null) => {
    cells[key] = LISTS[key] === undefined
      ? h("span", { class: "number" }, "–")
      : h("a", { class: "number", href: LISTS[key], "data-walk": true }, "–");
    return h("div", { class: "measure", title: hint }, h("span", { class: "measure-label" }, label), cells[key], extra);
  };
  const late = h("div", { class: "late", hidden: true });
  const slope = h("p", { class: "slope", hidden: true });
  const node = h(
    "section",
    { class: "panel measures", "aria-label": "The node" },
    cell("slots", "Slots used", "Current runs, of all that may run at once", [slots, capacityButton()]),
    cell("rate", "Runs per second", "In the last second; on average since the node started"),
    cell("p50", "Lateness p50", "Half of the latest runs started within this time after they were due"),
    cell("p99", "Lateness p99", "99 of 100 of the latest runs started within this time after they were due"),
    cell("waiting", "Waiting", "Due, and held back by slots or limits"),
    cell("late", "Late", "Due for more than a second"),
    cell("stale", "Stale", "Their result is overdue"),
    cell("disabled", "Disabled", "Paused or disabled tasks"),
    cell("tasks", "Tasks", "All tasks; how long this node has been up"),
    cell("database", "Database", ""),
    late,
    slope,
  );
  whileStatus(signal, (s) => {
    say(cells.slots, s.slots ? `${count(s.pending)} / ${count(s.slots)}` : "–");
    const share = s.slots ? s.pending / s.slots : 0;
    setBar(slots, share, share >= 1 ? "critical" : share > 0.8 ? "warning" : "accent");
    const second = s.started_last_second ?? s.runs_per_second;
    say(cells.rate, second === null || second === undefined ? "–" : `${number(second)}`);
    cells.rate.title = `${number(s.runs_per_second ?? 0)}/s on average`;
    say(cells.p50, seconds(s.lateness?.p50));
    say(cells.p99, seconds(s.lateness?.p99));
    for (const key of ["waiting", "late", "stale", "disabled", "tasks"]) say(cells[key], count(s[key]));
    cells.tasks.title = s.uptime ? `up for ${spanWords(s.uptime * 1_000)}` : "";
    for (const key of ["waiting", "late", "stale"]) cells[key].classList.toggle("raised", Boolean(s[key]));
    showDatabase(cells.database, s.history);
    showLate(late, s.late_by ?? s.late_buckets);
    showSlope(slope, s);
  });
  return node;
}

/** The size of the database, once it is measured. */
function showDatabase(node, history) {
  const cell = node.parentNode;
  cell.hidden = !history;
  if (cell.hidden) return;
  say(node, bytesWords(history.size));
  const free = history.disk_free === null ? "" : `; ${bytesWords(history.disk_free)} are free on its disk`;
  cell.title = `Grows by ${bytesWords(history.growth_per_day)} a day, becomes ${bytesWords(history.forecast)}${free}`;
  const room = history.disk_free === null || history.forecast - history.size < history.disk_free;
  node.classList.toggle("raised", !room);
}

/** First and catch-up runs that are planned, evenly, so that they do not look like a fault. */
function showSlope(node, s) {
  node.hidden = !s.to_come_until;
  if (node.hidden) return;
  const kinds = [[s.first_runs_to_come, "first"], [s.catch_ups_to_come, "catch-up"]].filter(([many]) => many > 0);
  const runs = kinds.map(([many, kind]) => `${count(many)} ${kind}`).join(", ");
  say(node, `Still to come: ${runs} runs, evenly until ${clockWords(s.to_come_until)}`);
}

/** Late tasks by how late they are, where the node tells it: {"1s": 4, "10s": 1, ...}. */
function showLate(node, buckets) {
  const found = Object.entries(buckets ?? {});
  node.hidden = !found.some(([, many]) => many > 0);
  if (node.hidden) return;
  const most = Math.max(...found.map(([, many]) => many));
  const one = ([label, many]) =>
    h("span", { class: "late-bucket" }, label, bar(many / most, "warning"), h("strong", null, count(many)));
  fill(node, h("span", { class: "measure-label" }, "Late by"), found.map(one));
}

function number(value) {
  return value >= 100 ? count(Math.round(value)) : String(Math.round(value * 10) / 10);
}

function seconds(value) {
  return value === null || value === undefined ? "–" : lastedWords(value * 1_000);
}

// The load curve

function load(signal) {
  const box = h("div");
  const aside = h("span", { class: "muted" });
  const chart = timeChart(box, { signal, height: 180 });
  let data = null;

  function draw() {
    if (data === null) return;
    const t = now();
    const from = Date.parse(data.from);
    const step = data.step * 1_000;
    const perSecond = (values) => values.map((value) => value / data.step);
    chart.draw({
      from: t - REACH * 1_000,
      to: t + REACH * 1_000,
      now: t,
      step,
      unit: "runs/s",
      label: `Planned and done runs per second, ten minutes back and ahead. Peak ${data.peak}, mean ${data.mean}.`,
      series: [
        { name: "done", look: "done", kind: "solid", from, values: perSecond(data.done) },
        { name: "planned", look: "planned", kind: "line", from, values: perSecond(data.planned) },
      ],
    });
    say(aside, isMany(data.mean / data.step) ? `peak/mean ${data.peak_to_mean.toFixed(2)}` : "");
  }

  async function read() {
    const asked = Date.now();
    data = await get("/v1/load", { back: REACH, ahead: REACH, step: STEP }, { signal });
    sync(data.now, asked);
    draw();
  }

  const again = refresher(read, { signal, least: 1_000, each: 10_000 });
  live.on("reset", again, signal);
  live.on("task", again, signal);
  tick(draw, signal);
  const more = h("span", { class: "row" }, aside, h("a", { href: "#/timetable" }, "Timetable"));
  return panel("Load", { class: "load", aside: more }, box);
}

/** Show the status that is known, and each that comes. */
function whileStatus(signal, show) {
  live.on("status", show, signal);
  if (live.status !== null) show(live.status);
  else get("/v1/status", {}, { signal }).then((status) => live.status ?? show(status), () => {});
}
