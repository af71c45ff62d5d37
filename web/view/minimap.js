/* minimap: the whole trace above the timeline: one strip for each kind of track, and the window in view. */

import {quantity} from "../model/format.js";

import {h} from "./dom.js";
import {Colors, columnsOfPixels, paintTile, tilesInView} from "./strips.js";

const HEIGHT = 40, MOST_STRIPS = 4, DEPTHS = 16;

export class Minimap {
  /* timeline: gives info, store, palette, idle, css, gutter, t0, t1 and show(t0, t1) */
  constructor(timeline) {
    this.timeline = timeline;
    this.canvas = h("canvas", {class: "mini", "aria-hidden": "true", style: {height: `${HEIGHT}px`}});
    this.canvas.addEventListener("pointerdown", (e) => this.drag(e));
    this.canvas.addEventListener("pointermove", (e) => {
      if (e.buttons) this.drag(e);
    });
    this.rows = chooseRows(timeline.info.tracks);
  }

  resize(width, ratio) {
    Object.assign(this, {width, ratio});
    this.canvas.style.width = `${width}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
  }

  draw() {
    const {gutter, info, css, t0, t1} = this.timeline, end = Math.max(1, info.end_ns);
    const c = this.canvas.getContext("2d");
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, HEIGHT);
    this.drawStrips(end);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.picture, 0, 0);
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const scale = (this.width - gutter) / end, x0 = gutter + t0 * scale, wide = Math.max((t1 - t0) * scale, 2);
    c.fillStyle = css.select;
    c.fillRect(x0, 0, wide, HEIGHT);
    c.strokeStyle = css.accent;
    c.strokeRect(x0 + 0.5, 0.5, wide - 1, HEIGHT - 1);
    c.fillStyle = css.muted;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillText("whole trace", 8, 12);
    c.fillText(quantity(end, "ns"), 8, 28);
  }

  /* The strips change when tiles come or colours do, and not with each frame. */
  drawStrips(end) {
    const {gutter, store, palette, idle} = this.timeline, made = [store.version, palette, this.canvas.width, gutter];
    if (this.made?.every((value, i) => value === made[i])) return;
    this.picture = this.picture ?? document.createElement("canvas");
    this.picture.width = this.canvas.width; /* this clears it, too */
    this.picture.height = this.canvas.height;
    const c = this.picture.getContext("2d");
    const pixels = Math.max(1, Math.round((this.width - gutter) * this.ratio));
    const view = {t0: 0, nsPerPx: end / pixels, width: pixels}, {level, first, last} = tilesInView(view);
    const image = c.createImageData(pixels, 1), words = new Uint32Array(image.data.buffer);
    const seen = new Uint8Array(pixels), wanted = [], colors = new Colors();
    colors.use(palette, null);
    const each = Math.floor((HEIGHT - 6) / Math.max(1, this.rows.length));
    this.rows.forEach((rows, k) => {
      const row = mostTelling(store, rows, level, first, wanted);
      words.fill((255 << 24) | (idle[2] << 16) | (idle[1] << 8) | idle[0]);
      seen.fill(0);
      for (let number = first; number <= last; number++) {
        const tile = store.get(level, row, number);
        if (!tile)
          wanted.push([level, row, number]);
        else if (tile.kind === 0)
          paintTile(words, seen, colors.of(tile), columnsOfPixels(level, number, view));
      }
      const x = Math.round(gutter * this.ratio), y = Math.round((3 + k * each) * this.ratio);
      for (let line = 0; line < (each - 1) * this.ratio; line++) c.putImageData(image, x, y + line);
    });
    this.made = wanted.length ? null : made;
    store.wantAlso(level, wanted);
  }

  drag(e) {
    const {gutter, info, t0, t1} = this.timeline, end = Math.max(1, info.end_ns);
    const x = e.clientX - this.canvas.getBoundingClientRect().left;
    const at = ((x - gutter) / (this.width - gutter)) * end, half = (t1 - t0) / 2;
    this.timeline.show(at - half, at + half);
  }
}

/* Of a thread's rows the one whose tile has most runs: with call stacks the outer ones are one run each. */
function mostTelling(store, rows, level, number, wanted) {
  let best = rows[0], most = -1;
  for (const row of rows) {
    const tile = store.get(level, row, number);
    if (!tile) wanted.push([level, row, number]);
    const runs = new Set(tile?.slice).size;
    if (runs > 1.5 * most) {
      most = runs;
      best = row;
    }
  }
  return best;
}

/* For each strip the rows to choose from: the outermost of each stream, and of the thread of each rank with most slices
 * those below the steps. */
export function chooseRows(tracks) {
  const rows = [], seen = new Set(), busiest = new Map(); /* of each rank */
  for (const track of tracks)
    if (track.kind === "cpu" && !(track.slices <= busiest.get(track.rank)?.slices)) busiest.set(track.rank, track);
  for (const track of tracks) {
    if (track.kind === "cpu" && track !== busiest.get(track.rank)) continue;
    const key = track.kind === "device" ? `${track.rank}/${track.device}/${track.stream}` : `${track.rank}`;
    if ((track.kind !== "device" && track.kind !== "cpu") || seen.has(key) || !track.lanes[0]) continue;
    seen.add(key);
    const from = track.kind === "cpu" && track.lanes[0] > 1 ? 1 : 0, most = track.kind === "cpu" ? DEPTHS : 1;
    rows.push(Array.from({length: Math.min(most, track.lanes[0] - from)}, (_, i) => track.row + from + i));
  }
  return rows.slice(0, MOST_STRIPS);
}
