// The shell: which view is shown, the bar at the top, keys for the whole page, signing in.

import { closeSession, get, openSession, openSessionByLink, readSession, session, whenTokenNeeded } from "./api.js";
import { fill, h } from "./dom.js";
import { bind, walk } from "./keys.js";
import * as live from "./live.js";
import { attempt, button, dialog, empty, failure, toast } from "./ui.js";

const VIEWS = {
  now: { title: "Now", load: (again) => import(`./views/now.js${again}`) },
  tasks: { title: "Tasks", load: (again) => import(`./views/tasks.js${again}`) },
  task: { title: "Task", place: "tasks", load: (again) => import(`./views/task.js${again}`) },
  timetable: { title: "Timetable", load: (again) => import(`./views/timetable.js${again}`) },
  editor: { title: "Editor", load: (again) => import(`./views/editor.js${again}`) },
  periods: { title: "Periods", load: (again) => import(`./views/periods.js${again}`) },
  contacts: { title: "Contacts", load: (again) => import(`./views/contacts.js${again}`) },
  downtimes: { title: "Downtimes", load: (again) => import(`./views/downtimes.js${again}`) },
  cluster: { title: "Cluster", load: (again) => import(`./views/cluster.js${again}`) },
};

const KEYS = [
  ["g n", "Now"],
  ["g t", "Tasks"],
  ["g l", "Timetable (load)"],
  ["g p", "Periods"],
  ["g d", "Downtimes"],
  ["g o", "Contacts"],
  ["g c", "Cluster"],
  ["g e", "New task"],
  ["/", "filter tasks"],
  ["j / k", "next, previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["r, s, p, d, e", "in a task: run now, stop the run, pause or resume, downtime, edit"],
  ["Esc", "leave a field, clear a selection, go back"],
  ["?", "these keys"],
];

const LINK_WORDS = {
  connecting: "connecting",
  live: "live",
  silent: "node is silent",
  reconnecting: "reconnecting",
};

const main = document.getElementById("main");
let unmount = null;
let turn = 0;
/** Is there nothing but this node? The view Cluster then has nothing to show that Now does not. */
let isSingleNode = false;
/** Whether the view could not be loaded, as the server was gone. */
let isMissing = false;
/** How often: a browser remembers that a file could not be had, so the next time it is asked for by another address. */
let failures = "";

/** What the address says: view, name and query. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [first = "", ...rest] = path.split("/");
  let name = null;
  try {
    name = rest.length && rest[0] ? decodeURIComponent(rest[0]) : null;
  } catch {
    name = rest[0];
  }
  const view = first === "tasks" && name !== null ? "task" : first || "now";
  return { view, name, query: new URLSearchParams(query) };
}

async function show() {
  const mine = ++turn;
  const { view, name, query } = address();
  const entry = Object.hasOwn(VIEWS, view) ? VIEWS[view] : null;
  unmount?.();
  unmount = null;
  document.title = `${name ?? entry?.title ?? "Not found"} · evenbeat`;
  mark(entry?.place ?? (view === "editor" && name !== null ? "tasks" : view));
  const root = h("div", { class: `view view-${entry ? view : "none"}` });
  fill(main, root);
  window.scrollTo(0, 0);
  if (entry === null) {
    fill(root, h("h1", null, "Not found"), empty("This page does not exist."));
    return;
  }
  let module;
  isMissing = false;
  try {
    module = await entry.load(failures && `?${failures}`);
  } catch (error) {
    console.warn(error);
    failures = (failures || 0) + 1;
    isMissing = mine === turn;
    if (isMissing) fill(root, h("h1", null, entry.title), empty(`${entry.title} is not available.`));
    return;
  }
  if (mine !== turn) return;
  try {
    unmount = module.mount(root, { name, query });
    if (mine > 1 && !root.contains(document.activeElement)) main.focus({ preventScroll: true });
  } catch (error) {
    console.error(error);
    fill(root, failure(error, show));
  }
}

function mark(place) {
  for (const link of document.querySelectorAll(".places a")) {
    if (link.dataset.place === place) {
      link.setAttribute("aria-current", "page");
      // On a telephone the bar is wider than the screen.
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.clientWidth / 2;
    } else link.removeAttribute("aria-current");
  }
}

// The bar

function showLink(state) {
  const node = document.getElementById("link-state");
  node.dataset.state = state;
  node.textContent = LINK_WORDS[state];
  // The server was not there when the page was loaded: only now can we know what we may do.
  if (state === "live" && session.role === "none") readSession().then(showSession).then(show, () => {});
  else if (state === "live" && isMissing) show();
  if (state === "silent") get("/v1/status").then(showBanner, () => {});
}

function capitalised(problem) {
  return `${problem.slice(0, 1).toUpperCase()}${problem.slice(1).replace(/\.?$/, ".")}`;
}

function showBanner(status) {
  const banner = document.getElementById("banner");
  const idle = status.executes === false ? ["This node has no workers: nothing is executed."] : [];
  const files =
    status.files && status.files !== "ok"
      ? [`The files could not be applied; their last applied versions are in effect: ${status.files}`]
      : [];
  const wrong = [...(status.problems ?? []).map(capitalised), ...files, ...idle].join(" ");
  const text = status.live === false ? "No node is running on this database: nothing is being scheduled." : wrong;
  banner.hidden = !text;
  banner.textContent = text;
}

const THEMES = ["system", "light", "dark"];
const THEME_SIGNS = { system: "◐ auto", light: "☀ light", dark: "☾ dark" };

function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

function turnTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("evenbeat.theme", next);
  } catch {
    // Not remembered, then.
  }
  showTheme();
  document.dispatchEvent(new Event("evenbeat:theme"));
}

function showTheme() {
  const node = document.getElementById("theme");
  const [icon, word] = THEME_SIGNS[theme()].split(" ");
  fill(node, h("span", { "aria-hidden": "true" }, icon), h("span", { class: "wide-only" }, ` ${word}`));
  node.setAttribute("aria-label", `Theme: ${word}`);
}

function showHelp() {
  const keys = KEYS.filter(([, what]) => what !== VIEWS.cluster.title || !isSingleNode);
  dialog("Keys", (close) => [
    h("dl", { class: "keys" }, keys.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("div", { class: "dialog-buttons" }, button("Close", () => close(true), { autofocus: true })),
  ]);
}

// Signing in

const LINK = /^#\/sign-in\/([\w-]+)$/;
/** Why the link that led here did not sign in; the form for a token says it. */
let refusedLink = "";

/** A link of `evenbeat token link` has a code behind its #, which works once: a POST trades it for a session. */
async function followLink() {
  const code = LINK.exec(location.hash)?.[1];
  if (code === undefined) return;
  // Neither the history nor the address bar keeps it.
  history.replaceState(null, "", "#/now");
  // A browser that prerenders a page before the user opens it must not use up the link.
  if (document.prerendering) {
    await new Promise((resolve) => document.addEventListener("prerenderingchange", resolve, { once: true }));
  }
  try {
    await openSessionByLink(code);
  } catch (problem) {
    refusedLink = capitalised(problem.message);
  }
}

async function askToken() {
  for (;;) {
    const done = await dialog("Sign in", (close) => {
      const message = h("p", { class: "bad-text", role: "alert" }, refusedLink);
      const field = h("input", {
        type: "password", id: "token", name: "token", autocomplete: "current-password", required: true,
        maxlength: "200", placeholder: "evb_…", spellcheck: "false", autofocus: true,
      });
      async function submit(event) {
        event.preventDefault();
        try {
          await openSession(field.value.trim());
          close(true);
        } catch (problem) {
          message.textContent = problem.status === 401 ? "This token is not known." : problem.message;
          field.select();
        }
      }
      return h(
        "form",
        { onsubmit: submit, class: "token-form" },
        h("label", { for: "token" }, "Token"),
        field,
        message,
        h("p", { class: "muted" }, h("code", null, "evenbeat token link"), ", typed on the machine of the node, ",
          "prints a link that signs in. Or enter a token: it is traded for a session cookie, and not kept here."),
        h("div", { class: "dialog-buttons" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
      );
    });
    if (done) break;
  }
  refusedLink = "";
  showSession();
  live.restart();
}

function showSession() {
  document.getElementById("sign-out").hidden = !session.hasCookie || session.role === "none";
  document.body.dataset.role = session.role;
  if (session.role !== "none") get("/v1/cluster").then(showPlaces, () => {});
}

/** Offer the view Cluster where there is one. */
function showPlaces({ is_single: isSingle }) {
  isSingleNode = isSingle;
  document.querySelector(".places a[data-place=cluster]").hidden = isSingle;
}

async function signOut() {
  if (await attempt(closeSession)) location.reload();
}

// Keys for the whole page

function bindKeys() {
  const go = (hash) => () => {
    location.hash = hash;
  };
  bind("g n", go("#/now"));
  bind("g t", go("#/tasks"));
  bind("g l", go("#/timetable"));
  bind("g p", go("#/periods"));
  bind("g d", go("#/downtimes"));
  bind("g o", go("#/contacts"));
  bind("g c", () => !isSingleNode && (go("#/cluster")(), true));
  bind("g e", go("#/editor"));
  bind("?", showHelp);
  bind("/", () => {
    const field = main.querySelector("input[type=search]");
    if (field) field.focus();
    else location.hash = "#/tasks?focus=1";
  });
  bind("Escape", () => {
    if (main.contains(document.activeElement) && document.activeElement !== main) document.activeElement.blur();
    else return false;
  });
  walk(() => main.querySelectorAll("[data-walk]"));
}

async function begin() {
  bindKeys();
  showTheme();
  document.getElementById("theme").addEventListener("click", turnTheme);
  document.getElementById("help").addEventListener("click", showHelp);
  document.getElementById("sign-out").addEventListener("click", signOut);
  document.querySelector(".skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  live.on("state", showLink);
  live.on("status", showBanner);
  whenTokenNeeded(askToken);
  // Also while the form asks for a token: a new link, pasted into the same tab, changes only what is behind the #.
  window.addEventListener("hashchange", () => LINK.test(location.hash) && location.reload());
  await followLink();
  try {
    await readSession();
    if (refusedLink) toast(refusedLink, "bad");
  } catch (problem) {
    console.warn(problem.message);
  }
  showSession();
  live.start();
  window.addEventListener("hashchange", show);
  await show();
}

begin();
