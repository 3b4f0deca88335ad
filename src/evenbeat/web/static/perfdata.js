// Parses the output of a plugin as the node does: text, long text and performance data. Nothing is refused.

const LABEL = /'((?:[^']|'')*)'=|([^\s=']+)=/y;
const VALUE = /^([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|U)([^\d;\s.,+=-][^;\s=]*)?$/;
const MOST = 200;

/** {text, perfdata: [{label, value, unit, warn, crit, min, max}]} of an output. */
export function readOutput(output) {
  const [first, ...rest] = (output ?? "").split("\n");
  const bar = first.indexOf("|");
  const long = rest.join("\n");
  const second = long.indexOf("|");
  const text = bar < 0 ? first : first.slice(0, bar);
  const body = second < 0 ? long : long.slice(0, second);
  const lines = [bar < 0 ? "" : first.slice(bar + 1), ...(second < 0 ? [] : long.slice(second + 1).split("\n"))];
  const allText = [text.trim(), body.trim()].filter(Boolean).join("\n");
  return { text: allText, perfdata: lines.flatMap(readLine).slice(0, MOST) };
}

function readLine(line) {
  const found = [];
  let position = 0;
  while (position < line.length) {
    if (/\s/.test(line[position])) {
      position += 1;
      continue;
    }
    LABEL.lastIndex = position;
    const label = LABEL.exec(line);
    let end = label ? LABEL.lastIndex : position;
    const start = end;
    while (end < line.length && !/\s/.test(line[end])) end += 1;
    const [value = "", warn = "", crit = "", min = "", max = ""] = line.slice(start, end).split(";");
    const read = label && VALUE.exec(value);
    if (read) {
      const name = label[2] ?? label[1].replaceAll("''", "'");
      const number = read[1] === "U" ? null : Number(read[1]);
      found.push({ label: name, value: number, unit: read[2] ?? "", warn, crit, min, max });
    }
    position = end;
  }
  return found;
}
