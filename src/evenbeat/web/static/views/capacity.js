// Slots and limits: how many runs at the same time, where the number comes from, and a dialog to change it.

import { can, get, put, remove } from "../api.js";
import { fill, h } from "../dom.js";
import { attempt, button, dialog } from "../ui.js";
import { count } from "../words.js";

/** A button that opens the dialog, for those who may change it. */
export function capacityButton() {
  return can("admin") ? button("Change", change, { class: "quiet", "data-do": "capacity" }) : null;
}

async function change() {
  let found = null;
  if (!(await attempt(async () => (found = await get("/v1/limits"))))) return;
  await dialog("Slots and limits", (close) => {
    const rows = h("div", { class: "capacity" });
    const show = (places) => {
      const limits = Object.entries(places.limits).map(([name, place]) =>
        row(name, place, `/v1/limits/${encodeURIComponent(name)}`, show));
      fill(rows, row("All slots", places.slots, "/v1/slots", show), limits);
    };
    show(found);
    return [
      h("p", { class: "muted" }, "What is set here counts until it is reset, also after a restart and whatever files say."),
      rows,
      h("div", { class: "dialog-buttons" }, button("Close", () => close(true), { class: "primary" })),
    ];
  });
}

function row(label, place, path, show) {
  const input = h("input", { type: "number", min: "1", max: "1000000", value: String(place.most), "aria-label": label });
  const send = (ask, announcement) => attempt(async () => show(await ask()), announcement);
  const set = () => send(() => put(path, { most: Number(input.value) }), `${label}: ${input.value}`);
  return h("div", { class: "row" },
    h("bdi", null, label), input,
    button("Set", set), button("Reset", () => send(() => remove(path), `${label}: reset`), { class: "quiet" }),
    h("span", { class: "muted" }, `${count(place.running)} taken; ${place.source}`));
}
