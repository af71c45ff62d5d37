/* charts: bars of parts, steps, stacked areas, heat map, scatter. Each has a picture and, under a toggle, the same
 * data as a table. Heights are fixed before data comes, so that nothing moves. */

import {cssColor} from "../model/classes.js";
import {number, percent, quantity, scaleOf, ticks} from "../model/format.js";

import {h, hideTip, replace, s, showTip} from "./dom.js";
import {tableView} from "./table.js";

/* items: [{label, value, cls, share, href}]; unit of the values; whole: what a full bar is. */
export function partsView(items, unit, whole, id) {
  return h(
      "div", {class: "parts", id, role: "table", "aria-label": "parts"},
      items.map(
          (item) =>
              [item.href ? h("a", {href: item.href}, item.label) : h("span", {}, item.label),
               h("span", {class: "bar", "aria-hidden": "true"},
                 h("span",
                   {style: {width: `${whole > 0 ? (100 * item.value) / whole : 0}%`, background: cssColor(item.cls)}})),
               h("span", {class: "num"}, quantity(item.value, unit)),
               h("span", {class: "num muted"},
                 item.share === null || item.share === undefined ? "" : percent(item.share)),
  ]));
}

/* A picture that is redrawn when its width changes. draw(width) returns an SVG element or a canvas. */
export function picture(id, height, label, draw, table) {
  const box = h("div", {class: "chart", id, role: "group", "aria-label": label, style: {minHeight: `${height}px`}});
  const holder = h("div", {style: {height: `${height}px`}});
  box.append(holder);
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now > 0 && now !== width) {
      width = now;
      replace(holder, draw(width, height));
    }
  }).observe(holder);
  holder.addEventListener("mouseleave", hideTip);
  if (table) box.append(tableToggle(table, id));
  return box;
}

function tableToggle(table, id) {
  let shown = null;
  const button =
      h("button", {
        class: "toggle-table",
        "aria-expanded": "false",
        onclick: () => {
          if (shown) {
            shown.remove();
            shown = null;
          } else {
            shown = tableView(table, {id: `${id}-table`, label: `${id} as a table`});
            box.append(shown);
          }
          button.setAttribute("aria-expanded", String(Boolean(shown)));
          button.textContent = shown ? "hide table" : "as a table";
        }
      },
        "as a table");
  const box = h("div", {}, button);
  return box;
}

const LEFT = 60; /* room for "1000 MiB" */
export function axisY(low, high, height, width, unit, top = 8, bottom = 18, left = LEFT) {
  const scale = scaleOf(unit, high);
  const y = (v) => top + (1 - (v - low) / (high - low || 1)) * (height - top - bottom);
  const marks = ticks(low / scale.divisor, high / scale.divisor, 3).map((v) => v * scale.divisor);
  const group =
      s("g", {class: "axis"},
        marks.map(
            (v, i) =>
                [s("line", {x1: left, x2: width, y1: y(v), y2: y(v)}),
                 s("text", {x: left - 4, y: y(v) + 4, "text-anchor": "end"},
                   number(v / scale.divisor) + (i === marks.length - 1 ? ` ${scale.unit}` : ""))]));
  return {y, group};
}

/* steps: [{number, value, parts: [[cls, value]…], href, outlier}] */
export function stepsView(steps, unit, id, table) {
  const most = Math.max(...steps.map((step) => step.value), 1);
  return picture(id, 120, "length of each step", (width, height) => {
    const {y, group} = axisY(0, most, height, width, unit);
    const left = LEFT + 4, each = (width - left) / steps.length, gap = each > 4 ? 1 : 0;
    const labels =
        ticks(0, steps.length - 1, Math.max(2, Math.floor(width / 90))).filter((i) => Number.isInteger(i) && steps[i]);
    return s(
        "svg", {width, height, viewBox: `0 0 ${width} ${height}`}, group,
        steps.map((step, i) => stepBar(step, left + i * each, Math.max(each - gap, 0.5), y, unit)),
        s("g", {class: "axis"},
          labels.map(
              (i) =>
                  s("text", {x: left + (i + 0.5) * each, y: height - 4, "text-anchor": "middle"},
                    `#${steps[i].number}`))));
  }, table);
}
function stepBar(step, x, width, y, unit) {
  let base = 0;
  const pieces = (step.parts ?? [["operator", step.value]]).filter(([, v]) => v > 0).map(([cls, v]) => {
    const top = y(base + v), bottom = y(base);
    base += v;
    const rect = s("rect", {x, y: top, width, height: Math.max(bottom - top, 0.5)});
    rect.style.fill = cssColor(cls);
    return rect;
  });
  const marker = step.outlier ? s("text", {
    x: x + width / 2,
    y: Math.max(y(step.value) - 2, 8),
    "text-anchor": "middle",
    "font-size": 9,
    fill: "currentColor"
  },
                                  "▼") :
                                null;
  const text = `step ${step.number}: ${quantity(step.value, unit)}${step.outlier ? ", an outlier" : ""}`;
  return s(
      "a",
      {href: step.href, class: "step", "aria-label": text, onmousemove: (e) => showTip(e.clientX, e.clientY, text)},
      pieces, s("rect", {x, y: 0, width, height: y(0), fill: "transparent"}), marker);
}

/* Stacked areas. times: ns; layers: [{label, cls, values}]; cursor(index) when one is chosen. */
export function areasView(times, layers, unit, id, options = {}) {
  const totals = times.map((_, i) => layers.reduce((sum, layer) => sum + (layer.values[i] ?? 0), 0));
  const most = Math.max(...totals, 1);
  return picture(id, options.height ?? 180, options.label ?? "over time", (width, height) => {
    const {y, group} = axisY(0, most, height, width, unit);
    const left = LEFT + 4, t0 = times[0], span = times[times.length - 1] - t0 || 1;
    const x = (t) => left + ((t - t0) / span) * (width - left - 4);
    const base = new Float64Array(times.length);
    const shapes = layers.map((layer) => {
      let up = "", down = "";
      for (let i = 0; i < times.length; i++) {
        const px = x(times[i]).toFixed(1), next = i + 1 < times.length ? x(times[i + 1]).toFixed(1) : px;
        const low = y(base[i]).toFixed(1);
        base[i] += layer.values[i] ?? 0;
        const high = y(base[i]).toFixed(1);
        up += `${i ? "L" : "M"}${px} ${high}L${next} ${high}`;
        down = `L${next} ${low}L${px} ${low}` + down;
      }
      const path = s("path", {class: "area", d: up + down + "Z"});
      path.style.fill = path.style.stroke = cssColor(layer.cls); /* stroked, a peak of less than a pixel is seen */
      return path;
    });
    const line = s("line", {y1: 8, y2: height - 18, stroke: "currentColor", visibility: "hidden"});
    const at = (e) =>
        nearest(times, t0 + ((e.clientX - svg.getBoundingClientRect().left - left) / (width - left - 4)) * span);
    const svg =
        s("svg", {
          width,
          height,
          viewBox: `0 0 ${width} ${height}`,
          onmousemove: (e) => {
            const i = at(e);
            line.setAttribute("x1", x(times[i]));
            line.setAttribute("x2", x(times[i]));
            line.setAttribute("visibility", "visible");
            showTip(
                e.clientX, e.clientY, h("b", {}, `${quantity(totals[i], unit)} at ${quantity(times[i] - t0, "ns")}`),
                layers.filter((layer) => layer.values[i])
                    .map((layer) => h("div", {}, `${layer.label}: ${quantity(layer.values[i], unit)}`)));
          },
          onclick: (e) => options.choose?.(at(e))
        },
          group, shapes, line,
          s("g", {class: "axis"},
            ticks(0, span, Math.max(2, Math.floor(width / 140)))
                .map((v) => s("text", {x: x(t0 + v), y: height - 4, "text-anchor": "middle"}, quantity(v, "ns")))));
    return svg;
  }, options.table);
}
function nearest(times, t) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= t)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

export function legend(items) {
  return h(
      "div", {class: "tools", role: "list"},
      items.map(
          ([label, cls]) =>
              h("span", {role: "listitem"}, h("span", {
                  "aria-hidden": "true",
                  style: {
                    display: "inline-block",
                    width: "10px",
                    height: "10px",
                    borderRadius: "2px",
                    background: cssColor(cls),
                    marginRight: "4px"
                  }
                }),
                label)));
}

/* The value of the strongest colour: at least 30 % above the middle one, so that noise stays faint. */
export function heatTop(cells) {
  const known = cells.flat().filter((v) => v !== null).sort((a, b) => a - b);
  return known.length ? Math.max(known[known.length - 1], 1.3 * known[known.length >> 1]) : 1;
}

/* Rows × columns of values, darker = more. cells[r][c]: number or null; open(r, c). */
export function heatView(rowLabels, columnLabels, cells, unit, id, options = {}) {
  const most = heatTop(cells), least = Math.min(...cells.flat().filter((v) => v !== null), most);
  const each = Math.max(4, Math.min(22, Math.floor(480 / Math.max(rowLabels.length, 1))));
  const height = rowLabels.length * each + 22;
  return picture(id, height, options.label ?? "heat map", (width) => {
    const left = 64, w = (width - left) / Math.max(columnLabels.length, 1);
    const every = Math.max(1, Math.ceil(14 / each)), across = Math.max(1, Math.ceil(40 / w));
    return s(
        "svg", {width, height, viewBox: `0 0 ${width} ${height}`},
        s("g", {class: "axis"},
          rowLabels.map(
              (label, r) =>
                  (r % every ? null :
                               s("text", {x: left - 6, y: r * each + each / 2 + 4, "text-anchor": "end"}, label))),
          columnLabels.map(
              (label, c) =>
                  (c % across ? null :
                                s("text", {x: left + (c + 0.5) * w, y: height - 6, "text-anchor": "middle"}, label)))),
        cells.map((row, r) => row.map((value, c) => {
          if (value === null) return null;
          const share = most > least ? (value - least) / (most - least) : 0;
          const rect = s("rect", {
            x: left + c * w,
            y: r * each,
            width: Math.max(w - 1, 0.5),
            height: each - 1,
            "fill-opacity": 0.12 + 0.88 * share,
            onmousemove: (e) =>
                showTip(e.clientX, e.clientY, `${rowLabels[r]}, ${columnLabels[c]}: ${quantity(value, unit)}`),
            onclick: () => options.open?.(r, c)
          });
          rect.style.fill = "var(--accent)";
          return rect;
        })));
  }, options.table);
}

/* points: [{x, y, label, cls}] on log axes. lines: [{label, peak, ridge, f(x)}]: roofs */
export function logScatterView(points, xUnit, yUnit, lines, id, table) {
  const xs = points.map((p) => Math.log10(p.x)), ys = points.map((p) => Math.log10(p.y));
  const bounds = (list, extra) => [Math.floor(Math.min(...list, ...extra)), Math.ceil(Math.max(...list, ...extra))];
  const [x0, x1] = bounds(xs, lines.map((line) => Math.log10(line.ridge))),
             [y0, y1] =
                 bounds(ys, lines.flatMap((line) => [Math.log10(line.f(10 ** x0)), Math.log10(line.f(10 ** x1))]));
  return picture(id, 320, "roofline", (width, height) => {
    const left = 72, x = (v) => left + ((v - x0) / (x1 - x0 || 1)) * (width - left - 8),
          y = (v) => 8 + (1 - (v - y0) / (y1 - y0 || 1)) * (height - 40);
    const power = (v) => `10${String(v).replace(/./g, (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)])}`;
    const decades = (a, b) => Array.from({length: b - a + 1}, (_, i) => a + i);
    return s(
        "svg", {width, height, viewBox: `0 0 ${width} ${height}`},
        s("g", {class: "axis"},
          decades(x0, x1).map(
              (v) =>
                  [s("line", {x1: x(v), x2: x(v), y1: 8, y2: height - 32}),
                   s("text", {x: x(v), y: height - 18, "text-anchor": v === x1 ? "end" : "middle"}, power(v))]),
          decades(y0, y1).map(
              (v) =>
                  [s("line", {x1: left, x2: width - 8, y1: y(v), y2: y(v)}),
                   s("text", {x: left - 6, y: y(v) + 4, "text-anchor": "end"}, power(v))]),
          s("text", {x: width - 8, y: height - 4, "text-anchor": "end"}, xUnit),
          s("text", {x: left, y: height - 4}, `up: ${yUnit}`)),
        lines.map(
            (line) =>
                [s("path", {
                   class: "roof",
                   fill: "none",
                   stroke: "currentColor",
                   d: Array.from({length: 60}, (_, i) => x0 + ((x1 - x0) * i) / 59)
                          .map(
                              (v, i) =>
                                  `${i ? "L" : "M"}${x(v).toFixed(1)} ${y(Math.log10(line.f(10 ** v))).toFixed(1)}`)
                          .join("")
                 }),
                 s("text", {x: left + 6, y: Math.max(20, y(Math.log10(line.peak)) - 4), class: "roof-label"},
                   line.label)]),
        points.map((p, i) => {
          const dot = s("circle", {
            cx: x(xs[i]),
            cy: y(ys[i]),
            r: 4,
            "fill-opacity": 0.8,
            onmousemove: (e) => showTip(e.clientX, e.clientY, p.label)
          });
          dot.style.fill = cssColor(p.cls ?? "compute");
          return dot;
        }));
  }, table);
}
