// Periods: when each is open, as a week and a month one can see; and a form with the same picture beside it.

import { can, get, post, put, remove } from "../api.js";
import { clockWords, now, viewerZone } from "../clock.js";
import { fill, h, svg } from "../dom.js";
import * as live from "../live.js";
import { debounced, refresher } from "../refresh.js";
import { attempt, badge, button, confirm, countdown, empty, failure, panel, toast, zoneNote } from "../ui.js";

const WEEKS = 5;
const PATIENCE = 250;
const NAMES = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

const periodPath = (name, ...below) => ["/v1/periods", encodeURIComponent(name), ...below].join("/");
const href = (name) => `#/periods/${encodeURIComponent(name)}`;

export function mount(root, { name }) {
  const gone = new AbortController();
  const { signal } = gone;
  if (name === null) list(root, signal);
  else one(root, name === "+" ? null : name, signal);
  return () => gone.abort();
}

// All of them

function list(root, signal) {
  const box = h("div", { class: "period-list" });
  fill(root,
    h("div", { class: "row" }, h("h1", null, "Periods"), h("span", { class: "push" }),
      can("admin") ? h("a", { class: "as-button", href: "#/periods/+" }, "New period") : null),
    box);

  async function read() {
    let periods;
    try {
      ({ periods } = await get("/v1/periods", {}, { signal }));
    } catch (problem) {
      if (!signal.aborted) fill(box, failure(problem, again));
      return;
    }
    const cards = await Promise.all(periods.map(card));
    if (!signal.aborted) fill(box, cards.length ? cards : empty("There are no periods: every task may run at any time."));
  }

  async function card(period) {
    const { from, to } = span(1);
    const title = h("a", { href: href(period.name), class: "task-name" }, h("bdi", null, period.name));
    const body = h("div");
    try {
      const found = await get(periodPath(period.name, "windows"), { from, to }, { signal });
      const state = await stateNow(found.windows, to, () => get(periodPath(period.name, "windows"), {}, { signal }));
      fill(body, openWords(state, period.zone), picture(found.windows, 1));
    } catch (problem) {
      fill(body, empty(problem.message));
    }
    return h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", null, title)), body);
  }

  const again = refresher(read, { signal, least: 2_000, each: 60_000 });
  live.on("task", again, signal);
  live.on("reset", again, signal);
}

// One of them

function one(root, name, signal) {
  const trouble = h("div");
  let asked = 0;
  const shown = h("div", { "aria-live": "polite" });
  const line = (key, label, attributes = {}, hint = null) => ({ key, label, hint,
    input: h("input", { type: "text", spellcheck: "false", autocomplete: "off", oninput: later, ...attributes }) });
  const later = debounced(() => check(), PATIENCE, signal);
  const fields = [
    line("name", "Name", name === null ? { required: true, maxlength: "256" } : { readonly: true }),
    { key: "ranges", label: "Ranges", hint: "One per line: monday-friday 09:00-17:00; 2026-12-24; day 1 - 5. None means always.",
      input: h("textarea", { rows: 6, spellcheck: "false", oninput: later }) },
    line("holidays", "Holidays of", { placeholder: "DE, DE-BY, US-CA" }),
    line("include", "Include", { placeholder: "other periods, by commas" }),
    line("exclude", "Exclude", { placeholder: "other periods, by commas" }),
    { key: "prefer", label: "If both apply", input: h("select", { onchange: later },
      h("option", { value: "include" }, "include wins"), h("option", { value: "exclude" }, "exclude wins")) },
    line("zone", "Zone", { placeholder: "UTC" }),
  ];
  const input = Object.fromEntries(fields.map((field) => [field.key, field.input]));
  const save = h("button", { type: "submit", class: "primary" }, name === null ? "Create" : "Save");
  const discard = name === null ? null : button("Delete", drop, { class: "danger" });

  fill(
    root,
    h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: "#/periods" }, "Periods"), " / ",
      h("bdi", null, name ?? "new")),
    h("h1", null, h("bdi", null, name ?? "New period")),
    trouble,
    h("div", { class: "planning-columns editor-columns" },
      panel("Definition", {}, h("form", { class: "editor-form", onsubmit: (e) => (e.preventDefault(), submit()) },
        fields.map((field) => {
          field.input.id = `period-${field.key}`;
          field.note = h("p", { class: "field-error", id: `error-${field.key}`, hidden: true });
          field.input.setAttribute("aria-describedby", field.note.id);
          return h("div", { class: "field" }, h("label", { for: field.input.id }, field.label), field.input,
            field.hint ? h("p", { class: "hint" }, field.hint) : null, field.note);
        }),
        h("div", { class: "row form-buttons" }, can("admin") ? save : null,
          h("a", { class: "as-button", href: "#/periods" }, "Cancel"), h("span", { class: "push" }),
          can("admin") ? discard : null))),
      panel("When it is open", {}, shown)),
  );
  if (name === null) check();
  else load();

  async function load() {
    try {
      const period = await get(periodPath(name), {}, { signal });
      input.name.value = name;
      input.ranges.value = period.ranges.join("\n");
      for (const key of ["include", "exclude"]) input[key].value = period[key].join(", ");
      for (const key of ["holidays", "prefer", "zone"]) input[key].value = period[key] ?? "";
      fill(trouble, period.owner.startsWith("file:")
        ? h("p", { class: "notice" }, "This period belongs to ", h("code", null, period.owner.slice(5)),
          ". What is changed here lasts until that file is read again.") : null);
      await check();
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failure(problem, load));
    }
  }

  function definition() {
    const many = (text, by) => text.split(by).map((part) => part.trim()).filter(Boolean);
    return {
      ranges: many(input.ranges.value, "\n"),
      holidays: input.holidays.value.trim() || null,
      include: many(input.include.value, ","),
      exclude: many(input.exclude.value, ","),
      prefer: input.prefer.value,
      zone: input.zone.value.trim() || "UTC",
    };
  }

  async function check() {
    const { from, to } = span(WEEKS);
    const period = definition();
    const mine = ++asked;
    try {
      const found = await post("/v1/periods/preview", period, { signal, query: { from, to } });
      const state = await stateNow(found.windows, to, () => post("/v1/periods/preview", period, { signal }));
      if (mine !== asked) return;
      showErrors([]);
      fill(shown, openWords(state, period.zone), picture(found.windows, WEEKS));
      save.disabled = false;
    } catch (problem) {
      if (signal.aborted || mine !== asked) return;
      fill(shown, problem.errors?.length ? empty("Not a period yet.") : failure(problem, check));
      showErrors(problem.errors ?? []);
      save.disabled = true;
    }
  }

  function showErrors(errors) {
    for (const field of fields) {
      field.note.hidden = true;
      field.input.removeAttribute("aria-invalid");
    }
    for (const { pointer, detail, column } of errors) {
      const [, key = "", place] = pointer.split("/");
      const field = fields.find((one) => one.key === key);
      const where = [place === undefined ? "" : `line ${Number(place) + 1}`, column ? `character ${column}` : ""];
      const text = [where.filter(Boolean).join(", "), detail].filter(Boolean).join(": ");
      if (!field) {
        shown.append(h("p", { class: "bad-text" }, text));
        continue;
      }
      field.input.setAttribute("aria-invalid", "true");
      field.note.textContent = text;
      field.note.hidden = false;
    }
  }

  async function submit() {
    const called = input.name.value.trim();
    save.disabled = true;
    try {
      if (name === null) {
        const { periods } = await get("/v1/periods", {}, { signal });
        if (periods.some((period) => period.name === called)) {
          showErrors([{ pointer: "/name", detail: "there is a period of this name already" }]);
          return;
        }
      }
      await put(periodPath(called), definition());
      toast(name === null ? "Created" : "Saved");
      location.hash = href(called).slice(1);
    } catch (problem) {
      showErrors(problem.errors ?? []);
      toast(problem.message, "bad");
    } finally {
      save.disabled = false;
    }
  }

  async function drop() {
    const yes = await confirm("Delete this period?", { list: [name], verb: "Delete", dangerous: true });
    if (yes && (await attempt(() => remove(periodPath(name)), "Deleted"))) location.hash = "#/periods";
  }
}

// Pictures

/** Whole days of the viewer's, from the Monday of this week on. */
function span(weeks) {
  const first = new Date(now());
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  const last = new Date(first);
  last.setDate(last.getDate() + 7 * weeks);
  return { from: first.toISOString(), to: last.toISOString() };
}

/** Whether it is open now, and when that ends: by the windows that are known, or else by asking further. */
async function stateNow(windows, to, ask) {
  const last = Date.parse(to);
  const spans = windows.map(([open, close]) => ({ open, close, from: Date.parse(open), to: Date.parse(close) }));
  const here = spans.find((one) => one.from <= now() && now() < one.to);
  if (here && here.to < last) return { inside: true, next: here.close };
  const ahead = here ? undefined : spans.find((one) => one.from > now());
  if (ahead) return { inside: false, next: ahead.open };
  const found = await ask();
  return { inside: found.inside, next: found.inside ? found.next_close : found.next_open };
}

function openWords({ inside, next }, zone) {
  const word = inside ? "closes" : "opens";
  return [
    h("p", { class: "row open-words" }, inside ? badge("ok", "open") : badge("skipped", "closed"),
      next ? h("span", null, `${word} `, countdown(next, zone)) : h("span", null, `never ${word}`),
      next ? h("span", { class: "muted" }, clockWords(next), " ", zoneNote(next, zone)) : null),
    zone === viewerZone ? null : h("p", { class: "hint" }, `It goes by ${zone}; the picture by ${viewerZone}, as you do.`),
  ];
}

const WIDE = { left: 92, hour: 22, row: 18, top: 16 };

/** Texts in the picture keep their size, so a narrow window gets narrower hours. */
function room() {
  const hour = Math.min(WIDE.hour, (document.documentElement.clientWidth - WIDE.left - 64) / 24);
  return { ...WIDE, hour: Math.max(6, hour) };
}

/** A row per day, an hour as wide as every other; open is filled. */
function picture(windows, weeks) {
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
      return svg("rect", { class: "period-open", x: a, y: y + 2, width: Math.max(1, b - a), height: box.row - 4, rx: 2 });
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
