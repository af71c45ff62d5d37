/* offline: the page's data when there is no server: all of it stands in the file. Answers of questions were asked when
 * the file was written; tiles, details, search and sums are worked out here from the slices.
 *
 * The file holds three script elements, each gzip in base64.
 *
 * #tg-meta is JSON {state, tracks, answers: {key: result}, texts, shades: [a byte a text], rows: [number of slices],
 * sources: [source_lines of each process], missing: "what to type for what is not here"}.
 *
 * #tg-slices is five byte strings one after the other, each with its length as a u32 before it; in each the slices of
 * row 0, then those of row 1, and so on:
 *
 *   starts  varints: from the end of the slice before it in its row; of a row's first one: from 0
 *   durs    varints
 *   names   varints: position in texts
 *   looks   a byte each: position in state.classes
 *   flags   a byte each, as in a tile
 *
 * A slice's number is its position in these.
 *
 * #tg-series is a reply to the call tiles: counters and instants of the whole trace, 2048 to 4096 columns of each. */

import {ApiError, parseJson} from "./api.js";
import {compile} from "./pattern.js";
import {firstFrom, makeSeriesTile, makeTile} from "./tilemaker.js";
import {decode} from "./tiles.js";

export const keyOf = (question, args = {}) => JSON.stringify([question, Object.entries(args).sort()]);

async function unzip(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* meta, slices, series: the texts of #tg-meta, #tg-slices and #tg-series. */
export async function openOffline(meta, slices, series) {
  const columns = decode((await unzip(series)).buffer);
  return new Offline(parseJson(new TextDecoder().decode(await unzip(meta))), await unzip(slices), columns);
}

export class Offline {
  constructor(meta, bytes, series) {
    Object.assign(this, {meta, texts: meta.texts, series});
    this.unpack(bytes);
  }

  on(listener) {
    queueMicrotask(() => {
      listener({event: "connected"});
      listener({event: "state", result: this.meta.state});
    });
    return () => {};
  }
  async tiles({trace, level, tiles}) {
    const out = [];
    for (let i = 0; i < tiles.length; i += 2) {
      const [row, tile] = [tiles[i], tiles[i + 1]];
      out.push(
          row < this.rows.length ? makeTile(this.rows[row], row, level, tile) :
                                   makeSeriesTile(this.series, row, level, tile));
    }
    return {trace, generation: this.meta.tracks.generation, level, tiles: out};
  }
  /* This file again: what stands in it is still in the document. */
  async save() {
    const kept = (query) => [...document.querySelectorAll(query)].map((e) => e.outerHTML).join("\n");
    return `<!doctype html>\n<html lang="en">\n<head>\n${kept("head > :not(title)")}\n</head>\n<body>\n${
        kept(
            "noscript")}\n<div id="app"><header id="top"></header><nav id="nav" aria-label="pages"></nav><main id="page" tabindex="-1"></main></div>\n<div id="live" class="visually-hidden" aria-live="polite"></div>\n${
        kept("body > script:not(#tg-view)")}\n</body>\n</html>\n`;
  }
  async call(name, members = {}) {
    const calls = {
      state: () => this.meta.state,
      ask: (m) => this.ask(m),
      tracks: () => this.meta.tracks,
      names: (m) => ({texts: m.names.map((n) => this.texts[n])}),
      slice: (m) => this.details(m.slice ?? this.sliceAt(m)),
      search: (m) => this.search(m),
      aggregate: (m) => this.aggregate(m),
      source: (m) => this.source(m)
    };
    if (!calls[name])
      throw new ApiError({code: "unsupported", text: `this file does not hold that; ${this.meta.missing}`});
    return calls[name](members);
  }

  ask({question, args}) {
    const found = this.meta.answers[keyOf(question, args)];
    if (!found)
      throw new ApiError({
        code: "no_data",
        text: `this file does not hold the answer of ${question} with these arguments`,
        next: this.meta.missing
      });
    if (found.error) throw new ApiError(found.error);
    return found;
  }

  /* Lines as they were recorded; each process of the program kept its own. */
  source({file, line, around = 5}) {
    const known = Object.assign({}, ...(this.meta.sources ?? []).map((files) => files?.[file]));
    if (typeof known[line] !== "string")
      throw new ApiError({code: "not_found", text: `the recording does not hold line ${line} of ${file}`});
    const first = Math.max(1, line - around), text = (i) => known[first + i] ?? null;
    const lines = Array.from({length: line + around + 1 - first}, (_, i) => text(i));
    while (lines[lines.length - 1] === null) lines.pop();
    return {first, lines, from: "recording", path: null, changed: false};
  }

  /* ---- slices ---- */
  unpack(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), parts = [];
    for (let at = 0; at + 4 <= bytes.length;) {
      const length = view.getUint32(at, true);
      parts.push(bytes.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    const [starts, durs, names, looks, flags] = parts, at = {starts: 0, durs: 0, names: 0};
    const varint = (key, list) => {
      let value = 0, factor = 1;
      for (;;) {
        const byte = list[at[key]++];
        value += (byte & 127) * factor;
        if (byte < 128) return value;
        factor *= 128;
      }
    };
    let first = 0;
    this.rows = this.meta.rows.map((count) => {
      const row = {
        first,
        start: new Float64Array(count),
        dur: new Float64Array(count),
        slice: new Uint32Array(count),
        name: new Uint32Array(count),
        look: looks.subarray(first, first + count),
        flags: flags.subarray(first, first + count),
        shade: new Uint8Array(count)
      };
      let end = 0;
      for (let i = 0; i < count; i++) {
        row.start[i] = end + varint("starts", starts);
        row.dur[i] = varint("durs", durs);
        row.name[i] = varint("names", names);
        row.slice[i] = first + i;
        row.shade[i] = this.meta.shades[row.name[i]];
        end = row.start[i] + row.dur[i];
      }
      first += count;
      return row;
    });
  }

  rowOf(slice) {
    let low = 0, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle].first <= slice)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
  trackOf(row) {
    return this.meta.tracks.tracks.find((t) => row >= t.row && row < t.row + t.lanes.reduce((a, b) => a + b, 0));
  }
  reference(r, i) {
    const row = this.rows[r];
    return {
      slice: row.slice[i],
      name: this.texts[row.name[i]],
      class: row.look[i],
      track: this.trackOf(r)?.track ?? null,
      row: r,
      start_ns: row.start[i],
      dur_ns: row.dur[i]
    };
  }

  /* Rows of a track's lane stand one below the other, so a parent is the slice of the row above that is on at the
   * start. */
  parents(r, i) {
    const out = [], track = this.trackOf(r), start = this.rows[r].start[i], lanes = [];
    let first = track?.row ?? r;
    for (const depth of track?.lanes ?? []) {
      lanes.push([first, depth]);
      first += depth;
    }
    const top = lanes.find(([from, depth]) => r >= from && r < from + depth)?.[0] ?? r;
    for (let above = r - 1; above >= top; above--) {
      const k = firstFrom(this.rows[above].start, start + 1e-9) - 1;
      if (k >= 0 && this.rows[above].start[k] + this.rows[above].dur[k] >= start) out.push(this.reference(above, k));
    }
    return out;
  }
  children(r, i) {
    const track = this.trackOf(r), row = this.rows[r], below = this.rows[r + 1];
    if (!track || !below || this.trackOf(r + 1) !== track) return [];
    const out = [], end = row.start[i] + row.dur[i];
    for (let k = firstFrom(below.start, row.start[i]); k < below.start.length && below.start[k] < end; k++) out.push(k);
    return out;
  }

  sliceAt({row, at_ns, reach_ns = 0}) {
    const at = this.rows[row];
    if (!at) return null;
    const i = firstFrom(at.start, at_ns + 1);
    const past = i ? at_ns - at.start[i - 1] - at.dur[i - 1] : Infinity;
    const ahead = i < at.start.length ? at.start[i] - at_ns : Infinity;
    if (past < 0 || (past <= reach_ns && past <= ahead)) return at.first + i - 1;
    return ahead <= reach_ns ? at.first + i : null;
  }
  details(slice) {
    if (slice === null || !(slice < this.meta.rows.reduce((sum, count) => sum + count, 0))) return null;
    const r = this.rowOf(slice), row = this.rows[r], i = slice - row.first;
    const around = this.parents(r, i), python = this.meta.state.classes.indexOf("python");
    const kids = this.children(r, i), below = this.rows[r + 1];
    const same = this.all((name) => name === row.name[i]), position = same.findIndex(([a, b]) => a === r && b === i);
    const at = (k) => (k >= 0 && k < row.start.length ? this.reference(r, k) : null),
          one = (entry) => (entry ? this.reference(...entry) : null);
    return {
      ...this.reference(r, i),
      self_ns: row.dur[i] - kids.reduce((sum, k) => sum + below.dur[k], 0),
      category: "",
      step: null,
      unfinished: Boolean(row.flags[i] & 1),
      args: [],
      args_cut: false,
      stack: [this.reference(r, i), ...around].filter((ref) => ref.class === python).map((ref) => ref.name).reverse(),
      line: null,
      module: null,
      phase: null,
      parents: around,
      children: kids.length,
      causes: [],
      effects: [],
      effect_count: 0,
      forward: null,
      backward: [],
      near: {
        first_child: kids.length ? this.reference(r + 1, kids[0]) : null,
        previous: at(i - 1),
        next: at(i + 1),
        previous_same_name: one(same[position - 1]),
        next_same_name: one(same[position + 1])
      },
      same_name: {count: same.length, total_ns: same.reduce((sum, [a, b]) => sum + this.rows[a].dur[b], 0), position}
    };
  }

  /* All slices whose name fits, in order of time: [[row, position], …]. */
  all(fits) {
    const out = [];
    this.rows.forEach((row, r) => {
      for (let i = 0; i < row.start.length; i++)
        if (fits(row.name[i])) out.push([r, i]);
    });
    return out.sort((a, b) => this.rows[a[0]].start[a[1]] - this.rows[b[0]].start[b[1]] || a[0] - b[0]);
  }
  search({text, kind = "contains", after, backwards, limit = 100}) {
    const lower = text.toLowerCase(), pattern = kind === "regex" ? compile(text) : null;
    if (kind === "regex" && !pattern)
      throw new ApiError({code: "usage", text: "this is no pattern that the page understands"});
    const fits = this.texts.map(
        (name) =>
            (pattern              ? pattern.test(name.slice(0, 4096)) :
                 kind === "exact" ? name === text :
                                    name.toLowerCase().includes(lower)));
    const hits = this.all((name) => fits[name]), counts = new Map();
    let total = 0;
    for (const [r, i] of hits) {
      const row = this.rows[r],
            c = counts.get(row.name[i]) ?? {name: row.name[i], text: this.texts[row.name[i]], count: 0, total_ns: 0};
      c.count++;
      c.total_ns += row.dur[i];
      total += row.dur[i];
      counts.set(row.name[i], c);
    }
    const position = this.positionAfter(hits, after, backwards);
    const shown = backwards ? hits.slice(Math.max(0, position - limit + 1), position + 1).reverse() :
                              hits.slice(position, position + limit);
    return {
      count: hits.length,
      total_ns: total,
      position,
      names: [...counts.values()].sort((a, b) => b.total_ns - a.total_ns).slice(0, 200),
      hits: shown.map(([r, i]) => this.reference(r, i)),
      columns: []
    };
  }
  positionAfter(hits, after, backwards) {
    if (after === undefined) return backwards ? hits.length - 1 : 0;
    const r = this.rowOf(after), i = after - this.rows[r].first, start = this.rows[r].start[i];
    const behind = ([a, b]) => this.rows[a].start[b] > start || (this.rows[a].start[b] === start && a > r);
    if (!backwards) {
      const k = hits.findIndex(behind);
      return k < 0 ? hits.length : k;
    }
    for (let k = hits.length - 1; k >= 0; k--)
      if (!behind(hits[k]) && !(hits[k][0] === r && hits[k][1] === i)) return k;
    return -1;
  }

  aggregate({start_ns: t0, end_ns: t1, by = "name", limit = 500}) {
    const groups = new Map();
    let touched = 0;
    this.rows.forEach((row, r) => {
      for (let i = Math.max(0, firstFrom(row.start, t0) - 1); i < row.start.length && row.start[i] < t1; i++) {
        const part = Math.min(row.start[i] + row.dur[i], t1) - Math.max(row.start[i], t0);
        if (part <= 0) continue;
        touched++;
        const key = by === "name" ? this.texts[row.name[i]] :
            by === "track"        ? this.trackOf(r)?.name ?? "" :
                                    this.meta.state.classes[row.look[i]];
        const group = groups.get(key) ?? {calls: 0, total: 0, self: 0, most: 0, spans: []};
        group.calls++;
        group.total += part;
        group.self += part - this.insideOf(r, i, t0, t1);
        group.most = Math.max(group.most, row.dur[i]);
        group.spans.push([Math.max(row.start[i], t0), Math.min(row.start[i] + row.dur[i], t1)]);
        groups.set(key, group);
      }
    });
    const rows = [...groups].map(([key, g]) => {
      const union = unionOf(g.spans);
      return [key, g.calls, g.total, g.self, union, g.total / g.calls, g.most, (100 * union) / (t1 - t0)];
    });
    rows.sort((a, b) => b[3] - a[3]);
    const ns = ["total_ns", "self_ns", "busy_ns"].map((name) => ({name, type: "int", unit: "ns"}));
    return {
      question: "aggregate",
      columns: [
        {name: ["name", "track"].includes(by) ? by : "class", type: "text", unit: ""},
        {name: "calls", type: "int", unit: ""}, ...ns, {name: "mean_ns", type: "real", unit: "ns"},
        {name: "max_ns", type: "int", unit: "ns"}, {name: "share_pct", type: "real", unit: "%"}
      ],
      rows: rows.slice(0, limit),
      notes: [`${touched} slices`],
      losses: []
    };
  }
  insideOf(r, i, t0, t1) {
    const below = this.rows[r + 1];
    return this.children(r, i).reduce(
        (sum, k) => sum + Math.max(0, Math.min(below.start[k] + below.dur[k], t1) - Math.max(below.start[k], t0)), 0);
  }
}

function unionOf(spans) {
  spans.sort((a, b) => a[0] - b[0]);
  let sum = 0, end = -Infinity;
  for (const [from, to] of spans) {
    if (to > end) {
      sum += to - Math.max(from, end);
      end = to;
    }
  }
  return sum;
}
