// The open problem of a task, or its last one: since when, who takes care of it, and its timeline.

import { can, get } from "../api.js";
import { agoWords, clockWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { button, countdown, panel } from "../ui.js";
import { acknowledge, acknowledgedBy, comment, problemBadge, sinceWhen, withdraw } from "./acknowledge.js";
import { timeline } from "./problem_timeline.js";

const MOST = 10;

/** The panels and `read(task)`, which shows one: open problems, else the last one that has closed, folded. `changed()`
 * is called when somebody did something. */
export function problemOfTask(signal, changed) {
  const inside = h("div", { class: "stack" });
  const node = panel("Problem", { class: "task-problem" }, inside);
  node.hidden = true;
  const last = h("div", { class: "panel last-problem" });
  last.hidden = true;
  let isUnfolded = false;

  async function read(task) {
    const whole = ({ id }) => get(`/v1/problems/${id}`, {}, { signal });
    const { problems } = await get("/v1/problems", { name: task.id, limit: MOST }, { signal });
    const found = await Promise.all(problems.map(whole));
    const closed = problems.length ? [] : (
      await get("/v1/problems", { name: task.id, which: "closed", limit: 1 }, { signal })).problems;
    showLast(closed.length ? await whole(closed[0]) : null);
    const busy = inside.contains(document.activeElement) ? document.activeElement.dataset.do : null;
    fill(inside, found.filter(({ closed }) => closed === null).map(show));
    node.hidden = !inside.childElementCount;
    if (busy) inside.querySelector(`[data-do=${busy}]`)?.focus();
  }

  function showLast(problem) {
    last.hidden = problem === null;
    if (problem === null) return;
    const busy = last.contains(document.activeElement);
    fill(last, h("details", { open: isUnfolded, ontoggle: (event) => (isUnfolded = event.target.open) },
      h("summary", null, `Last problem: ${problem.worst.toUpperCase()}, over `,
        countdown(problem.closed, undefined, agoWords), h("span", { class: "muted" }, `, problem ${problem.id}`)),
      timeline(problem)));
    if (busy) last.querySelector("summary").focus();
  }

  async function done(doing) {
    if (await doing) changed();
  }

  function show(problem) {
    const only = { ids: [problem.id] };
    const worst = problem.worst === problem.state ? "" : `, at worst ${problem.worst.toUpperCase()}`;
    return h("div", { class: "one-problem" },
      h("div", { class: "row" },
        problemBadge(problem), sinceWhen(problem),
        h("span", { class: "muted" }, `opened ${clockWords(problem.opened)}${worst}, problem ${problem.id}`),
        h("span", { class: "push" }),
        can("operate") ? [
          problem.acknowledged === null
            ? button("Acknowledge", () => done(acknowledge(only, 1, signal)), { class: "primary", "data-do": "take" })
            : button("Withdraw acknowledgement", () => done(withdraw(only, 1, signal)), { "data-do": "take" }),
          button("Comment", () => done(comment(problem.id, signal)), { "data-do": "comment" }),
        ] : null),
      acknowledgedBy(problem),
      timeline(problem),
    );
  }

  return { node, last, read };
}
