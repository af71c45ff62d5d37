/* format: numbers, times, sizes and names as text. Pure functions; no DOM. */

import {isMangled, readMangled} from "./mangled.js";

const TIME_UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
const BYTE_UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]];
const COUNT_UNITS = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];

/* The scale of a column: one unit for all its cells, taken from its largest magnitude. unit: that of the question
 * ("ns", "bytes", "FLOP", "%", ""). Returns {unit, divisor}. */
export function scaleOf(unit, largest) {
  const list = unit === "ns" ? TIME_UNITS : unit === "bytes" ? BYTE_UNITS : /FLOP|B\/s/.test(unit) ? COUNT_UNITS : null;
  if (!list) return {unit, divisor: 1};
  const step = list.find(([, size]) => largest >= size) ?? list[list.length - 1];
  const suffix = list === COUNT_UNITS ? step[0] + unit : step[0];
  return {unit: suffix, divisor: step[1]};
}

/* Digits in groups of three, three significant ones behind a point at most. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value === "bigint" || Number.isInteger(value)) return grouped(String(value));
  const size = Math.abs(value);
  const places = size >= 100 ? Math.max(0, digits - 3) : size >= 10 ? digits - 2 : digits - 1;
  return grouped(value.toFixed(size > 0 && size < 0.1 ? Math.min(6, 1 - Math.floor(Math.log10(size))) : places));
}

function grouped(text) {
  const [whole, part] = text.split(".");
  const sign = whole.startsWith("-") ? "−" : "";
  const digits = whole.replace("-", "");
  const spaced = digits.length > 4 ? digits.replace(/\B(?=(\d{3})+$)/g, "\u202f") : digits;
  return sign + spaced + (part ? "." + part : "");
}

/* One value with its unit: 21.6 ms, 8.56 MiB. */
export function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  const scale = scaleOf(unit, Math.abs(Number(value)));
  const text = number(scale.divisor === 1 ? value : Number(value) / scale.divisor);
  return scale.unit ? `${text} ${scale.unit}` : text;
}

export const duration = (ns) => quantity(ns, "ns");
export const size = (bytes) => quantity(bytes, "bytes");
export const percent = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} %`);

/* A moment since the origin: as many digits as a step of `resolution` ns needs. */
export function moment(ns, resolution = 1000) {
  const scale = scaleOf("ns", Math.max(Math.abs(ns), 1));
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(scale.divisor / Math.max(resolution, 1)))));
  return `${grouped((ns / scale.divisor).toFixed(places))} ${scale.unit}`;
}

/* A function of C++ without what all of its kind have: return type, parameters, namespaces. Other names as they are. */
export function withoutNoise(name) {
  if (isMangled(name)) return readMangled(name);
  if (!/^[\w:~ ]+(\(anonymous namespace\)::[\w:]+)?</.test(name)) return name;
  let depth = 0, end = name.length;
  for (let i = 0; i < name.length; i++) {
    if (name.startsWith("(anonymous namespace)", i)) i += "(anonymous namespace)".length;
    if (name[i] === "<") depth++;
    if (name[i] === ">") depth--;
    if (name[i] === "(" && depth === 0) {
      end = i;
      break;
    }
  }
  return name.slice(0, end)
      .replace(/^(void|static) /, "")
      .replaceAll("(anonymous namespace)::", "")
      .replace(/(?:\b[A-Za-z_]\w*::)+/g, "");
}

/* Short names of several, by name: two that differ do not look the same. */
export function shortenAll(names, most) {
  const out = new Map(), alike = new Map();
  for (const name of new Set(names)) {
    const text = shorten(name, most);
    out.set(name, text);
    if (!alike.has(text)) alike.set(text, []);
    alike.get(text).push(name);
  }
  for (const group of alike.values()) {
    if (group.length < 2) continue;
    const less = new Set(group.map(withoutNoise)).size === group.length ? withoutNoise : (name) => name;
    const texts = group.map(less), head = Math.floor(most * 0.4), room = most - head - 2;
    let same = 0;
    while (texts.every((text) => text[same] !== undefined && text[same] === texts[0][same])) same++;
    const from = Math.max(head, same - 4);
    group.forEach(
        (name, i) => out.set(
            name,
            `${texts[i].slice(0, head)}…${texts[i].slice(from, from + room)}${
                texts[i].length > from + room ? "…" : ""}`));
  }
  return out;
}

/* A long name cut in the middle; what stands before the first template bracket, which names a kernel, is kept. */
export function shorten(whole, most) {
  const name = whole.length <= most && !isMangled(whole) ? whole : withoutNoise(whole);
  if (name.length <= most) return name;
  const bracket = name.indexOf("<");
  const head = Math.max(Math.floor(most * 0.6), bracket > 0 && bracket < most - 8 ? bracket + 1 : 0);
  return name.slice(0, head) + "…" + name.slice(name.length - (most - head - 1));
}

/* 1-2-5 ticks: at most `count` of them between low and high. */
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

/* A name in a box: what tells frames apart is the function, then the file; folders go first. */
export function fitName(name, most) {
  let text = name;
  for (const less of [/^[^\s(]*\/(?=[^/\s]+\(\d+\): )/, /^[^\s(]+\(\d+\): /, /^nn\.Module: /]) {
    if (text.length <= most) return text;
    text = text.replace(less, "");
  }
  return shorten(text, most);
}
