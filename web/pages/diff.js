/* diff: two traces, B against A. */

import {quantity} from "../model/format.js";
import * as State from "../model/state.js";
import {h} from "../view/dom.js";

import {boundTable, choices, later, sheet} from "./common.js";

export const title = "Diff";

export function draw(context) {
  const {answers, trace, state, shared} = context, others = shared.traces.filter((t) => t.trace !== trace);
  if (!others.length)
    return sheet(
        title, null,
        h("p", {class: "empty"}, "One trace is open. To compare two: ", h("code", {}, "tachograph view A B")));
  const against = Number(state.b ?? others[0].trace);
  const choice =
      h("select", {
        "aria-label": "trace B",
        onchange: (e) => {
          State.set({b: e.target.value}, true);
          context.redraw();
        }
      },
        others.map((t) => h("option", {value: t.trace}, t.name)));
  choice.value = String(against);
  return sheet(
      title, "B compared with A: each figure with a 95 % interval of its change and a verdict.",
      h("div", {class: "tools"}, h("span", {}, `A: ${shared.traces[trace].name}`), h("label", {}, "B:", choice)),
      choices(
          context, "by",
          [
            ["", "all"], ["step", "steps"], ["category", "parts of a step"], ["op", "operators"], ["kernel", "kernels"],
            ["module", "modules"], ["memory", "memory"]
          ],
          ""),
      later(
          answers.ask(trace, "diff", {against, by: state.by}),
          (table) =>
              [h("p", {class: "verdict", style: {minHeight: "0", marginBottom: "12px"}}, table.notes[0] ?? ""),
               boundTable(table, context, {
                 id: "diff-table",
                 label: "differences",
                 first: ["verdict", "delta_pct"],
                 columns: table.columns.map((column) => column.name).filter((name) => name !== "unit"),
                 cell: {a: withUnit, b: withUnit, delta: withUnit, low: withUnit, high: withUnit, delta_pct: signed}
               })],
          {id: "diff"}));
}
/* A figure a row: each has a unit of its own. */
const withUnit = (value, row) => (value === null ? "" : quantity(value, row.unit));
const signed = (value, row) => {
  if (value === null) return "";
  const means = /^(slower|more)/.test(row.verdict) ? "bad" : /^(faster|fewer)/.test(row.verdict) ? "good" : "muted";
  return h("span", {class: means}, `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`);
};
