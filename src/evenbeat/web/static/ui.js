// The small pieces that views share: state signs, links to tasks, buttons, dialogs, notices.

import { fill, h, svg } from "./dom.js";
import { countTo, untilWords, wholeWords, zoneWords } from "./clock.js";
import { condition } from "./words.js";

/** Each look has a shape of its own: colour is never the only sign. */
const SHAPES = {
  ok: ["circle", { cx: 8, cy: 8, r: 5 }],
  warning: ["path", { d: "M8 2 14.5 13.5H1.5Z" }],
  critical: ["rect", { x: 2.5, y: 2.5, width: 11, height: 11, rx: 1 }],
  unknown: ["path", { d: "M8 1 15 8 8 15 1 8Z" }],
  running: ["path", { d: "M4 2.5 13.5 8 4 13.5Z" }],
  skipped: ["path", { d: "M2 8H14" }],
  new: ["circle", { cx: 8, cy: 8, r: 4.5 }],
};

/** The sign of a look: "ok", "warning", "critical", "unknown", "running", "skipped" or "new". */
export function sign(look) {
  const [tag, attributes] = SHAPES[look] ?? SHAPES.new;
  return svg("svg", { class: `sign look-${look}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, svg(tag, attributes));
}

/** Sign and words of how a task is; takes a task document. */
export function conditionBadge(task) {
  const { look, label, more } = condition(task);
  const node = badge(look, label);
  node.append(...more.map((word) => h("span", { class: `remark remark-${word.split(" ")[0]}` }, word)));
  return node;
}

/** Sign and words of a look. */
export function badge(look, label) {
  return h("span", { class: `badge look-${look}` }, sign(look), h("span", { class: "badge-label" }, label));
}

/** The page to go back to: the list with its filter. */
export const trail = { tasks: "#/tasks" };

export function taskHref(name) {
  return `#/tasks/${encodeURIComponent(name)}`;
}

export function editorHref(name) {
  return `#/editor/${encodeURIComponent(name)}`;
}

/** A task's name as a link. Names are isolated: right-to-left characters in one must not rearrange a row. */
export function taskLink(name, attributes = {}) {
  return h("a", { class: "task-name", href: taskHref(name), title: name, ...attributes }, h("bdi", null, name));
}

/** A time that counts down, with its whole story as title, and the task's own zone where that differs. */
export function countdown(iso, zone, words = untilWords) {
  const node = h("time", { class: "countdown", title: iso ? wholeWords(iso, zone) : null, datetime: iso || null });
  return countTo(node, iso, words);
}

export function zoneNote(iso, zone) {
  const text = zoneWords(iso, zone);
  return text ? h("span", { class: "zone" }, text) : null;
}

export function button(label, work, attributes = {}) {
  return h("button", { type: "button", onclick: work, ...attributes }, label);
}

/** Terms and what they are: facts([["Owner", "ops"], ...]); those without a value are left out. */
export function facts(pairs) {
  const present = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, present.map(([term, value]) => [h("dt", null, term), h("dd", null, value)]));
}

/** The head of a table; names in `numeric` stand over numbers. */
export function headings(names, numeric = []) {
  const cell = (name) => h("th", { scope: "col", class: numeric.includes(name) ? "numeric" : null }, name);
  return h("thead", null, h("tr", null, names.map(cell)));
}

/** A part of a view with its heading. */
export function panel(title, { class: name = "", aside = null } = {}, ...children) {
  const id = `p-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h(
    "section",
    { class: `panel ${name}`, "aria-labelledby": id },
    h("div", { class: "panel-head" }, h("h2", { id }, title), aside),
    children,
  );
}

export function empty(text) {
  return h("p", { class: "empty" }, text);
}

/** A problem where a view could not be filled, with a way to try again. */
export function failure(problem, again) {
  return h(
    "div",
    { class: "failure", role: "alert" },
    h("strong", null, problem.title || "That did not work"),
    h("p", null, problem.message),
    again ? button("Try again", again) : null,
  );
}

/** A notice that goes away by itself; `kind` is "good" or "bad". */
export function toast(text, kind = "good") {
  const node = h("div", { class: `toast ${kind}` }, text);
  const place = document.getElementById("toasts");
  place.append(node);
  while (place.children.length > 3) place.firstElementChild.remove();
  setTimeout(() => node.remove(), kind === "bad" ? 9_000 : 4_000);
}

/** Do something that may be refused; tell how it went. Resolves to whether it did. */
export async function attempt(work, done) {
  try {
    const result = await work();
    if (done) toast(typeof done === "function" ? done(result) : done);
    return true;
  } catch (problem) {
    toast(problem.message, "bad");
    return false;
  }
}

let announced = 0;

/** Tell screen readers something that matters; seldom, so that it can be listened to. */
export function announce(text) {
  if (Date.now() - announced < 3_000) return;
  announced = Date.now();
  document.getElementById("announcement").textContent = text;
}

/** A modal dialog; resolves to what `close(value)` was given, or to null when it was left with Escape. */
export function dialog(title, build) {
  return new Promise((resolve) => {
    const node = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
    let value = null;
    const close = (given) => {
      value = given;
      node.close();
    };
    fill(node, h("h2", { id: "dialog-title" }, title), build(close));
    node.addEventListener("close", () => {
      node.remove();
      resolve(value);
    });
    document.body.append(node);
    node.showModal();
  });
}

/** Ask before something is done; resolves to true or false. */
export async function confirm(title, { text = "", list = [], more = 0, verb = "Go on", dangerous = false } = {}) {
  const answer = await dialog(title, (close) => [
    text ? h("p", null, text) : null,
    list.length ? h("ul", { class: "names" }, list.map((name) => h("li", null, h("bdi", null, name)))) : null,
    more > 0 ? h("p", { class: "muted" }, `and ${more.toLocaleString("en-GB")} more`) : null,
    h(
      "div",
      { class: "dialog-buttons" },
      button("Cancel", () => close(false), { autofocus: dangerous }),
      button(verb, () => close(true), { class: dangerous ? "danger" : "primary", autofocus: !dangerous }),
    ),
  ]);
  return answer === true;
}
