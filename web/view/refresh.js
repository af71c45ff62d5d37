/* refresh: a timeline takes in what is new of a recording that goes on. Numbers of tracks, rows, slices and names are
 * new then; what someone looks at is found again by what it is. */

import {rowsOf} from "../model/layout.js";
import {NameStore} from "../model/names.js";
import {TileStore} from "../model/tiles.js";

import {chooseRows} from "./minimap.js";
import {tilesInView} from "./strips.js";

const keyOf = (track) => [track.kind, track.rank, track.process, track.name, track.device, track.stream].join("\n");

/* From what stood in one list of tracks to what stands in the next. */
export class Moved {
  constructor(before, now) {
    this.before = before;
    this.now = new Map(now.tracks.map((track) => [keyOf(track), track]));
    this.ns = Number(BigInt(before.origin_ns) - BigInt(now.origin_ns));
  }
  track(number) {
    const track = this.before.tracks.find((t) => t.track === number);
    return track ? this.now.get(keyOf(track))?.track : undefined;
  }
  row(number) {
    const track = this.before.tracks.find((t) => number >= t.row && number < t.row + rowsOf(t));
    const now = track && this.now.get(keyOf(track));
    return now && number - track.row < rowsOf(now) ? now.row + number - track.row : undefined;
  }
}

/* The window afterwards: the whole trace stays the whole, its end the end, and anything else where it was. */
function windowAfter(timeline, info, moved) {
  const {t0, t1, info: before} = timeline;
  if (t0 <= 0 && t1 >= before.end_ns) return [t0, t1 + info.end_ns - before.end_ns];
  const by = t1 >= before.end_ns ? info.end_ns - before.end_ns : moved.ns;
  return [t0 + by, t1 + by];
}

/* The tiles of the next frame, so that nothing blinks; half a second at most. */
function fetchAhead(timeline, store, lines, [t0, t1]) {
  const pixels = Math.max(1, Math.round((timeline.width - timeline.gutter) * timeline.ratio));
  const {level, first, last} = tilesInView({t0, nsPerPx: (t1 - t0) / pixels, width: pixels}), list = [];
  for (const row of lines)
    for (let tile = first; tile <= last; tile++) list.push([level, row, tile]);
  return new Promise((done) => {
    const end = setTimeout(done, 500);
    store.changed = () => {
      if (store.inFlight || store.wanted.length) return;
      clearTimeout(end);
      done();
    };
    store.want(list);
    if (!list.length) store.changed();
  });
}

export async function refresh(timeline, info, moved) {
  const store = new TileStore(timeline.server, timeline.traceNumber, () => {});
  store.generation = info.generation;
  const {from, past} = timeline.sight ?? {from: 0, past: 0};
  const rows =
      timeline.layout.lines.slice(from, past).filter((line) => line.kind === "row").map((line) => moved.row(line.row));
  const next = windowAfter(timeline, info, moved);
  await fetchAhead(timeline, store, rows.filter((row) => row !== undefined), next);
  const [t0, t1] = windowAfter(timeline, info, moved); /* someone may have panned meanwhile */
  store.changed = () => timeline.later();
  timeline.area = timeline.area?.map((ns) => ns + moved.ns) ?? null;
  Object.assign(timeline, {
    store,
    info,
    t0,
    t1,
    undoList: [],
    selected: null,
    highlight: null,
    names: new NameStore(timeline.server, timeline.traceNumber)
  });
  Object.assign(timeline.minimap, {rows: chooseRows(info.tracks), made: null});
  timeline.arrange();
  timeline.hooks.window(t0, t1, false);
}
