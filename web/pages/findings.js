/* findings: what to change, with evidence, place and expected saving. */

import {number, percent} from "../model/format.js";
import * as State from "../model/state.js";
import {sourceView} from "../view/details.js";
import {h, replace} from "../view/dom.js";
import {notesView} from "../view/table.js";

import {later, rankArgs, sheet, timelineOf} from "./common.js";
import {costOf, operatorOf, savingOf} from "./overview.js";

export const title = "Findings";
export const askAll = (answers, trace) => answers.ask(trace, "findings");

export async function draw(context) {
  const several = await context.several();
  return sheet(
      title, "What to change first, ordered by what it gives. Savings are of a step.",
      later(
          context.answers.ask(context.trace, "findings", rankArgs(context.state)),
          (table) =>
              [table.rows.length ?
                   h("div", {id: "findings-list"}, table.records().map((row) => finding(row, context, several))) :
                   h("p", {class: "empty"}, "Nothing to change was found."),
               notesView(table)],
          {id: "findings", waiting: "looking for causes …"}));
}

function finding(row, context, several) {
  const source = h("div", {});
  const facts = [];
  const put = (label, ...value) => facts.push(h("dt", {}, label), h("dd", {}, ...value));
  put("evidence", row.evidence,
      row.threshold_pct === null || row.threshold_pct === undefined ?
          null :
          h("span", {class: "muted"},
            ` The rule tests ${percent(row.share_pct)} and fires above ${percent(row.threshold_pct)}.`));
  put("what to do", row.advice);
  if (row.where)
    put("where", h("a", {href: timelineOf(operatorOf(row.where))}, row.where), " ",
        row.file && row.line ? h("button", {
          onclick: async () => replace(source, await sourceView(context.server, context.trace, row.file, row.line))
        },
                                 "source") :
                               null);
  put(row.saving_ns === null && row.saving_bytes == null ? "why no saving is given" : "how the saving was estimated", row.method);
  if (row.confidence !== null) put("confidence", number(row.confidence));
  return h(
      "article", {class: "finding", "aria-label": row.cause}, h("span", {class: `grade ${row.severity}`}, row.severity),
      h("h3", {}, row.cause, several ? ` · rank ${row.rank}` : ""),
      h("span", {class: "saves"}, savingOf(row), h("span", {class: "muted"}, ` ${costOf(row)}`)),
      h("dl", {}, facts, h("dt", {}, "more"),
        h("dd", {}, h("a", {href: row.where ? timelineOf(operatorOf(row.where)) : State.link("timeline")}, "timeline"),
          " ", h("a", {href: State.link("ask", {q: "findings"})}, "as a table"))),
      source);
}
