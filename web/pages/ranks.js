/* ranks: ranks × steps, collectives, stragglers, clocks. */

import {duration} from "../model/format.js";
import * as State from "../model/state.js";
import {heatView} from "../view/charts.js";
import {h} from "../view/dom.js";

import {boundTable, later, sheet} from "./common.js";

export const title = "Ranks";

export function draw(context) {
  const {answers, trace} = context, ask = (question, args = {}) => answers.ask(trace, question, args);
  return sheet(
      title, "What each rank does in a step, and who waits for whom.",
      later(
          ask("ranks", {by: "step"}), (table) => heat(table, context),
          {id: "rank-heat", title: "length of each step by rank", height: 120}),
      later(
          ask("ranks"), (table) => boundTable(table, context, {
                          id: "ranks-table",
                          label: "ranks",
                          prefix: "r.",
                          open: (row) => {
                            location.hash = State.toHash({...State.get(), page: "overview", rank: String(row.rank)});
                          }
                        }),
          {title: "a step of each rank"}),
      later(
          ask("stragglers"),
          (table) => boundTable(table, context, {id: "stragglers-table", label: "stragglers", prefix: "s."}),
          {title: "stragglers", quiet: true}),
      later(
          ask("collectives"),
          (table) => boundTable(table, context, {id: "collectives-table", label: "collectives", prefix: "c."}),
          {title: "collectives", quiet: true}),
      later(
          ask("overlap"), (table) => boundTable(table, context, {id: "overlap-table", label: "overlap", prefix: "o."}),
          {title: "communication hidden under computation", quiet: true}),
      later(
          ask("clocks"), (table) => boundTable(table, context, {id: "clocks-table", label: "clocks", prefix: "k."}),
          {title: "clocks", quiet: true}));
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
    h("p", {class: "notes"}, `faint ${duration(Math.min(...known))}, strong ${duration(Math.max(...known))}`)
  ];
}
