/* table: an answer of a question as data: columns by name, rows in an order, filters. No DOM. */

import {compile} from "./pattern.js";

const MOST_TESTED = 4096; /* characters of a cell that a pattern looks at */

export class Table {
  /* answer: {question, columns: [{name, type, unit, meaning?}], rows: [[…]], notes, losses} as /api/ask gives it */
  constructor(answer) {
    this.question = answer.question;
    this.columns = answer.columns;
    this.rows = answer.rows;
    this.notes = answer.notes ?? [];
    this.losses = answer.losses ?? [];
    this.index = new Map(answer.columns.map((column, i) => [column.name, i]));
  }
  has(name) { return this.index.has(name); }
  value(row, name) {
    const at = this.index.get(name);
    return at === undefined ? null : row[at];
  }
  record(row) { return Object.fromEntries(this.columns.map((column, i) => [column.name, row[i]])); }
  records() { return this.rows.map((row) => this.record(row)); }
  /* Largest magnitude of a column, for its unit and its bars. */
  largest(at) {
    let most = 0;
    for (const row of this.rows)
      if (typeof row[at] === "number" && Math.abs(row[at]) > most) most = Math.abs(row[at]);
    return most;
  }
  /* The rows that have this value. */
  only(name, value) {
    const at = this.index.get(name);
    return new Table({...this, rows: this.rows.filter((row) => row[at] === value)});
  }
  isNumeric(at) { return this.columns[at].type === "int" || this.columns[at].type === "real"; }
  /* Columns in which something is known and not everything is zero. */
  telling() {
    return this.columns.map((_, i) => i)
        .filter((i) => this.rows.some((row) => row[i] !== null && row[i] !== "" && row[i] !== 0));
  }
}

/* The column by which an answer came ordered, as [index, descending]: the first of these whose values never rise, or
 * never fall, and are not all alike. Null: none. */
export function orderOf(table, columns) {
  for (const at of columns) {
    if (!table.isNumeric(at)) continue;
    const values = table.rows.map((row) => row[at]).filter((value) => value !== null);
    if (values.length < 3 || values.length < table.rows.length || values[0] === values[values.length - 1]) continue;
    const descending = values[0] > values[values.length - 1];
    if (values.every((v, i) => !i || (descending ? v <= values[i - 1] : v >= values[i - 1]))) return [at, descending];
  }
  return null;
}

/* Sort keys "-total_ns,name" → [[index, descending], …]; keys of other tables are passed over. */
export function sortKeys(table, text) {
  const keys = [];
  for (const word of (text ?? "").split(",").filter(Boolean)) {
    const descending = word.startsWith("-");
    const at = table.index.get(descending ? word.slice(1) : word);
    if (at !== undefined) keys.push([at, descending]);
  }
  return keys;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return 1; /* unknown values come last in both orders */
  if (b === null) return -1;
  return a < b ? -1 : 1;
}

export function sortRows(rows, keys) {
  if (!keys.length) return rows;
  return rows.slice().sort((a, b) => {
    for (const [at, descending] of keys) {
      const c = compare(a[at], b[at]);
      if (c) return descending && a[at] !== null && b[at] !== null ? -c : c;
    }
    return 0;
  });
}

/* A filter of a text column: a substring, or /a regular expression/. Null: it is not understood. */
export function textFilter(text) {
  const regex = /^\/(.*)\/$/.exec(text);
  if (!regex) {
    const wanted = text.toLowerCase();
    return (value) => value !== null && String(value).toLowerCase().includes(wanted);
  }
  const pattern = compile(regex[1]);
  return pattern && ((value) => value !== null && pattern.test(String(value).slice(0, MOST_TESTED)));
}

/* The rows that pass all tests, and how many were not looked at because the time was up. tests: [[column, test]…] */
export function filterRows(rows, tests, most_ms = 500) {
  const kept = [], end = performance.now() + most_ms;
  for (let i = 0; i < rows.length; i++) {
    if (i % 256 === 255 && performance.now() > end) return {kept, left: rows.length - i};
    if (tests.every(([at, test]) => test(rows[i][at]))) kept.push(rows[i]);
  }
  return {kept, left: 0};
}

const FACTORS = {
  ns: 1,
  us: 1e3,
  ms: 1e6,
  s: 1e9,
  b: 1,
  kib: 1024,
  mib: 2 ** 20,
  gib: 2 ** 30,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  "%": 1,
  "": 1
};

/* A filter of a number: "> 1ms", "<=3", "5", "!= 0". divisor: of the unit the column is shown in, for bare numbers. */
export function numberFilter(text, divisor) {
  const m = /^\s*(<=|>=|!=|<|>|=)?\s*(-?[\d.]+(?:e[+-]?\d+)?)\s*([a-z%]*)\s*$/i.exec(text);
  const factor = m && FACTORS[m[3].toLowerCase()];
  if (!m || factor === undefined || Number.isNaN(Number(m[2]))) return null;
  const wanted = Number(m[2]) * (m[3] ? factor : divisor);
  const tests = {
    "<": (v) => v < wanted,
    "<=": (v) => v <= wanted,
    ">": (v) => v > wanted,
    ">=": (v) => v >= wanted,
    "=": (v) => v === wanted,
    "!=": (v) => v !== wanted
  };
  const test = tests[m[1] ?? "="];
  return (value) => value !== null && test(value);
}

const escapeCell = (value) => String(value ?? "").replaceAll("|", "\\|").replaceAll("\n", " ");
export function toMarkdown(table, columns, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const heads = columns.map((i) => escapeCell(table.columns[i].name));
  const rule = columns.map((i) => (table.isNumeric(i) ? "---:" : "---"));
  return [line(heads), line(rule), ...rows.map((row) => line(columns.map((i) => escapeCell(row[i]))))].join("\n");
}
/* A text that begins like a formula gets an apostrophe: a spreadsheet would run what a trace calls its kernels. */
export function toCsv(table, columns, rows) {
  const quote = (cell) => {
    const text = String(cell ?? ""), value = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(value) ? `"${value.replaceAll("\"", "\"\"")}"` : value;
  };
  return [columns.map((i) => quote(table.columns[i].name)), ...rows.map((row) => columns.map((i) => quote(row[i])))]
      .map((cells) => cells.join(","))
      .join("\n");
}
