/* ranks: ranks × steps, collectives, stragglers, clocks. */

import {duration} from "../model/format.js";
import * as State from "../model/state.js";
import {Table} from "../model/table.js";
import {heatTop, heatView} from "../view/charts.js";
import {h} from "../view/dom.js";

import {boundTable, later, sheet, timelineOf} from "./common.js";

export const title = "Ranks";

/* A rank's tracks on the timeline; its other pages are then about it, too. */
const openRank = (row) => {
  location.hash = State.link("timeline", {rank: String(row.rank)});
};
const openKind = (row) => {
  location.hash = timelineOf(`/${row.kind.replaceAll("_", "_?")}/`); /* allreduce_, ncclDevKernel_AllReduce */
};

export function draw(context) {
  const {answers, trace} = context, ask = (question, args = {}) => answers.ask(trace, question, args);
  return sheet(
      title, "What each rank does in a step, and who waits for whom.",
      later(
          ask("ranks", {by: "step"}), (table) => heat(table, context),
          {id: "rank-heat", title: "length of each step by rank", height: 120}),
      later(
          ask("ranks"),
          (table) => boundTable(table, context, {id: "ranks-table", label: "ranks", prefix: "r.", open: openRank}),
          {title: "a step of each rank"}),
      later(ask("stragglers"), (table) => stragglers(table, context), {title: "stragglers", quiet: true}),
      later(
          ask("collectives"),
          (table) =>
              boundTable(table, context, {id: "collectives-table", label: "collectives", prefix: "c.", open: openKind}),
          {title: "collectives", quiet: true}),
      later(
          ask("overlap"), (table) => boundTable(table, context, {id: "overlap-table", label: "overlap", prefix: "o."}),
          {title: "communication hidden under computation", quiet: true}),
      later(
          ask("clocks"), (table) => boundTable(table, context, {id: "clocks-table", label: "clocks", prefix: "k."}),
          {title: "clocks", quiet: true}));
}

/* Where waits are not to be trusted, that comes first, and what they would cost is no headline. */
function stragglers(table, context) {
  const doubt = table.notes.find((note) => note.includes("waits are not to be trusted"));
  const notes = table.notes.filter((note) => !doubt || (note !== doubt && !note.includes("costs the others")));
  return [
    doubt ? h("p", {class: "bad doubt"}, doubt) : null, boundTable(new Table({...table, notes}), context, {
      id: "stragglers-table",
      label: "stragglers",
      prefix: "s.",
      open: openRank,
      wide: ["evidence"],
      first: ["evidence", "cause"],
      most: 160
    })
  ];
}

function heat(table, context) {
  const rows = table.records(), ranks = [...new Set(rows.map((row) => row.rank))],
        steps = [...new Set(rows.map((row) => row.step))];
  if (!rows.length || !steps.filter(Boolean).length)
    return h("p", {class: "empty"}, "The ranks have no steps. Call prof.step() once an iteration when recording.");
  const cells = ranks.map(
      (rank) => steps.map((step) => rows.find((row) => row.rank === rank && row.step === step)?.step_ns ?? null));
  const known = cells.flat().filter((v) => v !== null);
  return [
    heatView(ranks.map((rank) => `rank ${rank}`), steps.map((step) => `#${step}`), cells, "ns", "ranks-heat", {
      table,
      label: "ranks and steps",
      open: (r, c) => {
        location.hash = State.link("timeline", {step: steps[c], rank: ranks[r]});
      }
    }),
    h("p", {class: "notes"},
      `faint ${duration(Math.min(...known))}, strong ${duration(heatTop(cells))}; the longest step is ${
          duration(Math.max(...known))}`)
  ];
}
