// Talk to the HTTP API: JSON in and out, problem documents as exceptions, and the token form when it is needed.

const PATIENCE = 30_000;
const LEVELS = ["none", "read", "operate", "admin"];

/** A refusal, as the server worded it. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `the server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    this.title = document.title ?? "";
    /** [{pointer, detail, column}] for each key that is wrong. */
    this.errors = document.errors ?? [];
  }
}

/** Who we are here; filled by `readSession`. `hasCookie`: there is a session that can be ended. */
export const session = { role: "none", needsToken: false, hasCookie: remembered() };

let askForToken = null;
let asking = null;

/** The shell sets how a token is requested: a function that resolves once the user has signed in. */
export function whenTokenNeeded(ask) {
  askForToken = ask;
}

/** Whether our role is at least this one: "read", "operate" or "admin". */
export function can(role) {
  return LEVELS.indexOf(session.role) >= LEVELS.indexOf(role);
}

/** Learn our role; asks for a token if there must be one. */
export async function readSession() {
  const found = await request("GET", "/v1/session");
  session.role = found.role ?? "none";
  session.needsToken = Boolean(found.needs_token);
  if (session.needsToken && session.role === "none") await signIn();
  return session;
}

/** Ask for a token, once for all who need it. */
export function signIn() {
  asking ??= Promise.resolve(askForToken?.()).finally(() => (asking = null));
  return asking;
}

/** Trade a token for a session; raises Problem if it is not known. */
export async function openSession(token) {
  await request("POST", "/v1/session", { body: { token }, mayAsk: false });
  remember(true);
  await readSession();
}

/** Trade the code of a sign-in link for a session; raises Problem if it was used or is too old. */
export async function openSessionByLink(code) {
  await request("POST", "/v1/session/link", { body: { code }, mayAsk: false });
  remember(true);
}

/** Forget the session. */
export async function closeSession() {
  await request("DELETE", "/v1/session", { mayAsk: false });
  remember(false);
  session.role = "none";
}

// The cookie cannot be seen from here, so that there is one is noted beside it.

function remembered() {
  try {
    return localStorage.getItem("evenbeat.session") === "yes";
  } catch {
    return false;
  }
}

function remember(has) {
  session.hasCookie = has;
  try {
    if (has) localStorage.setItem("evenbeat.session", "yes");
    else localStorage.removeItem("evenbeat.session");
  } catch {
    // Without storage there is no button to sign out after a reload.
  }
}

/** One request. `query` takes an object (arrays repeat, null and "" are left out), `body` becomes JSON. */
export async function request(method, path, { query, body, signal, headers = {}, mayAsk = true } = {}) {
  const timeout = AbortSignal.timeout(PATIENCE);
  let response;
  let found = null;
  try {
    response = await fetch(path + queryText(query), {
      method,
      headers: {
        Accept: "application/json",
        "X-Evenbeat": "1",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      credentials: "same-origin",
      cache: "no-store",
    });
    // Whoever is not interested any more may leave in the middle of an answer.
    if (response.ok && response.status !== 204) found = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { title: "no answer", detail: "the server does not answer" });
  }
  if (response.ok) return found;
  if (response.status === 401 && mayAsk && askForToken) {
    await signIn();
    return request(method, path, { query, body, signal, headers, mayAsk: false });
  }
  throw new Problem(response.status, (await read(response)) ?? {});
}

async function read(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

function queryText(query) {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") parameters.append(key, one);
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

export const get = (path, query, options = {}) => request("GET", path, { query, ...options });
export const post = (path, body, options = {}) => request("POST", path, { body, ...options });
export const put = (path, body, options = {}) => request("PUT", path, { body, ...options });
export const patch = (path, body, options = {}) => request("PATCH", path, { body, ...options });
export const remove = (path, options = {}) => request("DELETE", path, options);

/** The path of a task, or of something below it: taskPath("web/ping", "run"). */
export function taskPath(name, ...below) {
  return ["/v1/tasks", encodeURIComponent(name), ...below].join("/");
}

/** The header that makes a change fail (412) if another change was faster. */
export function ifVersion(version) {
  return { "If-Match": `"${version}"` };
}
