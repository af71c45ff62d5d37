/* tiles: the arithmetic of levels and tiles, their bytes, and those that are kept. docs/viewer-api.md has the layout.
 */

export const TILE_COLUMNS = 1024;

/* The largest level whose column is not wider than a device pixel. */
export function levelOf(nsPerPixel) {
  return Math.max(0, Math.min(52, Math.floor(Math.log2(Math.max(nsPerPixel, 1)))));
}
export const columnNs = (level) => 2 ** level;
export const tileNs = (level) => 2 ** level * TILE_COLUMNS;
export const tileAt = (level, ns) => Math.floor(ns / tileNs(level));

const SLICES = 0, COUNTER = 1;

/* The tiles of a reply: [{row, tile, kind, n, …arrays}]. Null: not the bytes of such a reply. */
export function decode(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 24 || view.getUint32(4, true) !== buffer.byteLength) return null;
  const out = {
    bytes: buffer.byteLength,
    trace: view.getUint32(8, true),
    generation: view.getUint32(12, true),
    level: view.getUint32(16, true),
    tiles: []
  };
  let at = 24;
  for (let k = view.getUint32(20, true); k > 0; k--) {
    if (at + 12 > buffer.byteLength) return null;
    const tile = {
      row: view.getUint32(at, true),
      tile: view.getInt32(at + 4, true),
      kind: view.getUint16(at + 8, true),
      n: view.getUint16(at + 10, true)
    };
    const size = tile.n * (tile.kind === SLICES || tile.kind === COUNTER ? 16 : 12);
    if (at + 12 + size > buffer.byteLength) return null;
    readArrays(tile, buffer, at + 12);
    at += 12 + size;
    out.tiles.push(tile);
  }
  return out;
}

function readArrays(tile, buffer, at) {
  const n = tile.n;
  const take = (Type) => {
    const array = new Type(buffer, at, n);
    at += n * Type.BYTES_PER_ELEMENT;
    return array;
  };
  if (tile.kind === SLICES) {
    tile.slice = take(Uint32Array);
    tile.name = take(Uint32Array);
    tile.column = take(Uint16Array);
    tile.length = take(Uint16Array);
    tile.density = take(Uint8Array);
    tile.cls = take(Uint8Array);
    tile.shade = take(Uint8Array);
    tile.flags = take(Uint8Array);
  } else if (tile.kind === COUNTER) {
    tile.min = take(Float32Array);
    tile.max = take(Float32Array);
    tile.last = take(Float32Array);
    tile.column = take(Uint16Array);
    tile.points = take(Uint16Array);
  } else {
    tile.mark = take(Uint32Array);
    tile.name = take(Uint32Array);
    tile.column = take(Uint16Array);
    tile.count = take(Uint16Array);
  }
}

/* Tiles of one trace, the least recently used given up first. Asks for what is missing in batches; newer views first.
 */
export class TileStore {
  constructor(server, trace, changed, mostBytes = 64 << 20) {
    Object.assign(
        this,
        {server, trace, changed, mostBytes, bytes: 0, kept: new Map(), asked: new Set(), inFlight: 0, wanted: []});
    this.arrived = [];  /* when the batches were asked for that have come and are not drawn yet */
    this.onScreen = []; /* of the last batches: tiles, bytes, and ms from the request to the picture that has them */
  }
  key(level, row, tile) { return `${level}/${row}/${tile}`; }

  get(level, row, tile) {
    const key = this.key(level, row, tile);
    const found = this.kept.get(key);
    if (found) {
      this.kept.delete(key);
      this.kept.set(key, found);
    }
    return found;
  }

  /* The nearest coarser tile that is here and covers this one: {tile, level}, or null. */
  coarser(level, row, tile, most = 12) {
    for (let up = 1; up <= most && level + up <= 52; up++) {
      const found = this.kept.get(this.key(level + up, row, Math.floor(tile / 2 ** up)));
      if (found) return {tile: found, level: level + up};
    }
    return null;
  }

  /* The tiles of the present view, most important first: [[level, row, tile], …]. Replaces what waited before. */
  want(list) {
    this.wanted = list.filter(
        ([level, row, tile]) =>
            !this.kept.has(this.key(level, row, tile)) && !this.asked.has(this.key(level, row, tile)));
    this.pump();
  }

  /* What is wanted beside the view, such as the minimap: asked for at once, each tile once. */
  wantAlso(level, list) {
    const missing = list.filter(
        ([, row, tile]) => !this.kept.has(this.key(level, row, tile)) && !this.asked.has(this.key(level, row, tile)));
    for (let i = 0; i < missing.length; i += 128) this.request(level, missing.slice(i, i + 128));
  }

  pump() {
    while (this.inFlight < 3 && this.wanted.length) {
      const level = this.wanted[0][0];
      const batch = [], rest = [];
      for (const item of this.wanted) (item[0] === level && batch.length < 128 ? batch : rest).push(item);
      this.wanted = rest;
      this.request(level, batch);
    }
  }

  async request(level, batch) {
    for (const [, row, tile] of batch) this.asked.add(this.key(level, row, tile));
    this.inFlight++;
    const begin = performance.now();
    try {
      const reply =
          await this.server.tiles({trace: this.trace, level, tiles: batch.flatMap(([, row, tile]) => [row, tile])});
      if (this.generation === undefined || reply.generation === this.generation)
        for (const tile of reply.tiles) this.keep(level, tile);
      this.lastBatchMs = performance.now() - begin;
      this.arrived.push({tiles: reply.tiles.length, bytes: reply.bytes, begin});
    } catch (error) {
      if (error.code === "loading") setTimeout(() => this.changed(), 200);
    } finally {
      for (const [, row, tile] of batch) this.asked.delete(this.key(level, row, tile));
      this.inFlight--;
      this.changed();
      this.pump();
    }
  }

  /* The page has drawn everything that has come. */
  drawn() {
    const now = performance.now();
    for (const {tiles, bytes, begin} of this.arrived) this.onScreen.push({tiles, bytes, ms: now - begin});
    this.arrived = [];
    if (this.onScreen.length > 200) this.onScreen.splice(0, this.onScreen.length - 200);
  }

  keep(level, tile) {
    const key = this.key(level, tile.row, tile.tile);
    if (this.kept.has(key)) return;
    this.kept.set(key, tile);
    this.version = (this.version ?? 0) + 1;
    this.bytes += 64 + tile.n * 16;
    for (const [old, gone] of this.kept) {
      if (this.bytes <= this.mostBytes) break;
      this.kept.delete(old);
      this.bytes -= 64 + gone.n * 16;
    }
  }
}
