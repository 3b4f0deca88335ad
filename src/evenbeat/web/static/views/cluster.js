// Cluster: who there is and who has what - nodes, partitions, workers, pools, shares of limits. One node is a cluster too.

import { get } from "../api.js";
import { bar, setBar } from "../charts.js";
import { agoWords, spanWords, sync, tick } from "../clock.js";
import { fill, h, keep, say } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { announce, badge, countdown, empty, failure, headings, panel } from "../ui.js";
import { count } from "../words.js";
import { marks, partitionMap } from "./cluster_map.js";

const LEASE = 5;
/** Seconds; a worker that is well is heard every second. */
const SILENT = 5;
const NODE_HEADS = ["", "Node", "Partitions", "", "Tasks", "Slots used", "Lease", "Queue", "Up", "Version"];
const WORKER_HEADS = ["Worker", "Pools", "Slots used", "", "Processes", "Heard", "Up", "Version"];

export function mount(root, _params) {
  const gone = new AbortController();
  const { signal } = gone;
  const trouble = h("div");
  const summary = h("p", { class: "summary" });
  const notes = h("ul", { class: "notices", "aria-label": "What is wrong" });
  const grow = h("div");
  const nodes = h("tbody");
  const workers = h("tbody");
  const pools = h("tbody");
  const shares = h("div");
  const noWorkers = empty("No worker has reported yet.");
  const noPools = empty("No pool is known yet.");
  const mark = marks();
  const map = partitionMap();
  let readAt = 0;
  let worries = "";

  fill(
    root,
    h("h1", null, "Cluster"),
    trouble,
    summary,
    notes,
    panel("Nodes", { class: "nodes" }, table(NODE_HEADS, nodes, ["Partitions", "Tasks", "Slots used"])),
    panel("Partitions", { class: "partitions-panel" }, map.node),
    h("div", { class: "cluster-columns" },
      panel("Workers", { class: "workers" },
        table(WORKER_HEADS, workers, ["Slots used", "Processes"]), noWorkers),
      h("div", { class: "stack" },
        panel("Pools", { class: "pools" },
          table(["Pool", "Workers", "Slots", "Waiting", ""], pools, ["Workers", "Slots", "Waiting"]), noPools),
        shares)),
    grow,
  );

  async function read() {
    const asked = Date.now();
    const found = await get("/v1/cluster", {}, { signal });
    readAt = (asked + Date.now()) / 2;
    sync(found.now, asked);
    fill(trouble);
    show(found);
  }

  function show(found) {
    const marked = found.nodes.map((node) => ({ ...node, mark: mark(node.id) }));
    const alive = marked.filter((node) => node.is_alive);
    showSummary(summary, found, alive);
    showWorries(found);
    keep(nodes, marked, (node) => node.id, () => h("tr"), (row, node) => showNode(row, node, found.partitions));
    keep(workers, found.workers, (worker) => worker.id, () => h("tr"), showWorker);
    const named = Object.entries(found.pools).map(([name, pool]) => ({ name, ...pool }));
    keep(pools, named, (pool) => pool.name, () => h("tr"), showPool);
    noWorkers.hidden = found.workers.length > 0;
    noPools.hidden = named.length > 0;
    map.show(marked, found.partitions);
    showShares(shares, found.shares, marked);
    if (found.is_single && !grow.children.length) fill(grow, howToGrow());
    move();
  }

  function showWorries(found) {
    const problems = problemsOf(found);
    const text = problems.join("\n");
    if (text === worries) return;
    worries = text;
    fill(notes, problems.map((one) => h("li", { class: "notice" }, badge("warning", one))));
    if (problems.length) announce(problems[0]);
  }

  /** Leases count down between two looks: one that is not renewed is seen to end. */
  function move() {
    for (const node of nodes.querySelectorAll("[data-expires]")) {
      const left = Number(node.dataset.expires) - (Date.now() - readAt) / 1_000;
      say(node.firstElementChild, left > 0 ? `${left.toFixed(1)} s` : `ended ${spanWords(-left * 1_000)} ago`);
      setBar(node.lastElementChild, left / LEASE, left > 1 ? "accent" : left > 0 ? "warning" : "critical");
    }
  }

  const failed = (problem) => fill(trouble, failure(problem, again));
  const again = refresher(read, { signal, least: 1_000, each: 2_000, failed });
  live.on("reset", again, signal);
  tick(move, signal);
  return () => gone.abort();
}

function table(heads, body, numeric) {
  return h("div", { class: "table-scroll" }, h("table", { class: "table" }, headings(heads, numeric), body));
}

function showSummary(node, found, alive) {
  const many = (number, word) => [h("strong", null, count(number)), ` ${word}${number === 1 ? "" : "s"}`];
  const held = found.partitions - found.unheld.length;
  const parts = [
    many(alive.length, "node"),
    many(found.workers.length, "worker"),
    many(Object.keys(found.pools).length, "pool"),
    [h("strong", null, count(held)), ` of ${count(found.partitions)} partitions held`],
  ];
  fill(node, parts.map((part) => h("span", null, part)));
}

/** Everything that needs attention, in sentences. */
function problemsOf(found) {
  const problems = [];
  const heard = found.workers.filter((worker) => !isSilent(worker)).length;
  if (found.unheld.length) {
    problems.push(`${count(found.unheld.length)} partitions are held by no node: their tasks do not run.`);
  }
  for (const node of found.nodes) {
    const who = `${node.name} ${node.pid}`;
    if (!node.is_alive) problems.push(`The lease of node ${who} has ended: another node takes over what it held.`);
    else if (node.queue !== "ok") problems.push(`Node ${who} cannot use the queue: ${node.queue}`);
    if (node.is_alive && node.status.store !== "ok") problems.push(`The store fails for node ${who}: ${node.status.store}`);
  }
  if (!heard) problems.push("No worker has reported: nothing runs.");
  for (const [name, pool] of Object.entries(found.pools)) {
    if (pool.without_worker_for === null) continue;
    const waiting = pool.waiting ? `, and ${count(pool.waiting)} ${pool.waiting === 1 ? "run waits" : "runs wait"}` : "";
    problems.push(`Pool ${name} has no worker${waiting}.`);
  }
  for (const worker of found.workers.filter(isSilent)) problems.push(`Worker ${worker.name} ${worker.pid} is silent.`);
  return problems;
}

function isSilent(worker) {
  return worker.silent_for >= SILENT;
}

// Rows

function showNode(row, node, partitions) {
  const { status } = node;
  row.classList.toggle("is-gone", !node.is_alive);
  const share = node.partition_count / partitions;
  const lease = node.expires_in === null
    ? h("td", { class: "muted" }, "needs none")
    : h("td", null, h("span", { class: "lease", "data-expires": String(node.expires_in) }, h("span"), bar(0)));
  fill(
    row,
    h("td", null, h("span", { class: `mark mark-${node.mark.look}`, "aria-hidden": "true" }, node.mark.letter)),
    h("th", { scope: "row" }, who(node), node.page ? h("div", { class: "muted small" }, node.page) : null),
    h("td", { class: "numeric" }, count(node.partition_count)),
    h("td", { class: "share" },
      bar(share, "accent", `${Math.round(share * 100)} % of all partitions`)),
    h("td", { class: "numeric" }, count(status.tasks)),
    h("td", { class: "numeric" }, `${count(status.pending)} / ${count(status.slots)}`),
    lease,
    h("td", null, node.queue === "ok" ? badge("ok", "ok") : badge("critical", "out of reach")),
    h("td", null, countdown(node.started, undefined, sinceWords)),
    h("td", { class: "muted" }, node.version),
  );
}

function showWorker(row, worker) {
  const silent = isSilent(worker);
  const share = worker.slots ? worker.held / worker.slots : 0;
  row.classList.toggle("is-gone", silent);
  const heard = silent
    ? badge("critical", `silent for ${spanWords(worker.silent_for * 1_000)}`)
    : badge("ok", worker.is_leaving ? "leaving" : "well");
  const restarts = worker.restarts ? `, ${count(worker.restarts)} replaced` : "";
  fill(
    row,
    h("th", { scope: "row" }, who(worker)),
    h("td", null, h("span", { class: "chips" },
      worker.pools.map((name) => h("span", { class: "chip" }, h("bdi", null, name))))),
    h("td", { class: "numeric" }, `${count(worker.held)} / ${count(worker.slots)}`),
    h("td", { class: "share" }, bar(share, share >= 1 ? "critical" : share > 0.8 ? "warning" : "accent")),
    h("td", { class: "numeric" }, `${count(worker.processes)}${restarts}`),
    h("td", null, heard),
    h("td", null, countdown(worker.started, undefined, sinceWords)),
    h("td", { class: "muted" }, worker.version),
  );
}

function showPool(row, pool) {
  const alone = pool.without_worker_for;
  fill(
    row,
    h("th", { scope: "row" }, h("bdi", null, pool.name)),
    [pool.workers, pool.slots, pool.waiting].map((number) => h("td", { class: "numeric" }, count(number))),
    h("td", null, alone === null
      ? badge("ok", "ok") : badge("critical", `no worker for ${spanWords(alone * 1_000)}`)),
  );
}

function who(one) {
  return [h("bdi", null, one.name), h("span", { class: "muted" }, ` ${one.pid}`),
    h("div", null, h("code", { class: "small muted" }, one.id))];
}

function sinceWords(milliseconds) {
  return agoWords(milliseconds).replace(/ ago$/, "");
}

// Limits

function showShares(node, shares, nodes) {
  const limits = Object.entries(shares.limits).sort(([a], [b]) => (a < b ? -1 : 1));
  if (nodes.length < 2) return void fill(node);
  const rows = [["all slots", shares.slots], ...limits];
  const heads = ["Limit", ...nodes.map((one) => one.mark.letter), "All"];
  const line = ([name, by]) => {
    const mine = nodes.map((one) => by[one.id] ?? 0);
    const all = Object.values(by).reduce((sum, one) => sum + one, 0);
    return h("tr", null, h("th", { scope: "row" }, h("bdi", null, name)),
      [...mine, all].map((number) => h("td", { class: "numeric" }, count(number))));
  };
  const body = h("tbody", null, rows.map(line));
  fill(node, panel("Shares of limits", {}, table(heads, body, heads.slice(1))));
}

function howToGrow() {
  const code = (text) => h("pre", { class: "plugin", tabindex: "0" }, text);
  return panel("One node", { class: "grow" },
    h("p", null, "This node is alone: its tasks are in a file of this machine, and its workers are its own processes. ",
      "A cluster needs PostgreSQL and NATS; tasks, history and this page stay as they are."),
    code([
      "evenbeat migrate --db postgresql://HOST/evenbeat --from evenbeat.db",
      "evenbeat scheduler --db postgresql://HOST/evenbeat --queue nats://HOST   # two or three of them",
      "evenbeat worker --queue nats://HOST                                      # as many as there is work for",
    ].join("\n")));
}
