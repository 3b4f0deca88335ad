// The map of partitions: a cell each, with the letter and the colour of the node that holds it.

import { fill, h } from "../dom.js";
import { count } from "../words.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOOKS = 8;

/** A letter and a colour for each node, the same as long as the view is there. */
export function marks() {
  const given = new Map();
  return (id) => {
    if (!given.has(id)) {
      const at = given.size;
      given.set(id, { letter: LETTERS[at % LETTERS.length], look: at % LOOKS });
    }
    return given.get(id);
  };
}

export function partitionMap() {
  const cells = [];
  const grid = h("div", { class: "partitions", role: "img", "aria-label": "Partitions" });
  const legend = h("ul", { class: "map-legend" });
  const node = h("div", null, grid, legend);

  function show(nodes, total) {
    while (cells.length < total) {
      cells.push(h("span", { class: "cell", "aria-hidden": "true" }));
      grid.append(cells.at(-1));
    }
    const holders = new Array(total).fill(null);
    for (const one of nodes.filter((found) => found.is_alive)) for (const p of one.partitions) holders[p] = one;
    holders.forEach((holder, p) => paint(cells[p], p, holder));
    const unheld = holders.filter((holder) => holder === null).length;
    const lines = nodes.filter((one) => one.is_alive).map((one) => [one, one.partition_count]);
    const holdings = lines.map(([one, many]) => `${count(many)} ${one.mark.letter}, ${one.name} ${one.pid}`);
    const label = `${count(total)} partitions: ${[...holdings, `${count(unheld)} held by no node`].join("; ")}`;
    if (grid.getAttribute("aria-label") === label) return;
    grid.setAttribute("aria-label", label);
    fill(legend, lines.map(([one, many]) => h("li", null,
      h("span", { class: `mark mark-${one.mark.look}`, "aria-hidden": "true" }, one.mark.letter),
      h("bdi", null, one.name), ` ${one.pid}: ${count(many)}`)),
    unheld ? h("li", null, h("span", { class: "mark mark-none", "aria-hidden": "true" }, "–"),
      `held by no node: ${count(unheld)}`) : null);
  }

  return { node, show };
}

function paint(cell, partition, holder) {
  const look = holder === null ? "none" : String(holder.mark.look);
  const title = `partition ${partition}: ${holder === null ? "no node" : `${holder.name} ${holder.pid}`}`;
  if (cell.title === title && cell.dataset.look === look) return;
  cell.dataset.look = look;
  cell.className = `cell mark-${look}`;
  cell.title = title;
  cell.textContent = holder === null ? "–" : holder.mark.letter;
}
