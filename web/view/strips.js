/* strips: rows of tiles become pixels. A row is one line of an image as wide as the screen, stretched to its height:
 * the cost is that of the pixels, whatever the number of events. */

import {columnNs, levelOf, TILE_COLUMNS, tileAt, tileNs} from "../model/tiles.js";

const SHADES = 8, DENSITIES = 16;

/* Colours of class × shade × density on a background, as one 32-bit word a pixel. */
export function makePalette(classColors, background) {
  const words = new Uint32Array(classColors.length * SHADES * DENSITIES);
  classColors.forEach((color, cls) => {
    for (let shade = 0; shade < SHADES; shade++) {
      const lift = 0.82 + (0.36 * shade) / (SHADES - 1);
      for (let d = 0; d < DENSITIES; d++) {
        const alpha = 0.25 + (0.75 * d) / (DENSITIES - 1);
        const [r, g, b] =
            color.map((v, i) => Math.round(Math.min(255, v * lift) * alpha + background[i] * (1 - alpha)));
        words[(cls * SHADES + shade) * DENSITIES + d] = (255 << 24) | (b << 16) | (g << 8) | r;
      }
    }
  });
  return words;
}
export const paletteAt = (palette, cls, shade, density) =>
    palette[(cls * SHADES + (shade & 7)) * DENSITIES + (density >> 4)];

/* Ink that can be read on a colour: black where the colour is light (WCAG's relative luminance), else white. One of the
 * two always has a contrast of 4.5:1. */
export function inkOn(word) {
  const linear = (v) => (v <= 10 ? v / 3295 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(word & 255) + 0.7152 * linear((word >> 8) & 255) + 0.0722 * linear((word >> 16) & 255);
  return light > 0.179 ? "#000" : "#fff";
}

const gray = (word) => {
  const v = Math.round(((word & 255) * 3 + ((word >> 8) & 255) * 6 + ((word >> 16) & 255)) / 10);
  return ((255 << 24) | (v << 16) | (v << 8) | v) >>> 0;
};

/* view: {t0, nsPerPx (device pixels), width (device pixels)}. The level and the tiles that a row of it takes. */
export function tilesInView(view) {
  const level = levelOf(view.nsPerPx);
  return {level, first: tileAt(level, view.t0), last: tileAt(level, view.t0 + view.nsPerPx * view.width)};
}

/* Tiles as the colours of their columns: worked out once for a tile, and stretched to the pixels of each frame, so that
 * a frame costs its pixels and not the runs of its tiles. */
const MOST_COLORED = 1024; /* tiles, of 5 kB each: more than a screen shows */
export class Colors {
  /* highlight: names that keep their colour; null = all. */
  use(palette, highlight) {
    if (this.palette === palette && this.highlight === highlight) return;
    Object.assign(this, {palette, highlight, kept: new Map()});
  }
  /* {words, dense: one for each column, wide: what wideRuns found} */
  of(tile) {
    let found = this.kept.get(tile);
    if (found) return found;
    const {column, length, density, cls, shade, name, n} = tile;
    found = {words: new Uint32Array(TILE_COLUMNS), dense: new Uint8Array(TILE_COLUMNS), wide: null};
    for (let i = 0; i < n; i++) {
      const word = paletteAt(this.palette, cls[i], shade[i], density[i]), past = column[i] + length[i];
      found.words.fill(this.highlight && !this.highlight.has(name[i]) ? gray(word) : word, column[i], past);
      found.dense.fill(density[i], column[i], past);
    }
    if (this.kept.size >= MOST_COLORED) this.kept.clear();
    this.kept.set(tile, found);
    return found;
  }
}

/* The columns of a tile that each pixel of a view touches, the same for all rows: {from, past (pixels), low, high
 * (columns, inclusive)}. */
export function columnsOfPixels(level, number, view) {
  const col = columnNs(level), begin = number * tileNs(level) - view.t0;
  const from = Math.max(0, Math.floor(begin / view.nsPerPx)),
        past = Math.max(from, Math.min(view.width, Math.ceil((begin + tileNs(level)) / view.nsPerPx)));
  const low = new Uint16Array(past - from), high = new Uint16Array(past - from);
  for (let k = 0, x = from; x < past; k++, x++) {
    low[k] = Math.min(TILE_COLUMNS - 1, Math.max(0, Math.floor((x * view.nsPerPx - begin) / col)));
    high[k] = Math.max(low[k], Math.min(TILE_COLUMNS, Math.ceil(((x + 1) * view.nsPerPx - begin) / col)) - 1);
  }
  return {from, past, low, high};
}

/* Paints a tile's colours into words[0..width): denser columns win where several share a pixel. seen: density so far,
 * a byte a pixel. */
export function paintTile(words, seen, {words: colors, dense}, {from, past, low, high}) {
  for (let k = 0, x = from; x < past; k++, x++) {
    let best = low[k];
    for (let column = best + 1; column <= high[k]; column++)
      if (dense[column] >= dense[best]) best = column;
    if (!dense[best] || dense[best] < seen[x]) continue;
    words[x] = colors[best];
    seen[x] = dense[best];
  }
}

/* Adds the slices of a tile to out: {slice, name, cls, shade, density, flags, x0, x1 in device pixels}; runs of one
 * slice become one.
 */
export function joinRuns(tile, level, view, out) {
  const col = columnNs(level), origin = tile.tile * tileNs(level) - view.t0, scale = 1 / view.nsPerPx;
  let last = out[out.length - 1];
  for (let i = 0; i < tile.n; i++) {
    const x0 = (origin + tile.column[i] * col) * scale, x1 = (origin + (tile.column[i] + tile.length[i]) * col) * scale;
    if (last && last.slice === tile.slice[i] && x0 - last.x1 < 2)
      Object.assign(last, {x1, density: Math.max(last.density, tile.density[i])});
    else {
      last = {
        slice: tile.slice[i],
        name: tile.name[i],
        cls: tile.cls[i],
        x0,
        x1,
        flags: tile.flags[i],
        shade: tile.shade[i],
        density: tile.density[i]
      };
      out.push(last);
    }
  }
}

/* Runs of a tile that together are one slice of at least `least` columns, or touch an edge of the tile, where a slice
 * may go on in the next one: [[first run, past, densest], …]. Most runs are narrow, so these are few. */
function wideRuns(tile, least) {
  const {slice, column, length, density, n} = tile, out = [];
  for (let i = 0, next; i < n; i = next) {
    let dense = density[i];
    for (next = i + 1; next < n && slice[next] === slice[i]; next++) dense = Math.max(dense, density[next]);
    const past = column[next - 1] + length[next - 1];
    if (past - column[i] >= least || i === 0 || past === TILE_COLUMNS) out.push([i, next, dense]);
  }
  return {least, runs: out};
}

/* Like joinRuns, but only for slices of at least `least` pixels, which have labels. colored: the tile's, of
 * Colors.
 */
export function joinWide(tile, colored, level, view, least, out) {
  const col = columnNs(level), origin = tile.tile * tileNs(level) - view.t0, scale = 1 / view.nsPerPx;
  const columns = 2 ** Math.floor(Math.log2(Math.max(1, least / (col * scale)))); /* zooming keeps it for a while */
  if (colored.wide?.least !== columns) colored.wide = wideRuns(tile, columns);
  let last = out[out.length - 1];
  for (const [i, next, dense] of colored.wide.runs) {
    const x0 = (origin + tile.column[i] * col) * scale,
          x1 = (origin + (tile.column[next - 1] + tile.length[next - 1]) * col) * scale;
    if (last && last.slice === tile.slice[i] && x0 - last.x1 < 2)
      Object.assign(last, {x1, density: Math.max(last.density, dense)});
    else if (x1 - x0 > least) {
      last = {slice: tile.slice[i], name: tile.name[i], cls: tile.cls[i], shade: tile.shade[i], density: dense, x0, x1};
      out.push(last);
    }
  }
}
