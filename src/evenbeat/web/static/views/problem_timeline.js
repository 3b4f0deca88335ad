// The timeline of a problem: its opening and end, what people wrote, and who was notified, in one order of time.

import { clockWords, wholeWords } from "../clock.js";
import { h } from "../dom.js";
import { sign } from "../ui.js";
import { count } from "../words.js";

/** The latest entries are shown; earlier ones are folded. */
const SHOWN = 25;
/** Problems whose earlier entries are unfolded. */
const unfolded = new Set();

/** What happened to a problem, oldest first; takes the problem with its timeline. */
export function timeline({ id, timeline: entries, worst }) {
  const earlier = entries.slice(0, -SHOWN);
  const rows = (some) => some.map((entry) => row(entry, worst));
  const fold = (event) => (event.target.open ? unfolded.add(id) : unfolded.delete(id));
  return h("div", { class: "timeline" },
    earlier.length ? h("details", { ontoggle: fold, open: unfolded.has(id) },
      h("summary", null, `${count(earlier.length)} earlier`), h("ol", { class: "notes" }, rows(earlier))) : null,
    h("ol", { class: "notes" }, rows(entries.slice(-SHOWN))));
}

function row(entry, worst) {
  const { at, kind, who, text, contact } = entry;
  const words = who
    ? [h("span", null, h("bdi", null, who), ` ${kind}`), text ? h("bdi", { class: "note-text" }, text) : null]
    : h("span", { class: `note-text${contact && kind !== "sent" ? " muted" : ""}` }, text);
  return h("li", { class: `event-${kind.replace(" ", "-")}` },
    sign(look(entry, worst)), h("time", { class: "muted", title: wholeWords(at), datetime: at }, clockWords(at)), words);
}

/** The sign of an entry; its words say the same. */
function look({ kind, delivery, error }, worst) {
  if (kind === "opened") return worst;
  if (kind === "closed") return "ok";
  if (kind === "given up" || delivery === "given up" || error) return "warning";
  return kind === "sent" ? "running" : kind === "suppressed" || kind === "waiting" ? "skipped" : "new";
}
