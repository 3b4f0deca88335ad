// Set and end downtimes: from the list of tasks, the page of a task, problems, and the view of downtimes.

import { post, remove } from "../api.js";
import { clockWords, now } from "../clock.js";
import { h } from "../dom.js";
import { attempt, button, confirm, dialog } from "../ui.js";

const MINUTE = 60_000;
const LENGTHS = [
  [30 * MINUTE, "30 minutes"],
  [60 * MINUTE, "1 hour"],
  [120 * MINUTE, "2 hours"],
  [240 * MINUTE, "4 hours"],
  [24 * 60 * MINUTE, "1 day"],
  [7 * 24 * 60 * MINUTE, "1 week"],
];
const USUAL = 120 * MINUTE;
const LONGEST = 1_000;
/** Names that one downtime has at most. */
export const MOST_NAMES = 1_000;

export function downtimePath(id) {
  return `/v1/downtimes/${encodeURIComponent(id)}`;
}

/** "until 14:00, by ana: new disks" of a downtime. */
export function downtimeWords({ until, period, who, comment }) {
  const end = until ? `until ${clockWords(until)}` : "without end";
  return `${end}${period ? `, in ${period}` : ""}, by ${who}${comment ? `: ${comment}` : ""}`;
}

/** "by ana, until 14:00: new disks" of a pause. */
export function pauseWords({ by, until, reason }) {
  return `by ${by}${until ? `, until ${clockWords(until)}` : ""}${reason ? `: ${reason}` : ""}`;
}

/** Ask when and why, and set it; `selected` is the body that says which tasks, null asks for names. True if it was done. */
export async function setDowntime(selected, title, signal) {
  const said = await dialog(title, (close) => {
    const names = h("input", {
      type: "text", id: "downtime-names", required: true, maxlength: "4096", spellcheck: "false",
      placeholder: "web*, db", autofocus: true,
    });
    const start = h("input", { type: "datetime-local", id: "downtime-begin" });
    const length = h("select", { id: "downtime-length" },
      LENGTHS.map(([value, text]) => h("option", { value, selected: value === USUAL }, text)));
    const comment = h("textarea", { id: "downtime-comment", rows: "2", maxlength: LONGEST, autofocus: selected !== null });
    const dependents = h("input", { type: "checkbox", id: "downtime-dependents", checked: true });
    const submit = (event) => {
      event.preventDefault();
      const begin = start.value ? new Date(start.value).getTime() : now();
      const many = names.value.split(",").map((name) => name.trim()).filter(Boolean);
      if (selected === null && !many.length) return;
      close({
        ...(selected ?? { names: many }),
        from: start.value ? new Date(begin).toISOString() : null,
        until: new Date(begin + Number(length.value)).toISOString(),
        comment: comment.value.trim(),
        dependents: dependents.checked,
      });
    };
    return h("form", { onsubmit: submit, class: "token-form problem-form" },
      selected === null ? [h("label", { for: "downtime-names" }, "Names, with * and ?"), names] : null,
      h("label", { for: "downtime-begin" }, "Begins (empty: now)"), start,
      h("label", { for: "downtime-length" }, "Lasts"), length,
      h("label", { for: "downtime-comment" }, "Reason"), comment,
      h("label", { class: "row" }, dependents, "Also for the tasks that depend on these"),
      h("div", { class: "dialog-buttons" }, button("Cancel", () => close(null)),
        h("button", { type: "submit", class: "primary" }, "Set downtime")));
  });
  if (said === null) return false;
  return attempt(() => post("/v1/downtimes", said, { signal }), (made) => `Downtime set, ${downtimeWords(made)}`);
}

/** End a downtime, after a question. */
export async function endDowntime(downtime, signal) {
  const title = downtime.active === false ? "Remove this downtime?" : "End this downtime now?";
  if (!(await confirm(title, { text: downtimeWords(downtime), verb: "End" }))) return false;
  return attempt(() => remove(downtimePath(downtime.id), { signal }), "Downtime ended");
}
