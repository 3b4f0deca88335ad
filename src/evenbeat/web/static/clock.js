// Time: the server's now, one timer for all that counts down, and times in words, in the viewer's zone.

let offset = 0;
const ticks = new Set();
const counting = new Map();

/** Milliseconds on the epoch, by the server's clock as far as we know it. */
export function now() {
  return Date.now() + offset;
}

/** Milliseconds of a time, with the microseconds that Date leaves out. */
export function precisely(iso) {
  const micros = /\.\d{3}(\d{1,3})/.exec(iso ?? "");
  return Date.parse(iso) + (micros ? Number(micros[1].padEnd(3, "0")) / 1_000 : 0);
}

/** Learn the server's time from its answer to a request sent at `asked` (Date.now()). */
export function sync(iso, asked) {
  const there = Date.parse(iso);
  if (!Number.isNaN(there)) offset = there - (asked + Date.now()) / 2;
}

/** Call this about once a second while the page is visible, until the signal aborts. */
export function tick(work, signal) {
  ticks.add(work);
  signal?.addEventListener("abort", () => ticks.delete(work));
  work();
}

/** Keep the text of a node: `words(milliseconds from now)` of a time. A node that left the page is forgotten. */
export function countTo(node, iso, words = untilWords) {
  const at = iso ? Date.parse(iso) : NaN;
  if (Number.isNaN(at)) {
    counting.delete(node);
    node.textContent = iso ? String(iso) : "–";
    return node;
  }
  counting.set(node, { at, words, since: Date.now() });
  node.textContent = words(at - now());
  return node;
}

function beat() {
  if (!document.hidden) {
    const t = now();
    for (const [node, entry] of counting) {
      if (node.isConnected) {
        const text = entry.words(entry.at - t);
        if (node.textContent !== text) node.textContent = text;
      } else if (Date.now() - entry.since > 5_000) {
        counting.delete(node);
      }
    }
    for (const work of [...ticks]) work();
  }
  setTimeout(beat, 1_000 - (Date.now() % 1_000));
}
setTimeout(beat, 1_000 - (Date.now() % 1_000));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const work of [...ticks]) work();
});

/** "in 3 min 20 s", "due 4 s ago". */
export function untilWords(milliseconds) {
  if (milliseconds > -1_000) return milliseconds < 1_000 ? "now" : `in ${spanWords(milliseconds)}`;
  return `due ${spanWords(-milliseconds)} ago`;
}

/** "12 s ago"; of the future, "in 12 s". */
export function agoWords(milliseconds) {
  if (Math.abs(milliseconds) < 1_000) return "just now";
  return milliseconds > 0 ? `in ${spanWords(milliseconds)}` : `${spanWords(-milliseconds)} ago`;
}

/** A span in at most two units: "4 h 10 min". */
export function spanWords(milliseconds) {
  const seconds = Math.floor(milliseconds / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor(seconds / 3_600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
}

/** How long something took: "4.2 ms", "1.3 s", "2 min 5 s". */
export function lastedWords(milliseconds) {
  if (milliseconds >= 60_000) return spanWords(milliseconds);
  if (milliseconds >= 1_000) return `${(milliseconds / 1_000).toFixed(1)} s`;
  return `${milliseconds >= 10 ? Math.round(milliseconds) : Math.max(0, milliseconds).toFixed(1)} ms`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = { weekday: "short", day: "numeric", month: "short" };
const dayFormat = new Intl.DateTimeFormat("en-GB", day);
const yearFormat = new Intl.DateTimeFormat("en-GB", { ...day, year: "numeric" });

/** The viewer's zone, by name. */
export const viewerZone = new Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

/** "15:04:07" in the viewer's zone, with the day in front unless it is today. */
export function clockWords(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "–";
  const today = new Date(now());
  if (at.toDateString() === today.toDateString()) return clockFormat.format(at);
  const format = at.getFullYear() === today.getFullYear() ? dayFormat : yearFormat;
  return `${format.format(at)} ${clockFormat.format(at)}`;
}

/** "15:04" in the viewer's zone. */
export function minuteWords(milliseconds) {
  return minuteFormat.format(new Date(milliseconds));
}

/** The same instant as the task's owner reads it: "09:00:07 Europe/Paris"; empty where the viewer reads the same. */
export function zoneWords(iso, zone) {
  const found = /^\d{4}-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(iso ?? "");
  if (!found || zone === viewerZone) return "";
  const [, month, date, time, away] = found;
  const sign = away.startsWith("-") ? -1 : 1;
  const minutes = away === "Z" ? 0 : sign * (Number(away.slice(1, 3)) * 60 + Number(away.slice(4)));
  const at = new Date(iso);
  if (minutes === -at.getTimezoneOffset()) return "";
  const other = at.getDate() === Number(date) ? "" : `${date}/${month} `;
  return `${other}${time} ${zone ?? away}`;
}

/** All about an instant, for a title: both zones. */
export function wholeWords(iso, zone) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const there = zoneWords(iso, zone);
  return `${yearFormat.format(at)} ${clockFormat.format(at)} ${viewerZone}${there && ` = ${there}`}`;
}
