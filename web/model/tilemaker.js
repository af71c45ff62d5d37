/* tilemaker: tiles of a row worked out in the page, for the offline page. The same rule as src/view/tile.c, and the
 * same bytes: docs/viewer-api.md says what a run is. */

import {TILE_COLUMNS} from "./tiles.js";

export const OPEN = 1, CAUSED = 2, MORE = 4; /* flags of a run */

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
