// The kinds of input of the editor: how each shows the value of a key, and what it makes of what a person enters.

import { h } from "../dom.js";

const PLAIN = { spellcheck: "false", autocomplete: "off" };
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const orNothing = (list) => (list.length ? list : undefined);

function area({ rows = 2, ...attributes }) {
  return h("textarea", { rows, spellcheck: "false", ...attributes });
}

/** A kind: `input(field)` makes it, `show(input, value, field)` fills it, `read(text, field)` is the value, if there is one. */
function kind(make, written, read) {
  return {
    input: ({ attributes = {}, options }) => make(attributes, options),
    show: (input, value, field) => (input.value = value === undefined || value === null ? "" : written(value, field)),
    read: (text, field) => read(text, field),
  };
}

const line = (attributes) => h("input", { type: "text", ...PLAIN, ...attributes });

export const LINE = kind(line, String, (text) => text.trim() || undefined);

export const NUMBER = kind(line, String, (text) => {
  const number = Number(text);
  // What is no number is refused by the server, in its words.
  return text.trim() === "" ? undefined : Number.isNaN(number) ? text.trim() : number;
});

export const TEXT = kind(area, String, (text) => text.trim() || undefined);

export const NAMES = kind(area, (names) => names.join("\n"), (text) => orNothing(lines(text)));

export const VALUES = kind(area, (values) => values.map(valueText).join("\n"), (text) => orNothing(lines(text).map(valueOf)));

export const PAIRS = kind(area, (table) => pairsText(table, String), (text) => tableOf(text, String));

export const SETTINGS = kind(area, (table) => pairsText(table, valueText), (text) => tableOf(text, valueOf));

export const CONTACTS = kind(
  area,
  (all) => all.map((one) => (one.after ? `${one.to} after ${one.after}` : one.to ?? one)).join("\n"),
  (text) => orNothing(lines(text).map(contact)),
);

/** The value of an option is a text; `values` of the field says what else an option stands for. */
export const CHOICE = kind(
  (attributes, options) => h("select", attributes, options.map(([value, label]) => h("option", { value }, label))),
  (value, { options }) => (options.some(([key]) => key === String(value)) ? String(value) : ""),
  (text, { values }) => values?.[text] ?? (text || undefined),
);

export const TICK = {
  input: () => h("input", { type: "checkbox" }),
  show: (input, value) => (input.checked = Boolean(value)),
  read: () => undefined,
};

function pairsText(table, written) {
  return Object.entries(table).map(([key, value]) => `${key}=${written(value)}`).join("\n");
}

function tableOf(text, read) {
  const entries = lines(text).map((one) => {
    const [key, ...rest] = one.split("=");
    return [key.trim(), read(rest.join("=").trim())];
  });
  return entries.length ? Object.fromEntries(entries) : undefined;
}

/** JSON where it is JSON, else the text itself. */
function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function valueText(value) {
  return typeof value === "string" && valueOf(value) === value && !/\n|^\s|\s$/.test(value) ? value : JSON.stringify(value);
}

/** A line of the field `notify`: "ops", or "boss after 30m". */
function contact(text) {
  const [, to, after] = /^(.*\S)\s+after\s+(\S+)$/.exec(text) ?? [];
  return to ? { to, after } : text;
}
