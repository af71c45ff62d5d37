/* strips: rows of tiles become pixels. A row is one line of an image as wide as the screen, stretched to its height:
 * the cost is that of the pixels, whatever the number of events. */

import {columnNs, levelOf, tileAt, tileNs} from "../model/tiles.js";

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

export const gray = (word) => {
  const v = Math.round(((word & 255) * 3 + ((word >> 8) & 255) * 6 + ((word >> 16) & 255)) / 10);
  return ((255 << 24) | (v << 16) | (v << 8) | v) >>> 0;
};

/* view: {t0, nsPerPx (device pixels), width (device pixels)}. The level and the tiles that a row of it takes. */
export function tilesInView(view) {
  const level = levelOf(view.nsPerPx);
  return {level, first: tileAt(level, view.t0), last: tileAt(level, view.t0 + view.nsPerPx * view.width)};
}

/* Paints a tile into words[0..width): denser runs win where several share a pixel. seen: density so far, a byte a
 * pixel. keep(slice, name): false paints it grey. */
export function paintTile(words, seen, tile, level, view, palette, keep) {
  const col = columnNs(level), origin = tile.tile * tileNs(level) - view.t0, scale = 1 / view.nsPerPx;
  const {column, length, density, cls, shade, name, n} = tile;
  for (let i = 0; i < n; i++) {
    let x0 = Math.floor((origin + column[i] * col) * scale),
        x1 = Math.ceil((origin + (column[i] + length[i]) * col) * scale);
    if (x1 <= 0 || x0 >= view.width) continue;
    if (x0 < 0) x0 = 0;
    if (x1 > view.width) x1 = view.width;
    if (x1 <= x0) x1 = x0 + 1;
    let word = paletteAt(palette, cls[i], shade[i], density[i]);
    if (keep && !keep(name[i])) word = gray(word);
    for (let x = x0; x < x1; x++)
      if (density[i] >= seen[x]) {
        words[x] = word;
        seen[x] = density[i];
      }
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

/* The same for slices of at least `least` pixels alone, as labels need them: most runs are narrow, and cost no object.
 */
export function joinWide(tile, level, view, least, out) {
  const col = columnNs(level), origin = tile.tile * tileNs(level) - view.t0, scale = 1 / view.nsPerPx;
  const {slice, column, length, density, n} = tile, columns = least / (col * scale);
  let last = out[out.length - 1];
  for (let i = 0, next; i < n; i = next) {
    let dense = density[i];
    for (next = i + 1; next < n && slice[next] === slice[i]; next++) dense = Math.max(dense, density[next]);
    const past = column[next - 1] + length[next - 1];
    const goesOn = i === 0 && last?.slice === slice[0];
    if (past - column[i] < columns && !goesOn) continue;
    const x0 = (origin + column[i] * col) * scale, x1 = (origin + past * col) * scale;
    if (goesOn && x0 - last.x1 < 2)
      Object.assign(last, {x1, density: Math.max(last.density, dense)});
    else if (x1 - x0 > least) {
      last = {slice: slice[i], name: tile.name[i], cls: tile.cls[i], shade: tile.shade[i], density: dense, x0, x1};
      out.push(last);
    }
  }
}

/* The run of a tile at a time, or -1. */
export function runAt(tile, level, ns) {
  const at = Math.floor((ns - tile.tile * tileNs(level)) / columnNs(level));
  let low = 0, high = tile.n - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (tile.column[middle] + tile.length[middle] <= at)
      low = middle + 1;
    else if (tile.column[middle] > at)
      high = middle - 1;
    else
      return middle;
  }
  return -1;
}
