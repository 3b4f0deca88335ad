// What people do with problems - acknowledge, withdraw that, comment - for Now and for the page of a task.

import { post } from "../api.js";
import { agoWords, clockWords, now } from "../clock.js";
import { h } from "../dom.js";
import { attempt, badge, button, confirm, countdown, dialog } from "../ui.js";
import { count } from "../words.js";

const HOUR = 3_600_000;
const ENDS = [
  ["", "when the problem is over or gets worse"],
  [HOUR, "in 1 hour"],
  [4 * HOUR, "in 4 hours"],
  [24 * HOUR, "in 1 day"],
  [7 * 24 * HOUR, "in 1 week"],
];
const LONGEST = 4_096;
const CAUSES = { failed: "failing", stale: "result missing", long: "runs long" };

/** "1 problem", "2,000 problems". */
export function problemsWords(number) {
  return `${count(number)} ${number === 1 ? "problem" : "problems"}`;
}

/** Sign and words of how a problem is. */
export function problemBadge({ state, cause, flapping, unreachable, downtime }) {
  const node = badge(state, CAUSES[cause] ?? state.toUpperCase());
  if (flapping) node.append(h("span", { class: "remark" }, "flapping"));
  if (unreachable) node.append(h("span", { class: "remark" }, "unreachable"));
  if (downtime) node.append(h("span", { class: "remark" }, "in downtime"));
  return node;
}

/** Since when it is as it is. */
export function sinceWhen(problem) {
  return countdown(problem.since, undefined, agoWords);
}

/** Who takes care of it, until when, and what they said; in a list the end is in the title only. */
export function acknowledgedBy({ acknowledged }, { short = false } = {}) {
  if (acknowledged === null) return null;
  const { by, comment, until, sticky } = acknowledged;
  const more = [until ? `until ${clockWords(until)}` : "", sticky ? "sticky" : ""].filter(Boolean).join(", ");
  const title = `acknowledged ${clockWords(acknowledged.at)}${more ? `, ${more}` : ""}${comment ? `: ${comment}` : ""}`;
  return h("span", { class: "acknowledged", title }, "✓ ", h("bdi", null, by), more && !short ? ` ${more}` : "",
    comment ? [": ", h("bdi", null, comment)] : null);
}

/** Ask how, and acknowledge; `selected` is the body that says which problems, `many` how many. True if it was done. */
export async function acknowledge(selected, many, signal) {
  const said = await dialog(`Acknowledge ${problemsWords(many)}`, (close) => {
    const comment = commentField("ack-comment");
    const ends = h("select", { id: "ack-ends" }, ENDS.map(([value, text]) => h("option", { value }, text)));
    const sticky = h("input", { type: "checkbox", id: "ack-sticky" });
    const submit = (event) => {
      event.preventDefault();
      const until = ends.value ? new Date(now() + Number(ends.value)).toISOString() : null;
      close({ comment: comment.value.trim(), until, sticky: sticky.checked });
    };
    return form(submit, close, "Acknowledge", [
      h("label", { for: "ack-comment" }, "Comment"), comment,
      h("label", { for: "ack-ends" }, "Ends"), ends,
      h("label", { class: "row" }, sticky, "Keep it if the problem gets worse"),
    ]);
  });
  if (said === null) return false;
  const done = ({ ids }) => `${problemsWords(ids.length)} acknowledged`;
  return attempt(() => post("/v1/problems/acknowledge", { ...selected, ...said }, { signal }), done);
}

/** Take acknowledgements back; asked for only if they are many. */
export async function withdraw(selected, many, signal) {
  const verb = `Withdraw (${count(many)})`;
  if (many > 1 && !(await confirm(`Withdraw the acknowledgements of ${problemsWords(many)}?`, { verb }))) return false;
  const done = ({ ids }) => `${ids.length === 1 ? "Acknowledgement" : `${count(ids.length)} acknowledgements`} withdrawn`;
  return attempt(() => post("/v1/problems/acknowledge", { ...selected, withdraw: true }, { signal }), done);
}

/** Ask for a comment, and add it to a problem. */
export async function comment(id, signal) {
  const text = await dialog("Comment", (close) => {
    const field = commentField("problem-comment");
    field.required = true;
    const submit = (event) => {
      event.preventDefault();
      if (field.value.trim()) close(field.value.trim());
    };
    return form(submit, close, "Comment", [h("label", { for: "problem-comment" }, "Comment"), field]);
  });
  if (text === null) return false;
  return attempt(() => post("/v1/problems/comment", { ids: [id], text }, { signal }), "Comment added");
}

function commentField(id) {
  return h("textarea", { id, rows: "3", maxlength: LONGEST, autofocus: true });
}

function form(submit, close, verb, fields) {
  return h("form", { onsubmit: submit, class: "token-form problem-form" }, fields, h("div", { class: "dialog-buttons" },
    button("Cancel", () => close(null)), h("button", { type: "submit", class: "primary" }, verb)));
}
