/* timeline: the canvas with all tracks, its gutter of names and ruler, and what keys and pointers do on it. */

import {resolveColors} from "../model/classes.js";
import {fitName, moment, quantity, shorten, ticks} from "../model/format.js";
import {HEAD, inSight, layOut, LINE, lineAt} from "../model/layout.js";
import {TileStore} from "../model/tiles.js";

import {fitText, h, hideTip, showTip} from "./dom.js";
import {Gestures} from "./gestures.js";
import {Minimap} from "./minimap.js";
import {drawCounter, paintMarks, showColumn} from "./series.js";
import {Colors, columnsOfPixels, inkOn, joinRuns, joinWide, makePalette, paintTile, paletteAt, tilesInView} from "./strips.js";

const RULER = 34, MOST_LABELS = 800;

/* shared: {server, traceNumber, info (the result of `tracks`), classes, names: NameStore}; hooks: {window(t0, t1,
 * done), chose(slice | null, place), area(s0, s1, tracks | null), key(event)}. */
export class Timeline {
  constructor(shared, settings, hooks) {
    Object.assign(this, shared, {settings, hooks});
    this.t0 = 0;
    this.t1 = Math.max(1, this.info.end_ns);
    this.store = new TileStore(this.server, this.traceNumber, () => this.later());
    this.store.generation = this.info.generation;
    this.selected = null;
    this.highlight = null;
    this.meter = [];
    this.colors = new Colors();
    this.canvas = h("canvas", {"aria-hidden": "true"});
    this.spacer = h("div", {class: "spacer"});
    this.minimap = new Minimap(this);
    this.mini = this.minimap.canvas;
    this.rows =
        h("div", {
          class: "rows",
          tabindex: 0,
          role: "application",
          "aria-label":
              "timeline. Arrows walk between slices, W and S zoom, A and D pan, Enter shows details, ? lists all keys"
        },
          this.canvas, this.spacer);
    this.strip = document.createElement("canvas");
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.rows);
    this.theme();
    this.arrange();
  }

  theme() {
    const {colors, text} = resolveColors(document.body, this.classes);
    const style = getComputedStyle(document.body);
    const parse = (value) => (/(\d+),?\s*(\d+),?\s*(\d+)/.exec(value) ?? [0, 255, 255, 255]).slice(1, 4).map(Number);
    this.background = parse(style.backgroundColor);
    this.idle = colors[0];
    this.text = text;
    this.palette = makePalette(colors, this.background);
    this.inks = new Map();
    const css = (name) => {
      const probe = h("span", {style: {color: `var(${name})`}});
      document.body.append(probe);
      const c = getComputedStyle(probe).color;
      probe.remove();
      return c;
    };
    this.css = {
      muted: css("--muted"),
      line: css("--line"),
      accent: css("--accent"),
      panel: css("--panel"),
      select: css("--select"),
      page: style.backgroundColor,
      code: `11px ${style.getPropertyValue("--mono")}`
    };
    this.later();
  }

  arrange() {
    this.layout = layOut(this.info.tracks, this.info.ranks, this.settings);
    this.spacer.style.height = `${Math.max(0, this.layout.height + RULER - (this.height ?? 0))}px`;
    this.later();
  }
  resize() {
    const box = this.rows.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    this.width = Math.max(1, this.rows.clientWidth);
    this.height = Math.max(1, Math.floor(box.height));
    this.ratio = ratio;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.minimap.resize(this.width, ratio);
    this.gutter = this.width < 600 ? 96 : 200;
    this.spacer.style.height = `${Math.max(0, this.layout.height + RULER - this.height)}px`;
    this.draw();
  }

  later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      this.draw();
    });
  }

  /* ---- the window of time ---- */
  get nsPerPx() { return (this.t1 - this.t0) / Math.max(1, this.width - this.gutter); }
  xOf(ns) { return this.gutter + (ns - this.t0) / this.nsPerPx; }
  nsAt(x) { return this.t0 + (x - this.gutter) * this.nsPerPx; }
  show(t0, t1, remember = false) {
    const end = Math.max(1, this.info.end_ns), least = 10;
    let span = Math.min(Math.max(t1 - t0, least), end * 1.2);
    let from = t0 + (t1 - t0 - span) / 2;
    from = Math.max(-0.1 * end, Math.min(from, 1.1 * end - span));
    if (remember) (this.undoList = this.undoList ?? []).push([this.t0, this.t1]);
    this.t0 = from;
    this.t1 = from + span;
    this.hooks.window(this.t0, this.t1, remember);
    this.later();
  }
  undo() {
    const last = this.undoList?.pop();
    if (last) this.show(...last);
  }
  zoom(factor, x = this.gutter + (this.width - this.gutter) / 2) {
    const ns = this.nsAt(x);
    this.show(ns - (ns - this.t0) * factor, ns + (this.t1 - ns) * factor);
  }
  pan(share) {
    const by = (this.t1 - this.t0) * share;
    this.show(this.t0 + by, this.t1 + by);
  }
  fit(start, end) {
    const margin = Math.max((end - start) * 0.15, 5);
    this.show(start - margin, end + margin, true);
  }

  /* Rows that are lower than the view was when the pointer was there stay in it. */
  keepInSight() {
    const height = this.rows.clientHeight; /* this.height is that of the last picture */
    if (this.pointerY > height - 3 * LINE) this.rows.scrollTop += this.pointerY - height + 4 * LINE;
    this.pointerY = 0;
    if (this.selected) this.reveal(this.selected);
  }
  /* Scrolls to the tracks of a rank, once the rows have their height. */
  goToRank(number) {
    const rank = this.info.ranks.findIndex((r) => String(r.number) === String(number));
    const line = this.layout.lines.find((l) => l.kind === "row" && l.track.rank === rank);
    if (line && this.info.ranks.length > 1)
      requestAnimationFrame(() => (this.rows.scrollTop = Math.max(0, line.y - HEAD)));
  }

  /* ---- drawing ---- */
  draw() {
    if (!this.width || !this.canvas.isConnected) return;
    const begin = performance.now();
    const c = this.canvas.getContext("2d", {alpha: false});
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = this.css.page;
    c.fillRect(0, 0, this.width, this.height);
    const scroll = this.rows.scrollTop;
    const [from, past] = inSight(this.layout.lines, scroll, scroll + this.height - RULER);
    this.sight = {from, past, scroll};
    const labels = [];
    this.drawStrips(c, labels);
    this.drawLabels(c, labels);
    this.drawGutter(c);
    this.drawRuler(c);
    this.drawOverlay(c);
    this.minimap.draw();
    this.measure(performance.now() - begin);
  }
  measure(ms) {
    this.meter.push(ms);
    if (this.meter.length > 600) this.meter.shift();
    this.store.drawn();
    globalThis.tachographMeter = {
      frames: this.meter,
      tiles: this.store.kept.size,
      batchMs: this.store.lastBatchMs,
      onScreen: this.store.onScreen,
      inFlight: this.store.inFlight
    };
  }

  drawStrips(c, labels) {
    const pixels = Math.max(1, Math.round((this.width - this.gutter) * this.ratio));
    const view = {t0: this.t0, nsPerPx: (this.t1 - this.t0) / pixels, width: pixels};
    const {level, first, last} = tilesInView(view);
    const lines = this.layout.lines.slice(this.sight.from, this.sight.past).filter((line) => line.kind === "row");
    if (!lines.length) return;
    if (this.strip.width !== pixels || this.strip.height < lines.length) {
      this.strip.width = pixels;
      this.strip.height = Math.max(64, lines.length);
      this.image = null;
    }
    const sc = this.strip.getContext("2d");
    if (!this.image) this.image = sc.createImageData(this.strip.width, this.strip.height);
    const words = new Uint32Array(this.image.data.buffer),
          seen = (this.seen && this.seen.length === pixels ? this.seen : (this.seen = new Uint8Array(pixels)));
    const background = (255 << 24) | (this.idle[2] << 16) | (this.idle[1] << 8) | this.idle[0];
    const wanted = [];
    this.colors.use(this.palette, this.highlight);
    this.touched = new Map(); /* the columns of each pixel, by level and tile */
    lines.forEach((line, k) => {
      const row = words.subarray(k * pixels, (k + 1) * pixels);
      row.fill(background);
      seen.fill(0);
      line.parts = [];
      const wide = line.thin ? null : [];
      for (let tile = first; tile <= last; tile++) this.drawTile(line, level, tile, view, row, seen, wanted, wide);
      for (const slice of wide ?? []) labels.push([line, slice]);
    });
    for (const line of lines)
      for (const tile of [first - 1, last + 1]) wanted.push([level, line.row, tile]); /* one ahead on each side */
    this.store.want(wanted);
    sc.putImageData(this.image, 0, 0, 0, 0, pixels, lines.length);
    c.imageSmoothingEnabled = false;
    lines.forEach((line, k) => {
      const y = line.y - this.sight.scroll + RULER;
      if (line.track.kind === "counter")
        drawCounter(this, c, line, y, {level, first, last});
      else
        c.drawImage(
            this.strip, 0, k, pixels, 1, this.gutter, y, this.width - this.gutter,
            line.thin ? line.height : line.height - 1);
    });
  }
  drawTile(line, level, number, view, row, seen, wanted, wide) {
    let tile = this.store.get(level, line.row, number), at = level;
    if (!tile) {
      wanted.push([level, line.row, number]);
      const up = this.store.coarser(level, line.row, number);
      if (!up) return;
      tile = up.tile;
      at = up.level;
    }
    if (tile.kind === 0) {
      const key = `${at}/${tile.tile}`, colored = this.colors.of(tile);
      if (!this.touched.has(key)) this.touched.set(key, columnsOfPixels(at, tile.tile, view));
      paintTile(row, seen, colored, this.touched.get(key));
      line.parts.push([tile, at]);
      if (wide) joinWide(tile, colored, at, view, 34 * this.ratio, wide);
    } else if (tile.kind === 2)
      paintMarks(row, tile, at, view);
  }

  inkOf(slice) {
    const word = paletteAt(this.palette, slice.cls, slice.shade, slice.density);
    if (!this.inks.has(word)) this.inks.set(word, inkOn(word));
    return this.inks.get(word);
  }
  drawLabels(c, labels) {
    labels.sort((a, b) => b[1].x1 - b[1].x0 - (a[1].x1 - a[1].x0));
    labels.length = Math.min(labels.length, MOST_LABELS);
    c.font = this.css.code;
    c.textBaseline = "middle";
    this.charWidth = this.charWidth ?? c.measureText("mmmmmmmmmm").width / 10;
    const missing = [];
    for (const [line, slice] of labels) {
      const x0 = Math.max(this.gutter, this.gutter + slice.x0 / this.ratio),
            x1 = Math.min(this.width, this.gutter + slice.x1 / this.ratio);
      const most = Math.floor((x1 - x0 - 6) / this.charWidth);
      if (most < 3) continue;
      const name = this.names.get(slice.name);
      if (name === undefined) {
        missing.push(slice.name);
        continue;
      }
      c.fillStyle = this.inkOf(slice);
      c.fillText(fitName(name, most), x0 + 3, line.y - this.sight.scroll + RULER + line.height / 2);
    }
    if (missing.length) this.names.want(missing, () => this.later());
  }

  drawGutter(c) {
    c.fillStyle = this.css.panel;
    c.fillRect(0, RULER, this.gutter, this.height);
    c.textBaseline = "middle";
    for (let k = this.sight.from; k < this.sight.past; k++) {
      const line = this.layout.lines[k], y = line.y - this.sight.scroll + RULER;
      if (line.kind === "head") {
        c.fillStyle = this.css.panel;
        c.fillRect(0, y, this.width, line.height);
        c.fillStyle = this.text;
        c.font = "600 12px system-ui, sans-serif";
        const text = fitText(c, `${line.folded ? "▸" : "▾"} ${line.text}`, this.width - 90);
        const past = 8 + c.measureText(text).width;
        c.fillText(text, 8, y + line.height / 2);
        c.fillStyle = this.css.muted;
        c.font = "11px system-ui, sans-serif";
        c.fillText(
            `${line.count} track${line.count === 1 ? "" : "s"}`, Math.max(this.gutter + 6, past + 12),
            y + line.height / 2);
      } else if (line.first) {
        c.fillStyle = this.text;
        c.font = "12px system-ui, sans-serif";
        const folds = line.track.lanes.length > 1 || line.track.lanes[0] > 1, x = this.gutter < 120 ? 4 : 14;
        if (folds) c.fillText(line.folded ? "▸" : "▾", x, y + Math.min(line.height, 20) / 2);
        c.fillText(
            fitText(c, line.track.name || line.track.process, this.gutter - x - 18), x + 14,
            y + Math.min(line.height, 20) / 2);
      } else if (line.depth === 0 && !line.thin && line.lane > 0) {
        c.fillStyle = this.css.muted;
        c.font = "10px system-ui, sans-serif";
        c.fillText("overlaps", Math.min(40, this.gutter - 56), y + line.height / 2);
      }
    }
    c.fillStyle = this.css.line;
    c.fillRect(this.gutter - 1, 0, 1, this.height);
  }

  drawRuler(c) {
    c.fillStyle = this.css.page;
    c.fillRect(0, 0, this.width, RULER);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    const list = ticks(this.t0, this.t1, Math.max(2, Math.floor((this.width - this.gutter) / 110)));
    const resolution = list.length > 1 ? list[1] - list[0] : this.t1 - this.t0;
    for (const ns of list) {
      const x = this.xOf(ns);
      if (x < this.gutter) continue;
      c.fillStyle = this.css.line;
      c.fillRect(x, 16, 1, this.height);
      c.fillStyle = this.css.muted;
      const text = moment(ns, resolution);
      if (x + 3 + c.measureText(text).width < this.width) c.fillText(text, x + 3, 25);
    }
    c.fillStyle = this.css.muted;
    c.fillText(`${quantity(this.t1 - this.t0, "ns")}${this.gutter < 120 ? "" : " in view"}`, 8, 25);
    this.stepsInView = 0;
    let labelled = 0;
    for (const [number, start, end] of this.info.steps) {
      const x0 = Math.max(this.gutter, this.xOf(start)), x1 = Math.min(this.width, this.xOf(end));
      if (x1 <= this.gutter || x0 >= this.width) continue;
      c.fillStyle = this.stepsInView++ % 2 ? this.css.line : this.css.select;
      c.fillRect(x0, 2, Math.max(x1 - x0 - 1, 1), 13);
      c.fillStyle = this.text;
      if (x1 - x0 > 26 && x0 >= labelled) {
        c.fillText(`#${number}`, x0 + 3, 9);
        labelled = x0 + 26; /* steps of several ranks overlap */
      }
    }
    c.fillStyle = this.css.line;
    c.fillRect(0, RULER - 1, this.width, 1);
  }

  drawOverlay(c) {
    const band = (a, b, strong) => {
      const x0 = Math.max(this.gutter, this.xOf(Math.min(a, b))), x1 = Math.min(this.width, this.xOf(Math.max(a, b)));
      if (x1 <= x0) return;
      c.fillStyle = this.css.select;
      c.fillRect(x0, 0, x1 - x0, this.height);
      if (!strong) return;
      c.fillStyle = this.css.accent;
      c.fillRect(x0, 0, 1, this.height);
      c.fillRect(x1, 0, 1, this.height);
      c.font = "600 11px system-ui, sans-serif";
      c.fillText(`${quantity(Math.abs(b - a), "ns")}${this.adding ? ", adding up …" : ""}`, x0 + 4, RULER + 10);
    };
    if (this.area) band(...this.area, true);
    if (!this.selected) return;
    for (const flow of this.flowsOf(this.selected)) this.drawFlow(c, ...flow);
    const place = this.placeOf(this.selected);
    if (!place) return;
    c.strokeStyle = this.text;
    c.lineWidth = 2;
    c.strokeRect(place.x + 0.5, place.y + 0.5, Math.max(place.w - 1, 2), place.height - 2);
    c.lineWidth = 1;
  }
  /* Where a reference stands on the screen; null: its line is folded or hidden. */
  placeOf(ref) {
    const line = this.layout.lines.find((l) => l.kind === "row" && l.row === ref.row);
    if (!line) return null;
    const x = Math.max(this.gutter, this.xOf(ref.start_ns)),
          past = Math.min(this.width, this.xOf(ref.start_ns + ref.dur_ns));
    return {x, w: past - x, y: line.y - (this.sight?.scroll ?? 0) + RULER, height: line.height, line};
  }
  flowsOf(slice) {
    const out = [];
    let to = slice;
    for (const from of slice.causes ?? []) {
      out.push([from, to]);
      to = from;
    }
    for (const effect of slice.effects ?? []) out.push([slice, effect]);
    for (const back of slice.backward ?? []) out.push([slice, back]);
    return out.slice(0, 200);
  }
  drawFlow(c, from, to) {
    const a = this.placeOf(from), b = this.placeOf(to);
    if (!a || !b) return;
    const x0 = this.xOf(from.start_ns), y0 = a.y + a.height / 2, x1 = this.xOf(to.start_ns), y1 = b.y + b.height / 2;
    c.save();
    c.beginPath();
    c.rect(this.gutter, RULER, this.width, this.height);
    c.clip();
    c.strokeStyle = this.css.accent;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + (x1 - x0) / 2, y0, x0 + (x1 - x0) / 2, y1, x1, y1);
    c.stroke();
    c.fillStyle = this.css.accent;
    c.beginPath();
    c.arc(x1, y1, 3, 0, 7);
    c.fill();
    c.restore();
  }

  /* ---- input ---- */
  listen() {
    const rows = this.rows;
    rows.addEventListener("wheel", (e) => this.wheel(e), {passive: false});
    rows.addEventListener("scroll", () => this.draw(), {passive: true});
    this.gestures = new Gestures(rows, {
      selects: (e, x, y) => e.shiftKey || y < RULER,
      pan: (dx, dy, x0) => this.panBy(dx, dy, x0),
      zoom: (factor, x) => this.zoom(factor, x),
      tap: (e) => this.click(e),
      select: (x0, x1, state, e) => this.selectBetween(x0, x1, state, e && this.localY(e)),
      hover: (e) => this.hover(e)
    });
    rows.addEventListener("mouseleave", hideTip);
    rows.addEventListener("dblclick", (e) => {
      const hit = this.hit(e);
      if (hit?.slice)
        this.fit(
            this.t0 + (hit.slice.x0 / this.ratio) * this.nsPerPx, this.t0 + (hit.slice.x1 / this.ratio) * this.nsPerPx);
    });
    rows.addEventListener("keydown", (e) => this.hooks.key(e));
  }
  wheel(e) {
    const x = e.clientX - this.rows.getBoundingClientRect().left;
    if (e.ctrlKey || e.metaKey || e.altKey || this.layout.height + RULER <= this.height)
      this.zoom(1.0015 ** e.deltaY, x);
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
      this.pan((e.deltaX || e.deltaY) / this.width);
    else
      return; /* the browser scrolls the tracks */
    e.preventDefault();
  }
  localX(e) { return e.clientX - this.rows.getBoundingClientRect().left; }
  localY(e) { return e.clientY - this.rows.getBoundingClientRect().top; }
  panBy(dx, dy, x0) {
    if (x0 >= this.gutter) this.pan(-dx / (this.width - this.gutter));
    this.rows.scrollTop -= dy;
  }
  selectBetween(x0, x1, state, y) {
    if (x0 < this.gutter) return;
    this.before = this.before ?? {area: this.area};
    this.area = state === "drops" ? this.before.area : [this.nsAt(x0), this.nsAt(x1)].sort((a, b) => a - b);
    if (y !== undefined) this.pointerY = y;
    if (state !== "moves") this.before = null;
    if (state === "ends") this.addUp();
    this.later();
  }
  /* The band says that its numbers are not there yet; drawing and panning go on meanwhile. */
  async addUp() {
    const area = (this.adding = this.area);
    this.rows.ariaBusy = "true";
    await this.hooks.area(...area);
    if (this.adding !== area) return; /* a newer one is on its way */
    this.adding = null;
    this.rows.ariaBusy = "false";
    this.later();
  }
  click(e) {
    const y = this.localY(e), x = this.localX(e);
    if (y < RULER) {
      const step = this.stepAt(this.nsAt(x));
      if (step) {
        this.area = [step[1], step[2]];
        this.addUp();
        this.later();
      }
      return;
    }
    const line = lineAt(this.layout.lines, y - RULER + this.rows.scrollTop);
    if (line && (line.kind === "head" || x < this.gutter)) {
      this.hooks.fold(line);
      return;
    }
    const hit = this.hit(e);
    this.hooks.chose(hit?.slice ? hit.slice.slice : null);
  }
  stepAt(ns) { return this.info.steps.find(([, start, end]) => ns >= start && ns < end) ?? null; }
  /* {line, slice: {slice, name, x0, x1}} under the pointer; slice null between slices. */
  hit(e) {
    const y = this.localY(e) - RULER + this.rows.scrollTop, x = this.localX(e);
    if (this.localY(e) < RULER || x < this.gutter) return null;
    const line = lineAt(this.layout.lines, y);
    if (!line || line.kind !== "row") return null;
    const at = (x - this.gutter) * this.ratio;
    const joined = [], pixels = Math.max(1, Math.round((this.width - this.gutter) * this.ratio));
    const view = {t0: this.t0, nsPerPx: (this.t1 - this.t0) / pixels, width: pixels};
    for (const [tile, level] of line.parts ?? []) joinRuns(tile, level, view, joined);
    const near = joined.filter((s) => at >= s.x0 - 2 && at <= s.x1 + 2);
    near.sort((a, b) => Math.abs((a.x0 + a.x1) / 2 - at) - Math.abs((b.x0 + b.x1) / 2 - at));
    return {line, slice: near.find((s) => at >= s.x0 && at <= s.x1) ?? near[0] ?? null};
  }
  hover(e) {
    this.pointerY = this.localY(e);
    const hit = this.hit(e);
    if (hit && (hit.line.track.kind === "counter" || hit.line.track.kind === "marks")) {
      showColumn(this, e, hit.line);
      return;
    }
    if (!hit?.slice) {
      hideTip();
      return;
    }
    const name = this.names.get(hit.slice.name);
    if (name === undefined) {
      this.names.want([hit.slice.name], () => {});
      return;
    }
    const ns = ((hit.slice.x1 - hit.slice.x0) / this.ratio) * this.nsPerPx;
    showTip(
        e.clientX, e.clientY, h("b", {}, shorten(name, 160)),
        h("div", {}, `${this.classes[hit.slice.cls]} · about ${quantity(ns, "ns")}`,
          hit.slice.flags & 4 ? " · zoom in: more than one here" : ""));
  }

  /* Scroll and pan so that a slice is seen. */
  reveal(ref) {
    const place = this.placeOf(ref);
    if (!place) return;
    const top = place.line.y, view = this.height - RULER;
    if (top < this.rows.scrollTop || top + place.line.height > this.rows.scrollTop + view)
      this.rows.scrollTop = Math.max(0, top - view / 3);
    const end = ref.start_ns + ref.dur_ns;
    if (end < this.t0 || ref.start_ns > this.t1 || ref.dur_ns < this.nsPerPx * 3 ||
        ref.dur_ns > (this.t1 - this.t0) * 4) {
      const span = Math.max(
          ref.dur_ns * 3,
          (this.t1 - this.t0) *
              (ref.dur_ns < this.nsPerPx * 3 ? Math.min(1, (ref.dur_ns * 20) / (this.t1 - this.t0) || 1) : 1));
      this.show(ref.start_ns + ref.dur_ns / 2 - span / 2, ref.start_ns + ref.dur_ns / 2 + span / 2, true);
    }
    this.later();
  }
}
