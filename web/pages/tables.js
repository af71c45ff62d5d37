/* tables: the pages that are one question with a choice of grouping: operators, kernels, losses. */

import * as State from "../model/state.js";
import {h} from "../view/dom.js";

import {boundTable, choices, later, rankArgs, sheet, timelineOf} from "./common.js";

const open = (record) => {
  if (record.name) location.hash = timelineOf(record.name);
};

export const operators = {
  title: "Operators",
  shows: [["ops", {by: "name"}]],
  draw(context) {
    const by = context.state.by ?? "name";
    return sheet(
        "Operators", "Time on the host and on devices by operator. A row opens its calls on the timeline.",
        choices(
            context, "by",
            [
              ["name", "by name"], ["shape", "by shapes"], ["stack", "by call stack"], ["module", "by module"],
              ["kinds", "by kind of work"]
            ],
            "name"),
        later(
            by === "kinds" ? context.answers.ask(context.trace, "op_classes", rankArgs(context.state)) :
                             context.answers.ask(context.trace, "ops", {by, ...rankArgs(context.state)}),
            (table) => boundTable(table, context, {
              id: "operators-table",
              label: "operators",
              open,
              most: 56,
              first: ["self_device_ns", "self_device_pct", "self_cpu_ns", "self_cpu_pct"]
            }),
            {id: "operators"}));
  },
};

export const kernels = {
  title: "Kernels",
  shows: [["kernels", {by: "name"}]],
  draw(context) {
    const by = context.state.by ?? "name";
    return sheet(
        "Kernels", "Work of the devices. A row opens its calls on the timeline.",
        choices(
            context, "by",
            [
              ["name", "by name"], ["op", "by operator"], ["config", "by launch configuration"], ["stream", "by stream"]
            ],
            "name"),
        later(
            context.answers.ask(context.trace, "kernels", {by, ...rankArgs(context.state)}),
            (table) => boundTable(table, context, {id: "kernels-table", label: "kernels", open, most: 62}),
            {id: "kernels"}));
  },
};

export const losses = {
  title: "Losses",
  askAll: (answers, trace) => answers.ask(trace, "losses"),
  draw(context) {
    return sheet(
        "Losses", "Everything that was lost or bent while recording and reading, with its place in the file.",
        later(
            context.answers.ask(context.trace, "losses", rankArgs(context.state)),
            (table) =>
                (table.rows.length ?
                     boundTable(table, context, {id: "losses-table", label: "losses"}) :
                     h("p", {class: "empty"},
                       "No data lost: every event that the file holds is in the tables and on the timeline. ",
                       h("a", {href: State.link("ask", {q: "overview"})}, "counts of events"))),
            {id: "losses"}));
  },
};
