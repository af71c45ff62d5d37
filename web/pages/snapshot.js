/* snapshot: the Overview of a memory snapshot, which has blocks and no steps: what each device held at its peak, and the
 * code that allocated it, as in the report. */

import {percent, size} from "../model/format.js";
import * as State from "../model/state.js";
import {h} from "../view/dom.js";
import {notesView} from "../view/table.js";

import {later, rankArgs} from "./common.js";

/* The pools of a snapshot's allocator; null: the trace is a recording. */
export const poolsOf = (context) =>
    context.answers.ask(context.trace, "segments", {...rankArgs(context.state), by: "pool"}).catch(() => null);

const MOST_STACKS = 5;

export function snapshotSheet(context) {
  const ask = (question, more = {}) =>
      context.answers.ask(context.trace, question, {...rankArgs(context.state), ...more});
  return h(
      "div", {class: "sheet"},
      later(
          ask("fragmentation"), deviceList,
          {id: "snapshot-devices", title: "memory of the devices", href: State.link("memory")}),
      later(
          ask("memory_stacks"), stackList,
          {id: "snapshot-stacks", title: "in use at the peak, by call stack", quiet: true, href: State.link("memory")}));
}

const row = (first, ...cells) =>
    h("tr", {}, h("td", {class: "first"}, first), cells.map((cell) => h("td", {class: "num"}, cell)));

function deviceList(table) {
  const unused = (r) => (r.mean_unused_percent === null ? `${percent(r.unused_percent)} of it unused` :
                                                          `${percent(r.mean_unused_percent)} of it unused on average`);
  return [
    h("table", {class: "facts-table"},
      table.records().map((r) => row(r.device, `${size(r.peak_allocated)} in use at the peak`,
                                     `${size(r.reserved)} held of the device`, unused(r)))),
    notesView(table)
  ];
}

function stackList(table) {
  const rows = table.records().filter((r) => r.peak_bytes > 0).slice(0, MOST_STACKS);
  const frames = (stack) => (stack ?? "(no stack recorded)").split(";").slice(0, 3).join(" ← ");
  return h("table", {class: "facts-table"},
           rows.map((r) => h("tr", {}, h("td", {class: "num"}, size(r.peak_bytes)), h("td", {}, r.device),
                             h("td", {class: "mono long", title: r.stack}, frames(r.stack)))));
}
