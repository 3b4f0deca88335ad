// Small charts: curves over time, strips of last runs, bars. Colours come from the style sheet.

import { fill, h, svg } from "./dom.js";
import { minuteWords } from "./clock.js";
import { endingWords, runLook } from "./words.js";

export { heatMap } from "./heat.js";

const STRIP = { runs: 20, step: 6, bar: 4, height: 16 };
const MARGIN = { left: 40, right: 8, top: 16, bottom: 20 };
const TICKS = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200].map((s) => s * 1_000);

/** The last runs, oldest first, as bars: the worse, the taller. One path per look keeps long lists light. */
export function strip(runs) {
  const last = runs.slice(-STRIP.runs);
  const start = STRIP.runs - last.length;
  const paths = {};
  last.forEach((run, i) => {
    const look = runLook(run);
    const height = look === "ok" ? 7 : look === "running" ? 4 : look === "warning" ? 12 : STRIP.height;
    const x = (start + i) * STRIP.step;
    paths[look] = `${paths[look] ?? ""}M${x} ${STRIP.height}v${-height}h${STRIP.bar}v${height}z`;
  });
  const label = last.length ? stripLabel(last) : "no runs known";
  return svg(
    "svg",
    { class: "strip", viewBox: `0 0 ${STRIP.runs * STRIP.step} ${STRIP.height}`, role: "img", "aria-label": label },
    svg("path", { class: "strip-ground", d: `M0 ${STRIP.height - 0.5}H${STRIP.runs * STRIP.step}` }),
    Object.entries(paths).map(([look, d]) => svg("path", { class: `look-${look}`, d })),
  );
}

function stripLabel(runs) {
  const bad = runs.filter((run) => !["ok", "running"].includes(runLook(run))).length;
  return `last ${runs.length} runs, ${bad ? `${bad} not good` : "all good"}; latest ${endingWords(runs.at(-1))}`;
}

/** A bar from 0 to 1, with its own look. */
export function bar(share, look = "accent", label = "") {
  const part = `${(Math.max(0, Math.min(1, share || 0)) * 100).toFixed(1)}%`;
  const role = label ? { role: "img", "aria-label": label } : {};
  return h("span", { class: `bar look-${look}`, vars: { part }, ...role }, h("span"));
}

/** Move a bar that is there already. */
export function setBar(node, share, look) {
  node.style.setProperty("--part", `${(Math.max(0, Math.min(1, share || 0)) * 100).toFixed(1)}%`);
  if (look) node.className = `bar look-${look}`;
}

/**
 * Curves over time in a box. `draw({from, to, now, step, series, unit, label})`: times in milliseconds, `series` a list
 * of {name, look, from, values, kind}, kind "area", "solid", "line" or "bars"; a value covers one step from its time
 * on. `onPick(t)` is called for a click.
 */
export function timeChart(box, { height = 170, signal, onPick = null } = {}) {
  const tip = h("div", { class: "tip", hidden: true });
  const legend = h("div", { class: "legend" });
  const place = h("div", { class: "chart-box" });
  fill(box, legend, place, tip);
  box.classList.add("chart");
  let shown = null;

  function draw(data) {
    shown = { ...data, width: Math.max(220, place.clientWidth) };
    fill(legend, data.series.map((one) => h("span", { class: `key key-${one.kind} look-${one.look}` }, one.name)));
    fill(place, picture(shown, height));
  }

  function over(event) {
    if (!shown) return;
    const { left } = place.getBoundingClientRect();
    const { from, to, step, series, width, unit } = shown;
    const x = event.clientX - left;
    const t = from + ((x - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (to - from);
    if (t < from || t >= to) return out();
    const lines = series
      .map((one) => [one.name, one.values[Math.floor((t - one.from) / step)]])
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => h("div", null, `${name} ${round(value)} ${unit}`));
    tip.hidden = false;
    fill(tip, h("strong", null, minuteWords(t) + `:${String(Math.floor(t / 1_000) % 60).padStart(2, "0")}`), lines);
    tip.style.setProperty("--x", `${Math.min(Math.max(x, 60), width - 60)}px`);
  }

  function out() {
    tip.hidden = true;
  }

  place.addEventListener("pointermove", over);
  place.addEventListener("pointerleave", out);
  if (onPick) {
    place.classList.add("pickable");
    place.addEventListener("click", (event) => {
      const { left } = place.getBoundingClientRect();
      const { from, to, width } = shown;
      onPick(from + ((event.clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (to - from));
    });
  }
  const observer = new ResizeObserver(() => shown && draw(shown));
  observer.observe(place);
  signal?.addEventListener("abort", () => observer.disconnect());
  return { draw };
}

function picture({ from, to, now, step, series, unit, label, width }, height) {
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const most = nice(Math.max(1e-9, ...series.map((one) => one.values.reduce((a, b) => Math.max(a, b ?? 0), 0))));
  const x = (t) => MARGIN.left + ((t - from) / (to - from)) * inner.width;
  const y = (value) => MARGIN.top + inner.height * (1 - value / most);
  const ground = y(0);
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    svg("clipPath", { id: clip }, svg("rect", { x: MARGIN.left, y: 0, width: inner.width, height })),
    [0, most / 2, most].map((value) => [
      svg("path", { class: value ? "grid-line" : "ground-line", d: `M${MARGIN.left} ${y(value)}h${inner.width}` }),
      svg("text", { class: "axis", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, round(value)),
    ]),
    svg("text", { class: "axis", x: MARGIN.left + 4, y: MARGIN.top - 5 }, unit),
    timeTicks(from, to, inner.width).map((t) => [
      svg("path", { class: "grid-line", d: `M${x(t).toFixed(1)} ${ground}v4` }),
      svg("text", { class: "axis", x: x(t), y: height - 5, "text-anchor": "middle" }, minuteWords(t)),
    ]),
    svg("g", { "clip-path": `url(#${clip})` }, series.map((one) => shape(one, step, x, y, ground))),
    now === undefined || now === null
      ? null
      : svg(
          "g",
          { class: "now-mark" },
          svg("path", { d: `M${x(now).toFixed(1)} ${MARGIN.top - 4}V${ground}` }),
          svg("text", { x: x(now) + 5, y: MARGIN.top + 4 }, "now"),
        ),
  );
}

function shape({ look, kind, from, values }, step, x, y, ground) {
  const at = (i) => x(from + i * step).toFixed(1);
  if (kind === "bars") {
    const wide = Math.max(1, (x(from + step) - x(from)) * 0.8).toFixed(2);
    const d = values.map((v, i) => (v ? `M${at(i)} ${ground}V${y(v).toFixed(1)}h${wide}V${ground}z` : "")).join("");
    return svg("path", { class: `bars look-${look}`, d });
  }
  const line = values.map((v, i) => `${i ? "L" : "M"}${at(i)} ${y(v ?? 0).toFixed(1)}H${at(i + 1)}`).join("");
  if (!line) return null;
  if (kind === "solid") return svg("path", { class: `solid look-${look}`, d: `${line}V${ground}H${at(0)}z` });
  const area = kind === "area" ? svg("path", { class: `area look-${look}`, d: `${line}V${ground}H${at(0)}z` }) : null;
  return [area, svg("path", { class: `line look-${look}`, d: line })];
}

function timeTicks(from, to, width) {
  const most = Math.max(2, Math.floor(width / 70));
  const step = TICKS.find((tick) => (to - from) / tick <= most) ?? TICKS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t < to; t += step) ticks.push(t);
  return ticks;
}

/** A pleasant upper end of a scale. */
export function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.5, 3, 4, 5, 6, 8, 10].find((part) => part * power >= value * 0.999) * power;
}

/** Whether peak / mean says anything of so many starts per second: below one, a single start is many times the mean. */
export function isMany(mean) {
  return mean >= 1;
}

export function round(value) {
  if (value === 0) return "0";
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-GB");
  return value.toPrecision(2).replace(/\.0$/, "");
}
