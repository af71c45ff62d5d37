/* ask: any question as a table; sql: any SELECT. Both have an address of their own. */

import * as State from "../model/state.js";
import {h} from "../view/dom.js";

import {boundTable, later, sheet} from "./common.js";
import {operatorOf} from "./overview.js";

export const ask = {
  title: "Ask",
  fill: false,
  async draw(context) {
    const {answers, trace, state} = context, name = state.q ?? "overview";
    const list = await answers.ask(trace, "questions");
    const rows = list.records(), names = [...new Set(rows.map((row) => row.question))];
    const mine = rows.filter((row) => row.question === name && row.kind === "argument");
    const args = Object.fromEntries(
        mine.filter((row) => state[`a.${row.name}`]).map((row) => [row.name, state[`a.${row.name}`]]));
    const meaning = rows.find((row) => row.question === name && row.kind === "question")?.meaning;
    const go = (patch) => {
      State.set(patch, true);
      context.redraw();
    };
    const choice =
        h("select", {
          id: "ask-question",
          "aria-label": "question",
          onchange: (e) => {
            location.hash = State.link("ask", {q: e.target.value});
          }
        },
          names.map((n) => h("option", {value: n, selected: n === name}, n)));
    choice.value = name;
    return sheet(
        "Ask", meaning ?? "Any question that the trace can answer.",
        h("div", {class: "tools"}, choice,
          mine.map((row) => h("label", {title: row.meaning}, row.name, h("input", {
                                value: args[row.name] ?? "",
                                placeholder: row.default ?? "",
                                size: 10,
                                onchange: (e) => go({[`a.${row.name}`]: e.target.value || undefined})
                              })))),
        later(
            answers.ask(trace, name, args), (table) => boundTable(withMeanings(table, rows), context, {
                                              id: "ask-table",
                                              label: name,
                                              columns: table.columns.map((column) => column.name),
                                              open: opens(table)
                                            }),
            {id: "ask-answer"}),
        h("p", {class: "notes"}, "in a terminal: ",
          h("code", {},
            `tachograph ask FILE ${name}${Object.entries(args).map(([k, v]) => ` --${k} '${v}'`).join("")}`)));
  },
};

/* A row with a name, or of findings with a place, opens it on the timeline. */
function opens(table) {
  if (!table.has("name") && table.question !== "findings") return undefined;
  return (record) => {
    const find = record.name ?? operatorOf(record.where ?? "");
    if (find) location.hash = State.link("timeline", {find});
  };
}

function withMeanings(table, rows) {
  for (const column of table.columns)
    column.meaning ??=
        rows.find((row) => row.question === table.question && row.kind === "column" && row.name === column.name)
            ?.meaning;
  return table;
}

const EXAMPLE =
    "SELECT name, count(*) AS calls, sum(dur_ns) AS total_ns\nFROM slices GROUP BY name ORDER BY total_ns DESC LIMIT 50";
export const sql = {
  title: "SQL",
  stays: true, /* a query runs when someone says so */
  draw(context) {
    const query = context.state.sql ?? EXAMPLE;
    const area = h("textarea", {
      rows: 6,
      value: query,
      spellcheck: "false",
      "aria-label": "SQL",
      onkeydown: (e) => {
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) run();
      }
    });
    const run = () => {
      State.set({sql: area.value}, true);
      context.redraw();
    };
    const answer = context.answers.ask(context.trace, "sql", {query});
    const stop = h("button", {onclick: () => answer.stop()}, "stop");
    answer.finally(() => stop.remove()).catch(() => {});
    context.cleanup(() => answer.stop());
    return sheet(
        "SQL",
        "One SELECT over the tables of the trace; Ctrl+Enter runs it. tachograph sql --schema lists tables and columns.",
        area, h("div", {class: "tools"}, h("button", {onclick: run}, "run"), stop),
        later(
            answer,
            (table) => boundTable(
                table, context,
                {id: "sql-table", label: "result", columns: table.columns.map((column) => column.name)}),
            {id: "sql-answer"}));
  },
};
