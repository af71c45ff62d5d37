/* modules: the tree of nn.Module calls, as an icicle and as a table. */

import {h} from "../view/dom.js";
import {flameView} from "../view/flame.js";

import {boundTable, choices, later, rankArgs, sheet} from "./common.js";

export const title = "Modules";
export const shows = [["modules", {by: "tree"}]];

export function draw(context) {
  const by = context.state.by ?? "tree";
  return sheet(
      title, "Time, operators and memory of each module, modules in it included.",
      choices(context, "by", [["tree", "as a tree"], ["class", "by class"]], "tree"),
      later(
          context.answers.ask(context.trace, "modules", {by, ...rankArgs(context.state)}),
          (table) =>
              [by === "tree" && table.rows.length ?
                   h("section", {class: "section"}, h("h2", {}, measure(table)[1]),
                     flameView(treeOf(table), {id: "modules-icicle", unit: "ns", label: "modules"})) :
                   null,
               boundTable(
                   table, context,
                   {id: "modules-table", label: "modules", most: 48, cell: by === "tree" ? {name: indented} : {}})],
          {id: "modules"}));
}

const indented = (value, record) =>
    h("span", {style: {paddingLeft: `${14 * record.depth}px`}}, value,
      record.attribute ? h("span", {class: "muted"}, ` .${record.attribute}`) : null);

/* What widths mean: device time where there is some, else host time. */
const measure = (table) =>
    (table.records().some((row) => row.device_ns > 0) ? ["device_ns", "device time of forward passes"] :
                                                        ["cpu_ns", "host time of forward passes"]);

function treeOf(table) {
  const [column] = measure(table), self = `self_${column}`;
  const root = {name: "all modules", value: 0, self: 0, children: [], cls: "other"};
  const path = [root];
  for (const row of table.records()) {
    const node = {
      name: row.attribute ? `${row.name} .${row.attribute}` : row.name,
      value: row[column] ?? 0,
      self: row[self] ?? 0,
      children: [],
      cls: column === "cpu_ns" ? "operator" : "compute",
      shade: 0.35 + 0.5 * (((row.depth * 7) % 5) / 5)
    };
    path.length = Math.min(path.length, row.depth + 1);
    path[path.length - 1].children.push(node);
    path.push(node);
    if (row.depth === 0) root.value += node.value;
  }
  return root;
}
