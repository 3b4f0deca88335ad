// The lists of Now: what runs, what happened.

import { can, get } from "../api.js";
import { bar, setBar } from "../charts.js";
import { agoWords, now, spanWords, tick } from "../clock.js";
import { fill, h, keep, say } from "../dom.js";
import * as live from "../live.js";
import { refresher } from "../refresh.js";
import { badge, button, countdown, empty, panel, sign, taskLink } from "../ui.js";
import { count, endingWords, kindWords, reasonWords, runLook, saidLine } from "../words.js";
import { stopRun } from "./stop_run.js";

const MOST_EVENTS = 60;
const MOST_RUNNING = 30;

// What runs

export function running(signal) {
  const list = h("ul", { class: "rows" });
  const none = empty("Nothing is running.");
  const aside = h("span", { class: "muted" });
  let shown = [];

  async function read() {
    const asked = Date.now();
    const answer = await get("/v1/running", { limit: MOST_RUNNING }, { signal });
    shown = answer.running.map((run) => ({ ...run, readAt: (asked + Date.now()) / 2 }));
    keep(list, shown, (run) => `${run.task}\n${run.started}`, (run) => createRunning(run, stop));
    none.hidden = shown.length > 0;
    say(aside, answer.total ? count(answer.total) : "");
    move();
  }

  function move() {
    [...list.children].forEach((node, i) => {
      if (shown[i]) moveRunning(node, shown[i]);
    });
  }

  async function stop(name) {
    if (await stopRun(name, signal)) again();
  }

  const again = refresher(read, { signal, least: 1_000, each: 2_000 });
  live.on("reset", again, signal);
  tick(move, signal);
  return panel("Running", { class: "running", aside }, list, none);
}

function createRunning(run, stop) {
  return h(
    "li",
    null,
    sign("running"),
    taskLink(run.task, { "data-walk": true }),
    h("span", { class: "muted" }, run.kind === "grid" ? "" : kindWords(run.kind)),
    bar(0, "accent"),
    h("span", { class: "elapsed" }),
    can("operate") ? button("Stop", () => stop(run.task), { class: "quiet", "aria-label": `Stop ${run.task}` }) : null,
  );
}

function moveRunning(node, run) {
  if (run.stopping) return say(node.querySelector(".elapsed"), "is being stopped");
  if (!run.started) return say(node.querySelector(".elapsed"), "not started yet");
  const elapsed = run.elapsed + (Date.now() - run.readAt) / 1_000;
  const share = run.timebox ? elapsed / run.timebox : 0;
  setBar(node.querySelector(".bar"), share, share > 0.9 ? "critical" : share > 0.6 ? "warning" : "accent");
  const box = run.timebox ? ` of ${spanWords(run.timebox * 1_000)}` : "";
  say(node.querySelector(".elapsed"), `${elapsed < 10 ? elapsed.toFixed(1) + " s" : spanWords(elapsed * 1_000)}${box}`);
}

// What happened

export function feed(signal) {
  const list = h("ol", { class: "rows feed" });
  const none = empty("Nothing notable yet.");
  let events = [];

  function add(...more) {
    events = [...more, ...events].slice(0, MOST_EVENTS);
    keep(list, events, (event) => event.key, createEvent);
    none.hidden = events.length > 0;
  }

  async function read() {
    const found = await get("/v1/history", { limit: 30, failed: true, skips: true }, { signal });
    const before = [...(found.runs ?? []).filter((run) => run.ended).map(ofRun), ...(found.skips ?? []).map(ofSkip)];
    const known = new Set(events.map((event) => event.key));
    events = [...events, ...before.filter((event) => !known.has(event.key))];
    events.sort((a, b) => Date.parse(b.iso) - Date.parse(a.iso));
    add();
  }

  const again = refresher(read, { signal, least: 5_000 });
  live.on("reset", again, signal);
  live.on("run", (run) => run.notable && add(ofRun(run)), signal);
  live.on("task", (event) => add(ofChange(event)), signal);
  return panel("Latest", { class: "latest" }, list, none);
}

function ofRun(run) {
  const look = runLook(run);
  const soft = run.state && run.state !== "ok" && !run.hard ? ` soft, attempt ${run.attempt}` : "";
  const what = run.state ? `${run.state.toUpperCase()}${soft}` : endingWords(run);
  const text = saidLine(run.summary ?? run.output, Boolean(run.state));
  return { key: `${run.task} ${run.ended}`, iso: run.ended, look, what, task: run.task, text };
}

function ofSkip(skip) {
  const times = skip.times === 1 ? "skipped" : `${count(skip.times)} times skipped`;
  const key = `${skip.task} skip ${skip.at} ${skip.first}`;
  return { key, iso: skip.at, look: "skipped", what: times, task: skip.task, text: reasonWords(skip.reason) };
}

let changes = 0;

function ofChange({ name, change, count: many }) {
  const iso = new Date(now()).toISOString();
  const what = name === null ? `${count(many)} tasks changed` : change;
  return { key: `change ${(changes += 1)}`, iso, look: "new", what, task: name, text: "", gone: change === "removed" };
}

function createEvent(event) {
  const here = event.task !== null && !event.gone;
  const name = here ? taskLink(event.task, { "data-walk": true }) : h("bdi", { class: "task-name" }, event.task ?? "");
  return h(
    "li",
    null,
    badge(event.look, event.what),
    name,
    countdown(event.iso, undefined, agoWords),
    event.text ? h("bdi", { class: "output-line" }, event.text) : null,
  );
}
