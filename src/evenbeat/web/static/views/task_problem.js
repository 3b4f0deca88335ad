// The open problem of a task: since when, who takes care of it, and what people wrote.

import { can, get } from "../api.js";
import { clockWords } from "../clock.js";
import { fill, h } from "../dom.js";
import { button, panel } from "../ui.js";
import { acknowledge, acknowledgedBy, comment, problemBadge, sinceWhen, withdraw } from "./acknowledge.js";

const MOST = 10;

/** The panel and `read(task)`, which shows it if there is a problem; `changed()` is called when somebody did something. */
export function openProblem(signal, changed) {
  const inside = h("div", { class: "stack" });
  const node = panel("Problem", { class: "task-problem" }, inside);
  node.hidden = true;

  async function read(task) {
    const { problems } = await get("/v1/problems", { name: task.id, limit: MOST }, { signal });
    const found = await Promise.all(problems.map(({ id }) => get(`/v1/problems/${id}`, {}, { signal })));
    const busy = inside.contains(document.activeElement) ? document.activeElement.dataset.do : null;
    fill(inside, found.filter(({ closed }) => closed === null).map(show));
    node.hidden = !inside.childElementCount;
    if (busy) inside.querySelector(`[data-do=${busy}]`)?.focus();
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
      problem.notes.length ? h("ul", { class: "notes" }, problem.notes.map((note) => h("li", null,
        h("span", { class: "muted" }, clockWords(note.at), " ", h("bdi", null, note.who), ` ${note.action}`),
        note.text ? h("bdi", { class: "note-text" }, note.text) : null))) : null,
    );
  }

  return { node, read };
}
