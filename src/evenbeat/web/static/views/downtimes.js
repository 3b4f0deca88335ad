// The downtimes: which are active, which will come, who set them; set one, end one.

import { can, get } from "../api.js";
import { clockWords, untilWords } from "../clock.js";
import { fill, h, keep, say } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { badge, button, countdown, empty, failure, panel } from "../ui.js";
import { count } from "../words.js";
import { endDowntime, setDowntime } from "./downtime.js";

const PAGE = 200;
const NAMES = 5;

export function mount(root) {
  const gone = new AbortController();
  const { signal } = gone;
  const list = h("ul", { class: "rows" });
  const none = empty("No downtimes.");
  const total = h("span", { class: "muted total" });
  const trouble = h("div");
  const all = h("input", { type: "checkbox", onchange: () => again() });
  const more = button("Show more", () => { limit += PAGE; again(); }, { hidden: true });
  let limit = PAGE;

  const add = can("operate")
    ? button("New downtime", async () => (await setDowntime(null, "New downtime", signal)) && again(), { class: "primary" })
    : null;
  const aside = h("span", { class: "row" }, h("label", { class: "choice muted" }, all, "also those that are over"), total, add);
  fill(root, h("h1", { class: "unseen" }, "Downtimes"), trouble,
    panel("Downtimes", { class: "downtimes", aside }, list, none, more));

  async function read() {
    const found = [];
    let answer = null;
    try {
      do {
        const query = { all: all.checked ? "true" : null, limit: PAGE, after: answer?.next ?? null };
        answer = await get("/v1/downtimes", query, { signal });
        found.push(...answer.downtimes);
      } while (answer.next !== null && found.length < limit);
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failure(problem, again));
      return;
    }
    fill(trouble);
    keep(list, found, ({ id }) => id, () => h("li"), showRow);
    none.hidden = found.length > 0;
    more.hidden = answer.next === null;
    say(total, answer.total > found.length ? `${count(found.length)} of ${count(answer.total)}` : count(found.length));
  }

  function showRow(node, downtime) {
    const seen = JSON.stringify(downtime);
    if (node.dataset.seen === seen) return;
    node.dataset.seen = seen;
    const focused = node.contains(document.activeElement);
    fill(node, stateBadge(downtime), h("bdi", { class: "downtime-tasks" }, selectionWords(downtime)), whenNode(downtime),
      h("span", { class: "downtime-reason" }, h("bdi", null, downtime.who), downtime.comment
        ? [": ", h("bdi", null, downtime.comment)] : null),
      can("operate") && !downtime.over && !downtime.declared
        ? h("span", { class: "row-buttons" }, button("End", () => end(downtime), { class: "quiet" })) : h("span"));
    if (focused) node.querySelector("button")?.focus();
  }

  async function end(downtime) {
    if (await endDowntime(downtime, signal)) again();
  }

  const again = refresher(read, { signal, least: 1_500, each: 15_000 });
  live.on("task", again, signal);
  live.on("reset", again, signal);
  return () => gone.abort();
}

function stateBadge({ active, over, ended_by }) {
  const node = badge(over ? "skipped" : active ? "running" : "new", over ? "over" : active ? "active" : "to come");
  if (over && ended_by) node.append(h("span", { class: "remark" }, `ended by ${ended_by}`));
  return node;
}

function selectionWords({ names, owner, labels, dependents }) {
  const parts = names.slice(0, NAMES);
  if (names.length > NAMES) parts.push(`and ${count(names.length - NAMES)} more`);
  if (owner) parts.push(`owner ${owner}`);
  parts.push(...Object.entries(labels).map(([key, value]) => `${key}=${value}`));
  if (!dependents) parts.push("without dependents");
  return parts.join(", ");
}

function whenNode({ from, until, period, active, over, next_change }) {
  const words = [from ? clockWords(from) : "", until ? `– ${clockWords(until)}` : "", period ? `in ${period}` : ""];
  const change = over || !next_change ? null
    : [active ? " ends " : " begins ", countdown(next_change, undefined, untilWords)];
  return h("span", { class: "downtime-when" }, words.filter(Boolean).join(" "), change);
}
