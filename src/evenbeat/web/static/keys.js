// Keys: single ones and sequences such as "g n". Who binds last is asked first; fields keep what is typed in them.

const SEQUENCE = 1_200;
const bound = [];
let before = "";
let beforeAt = 0;

/** Bind a key ("j", "?", "Escape") or a sequence ("g n"), until the signal aborts. Return false to pass it on. */
export function bind(key, work, signal) {
  const entry = { key, work };
  bound.unshift(entry);
  signal?.addEventListener("abort", () => bound.splice(bound.indexOf(entry), 1));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (typing && event.key !== "Escape") return;
  if (document.querySelector("dialog[open]")) return;
  const pair = before && Date.now() - beforeAt < SEQUENCE ? `${before} ${event.key}` : null;
  before = "";
  for (const wanted of [pair, event.key]) {
    if (wanted === null) continue;
    for (const { key, work } of [...bound]) {
      if (key === wanted && work(event) !== false) {
        event.preventDefault();
        return;
      }
    }
  }
  if (!typing && bound.some(({ key }) => key.startsWith(`${event.key} `))) {
    before = event.key;
    beforeAt = Date.now();
  }
});

/** Let j and k walk over what `rows()` gives: elements that can have the focus. */
export function walk(rows, signal) {
  const step = (by) => () => {
    const all = [...rows()];
    if (!all.length) return false;
    const here = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, here === -1 ? (by > 0 ? 0 : all.length - 1) : here + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  bind("j", step(1), signal);
  bind("k", step(-1), signal);
}
