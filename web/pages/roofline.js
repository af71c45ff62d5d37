/* roofline: operators by work and bandwidth. */

import {number, quantity} from "../model/format.js";
import {logScatterView} from "../view/charts.js";
import {h} from "../view/dom.js";

import {boundTable, choices, later, rankArgs, sheet} from "./common.js";

export const title = "Roofline";
export const shows = [["roofline", {by: "name"}]];

export function draw(context) {
  const by = context.state.by ?? "name";
  return sheet(
      title, "Operations a second against operations a byte. Needs shapes: record with record_shapes=True.",
      choices(context, "by", [["name", "by operator"], ["shape", "by shape"], ["kind", "by kind"]], "name"),
      later(
          context.answers.ask(context.trace, "roofline", {by, ...rankArgs(context.state)}),
          (table) => [plot(table), boundTable(table, context, {id: "roofline-table", label: "roofline"})],
          {id: "roofline", height: 340}));
}

/* One roof for each peak: sloped by the memory's bandwidth up to the ridge, flat from there. */
function roofs(rows) {
  const seen = new Map();
  for (const {peak_flop_per_s: peak, ridge} of rows)
    if (peak > 0 && ridge > 0 && !seen.has(peak)) seen.set(peak, ridge);
  return [...seen].map(
      ([peak, ridge]) => ({label: quantity(peak, "FLOP/s"), peak, ridge, f: (x) => peak * Math.min(1, x / ridge)}));
}

function plot(table) {
  const rows = table.records().filter((row) => row.intensity > 0 && row.flop_per_s > 0);
  if (!rows.length) return h("p", {class: "empty"}, "No operator here has known operations and bytes.");
  return logScatterView(
      rows.map((row) => ({
                 x: row.intensity,
                 y: row.flop_per_s,
                 cls: row.bound === "memory" ? "copy" : "compute",
                 label: `${row.name} ${row.group ?? ""}: ${quantity(row.flop_per_s, "FLOP/s")} at ${
                     number(row.intensity)} FLOP a byte${row.bound ? `, bound by ${row.bound}` : ""}`
               })),
      "FLOP a byte", "FLOP/s", roofs(table.records()), "roofline-plot", table);
}
