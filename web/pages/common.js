/* common: what pages share. A page is {title, draw(context)}; draw returns an element or a promise of one.
 * context: {server, answers, trace, state, info() → promise of tracks, shared} */

import * as State from "../model/state.js";
import {append, h, problem, replace} from "../view/dom.js";
import {notesView, tableView} from "../view/table.js";

/* A section that is filled when its answer comes. Its height is reserved, so nothing below moves. */
export function later(promise, make, options = {}) {
  const box =
      h("section", {class: "section", id: options.id, style: options.height ? {minHeight: `${options.height}px`} : {}},
        options.title ? h("h2", {}, options.href ? h("a", {href: options.href}, options.title) : options.title) : null);
  const hole = h("div", {}, h("p", {class: "loading"}, options.waiting ?? "…"));
  box.append(hole);
  box.done = promise.then(make).then(
      (content) => {
        replace(hole, content);
      },
      (error) => {
        if (options.quiet && error.code)
          box.remove();
        else
          replace(hole, problem(error));
      });
  return box;
}

export function sheet(title, lead, ...children) {
  return append(
      h("div", {class: "sheet"}),
      [h("div", {class: "pagehead"}, h("h1", {}, title), lead ? h("p", {class: "lead"}, lead) : null), ...children]);
}

/* The argument rank of a question, where the page's state names one. */
export const rankArgs = (state) => (state.rank !== undefined ? {rank: state.rank} : {});

/* A table of a question whose sort and filters stand in the URL. prefix tells several tables of a page apart. */
export function boundTable(table, context, options = {}) {
  const prefix = options.prefix ?? "";
  const filters = {};
  for (const [key, value] of Object.entries(context.state))
    if (key.startsWith(`${prefix}f.`)) filters[key.slice(prefix.length + 2)] = value;
  return h(
      "div", {style: options.tall ? {display: "flex", flexDirection: "column", flex: "1", minHeight: "0"} : {}},
      tableView(table, {
        ...options,
        sort: context.state[`${prefix}sort`] ?? options.sort,
        filters,
        changed: ({sort, filters: now}) => State.set({
          [`${prefix}sort`]: sort || undefined,
          ...Object.fromEntries(Object.entries(now).map(([k, v]) => [`${prefix}f.${k}`, v || undefined]))
        }),
      }),
      notesView(table, saidOn(context)));
}

/* Notes that a page says already: several tables of it may have the same. */
const said = new WeakMap();
function saidOn(context) {
  if (!said.has(context)) said.set(context, new Set());
  return said.get(context);
}

/* A choice of an argument of a question: a row of buttons that writes it into the URL. */
export function choices(context, key, list, fallback) {
  const now = context.state[key] ?? fallback;
  return h(
      "div", {class: "tools", role: "group", "aria-label": key},
      list.map(
          ([value, label]) =>
              h("button", {
                "aria-pressed": String(value === now),
                onclick: () => {
                  State.set({[key]: value === fallback ? undefined : value}, true);
                  context.redraw();
                }
              },
                label)));
}

/* Where a name is on the timeline: the timeline page with a search for it. */
export const timelineOf = (name, extra = {}) => State.link("timeline", {find: name, ...extra});
