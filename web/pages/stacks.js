/* stacks: a flame graph of whole call stacks, and time by line, function, file. */

import {h} from "../view/dom.js";
import {flameView} from "../view/flame.js";

import {boundTable, choices, later, rankArgs, sheet, timelineOf} from "./common.js";

export const title = "Stacks";
export const shows = [["stacks", {by: "stack"}]];

export function draw(context) {
  const {answers, trace, state} = context, by = state.by ?? "line", measured = state.of ?? "cpu";
  const flame = later(
      answers.ask(trace, "stacks", {by: "stack", ...rankArgs(state)}),
      (table) => flameSection(table, context, measured), {id: "flame", title: "flame graph"});
  return sheet(
      title, "Time by call stack of the program.",
      h("div", {class: "tools"}, choices(context, "of", [["cpu", "host time"], ["device", "device time"]], "cpu"),
        choices(
            context, "order", [["heavy", "left-heavy"], ["name", "by name"], ["sandwich", "callers of a function"]],
            "heavy")),
      flame,
      choices(
          context, "by",
          [
            ["line", "by line"], ["function", "by function"], ["file", "by file"], ["module", "by module"],
            ["stack", "whole stacks"]
          ],
          "line"),
      later(
          answers.ask(trace, "stacks", {by, ...rankArgs(state)}), (table) => boundTable(table, context, {
                                                                    id: "stacks-table",
                                                                    label: "stacks",
                                                                    most: 90,
                                                                    open: (row) => {
                                                                      location.hash =
                                                                          timelineOf(row.name.split(";").pop());
                                                                    }
                                                                  }),
          {id: "stacks"}));
}

function flameSection(table, context, measured) {
  if (!table.rows.length)
    return h(
        "p", {class: "empty"},
        "The trace holds no call stacks. Record with with_stack=True, or tachograph run --preset deep.");
  const order = context.state.order ?? "heavy";
  const tree = order === "sandwich" ? inverted(table, measured) : treeOf(table, measured);
  if (!tree.value) return h("p", {class: "empty"}, "The trace holds no device time by call stack.");
  const view = flameView(tree, {id: "stacks-flame", unit: "ns", leftHeavy: order !== "name", label: "call stacks"});
  const search = h("input", {
    type: "search",
    placeholder: "shade all but …",
    "aria-label": "search in the flame graph",
    oninput: (e) => view.search(e.target.value)
  });
  return [h("div", {class: "tools"}, search, h("span", {class: "muted"}, "click zooms, Escape goes out")), view];
}

function grow(paths, order) {
  const root = {name: order, value: 0, self: 0, children: [], map: new Map(), cls: "other"};
  for (const [frames, value] of paths) {
    let node = root;
    root.value += value;
    for (const frame of frames) {
      let child = node.map.get(frame);
      if (!child) {
        child = {
          name: frame,
          value: 0,
          self: 0,
          children: [],
          map: new Map(),
          cls: kindOf(frame),
          shade: 0.45 + 0.4 * (hash(frame) % 7) / 7
        };
        node.map.set(frame, child);
        node.children.push(child);
      }
      child.value += value;
      node = child;
    }
    node.self += value;
  }
  return root;
}
const hash = (text) => {
  let x = 0;
  for (let i = 0; i < text.length; i++) x = (x * 31 + text.charCodeAt(i)) | 0;
  return x >>> 0;
};
const kindOf = (frame) =>
    (frame.startsWith("nn.Module")                     ? "optimizer" :
         /^(torch|aten)[/:]|site-packages/.test(frame) ? "operator" :
         /\(\d+\)/.test(frame)                         ? "python" :
                                                         "launch");
const paths = (table, measured) =>
    table.records().map((row) => [row.name.split(";"), row[`self_${measured}_ns`] ?? 0]).filter(([, v]) => v > 0);
const treeOf = (table, measured) => grow(paths(table, measured), "all");
const inverted = (table, measured) => grow(
    paths(table, measured).map(([frames, v]) => [frames.slice().reverse(), v]), "innermost frame, then its callers");
