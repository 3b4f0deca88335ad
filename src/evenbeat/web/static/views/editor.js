// The editor: a task as a form, with what it would mean beside it - times, words, warnings, the load.

import { can, get, ifVersion, post, put, taskPath } from "../api.js";
import { isMany, round, timeChart } from "../charts.js";
import { clockWords, now, wholeWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { debounced } from "../refresh.js";
import { attempt, button, countdown, empty, failure, panel, taskHref, toast, zoneNote } from "../ui.js";
import { FIELDS, GROUPS, hasEffect, others, read as readForm, stateOf, write as writeForm } from "./editor_fields.js";

const PATIENCE = 250;

export function mount(root, { name, query }) {
  const gone = new AbortController();
  const { signal } = gone;
  const trouble = h("div");
  const preview = h("div", { "aria-live": "polite" }, empty("Working it out …"));
  const effect = h("div");
  const curveBox = h("div", { hidden: true });
  const kept = h("p", { class: "hint", hidden: true });
  const knownPeriods = h("datalist", { id: "known-periods" });
  const knownPools = h("datalist", { id: "known-pools" });
  const knownZones = h("datalist", { id: "known-zones" },
    Intl.supportedValuesOf("timeZone").map((zone) => h("option", { value: zone })));
  const save = h("button", { type: "submit", class: "primary" }, name === null ? "Create" : "Save");
  const form = h("form", { class: "editor-form", onsubmit: (event) => (event.preventDefault(), submit()) });
  const inputs = {};
  const groups = {};
  /** What a person has entered, or tried to create without: an empty new form is no list of errors. */
  const touched = new Set();
  let before = null;
  let asked = 0;

  fill(
    root,
    name === null ? null : h("nav", { class: "crumbs", "aria-label": "Where" },
      h("a", { href: "#/tasks" }, "Tasks"), " / ", h("a", { href: taskHref(name) }, h("bdi", null, name)), " / edit"),
    h("h1", null, name === null ? "New task" : ["Edit ", h("bdi", null, name)]),
    trouble,
    h("div", { class: "planning-columns editor-columns" },
      panel("Definition", {}, form),
      h("div", { class: "stack" },
        panel("What it means", {}, preview),
        panel("Effect on the load", {}, effect, curveBox))),
    knownPeriods, knownZones, knownPools,
  );
  const chart = timeChart(curveBox, { height: 130, signal });
  build();
  // What is typed before the task is here would be overwritten, and saving would create another one.
  form.inert = save.disabled = name !== null;
  if (name === null) begin({ name: query.get("name") ?? "", check: false, every: "5m", command: [] });
  else load();
  get("/v1/cluster", {}, { signal }).then(
    ({ pools }) => fill(knownPools, Object.keys(pools).map((pool) => h("option", { value: pool }))), () => {});
  get("/v1/periods", {}, { signal }).then(
    ({ periods }) => fill(knownPeriods, periods.map((period) => h("option", { value: period.name }))), () => {});

  function build() {
    fill(form,
      GROUPS.map(({ key, title }) => {
        const fields = FIELDS.filter(({ group = "main" }) => group === key).map(fieldRow);
        if (!title) return fields;
        groups[key] = h("details", { class: "field-group" }, h("summary", null, title), fields);
        return groups[key];
      }),
      kept,
      h("div", { class: "row form-buttons" }, can("admin") ? save : empty("Your token may not change tasks."),
        h("a", { class: "as-button", href: name === null ? "#/tasks" : taskHref(name) }, "Cancel")));
  }

  function fieldRow(field) {
    const input = field.type.input(field);
    const note = h("p", { class: "field-error", id: `error-${field.key}`, hidden: true });
    input.id = `field-${field.key}`;
    input.setAttribute("aria-describedby", note.id);
    input.addEventListener("input", () => changed(field.key));
    inputs[field.key] = { field, input, note };
    return h("div", { class: "field", dataset: { key: field.key } },
      h("label", { for: input.id }, field.label), input,
      field.hint ? h("p", { class: "hint" }, field.hint) : null, note);
  }

  async function load() {
    try {
      const document = await get(taskPath(name), {}, { signal });
      before = document;
      begin({ ...document.task, name: document.name, check: document.check });
      fill(trouble, document.owner.startsWith("file:")
        ? h("p", { class: "notice" }, "This task belongs to ", h("code", null, document.owner.slice(5)),
          ": your change is overwritten when that file is next applied.") : null);
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failure(problem, load));
    }
  }

  /** Somebody was faster: say so, and let the person decide whose definition it shall be. */
  async function conflict() {
    before = await get(taskPath(name), {}, { signal });
    fill(trouble, h("div", { class: "notice", role: "alert" },
      h("p", null, "This task has been changed by another user meanwhile. Saving again overwrites that change."),
      button("Load their version", load)));
    trouble.scrollIntoView({ block: "nearest" });
  }

  function begin(task) {
    form.inert = false;
    writeForm(inputs, task);
    for (const { key, isOpen } of GROUPS) {
      // Every interval task has a phase: that was chosen, not set.
      const isSet = FIELDS.some((field) => field.group === key && field.key !== "phase" && field.key in task);
      if (groups[key]) groups[key].open = isOpen || isSet;
    }
    show();
    check();
  }

  /** Only the keys that have an effect on what was chosen. */
  function show() {
    const state = stateOf(inputs);
    for (const { field, input } of Object.values(inputs)) input.closest(".field").hidden = !hasEffect(field, state);
  }

  function changed(key) {
    touched.add(key);
    show();
    later();
  }

  const later = debounced(check, PATIENCE, signal);

  async function check() {
    const mine = ++asked;
    const task = readForm(inputs, before?.task);
    const more = others(task);
    kept.hidden = !more.length;
    kept.textContent = `Kept unchanged: ${more.join(", ")}.`;
    const isEmpty = !task.passive && !task.command?.length && !task.function;
    // The times are shown before it is said what runs then.
    const whole = isEmpty ? { ...task, command: ["noop"], shell: undefined } : task;
    try {
      const found = await post("/v1/validate", whole, { signal });
      if (mine !== asked) return;
      showErrors(found.errors);
      showMeaning(found, isEmpty);
      save.disabled = !found.valid || isEmpty;
      curveBox.hidden = !found.valid || !task.name;
      if (!curveBox.hidden) await forecast(whole, mine);
      else fill(effect, empty(found.valid ? "The name decides the phase: enter one." : "Nothing to show yet."));
    } catch (problem) {
      if (!signal.aborted && mine === asked) fill(preview, failure(problem, check));
    }
  }

  function showErrors(errors) {
    for (const { input, note } of Object.values(inputs)) {
      note.hidden = true;
      input.removeAttribute("aria-invalid");
    }
    const homeless = [];
    for (const error of errors) {
      const key = error.pointer.split("/")[1] ?? "";
      const home = key === "command" && inputs.what.input.value === "line" ? inputs.line : inputs[key];
      if (!home?.input || home.input.closest(".field").hidden) {
        homeless.push(error);
        continue;
      }
      if (before === null && !touched.has(home.field.key)) {
        homeless.push({ ...error, isEarly: true });
        continue;
      }
      home.input.closest("details")?.setAttribute("open", "");
      home.input.setAttribute("aria-invalid", "true");
      home.note.hidden = false;
      home.note.textContent = error.column ? `${error.detail} (at character ${error.column})` : error.detail;
    }
    fill(preview, homeless.map((error) => h("p", { class: error.isEarly ? "muted" : "bad-text" },
      error.pointer ? `${error.pointer.slice(1)}: ${error.detail}` : error.detail)));
  }

  function showMeaning(found, isEmpty) {
    if (!found.valid) {
      if (!preview.children.length) fill(preview, empty("Not a task yet."));
      return;
    }
    fill(
      preview,
      isEmpty ? h("p", { class: "muted" }, "Enter what runs.") : null,
      h("p", { class: "answer" }, found.text),
      found.resolved ? h("p", { class: "muted" }, "as ", h("code", null, found.resolved)) : null,
      h("ol", { class: "times" }, found.next.map((iso) => h("li", { title: wholeWords(iso, found.zone) },
        h("span", null, clockWords(iso)), zoneNote(iso, found.zone), countdown(iso, found.zone)))),
      found.next.length ? null : empty("It is never due."),
      found.warnings.length ? h("ul", { class: "warnings" }, found.warnings.map((text) => h("li", null, text))) : null,
    );
  }

  async function forecast(task, mine) {
    let found;
    try {
      found = await post("/v1/forecast", { tasks: [task], hours: 1 }, { signal });
    } catch (problem) {
      if (signal.aborted || mine !== asked) return;
      curveBox.hidden = true;
      fill(effect, empty(problem.message));
      return;
    }
    if (mine !== asked) return;
    const line = (word, even) => h("tr", null, h("th", { scope: "row" }, word),
      [even.peak, even.mean].map((value) => h("td", { class: "numeric" }, round(value))),
      h("td", { class: "numeric" }, isMany(even.mean) ? even.peak_to_mean.toFixed(2) : "–"));
    fill(effect, h("table", { class: "table" },
      h("thead", null, h("tr", null, ["", "Peak per second", "Mean", "Peak / mean"].map((word, i) =>
        h("th", { scope: "col", class: i ? "numeric" : null }, word)))),
      h("tbody", null, line("now", found.before), line("with this", found.after))));
    const from = Math.floor(now() / 60_000) * 60_000;
    chart.draw({
      from, to: from + found.curve_after.length * 60_000, now: null, step: 60_000, unit: "starts/min",
      label: "load of the next hour, without and with this task",
      series: [
        { name: "with this", look: "planned", kind: "solid", from, values: found.curve_after },
        { name: "now", look: "done", kind: "solid", from, values: found.curve_before },
      ],
    });
  }

  async function submit() {
    const task = readForm(inputs, before?.task);
    save.disabled = true;
    try {
      const done = before === null
        ? await post("/v1/tasks", task)
        : await put(taskPath(before.name), task, { headers: ifVersion(before.version) });
      toast(before === null ? "Created" : "Saved");
      location.hash = taskHref(done.name).slice(1);
    } catch (problem) {
      if (problem.status === 412) {
        await attempt(conflict);
      } else {
        for (const key of Object.keys(inputs)) touched.add(key);
        showErrors(problem.errors);
        toast(problem.message, "bad");
      }
    } finally {
      save.disabled = false;
    }
  }

  return () => gone.abort();
}
