/* tilemaker: tiles of a row worked out in the page, for the offline page. The same rule as src/view/tile.c, and the
 * same bytes: docs/viewer-api.md says what a run is. */

import {columnNs, TILE_COLUMNS, tileNs} from "./tiles.js";

export const OPEN = 1, CAUSED = 2, MORE = 4; /* flags of a stretch */

/* row: {start, dur: Float64Array of ns, in order, disjoint; slice, name: Uint32Array; look, shade, flags: Uint8Array}
 * with start.length elements each. Returns a tile as decode() of tiles.js does. */
export function makeTile(row, rowNumber, level, tile) {
  const width = 2 ** level, begin = tile * width * TILE_COLUMNS, runs = [], n = row.start.length;
  let at = firstFrom(row.start, begin);
  if (at > 0 && row.start[at - 1] + row.dur[at - 1] > begin) at--;
  for (let k = 0; k < TILE_COLUMNS && at < n;) {
    const from = begin + k * width, ahead = Math.floor((row.start[at] - from) / width);
    if (ahead > 0) {
      if (ahead >= TILE_COLUMNS - k) break;
      k += ahead;
      continue;
    }
    const filled = row.start[at] > from ?
        0 :
        Math.max(0, Math.min(TILE_COLUMNS - k, Math.floor((row.start[at] + row.dur[at] - from) / width)));
    const c =
        {begin: from, end: from + (filled || 1) * width, busy: 0, most: -1, dominant: -1, any: false, more: false};
    if (filled) {
      countIn(c, at, width);
      if (row.start[at] + row.dur[at] <= c.end) at++;
    } else
      at = fillColumn(row, c, at);
    if (c.any) runs.push([c, k, filled || 1, Math.min(c.busy, width)]);
    k += filled || 1;
  }
  return toTile(row, rowNumber, tile, runs, width);
}

function countIn(c, at, ns) {
  c.more ||= c.any;
  c.any = true;
  c.busy += ns;
  if (ns > c.most) {
    c.most = ns;
    c.dominant = at;
  }
}

function fillColumn(row, c, at) {
  for (; at < row.start.length; at++) {
    const start = row.start[at], end = start + row.dur[at];
    if (start >= c.end) return at;
    countIn(c, at, Math.min(end, c.end) - Math.max(start, c.begin));
    if (end > c.end) return at;
  }
  return at;
}

export function firstFrom(start, ns) {
  let low = 0, high = start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[middle] < ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

function toTile(row, rowNumber, tile, runs, width) {
  const pick = (Type, value) => Type.from(runs, value);
  return {
    row: rowNumber,
    tile,
    kind: 0,
    n: runs.length,
    slice: pick(Uint32Array, ([c]) => row.slice[c.dominant]),
    name: pick(Uint32Array, ([c]) => row.name[c.dominant]),
    column: pick(Uint16Array, (r) => r[1]),
    length: pick(Uint16Array, (r) => r[2]),
    density: pick(Uint8Array, (r) => 1 + Math.floor((r[3] * 254) / width)),
    cls: pick(Uint8Array, ([c]) => row.look[c.dominant]),
    shade: pick(Uint8Array, ([c]) => row.shade[c.dominant]),
    flags: pick(Uint8Array, ([c]) => (row.flags[c.dominant] & (OPEN | CAUSED)) | (c.more ? MORE : 0)),
  };
}

/* A tile of counters or instants from those that the file holds: {level, tiles}. Each is drawn at the
 * begin of its column. */
export function makeSeriesTile(held, row, level, tile) {
  const columns = [], begin = tile * tileNs(level), end = begin + tileNs(level);
  let kind = 1, before = null;
  for (const from of held.tiles) {
    if (from.row !== row) continue;
    kind = from.kind;
    for (let i = 0; i < from.n; i++) {
      const ns = from.tile * tileNs(held.level) + from.column[i] * columnNs(held.level);
      const count = kind === 1 ? from.points[i] : from.count[i];
      if (ns >= end || (!count && from.tile)) continue; /* none: the value before a tile */
      if (ns < begin)
        before = {from, i};
      else
        addColumn(columns, Math.floor((ns - begin) / columnNs(level)), from, i, count);
    }
  }
  if (kind === 1 && before && columns[0]?.column !== 0) {
    const value = before.from.last[before.i];
    columns.unshift({column: 0, min: value, max: value, last: value, count: 0});
  }
  return toSeriesTile(columns, kind, row, tile);
}

function addColumn(columns, column, from, i, count) {
  const last = columns[columns.length - 1];
  if (last?.column !== column) {
    const what = from.kind === 1 ? {min: from.min[i], max: from.max[i], last: from.last[i]} :
                                   {mark: from.mark[i], name: from.name[i]};
    columns.push({column, count, ...what});
    return;
  }
  last.count += count;
  if (from.kind !== 1) return;
  last.min = Math.min(last.min, from.min[i]);
  last.max = Math.max(last.max, from.max[i]);
  last.last = from.last[i];
}

function toSeriesTile(columns, kind, row, tile) {
  const pick = (Type, key) => Type.from(columns, (c) => c[key]);
  const counts = Uint16Array.from(columns, (c) => Math.min(c.count, 65535));
  const arrays = kind === 1 ? {
    min: pick(Float32Array, "min"),
    max: pick(Float32Array, "max"),
    last: pick(Float32Array, "last"),
    points: counts
  } :
                              {mark: pick(Uint32Array, "mark"), name: pick(Uint32Array, "name"), count: counts};
  return {row, tile, kind, n: columns.length, column: pick(Uint16Array, "column"), ...arrays};
}
