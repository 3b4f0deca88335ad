// A heat map: many numbers at a glance, on a canvas.

import { fill, h } from "./dom.js";

/** The palest colour stands for this share of the highest value, unless lower values are there. */
const EVEN = 0.8;
const SWATCHES = 5;

/**
 * A heat map on a canvas, with a legend. `draw({values, columns, rowLabels, columnLabels})`, values row by row, null for
 * a cell that is left out. `describe(i)` gives the tip of a cell, `onPick(i)` is called for a click or Enter; arrow keys
 * walk over the cells.
 */
export function heatMap(
  box, { cell = 22, tall = 13, gap = 1, signal, describe = null, onPick = null, label = "heat map", unit = "" } = {},
) {
  const canvas = h("canvas", { class: "heat", tabindex: "0", role: "application", "aria-label": label });
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  // A canvas does not know the style sheet: these do, whatever the theme.
  const probes = ["none", "hot", "mark"].map((name) => h("span", { class: `heat-${name}`, hidden: true }));
  const legend = h("div", { class: "legend heat-legend" });
  fill(box, h("div", { class: "heat-scroll" }, canvas), tip, legend, probes);
  box.classList.add("chart");
  const left = 44;
  const top = 16;
  let shown = null;
  let here = -1;

  function draw(data = shown) {
    if (!data) return;
    shown = data;
    const { values, columns, rowLabels = [], columnLabels = [] } = data;
    const rows = Math.ceil(values.length / columns);
    const colours = scale(values);
    const size = Math.max(3, Math.min(cell, (box.clientWidth - left) / columns || cell));
    shown.size = size;
    const width = left + Math.round(columns * size);
    const height = top + rows * tall;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const style = getComputedStyle(box);
    const [none, hot, mark] = probes.map((probe) => getComputedStyle(probe).color);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `11px ${style.fontFamily}`;
    pen.fillStyle = style.color;
    rowLabels.forEach((text, i) => text && pen.fillText(text, 0, top + i * tall + tall - 3));
    columnLabels.forEach((text, i) => text && pen.fillText(text, Math.round(left + i * size), 11));
    values.forEach((value, i) => {
      if (value === null) return;
      const x = Math.round(left + (i % columns) * size);
      const y = top + Math.floor(i / columns) * tall;
      const wide = Math.round(left + ((i % columns) + 1) * size) - x;
      pen.globalAlpha = 1;
      pen.fillStyle = none;
      pen.fillRect(x, y, wide - gap, tall - gap);
      if (value > 0) {
        pen.globalAlpha = colours.share(value);
        pen.fillStyle = hot;
        pen.fillRect(x, y, wide - gap, tall - gap);
      }
      if (i === here) {
        pen.globalAlpha = 1;
        pen.strokeStyle = mark;
        pen.strokeRect(x - 0.5, y - 0.5, wide, tall);
      }
    });
    const swatch = (value) => h("span", null,
      h("i", { class: "heat-swatch", vars: { share: value ? colours.share(value) : 0 } }), value.toLocaleString("en-GB"));
    fill(legend, [0, ...colours.steps].map(swatch), unit ? h("span", null, unit) : null);
  }

  function point(event) {
    if (!shown) return -1;
    const rect = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - rect.left - left) / shown.size);
    const row = Math.floor((event.clientY - rect.top - top) / tall);
    const i = row * shown.columns + column;
    if (column < 0 || column >= shown.columns || row < 0 || i >= shown.values.length) return -1;
    return shown.values[i] === null ? -1 : i;
  }

  function look(i) {
    if (i === here) return;
    here = i;
    draw();
    tip.hidden = i < 0 || !describe;
    if (tip.hidden) return;
    fill(tip, describe(i));
    const x = left + (i % shown.columns) * shown.size + 10;
    tip.style.setProperty("--x", `${Math.max(60, Math.min(x, box.clientWidth - 80))}px`);
    tip.style.setProperty("--y", `${top + Math.floor(i / shown.columns) * tall - 32}px`);
  }

  canvas.addEventListener("pointermove", (event) => look(point(event)));
  canvas.addEventListener("pointerleave", () => look(-1));
  canvas.addEventListener("click", (event) => {
    const i = point(event);
    if (i >= 0) onPick?.(i);
  });
  canvas.addEventListener("keydown", (event) => {
    const row = shown?.columns ?? 0;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row }[event.key];
    if (by !== undefined && shown) {
      event.preventDefault();
      const first = shown.values.findIndex((value) => value !== null);
      look(Math.max(first, Math.min(shown.values.length - 1, here < 0 ? first : here + by)));
    } else if (event.key === "Enter" && here >= 0) {
      onPick?.(here);
    }
  });
  const observer = new ResizeObserver(() => draw());
  observer.observe(box);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => draw(), { signal });
  document.addEventListener("evenbeat:theme", () => draw(), { signal });
  signal?.addEventListener("abort", () => observer.disconnect());
  return { draw };
}

/** How strong the colour of each value is, and the values that the legend shows. */
function scale(values) {
  const above = values.filter((value) => value > 0);
  const most = above.reduce((a, b) => Math.max(a, b), 1);
  const least = Math.min(above.reduce((a, b) => Math.min(a, b), most), Math.max(1, Math.floor(most * EVEN)));
  const share = (value) => (most === least ? 1 : 0.2 + (0.8 * (value - least)) / (most - least));
  const number = Math.min(SWATCHES, most - least + 1);
  const steps = Array.from({ length: number }, (_, i) => Math.round(least + (i * (most - least)) / Math.max(1, number - 1)));
  return { share, steps };
}
