/* series: the rows of counters and of marks on the timeline, and what the mouse shows of them. */

import {quantity} from "../model/format.js";
import {columnNs, tileAt, tileNs} from "../model/tiles.js";

import {h, hideTip, showTip} from "./dom.js";
import {tilesInView} from "./strips.js";

const MARK = 0xff808080;

export function paintMarks(row, tile, level, view) {
  for (let i = 0; i < tile.n; i++) {
    const x = Math.floor((tile.tile * tileNs(level) + tile.column[i] * columnNs(level) - view.t0) / view.nsPerPx);
    if (x >= 0 && x < view.width) row[x] = MARK;
  }
}

/* tiles: {level, first, last} that the timeline `t` shows; y: of the line on the canvas. */
export function drawCounter(t, c, line, y, tiles) {
  const low = Math.min(0, line.track.min ?? 0), high = Math.max(line.track.max ?? 1, low + 1e-9),
        height = line.height - 4;
  const yOf = (v) => y + 2 + (1 - (v - low) / (high - low)) * height;
  c.fillStyle = t.css.accent;
  c.globalAlpha = 0.45;
  let x = t.gutter, value = null;
  const to = (next) => {
    if (value !== null && next > x) c.fillRect(x, yOf(value), next - x, y + 2 + height - yOf(value));
    x = Math.max(x, next);
  };
  const whole = (at) => Math.round(at * t.ratio) / t.ratio; /* a part of a pixel would be painted twice */
  for (let number = tiles.first; number <= tiles.last; number++) {
    const tile = t.store.get(tiles.level, line.row, number);
    if (!tile || tile.kind !== 1) continue;
    for (let i = 0; i < tile.n; i++) {
      const ns = tile.tile * tileNs(tiles.level) + tile.column[i] * columnNs(tiles.level);
      const next = Math.max(t.gutter, Math.min(t.width, whole(t.xOf(ns))));
      to(next);
      value = tile.last[i];
      if (tile.max[i] > value) c.fillRect(next, yOf(tile.max[i]), 1, yOf(value) - yOf(tile.max[i]));
    }
  }
  to(t.width);
  c.globalAlpha = 1;
  c.font = "10px system-ui";
  const most = quantity(line.track.max ?? 0, line.track.unit ?? "");
  c.fillStyle = t.css.page;
  c.globalAlpha = 0.8;
  c.fillRect(t.gutter, y + 4, c.measureText(most).width + 8, 13);
  c.globalAlpha = 1;
  c.fillStyle = t.css.muted;
  c.fillText(most, t.gutter + 4, y + 11);
}

/* The column of a counter or of marks at a time: {tile, at, exact}; null: there is none, or not yet. */
function columnAt(t, line, ns) {
  const level = tilesInView({t0: t.t0, nsPerPx: t.nsPerPx / t.ratio, width: 1}).level;
  const tile = t.store.get(level, line.row, tileAt(level, ns));
  if (!tile?.column) return null;
  const column = Math.floor((ns - tile.tile * tileNs(level)) / columnNs(level));
  let at = -1;
  while (at + 1 < tile.n && tile.column[at + 1] <= column) at++;
  return at < 0 ? null : {tile, at, exact: tile.column[at] >= column - 3};
}

function textOf(t, tile, at, unit) {
  if (tile.kind === 2) {
    const name = t.names.get(tile.name[at]);
    if (name === undefined) t.names.want([tile.name[at]], () => {});
    return `${name ?? ""}${tile.count[at] > 1 ? ` and ${tile.count[at] - 1} more` : ""}`;
  }
  const range = `, ${quantity(tile.min[at], unit)} to ${quantity(tile.max[at], unit)} here`;
  return quantity(tile.last[at], unit) + (tile.points[at] > 1 ? range : "");
}

/* What stands under the mouse, as a tip. */
export function showColumn(t, e, line) {
  const found = columnAt(t, line, t.nsAt(t.localX(e)));
  if (!found || (line.track.kind === "marks" && !found.exact)) {
    hideTip();
    return;
  }
  const text = textOf(t, found.tile, found.at, line.track.unit ?? "");
  showTip(e.clientX, e.clientY, h("b", {}, line.track.name), h("div", {}, text));
}
