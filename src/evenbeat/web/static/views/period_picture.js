// When a period is open: in words, and as a picture with a row for each day.

import { clockWords, now, viewerZone } from "../clock.js";
import { h, svg } from "../dom.js";
import { badge, countdown, zoneNote } from "../ui.js";

const NAMES = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

/** Whole days of the viewer's, from the Monday of this week on. */
export function span(weeks) {
  const first = new Date(now());
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  const last = new Date(first);
  last.setDate(last.getDate() + 7 * weeks);
  return { from: first.toISOString(), to: last.toISOString() };
}

/** Whether it is open now, and when that ends: by the windows that are known, or else by asking further. */
export async function stateNow(windows, to, ask) {
  const last = Date.parse(to);
  const spans = windows.map(([open, close]) => ({ open, close, from: Date.parse(open), to: Date.parse(close) }));
  const here = spans.find((one) => one.from <= now() && now() < one.to);
  if (here && here.to < last) return { inside: true, next: here.close };
  const ahead = here ? undefined : spans.find((one) => one.from > now());
  if (ahead) return { inside: false, next: ahead.open };
  const found = await ask();
  return { inside: found.inside, next: found.inside ? found.next_close : found.next_open };
}

export function openWords({ inside, next }, zone) {
  const word = inside ? "closes" : "opens";
  return [
    h("p", { class: "row open-words" }, inside ? badge("ok", "open") : badge("skipped", "closed"),
      next ? h("span", null, `${word} `, countdown(next, zone)) : h("span", null, `never ${word}`),
      next ? h("span", { class: "muted" }, clockWords(next), " ", zoneNote(next, zone)) : null),
    zone === viewerZone ? null : h("p", { class: "hint" },
      `Defined in ${zone}, shown in ${viewerZone}.`),
  ];
}

const WIDE = { left: 92, hour: 22, row: 18, top: 16 };

/** Texts in the picture keep their size, so a narrow window gets narrower hours. */
function room() {
  const hour = Math.min(WIDE.hour, (document.documentElement.clientWidth - WIDE.left - 64) / 24);
  return { ...WIDE, hour: Math.max(6, hour) };
}

/** A row per day, an hour as wide as every other; open is filled. */
export function picture(windows, weeks) {
  const box = room();
  const start = Date.parse(span(weeks).from);
  const spans = windows.map(([open, close]) => [Date.parse(open), Date.parse(close)]);
  const width = box.left + 24 * box.hour + 6;
  const days = Array.from({ length: 7 * weeks }, (_, i) => {
    const day = new Date(start);
    day.setDate(day.getDate() + i);
    const next = new Date(day);
    next.setDate(next.getDate() + 1);
    return { day, from: day.getTime(), to: next.getTime(), y: box.top + i * box.row };
  });
  const x = (part) => box.left + part * 24 * box.hour;
  const bars = days.flatMap(({ from, to, y }) => spans
    .filter(([open, close]) => open < to && close > from)
    .map(([open, close]) => {
      const [a, b] = [Math.max(open, from), Math.min(close, to)].map((t) => x((t - from) / (to - from)));
      const size = { x: a, y: y + 2, width: Math.max(1, b - a), height: box.row - 4 };
      return svg("rect", { class: "period-open", rx: 2, ...size });
    }));
  const today = days.find(({ from, to }) => from <= now() && now() < to);
  return h("div", { class: "table-scroll" }, svg(
    "svg",
    { class: "period-picture", viewBox: `0 0 ${width} ${box.top + days.length * box.row + 4}`, width,
      role: "img", "aria-label": `when it is open, day by day, in ${viewerZone}` },
    [0, 6, 12, 18, 24].map((hour) => [
      svg("text", { class: "axis", x: x(hour / 24), y: 11, "text-anchor": "middle" }, String(hour)),
      svg("path", { class: "grid-line", d: `M${x(hour / 24)} ${box.top}V${box.top + days.length * box.row}` }),
    ]),
    days.map(({ day, y }, i) => [
      svg("text", { class: i % 7 > 4 ? "axis weekend" : "axis", x: 0, y: y + box.row - 5 }, NAMES.format(day)),
      svg("rect", { class: "period-closed", x: x(0), y: y + 2, width: 24 * box.hour, height: box.row - 4, rx: 2 }),
    ]),
    bars,
    today ? svg("path", { class: "period-now",
      d: `M${x((now() - today.from) / (today.to - today.from)).toFixed(1)} ${today.y}v${box.row}` }) : null,
  ));
}
