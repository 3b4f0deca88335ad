// The heartbeat of a passive check: its URL, shown once, to copy and to test.

import { post, remove, taskPath } from "../api.js";
import { h } from "../dom.js";
import { attempt, button, confirm, dialog, toast } from "../ui.js";

const PATIENCE = 30_000;

/** Make a URL and show it; the one before becomes invalid, which is asked first. */
export async function makeHeartbeat(name) {
  const text = "Whoever has the URL can say that this check is well, or is not, and nothing else. A URL that was made " +
    "before becomes invalid.";
  if (!(await confirm("Make a URL for heartbeats?", { text, list: [name], verb: "Make it" }))) return;
  let made = null;
  if (await attempt(async () => (made = await post(taskPath(name, "beat"))))) await show(name, made.url);
}

async function show(name, url) {
  await dialog("The URL for heartbeats", (close) => [
    h("p", { class: "muted" }, "It is shown only now: no more than a digest of it is kept."),
    copied("URL", "heartbeat-url", url),
    copied("At the end of a script", "heartbeat-line", `curl -fsS -m 10 --retry 5 ${url}/$?`),
    h("p", { class: "muted" }, "As it is, the URL says that all is well; with /start that the work begins, with an exit ",
      "status or /fail how it ended; /log is a line for the history. What is posted is the output."),
    h("div", { class: "dialog-buttons" },
      button("Remove", () => discard(name, close), { class: "danger" }),
      button("Test", () => test(url)),
      button("Close", () => close(true), { class: "primary" })),
  ]);
}

function copied(label, id, text) {
  const field = h("input", { type: "text", id, readonly: true, value: text, class: "copied" });
  field.addEventListener("focus", () => field.select());
  return h("div", { class: "copy-row" }, h("label", { for: id }, label), field, button("Copy", () => copy(field)));
}

async function copy(field) {
  field.focus();
  try {
    await navigator.clipboard.writeText(field.value);
    toast("Copied");
  } catch {
    // Without TLS a browser has no clipboard for pages of other machines: the text is selected.
    toast("It is selected: press Ctrl-C", "bad");
  }
}

/** A line for the log changes no state. */
function test(url) {
  const { pathname } = new URL(url);
  return attempt(async () => {
    const answer = await fetch(`${pathname}/log`, {
      method: "POST", body: "a test from the page", signal: AbortSignal.timeout(PATIENCE), credentials: "omit",
    });
    if (!answer.ok) throw new Error(`The node answered ${answer.status}.`);
  }, "It arrived: a line in the history, no change of state");
}

async function discard(name, close) {
  if (await attempt(() => remove(taskPath(name, "beat")), "Removed: the URL is invalid")) close(true);
}
