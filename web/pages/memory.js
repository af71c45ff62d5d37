/* memory: the curve by category, what was alive at the peak, what operators allocate, the allocator's segments. */

import {MEMORY_PARTS} from "../model/classes.js";
import {size} from "../model/format.js";
import {areasView, legend} from "../view/charts.js";
import {h} from "../view/dom.js";

import {boundTable, later, rankArgs, sheet} from "./common.js";

export const title = "Memory";
const MOST_POINTS = 4000;

export function draw(context) {
  const {answers, trace, state} = context, args = rankArgs(state);
  const ask = (question, more = {}) => answers.ask(trace, question, {...args, ...more});
  return sheet(
      title, "Bytes alive over time by what they are for, and who allocated what was alive at the peak.",
      later(ask("memory_timeline"), curves, {id: "memory-curve", title: "bytes alive by category", height: 240}),
      later(
          ask("memory"),
          (table) => boundTable(
              table, context, {id: "memory-devices", label: "allocated and reserved by device", prefix: "d."}),
          {title: "allocated and reserved, by device", quiet: true}),
      later(
          ask("memory", {by: "category"}),
          (table) =>
              boundTable(table, context, {id: "memory-categories", label: "at the peak by category", prefix: "c."}),
          {title: "at the peak, by category", quiet: true}),
      later(
          ask("memory", {by: "peak"}),
          (table) => boundTable(
              table, context, {id: "memory-peak", label: "alive at the peak", prefix: "p.", sort: "-net_bytes"}),
          {title: "alive at the peak", quiet: true}),
      later(
          ask("memory_ops"),
          (table) => boundTable(table, context, {id: "memory-ops", label: "operators that allocate", prefix: "o."}),
          {title: "operators that allocate", quiet: true}),
      later(
          ask("memory_stacks"),
          (table) => boundTable(
              table, context, {id: "memory-stacks", label: "call stacks that allocate", prefix: "k.", most: 90}),
          {title: "call stacks that allocate", quiet: true}),
      later(
          ask("segments"),
          (table) => boundTable(table, context, {id: "segments", label: "segments of the allocator", prefix: "s."}),
          {title: "segments of the allocator", quiet: true}),
      later(
          ask("leaks"),
          (table) =>
              (table.rows.length ? boundTable(table, context, {id: "leaks", label: "leaks", prefix: "l."}) : null),
          {quiet: true}));
}

function curves(table) {
  const devices = new Map();
  for (const row of table.records()) {
    const key = `${row.rank ?? ""} ${row.device ?? ""}`;
    if (!devices.has(key)) devices.set(key, []);
    devices.get(key).push(row);
  }
  return [...devices].map(([key, rows], k) => {
    const every = Math.ceil(rows.length / MOST_POINTS);
    const peak = rows.reduce((a, b) => (b.total > a.total ? b : a), rows[0]);
    const kept = every > 1 ? rows.filter((row, i) => i % every === 0 || row === peak || i === rows.length - 1) : rows;
    const parts = MEMORY_PARTS.filter(([name]) => kept.some((row) => row[name] > 0));
    return h(
        "section", {class: "section"},
        h("h2", {},
          `${rows[0].device ?? "device"}${devices.size > 1 ? ` of rank ${rows[0].rank}` : ""}: at most ${
              size(peak.total)} of blocks seen alive`),
        legend(parts.map(([name, cls]) => [name.replaceAll("_", " "), cls])),
        areasView(
            kept.map((row) => Number(row.ts_ns)),
            parts.map(
                ([name, cls]) => ({label: name.replaceAll("_", " "), cls, values: kept.map((row) => row[name] ?? 0)})),
            "bytes", `memory-area-${k}`, {label: `bytes alive on ${key}`, table}),
        every > 1 ? h("p", {class: "notes"},
                      `${rows.length} changes; one of ${every} is drawn, and the peak. The table has all.`) :
                    null);
  });
}
