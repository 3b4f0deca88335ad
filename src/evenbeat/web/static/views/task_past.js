// The days of a task, one bar each: from the summaries that history keeps when the runs themselves are gone.

import { get, taskPath } from "../api.js";
import { clockWords, lastedWords, now } from "../clock.js";
import { fill, h, svg } from "../dom.js";
import { panel } from "../ui.js";
import { count } from "../words.js";

const DAY = 86_400_000;
const SPANS = [30, 400];
const HEIGHT = 28;
const REFRESH = 300_000;

/** A panel, and `read()` that brings it up to date: every few minutes is enough. */
export function pastOf(name, signal) {
  const place = h("div", { class: "days" });
  const note = h("p", { class: "muted" });
  const choice = h("select", { "aria-label": "How many days", onchange: () => draw() },
    SPANS.map((days) => h("option", { value: String(days) }, `${days} days`)));
  const node = panel("Days", { class: "days-panel", aside: choice }, place, note);
  let found = null;
  let readAt = 0;
  node.hidden = true;

  async function read() {
    if (Date.now() - readAt < REFRESH) return;
    try {
      found = await get(taskPath(name, "summaries"), { by: "day" }, { signal });
    } catch {
      return; // a node of before there were summaries
    }
    readAt = Date.now();
    draw();
  }

  function draw() {
    node.hidden = !found.summaries.length;
    if (node.hidden) return;
    fill(place, picture(found.summaries, Number(choice.value)));
    fill(note, `Every run is kept since ${clockWords(found.runs_since)}; of older ones these summaries, and some of the runs.`);
  }

  return { node, read };
}

function picture(summaries, days) {
  const last = Math.floor(now() / DAY) * DAY;
  const known = new Map(summaries.map((day) => [Math.round((Date.parse(day.since) - last) / DAY) + days - 1, day]));
  const shown = [...known].filter(([place]) => place >= 0);
  const bad = shown.filter(([, day]) => lookOf(day) !== "ok").length;
  return svg("svg", {
    class: "strip day-strip", viewBox: `0 0 ${days} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `last ${days} days: ${shown.length} with runs, ${bad ? `${bad} not all good` : "all good"}`,
  },
  svg("path", { class: "strip-ground", d: `M0 ${HEIGHT - 0.5}H${days}` }),
  shown.map(([place, day]) => svg("path", { class: `look-${lookOf(day)}`, d: barOf(place, day) },
    svg("title", null, wordsOf(day)))));
}

/** The worse a day, the taller its bar. */
function barOf(place, day) {
  const height = { ok: HEIGHT / 2, warning: HEIGHT * 0.75, critical: HEIGHT }[lookOf(day)];
  return `M${place + 0.1} ${HEIGHT}v${-height}h0.8v${height}z`;
}

/** Was everything good, or a little not, or more than a twentieth? */
function lookOf(day) {
  const good = day.states.ok ?? day.outcomes.succeeded ?? 0;
  const all = Object.keys(day.states).length ? Object.values(day.states).reduce((a, b) => a + b, 0) : day.runs;
  return good === all ? "ok" : good * 20 >= all * 19 ? "warning" : "critical";
}

function wordsOf(day) {
  const ended = Object.entries(day.outcomes).map(([outcome, times]) => `${count(times)} ${outcome}`).join(", ");
  const took = day.duration.max ? `; took ${lastedWords(day.duration.p50 * 1_000)} to ${lastedWords(day.duration.max * 1_000)}` : "";
  return `${day.since.slice(0, 10)}: ${ended}${took}${day.complete ? "" : " so far"}`;
}
