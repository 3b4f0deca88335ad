// The contacts: where messages go, whether they arrive, and what was sent lately; send one to see whether it arrives.

import { can, get, post } from "../api.js";
import { agoWords } from "../clock.js";
import { fill, h, keep } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { attempt, badge, button, countdown, dialog, empty, failure, panel } from "../ui.js";
import { count } from "../words.js";

const PAGE = 50;

export function mount(root) {
  const gone = new AbortController();
  const { signal } = gone;
  const trouble = h("div");
  const list = h("ul", { class: "rows" });
  const none = empty("No contacts: nobody is notified. A file defines them, or `evenbeat contacts set`.");
  const messages = h("ul", { class: "rows" });
  const silence = empty("No messages.");
  const more = button("Show more", () => { limit += PAGE; again(); }, { hidden: true });
  let limit = PAGE;
  none.hidden = silence.hidden = true;

  fill(root, h("h1", { class: "unseen" }, "Contacts"), trouble,
    panel("Contacts", { class: "contacts" }, list, none),
    panel("Latest messages", { class: "messages" }, messages, silence, more));

  async function read() {
    const [places, sent] = await Promise.allSettled([
      get("/v1/contacts", {}, { signal }), get("/v1/messages", { limit }, { signal })]);
    if (signal.aborted) return;
    const refused = [places, sent].find(({ status }) => status === "rejected");
    if (refused) fill(trouble, failure(refused.reason, again));
    else fill(trouble);
    if (places.value) {
      keep(list, places.value.contacts, ({ name }) => name, () => h("li"), showContact);
      none.hidden = places.value.contacts.length > 0;
    }
    if (sent.value) {
      keep(messages, sent.value.messages, ({ id }) => String(id), () => h("li"), showMessage);
      silence.hidden = sent.value.messages.length > 0;
      more.hidden = sent.value.next === null || limit >= 1_000;
    }
  }

  function showContact(node, contact) {
    if (isShown(node, contact)) return;
    const focused = node.contains(document.activeElement);
    const used = `used by ${count(contact.tasks)} ${contact.tasks === 1 ? "task" : "tasks"}`;
    const gets = contact.states.length ? contact.states.join(", ").toUpperCase() : "";
    fill(node,
      h("div", { class: "contact-name" }, h("h3", null, h("bdi", null, contact.name)),
        h("span", { class: "muted" }, [used, gets, contact.period && `in ${contact.period}`].filter(Boolean).join(", "))),
      h("ul", { class: "contact-places" }, contact.places.map(showPlace)),
      can("operate") ? h("span", { class: "row-buttons" },
        button("Send a test", (event) => test(contact, event.currentTarget), { class: "quiet" })) : h("span"));
    if (focused) node.querySelector("button")?.focus();
  }

  async function test(contact, pressed) {
    pressed.disabled = true;
    let found = null;
    const path = `/v1/contacts/${encodeURIComponent(contact.name)}/test`;
    const isDone = await attempt(async () => (found = await post(path, undefined, { signal })));
    pressed.disabled = false;
    if (!isDone || signal.aborted) return;
    await dialog(`Test of ${contact.name}`, (close) => [
      found.places.length ? h("ul", { class: "contact-places" }, found.places.map(showOutcome))
        : empty("It has no place that may be used."),
      h("div", { class: "dialog-buttons" }, button("Close", () => close(true), { class: "primary", autofocus: true })),
    ]);
    again();
  }

  const again = refresher(read, { signal, least: 1_500, each: 10_000 });
  live.on("task", again, signal);
  live.on("reset", again, signal);
  return () => gone.abort();
}

/** Whether a row shows this already. */
function isShown(node, what) {
  const seen = JSON.stringify(what);
  if (node.dataset.seen === seen) return true;
  node.dataset.seen = seen;
  return false;
}

function showPlace({ kind, shown, blocked, failing, latest }) {
  const words = blocked ? "not executed" : failing ? "failing" : latest === null ? "nothing sent yet"
    : latest.state === "waiting" ? "on its way" : "delivered";
  const look = failing ? "critical" : blocked || latest === null ? "skipped" : "ok";
  return h("li", null, badge(look, words), placeNode(kind, shown),
    latest && !blocked ? h("span", { class: "muted" }, countdown(latest.created, undefined, agoWords),
      failing || latest.attempts > 1 ? [": ", h("bdi", null, latest.text)] : null) : null);
}

function showOutcome({ kind, shown, delivered, error, detail }) {
  const why = [error, detail].filter(Boolean).join(", ");
  return h("li", null, badge(delivered ? "ok" : "critical", delivered ? "delivered" : "not delivered"),
    placeNode(kind, shown), why ? h("bdi", { class: "muted" }, why) : null);
}

function placeNode(kind, shown) {
  return h("span", { class: "contact-place" }, kind === "send" ? null : `${kind} `, h("bdi", null, shown));
}

function showMessage(node, message) {
  if (isShown(node, message)) return;
  const { id, contact, kind, place, created, items, state, error, text } = message;
  const isBad = state === "given up" || (state === "waiting" && error);
  fill(node, badge(isBad ? "critical" : state === "waiting" ? "new" : "ok", isBad && state === "waiting" ? "failing" : state),
    h("span", { class: "message-to" }, h("bdi", null, contact), " ", placeNode(kind, place)),
    h("span", { class: "muted" }, `about ${count(items)} ${items === 1 ? "problem" : "problems"}, message ${id}`),
    h("bdi", { class: "message-text muted" }, text === state ? "" : text),
    countdown(created, undefined, agoWords));
}
