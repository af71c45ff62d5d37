/* memory: the curve by category, what was alive at the peak, what operators allocate, the allocator's segments. */

import {MEMORY_PARTS} from "../model/classes.js";
import {duration, number, size} from "../model/format.js";
import * as State from "../model/state.js";
import {blockMapView} from "../view/blockmap.js";
import {areasView, legend} from "../view/charts.js";
import {h, replace} from "../view/dom.js";

import {boundTable, later, rankArgs, sheet, timelineOf} from "./common.js";
import {poolsOf} from "./snapshot.js";

export const title = "Memory";
export const shows = [["memory", {}], ["segments", {by: "pool"}]];
const MOST_POINTS = 4000;

/* A snapshot has blocks and no operators: a map and the code that took them, in place of categories. */
export async function draw(context) {
  const pools = await poolsOf(context);
  return pools ? drawSnapshot(context, pools) : drawRecording(context);
}

function drawSnapshot(context, pools) {
  const {answers, trace, state} = context, args = rankArgs(state);
  const ask = (question, more = {}) => answers.ask(trace, question, {...args, ...more});
  return sheet(
      title, "Which blocks were in use, event by event, and who took them.",
      later(drawMap(context), (content) => content, {id: "memory-map", title: "blocks in use", height: 420}),
      later(
          ask("memory_stacks"),
          (table) => boundTable(
              table, context, {id: "memory-stacks", label: "call stacks that allocate", prefix: "k.", most: 90}),
          {title: "call stacks that allocate", quiet: true}),
      later(
          ask("memory_state", {limit: MOST_ROWS}),
          (table) => boundTable(
              table, context, {id: "memory-peak", label: "alive at the peak", prefix: "p.", most: 90, open: openPlace}),
          {title: "alive at the peak", quiet: true}),
      later(
          Promise.resolve(pools),
          (table) => boundTable(table, context, {id: "memory-pools", label: "pools of the allocator", prefix: "q."}),
          {title: "pools of the allocator"}),
      later(
          ask("segments"),
          (table) => boundTable(table, context, {id: "segments", label: "segments of the allocator", prefix: "s."}),
          {title: "segments of the allocator", quiet: true}));
}

const MOST_ROWS = 2000;
/* One device at a time: that of the URL, else the first. m0, m1: the range of events. */
async function drawMap(context) {
  const {answers, trace, state} = context, rank = rankArgs(state);
  const whole = await answers.ask(trace, "memory_map", {...rank, by: "level"});
  const devices =
      [...new Set(whole.records().map((row) => row.device))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
  const device = devices.includes(state.mdev) ? state.mdev : devices[0];
  const last = Math.max(...whole.records().filter((row) => row.device === device).map((row) => row.until));
  const from = Math.max(0, Math.min(Number(state.m0 ?? 0), last - 1)),
        to = Math.min(last, Math.max(Number(state.m1 ?? last), from + 1));
  const isWhole = from === 0 && to === last, args = isWhole ? rank : {...rank, device, first: from, past: to};
  const [levels, bands] =
      (await Promise.all([
        answers.ask(trace, "memory_map", {...args, by: "level"}), answers.ask(trace, "memory_map", args)
      ])).map((table) => table.only("device", device));
  const zoom = (m0, m1) => {
    State.set({m0: m0 || undefined, m1: m1 === null || m1 >= last ? undefined : m1}, true);
    context.redraw();
  };
  const button = (text, label, go, off) => h("button", {"aria-label": label, disabled: off, onclick: go}, text);
  const middle = (from + to) / 2, half = (to - from) / 2;
  return [
    h("div", {class: "tools"},
      devices.length > 1 ? devices.map(
                               (name) =>
                                   h("button", {
                                     "aria-pressed": String(name === device),
                                     onclick: () => {
                                       State.set({mdev: name, m0: undefined, m1: undefined}, true);
                                       context.redraw();
                                     }
                                   },
                                     name)) :
                           h("b", {}, device),
      h("span", {class: "muted"}, `events ${number(from)} to ${number(to)} of ${number(last)}`),
      button(
          "−", "zoom out", () => zoom(Math.max(0, Math.floor(middle - 2 * half)), Math.ceil(middle + 2 * half)),
          isWhole),
      button("+", "zoom in", () => zoom(Math.floor(middle - half / 2), Math.ceil(middle + half / 2))),
      button("all", "the whole history", () => zoom(null, null), isWhole)),
    blockMapView(levels.records(), bands.records(), [from, to], {zoom}),
    h("p", {class: "notes"},
      `The ${
          number(
              bands.rows
                  .length)} largest blocks of this range are bands, the oldest at the bottom; grey is what is in smaller ones. Drag to zoom.`),
    boundTable(
        bands, context,
        {id: "block-table", label: "the largest blocks of this range", prefix: "b.", sort: "-bytes", most: 90})
  ];
}

function drawRecording(context) {
  const {answers, trace, state} = context, args = rankArgs(state);
  const ask = (question, more = {}) => answers.ask(trace, question, {...args, ...more});
  return sheet(
      title, "Bytes alive over time by what they are for, and who allocated what was alive at the peak.",
      later(
          ask("memory_timeline"), (table) => curves(table, context),
          {id: "memory-curve", title: "bytes alive by category", height: 240}),
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
              table, context,
              {id: "memory-peak", label: "alive at the peak", prefix: "p.", sort: "-net_bytes", open: openPlace}),
          {title: "alive at the peak", quiet: true}),
      later(
          ask("memory_ops"),
          (table) => boundTable(
              table, context, {id: "memory-ops", label: "operators that allocate", prefix: "o.", open: openPlace}),
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
              (table.rows.length ?
                   boundTable(table, context, {id: "leaks", label: "leaks", prefix: "l.", open: openPlace}) :
                   null),
          {quiet: true}));
}

/* The calls of a row's operator, on the timeline. */
function openPlace(row) {
  const name = row.op ?? row.name;
  if (name) location.hash = timelineOf(name);
}

/* What was alive at a moment of the curve: bytes of all rows are the height of the curve there. */
function aliveAt(context, row, at) {
  const where = `(made_ns is null or made_ns <= ${row.ts_ns}) and (freed_ns is null or freed_ns > ${row.ts_ns})`;
  return later(
      context.answers.ask(
          context.trace, "memory_blocks",
          {...rankArgs({rank: row.rank}), device: row.device, where, sort: "bytes desc"}),
      (table) => boundTable(
          table, context, {id: "memory-alive", label: `alive at ${at}`, prefix: "a.", most: 90, open: openPlace}),
      {title: `${size(row.total)} alive at ${at}`});
}

function curves(table, context) {
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
    const alive = h("div", {});
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
            "bytes", `memory-area-${k}`, {
              label: `bytes alive on ${key}`,
              table,
              choose: (i) => replace(alive, aliveAt(context, kept[i], duration(Number(kept[i].ts_ns - kept[0].ts_ns))))
            }),
        h("p", {class: "notes"}, "A click shows what was alive then."), alive,
        every > 1 ? h("p", {class: "notes"},
                      `${rows.length} changes; one of ${every} is drawn, and the peak. The table has all.`) :
                    null);
  });
}
