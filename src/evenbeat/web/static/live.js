// What happens, as it happens: one EventSource for the whole page, and how well it hears.

import { session, readSession } from "./api.js";

const EVENTS = ["run", "task", "status", "reset"];
const QUIET_AFTER = 6_000;
/** A status comes every second: after so long without one the node is silent ... */
const DEAF_AFTER = 40_000;
/** ... and after so long without anything, even a comment, we had better call again. */
const WAITS = [500, 1_000, 2_000, 4_000, 8_000];

const listeners = new Map([...EVENTS, "state"].map((name) => [name, new Set()]));
let source = null;
let failures = 0;
let heard = 0;
let statusAt = 0;
let broken = false;
let lastId = "";
let timer = null;

/** "connecting", "live", "silent" (the server is there, the node says nothing) or "reconnecting". */
export let state = "connecting";
/** The latest status document, or null. */
export let status = null;

/** Listen to "run", "task", "status", "reset" or "state", until the signal aborts. */
export function on(name, listener, signal) {
  const set = listeners.get(name);
  set.add(listener);
  signal?.addEventListener("abort", () => set.delete(listener));
}

function emit(name, data) {
  for (const listener of [...listeners.get(name)]) {
    try {
      listener(data);
    } catch (error) {
      console.error(error);
    }
  }
}

/** Begin to listen. */
export function start() {
  if (source === null) connect();
  setInterval(watch, 1_000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && source?.readyState === EventSource.CLOSED) retry(0);
    statusAt = Date.now();
  });
}

/** Connect again at once: after signing in, or on request. */
export function restart() {
  source?.close();
  broken = true;
  connect();
}

function connect() {
  clearTimeout(timer);
  timer = null;
  // A new EventSource does not know what the last one heard.
  source = new EventSource(lastId ? `/v1/events?last_event_id=${encodeURIComponent(lastId)}` : "/v1/events");
  source.addEventListener("open", opened);
  source.addEventListener("error", failed);
  for (const name of EVENTS) source.addEventListener(name, (event) => received(name, event));
}

function opened() {
  heard = statusAt = Date.now();
  failures = 0;
  become("live");
  if (broken) {
    broken = false;
    if (!lastId) emit("reset", {});
  }
}

function received(name, event) {
  heard = Date.now();
  lastId = event.lastEventId || lastId;
  let data;
  try {
    data = JSON.parse(event.data || "{}");
  } catch {
    return;
  }
  if (name === "status") {
    status = data;
    statusAt = heard;
    become(data.live === false ? "silent" : "live");
  }
  emit(name, data);
}

function failed() {
  become("reconnecting");
  if (source.readyState === EventSource.CLOSED) {
    broken = true;
    retry(WAITS[Math.min(failures++, WAITS.length - 1)]);
  }
}

function retry(wait) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    // An EventSource does not tell why it was refused; the session does, and asks for a token if that is the reason.
    try {
      await readSession();
    } catch {
      retry(WAITS[Math.min(failures++, WAITS.length - 1)]);
      return;
    }
    if (session.role !== "none") connect();
  }, wait);
}

function watch() {
  const now = Date.now();
  if (source?.readyState !== EventSource.OPEN) return;
  if (now - heard > DEAF_AFTER) restart();
  else if (now - statusAt > QUIET_AFTER && !document.hidden) become("silent");
}

function become(next) {
  if (next === state) return;
  state = next;
  emit("state", state);
}
