/* details: everything known of one slice, as text beside the timeline. */

import {moment, number, quantity, shorten} from "../model/format.js";
import {isMangled} from "../model/mangled.js";

import {h, replace} from "./dom.js";

const LONG_NAME = 160;

/* slice: the result of the call `slice`; actions: {go(reference), search(name), source(frame) → promise of nodes,
 * classes} */
export function detailsView(slice, actions) {
  const rows = [];
  const put = (label, ...value) => rows.push(h("dt", {}, label), h("dd", {}, ...value));
  put("duration", quantity(slice.dur_ns, "ns"), slice.unfinished ? " (its end is not in the file)" : "");
  put("own time", quantity(slice.self_ns, "ns"));
  put("start", moment(slice.start_ns, 10));
  put("kind", actions.classes[slice.class], slice.category ? ` (${slice.category})` : "");
  if (slice.step !== null && slice.step !== undefined) put("step", `#${slice.step}`);
  if (slice.module) put("module", slice.module);
  if (slice.phase) put("phase", slice.phase);
  if (slice.line) put("line", h("code", {}, slice.line));
  if (slice.same_name?.count > 1)
    put("same name", `${number(slice.same_name.count)} calls, ${quantity(slice.same_name.total_ns, "ns")} `,
        h("button", {onclick: () => actions.search(slice.name)}, "show all"));
  return h(
      "div", {}, nameView(slice.name), h("dl", {}, rows), references("launched or called by", slice.causes, actions),
      references("caused", slice.effects, actions, slice.effect_count),
      references("forward", slice.forward ? [slice.forward] : [], actions),
      references("backward", slice.backward, actions), references("inside", slice.parents, actions), argsView(slice),
      stackView(slice, actions));
}

/* The name of a kernel may take a screen: its short form, and the whole behind a click. */
function nameView(name) {
  if (name.length <= LONG_NAME && !isMangled(name)) return h("h3", {}, name);
  return [
    h("h3", {}, shorten(name, LONG_NAME)),
    h("details", {class: "section"}, h("summary", {}, "whole name"), h("code", {class: "whole"}, name))
  ];
}

function references(title, list, actions, count) {
  if (!list?.length) return null;
  return h(
      "section", {class: "section"},
      h("h2", {}, count > list.length ? `${title}: ${number(count)}, the first ${list.length}` : title),
      h("ul", {class: "notes", style: {marginTop: "0"}},
        list.slice(0, 20).map(
            (ref) =>
                h("li", {},
                  h("a", {
                    href: "#",
                    title: ref.name,
                    onclick: (e) => {
                      e.preventDefault();
                      actions.go(ref);
                    }
                  },
                    shorten(ref.name, 80)),
                  ` ${quantity(ref.dur_ns, "ns")}`))));
}

function argsView(slice) {
  if (!slice.args?.length) return null;
  return h(
      "section", {class: "section"}, h("h2", {}, slice.args_cut ? "arguments, the first of them" : "arguments"),
      h("dl", {},
        slice.args.map(
            ([key, value]) =>
                [h("dt", {}, key),
                 h("dd", {},
                   h("code", {},
                     typeof value === "string" ?
                         value :
                         JSON.stringify(value, (_, v) => (typeof v === "bigint" ? String(v) : v))))])));
}

function stackView(slice, actions) {
  if (!slice.stack?.length) return null;
  const source = h("div", {});
  const frames = slice.stack.slice().reverse();
  return h(
      "section", {class: "section"}, h("h2", {}, "Python stack, innermost first"),
      h("ul", {class: "notes", style: {marginTop: "0"}},
        frames.map(
            (frame) =>
                h("li", {},
                  h("a", {
                    href: "#",
                    onclick: async (e) => {
                      e.preventDefault();
                      replace(source, await actions.source(frame));
                    }
                  },
                    h("code", {}, frame))))),
      source);
}

/* "train.py(12): main" → {file, line}; null for what is no frame. */
export function frameOf(text) {
  const m = /^(.*)\((\d+)\)(?::|$)/.exec(text ?? "");
  return m ? {file: m[1], line: Number(m[2])} : null;
}

/* Lines of source around a frame, or the reason why there are none. */
export async function sourceView(server, trace, file, line) {
  try {
    const {first, lines, from, path, changed} = await server.call("source", {trace, file, line, around: 4});
    const origin = changed   ? "as recorded: the file on this machine has changed since" :
        from === "recording" ? "as recorded: the file is not on this machine" :
                               path;
    return h(
        "div", {},
        h("div", {class: "source"},
          lines.map(
              (text, i) =>
                  (text === null ? null :
                                   h("span", {class: first + i === line ? "here" : null},
                                     `${String(first + i).padStart(5)}  ${text}\n`)))),
        h("p", {class: "notes"}, origin));
  } catch (error) {
    return h("p", {class: "muted"}, error.message);
  }
}
