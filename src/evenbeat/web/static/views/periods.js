// Periods: when each is open, as a week and a month one can see; and a form with the same picture beside it.

import { can, get, post, put, remove } from "../api.js";
import { fill, h } from "../dom.js";
import * as live from "../live.js";
import { debounced, refresher } from "../refresh.js";
import { attempt, button, confirm, empty, failure, panel, toast } from "../ui.js";
import { openWords, picture, span, stateNow } from "./period_picture.js";

const WEEKS = 5;
const PATIENCE = 250;

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
    const none = "There are no periods: every task may run at any time.";
    if (!signal.aborted) fill(box, cards.length ? cards : empty(none));
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
    { key: "ranges", label: "Ranges",
      hint: "One per line: monday-friday 09:00-17:00; 2026-12-24; day 1 - 5. None means always.",
      input: h("textarea", { rows: 6, spellcheck: "false", oninput: later }) },
    line("holidays", "Holidays of", { placeholder: "DE, DE-BY, US-CA" }),
    line("include", "Include", { placeholder: "other periods, separated by commas" }),
    line("exclude", "Exclude", { placeholder: "other periods, separated by commas" }),
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
          ": your change is overwritten when that file is next applied.") : null);
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
          showErrors([{ pointer: "/name", detail: "a period of this name already exists" }]);
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
