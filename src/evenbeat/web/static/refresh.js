// Read something again when it may have changed: never twice at the same time, never more often than is of use.

/**
 * Returns a function that asks for a refresh. `work` is called at most once per `least` milliseconds, again every
 * `each` milliseconds if that is given, and not at all while the page is hidden. Failures go to `failed`.
 */
export function refresher(work, { signal, least = 1_000, each = 0, failed = console.warn } = {}) {
  let last = -Infinity;
  let running = false;
  let wanted = false;
  let timer = null;

  function ask() {
    wanted = true;
    plan();
  }

  function plan() {
    if (running || signal.aborted || document.hidden) return;
    const wait = wanted ? least - (performance.now() - last) : each ? each - (performance.now() - last) : null;
    if (wait === null) return;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(0, wait));
  }

  async function run() {
    if (running || signal.aborted) return;
    running = true;
    wanted = false;
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
    last = performance.now();
    running = false;
    plan();
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  document.addEventListener("visibilitychange", plan, { signal });
  ask();
  return ask;
}

/** Debounce: a function that calls `work` once it has not been called for `wait` milliseconds. */
export function debounced(work, wait, signal) {
  let timer = null;
  signal?.addEventListener("abort", () => clearTimeout(timer));
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), wait);
  };
}
