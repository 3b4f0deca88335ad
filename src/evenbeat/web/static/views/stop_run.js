// Stop the run of a task: from its page, and from the list of what runs.

import { post, taskPath } from "../api.js";
import { h } from "../dom.js";
import { attempt, button, dialog } from "../ui.js";

const LONGEST = 1_000;
const DONE = {
  run: "The run ends now",
  forced: "The forced run that waited is withdrawn",
  retry: "The retry that was planned is withdrawn",
  nothing: "Nothing to stop: no run is under way",
};

/** Ask why, and stop what runs of a task. True if it was asked for. */
export async function stopRun(name, signal) {
  const reason = await dialog("Stop this run?", (close) => {
    const field = h("input", { type: "text", id: "stop-reason", maxlength: LONGEST, autofocus: true });
    const submit = (event) => {
      event.preventDefault();
      close(field.value.trim());
    };
    return h("form", { onsubmit: submit, class: "token-form problem-form" },
      h("p", null, h("bdi", null, name), " goes on with its schedule; this run is not repeated."),
      h("label", { for: "stop-reason" }, "Reason"), field,
      h("div", { class: "dialog-buttons" }, button("Cancel", () => close(null)),
        h("button", { type: "submit", class: "danger" }, "Stop")));
  });
  if (reason === null) return false;
  return attempt(() => post(taskPath(name, "stop"), undefined, { query: { reason }, signal }), ({ found }) => DONE[found]);
}
