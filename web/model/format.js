/* format: numbers, times, sizes and names as text. Pure functions; no DOM. */

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

/* A long name cut in the middle; what stands before the first template bracket, which names a kernel, is kept. */
export function shorten(name, most) {
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
