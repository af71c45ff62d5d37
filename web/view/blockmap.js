/* blockmap: blocks of memory as bands over the events of a device, the oldest at the bottom. Only the largest of the
 * range are bands; the rest together is the grey one on top. The cost is bound by pixels and by the bands that the
 * server gives. */

import {number, quantity, shorten, size, ticks} from "../model/format.js";

import {axisY} from "./charts.js";
import {announce, h, hideTip, s, showTip} from "./dom.js";

const HEIGHT = 320, TOP = 8, BOTTOM = 18, LEFT = 64;

/* The bands in use in each column: [{from, to, column, alive: [band…], drawn}], the oldest first. */
export function stackColumns(levels, bands) {
  const out = [];
  let alive = [], next = 0;
  for (const level of levels) {
    while (next < bands.length && bands[next].event <= level.event) alive.push(bands[next++]);
    alive = alive.filter((band) => band.until === null || band.until > level.event);
    out.push({level, alive, drawn: alive.reduce((sum, band) => sum + band.bytes, 0)});
  }
  return out;
}

const topFrame = (stack) => (stack ?? "").split(";")[0];
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/* Equal places have equal colours: hue by the innermost frame. */
function colorOf(band, dark) {
  const hash = hashOf(topFrame(band.stack) || band.address);
  return `hsl(${(hash % 24) * 15} ${dark ? 32 : 42}% ${(dark ? 40 : 62) + ((hash >>> 8) % 3) * 6}%)`;
}

export function bandText(band, first) {
  return [
    h("b", {}, size(band.bytes)), h("div", {}, shorten(topFrame(band.stack) || "no stack was recorded", 120)),
    h("div", {},
      `taken ${quantity(Number(band.ts_ns) - first, "ns")} in, event ${number(band.event)}${
          band.step === null ? "" : `, step ${band.step}`}; ${
          band.until === null ? "never given back" : `held ${quantity(band.held_ns, "ns")}`}`)
  ];
}

/* levels, bands: records of memory_map. hooks: {zoom(from, to)}. */
export function blockMapView(levels, bands, range, hooks) {
  const canvas = h("canvas", {style: {position: "absolute", left: `${LEFT}px`, top: `${TOP}px`}});
  const frame = h("div", {style: {position: "absolute", inset: "0", pointerEvents: "none"}});
  const mark = h("div", {class: "block-mark", hidden: true});
  const box =
      h("div", {
        class: "chart block-map",
        id: "block-map",
        tabindex: 0,
        role: "application",
        "aria-label":
            "map of blocks. Left and right walk over events, up and down over blocks, plus and minus zoom, 0 shows all",
        style: {height: `${HEIGHT}px`}
      },
        canvas, frame, mark);
  const map = new BlockMap(box, canvas, frame, mark, stackColumns(levels, bands), range, hooks);
  new ResizeObserver(() => map.resize()).observe(box);
  return box;
}

class BlockMap {
  constructor(box, canvas, frame, mark, columns, range, hooks) {
    Object.assign(this, {box, canvas, frame, mark, columns, range, hooks, at: null});
    this.most = Math.max(1, ...columns.map((c) => c.level.bytes));
    this.first = Number(columns[0].level.ts_ns);
    box.addEventListener("pointermove", (e) => this.move(e));
    box.addEventListener("pointerdown", (e) => this.down(e));
    box.addEventListener("pointerup", (e) => this.up(e));
    box.addEventListener("mouseleave", hideTip);
    box.addEventListener("keydown", (e) => this.key(e));
    box.addEventListener("wheel", (e) => this.wheel(e), {passive: false});
  }
  get span() { return this.range[1] - this.range[0]; }
  columnAt(x) {
    const k = Math.floor(((x - LEFT) / this.width) * this.columns.length);
    return x >= LEFT && k < this.columns.length ? k : -1;
  }
  xOf(k) { return LEFT + (k / this.columns.length) * this.width; }
  yOf(bytes) { return TOP + this.height * (1 - bytes / this.most); }

  resize() {
    const width = Math.floor(this.box.clientWidth - LEFT);
    if (width <= 0 || width === this.width) return;
    this.width = width;
    this.height = HEIGHT - TOP - BOTTOM;
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.draw();
    this.drawAxes();
  }
  draw() {
    const c = this.canvas.getContext("2d"), {width, height} = this.canvas, colors = new Map();
    const [rest, edge, dark] = this.theme();
    c.clearRect(0, 0, width, height);
    const y = (bytes) => Math.round(height * (1 - bytes / this.most));
    this.columns.forEach((column, k) => {
      const x0 = Math.round((k / this.columns.length) * width),
            wide = Math.max(1, Math.round(((k + 1) / this.columns.length) * width) - x0);
      let base = 0, low = height;
      for (const band of column.alive) {
        base += band.bytes;
        const high = y(base);
        if (high >= low) continue; /* less than a pixel: the next one takes the place */
        if (!colors.has(band)) colors.set(band, colorOf(band, dark));
        c.fillStyle = colors.get(band);
        c.fillRect(x0, high, wide, low - high);
        if (low - high > 3 * this.ratio) {
          c.fillStyle = edge;
          c.fillRect(x0, high, wide, 1);
        }
        low = high;
      }
      c.fillStyle = rest;
      const top = y(column.level.bytes);
      if (top < low) c.fillRect(x0, top, wide, low - top);
    });
  }
  /* Of the smaller blocks, of the lines between bands; and whether the page is dark. */
  theme() {
    const probe = h("span", {});
    this.box.append(probe);
    const of = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const found = [of("--c-idle"), of("--page")];
    probe.remove();
    const [red, green, blue] = /(\d+)\D+(\d+)\D+(\d+)/.exec(found[1]).slice(1).map(Number);
    return [...found, red + green + blue < 384];
  }
  drawAxes() {
    const wide = this.width + LEFT, {group} = axisY(0, this.most, HEIGHT, wide, "bytes", TOP, BOTTOM, LEFT);
    const marks = ticks(this.range[0], this.range[1], Math.max(2, Math.floor(this.width / 140)));
    this.frame.replaceChildren(
        s("svg", {width: wide, height: HEIGHT, viewBox: `0 0 ${wide} ${HEIGHT}`}, group,
          s("g", {class: "axis"}, marks.map((event, i) => {
            const x = LEFT + ((event - this.range[0]) / this.span) * this.width;
            return s(
                "text",
                {x,
                 y: HEIGHT - 4,
                 "text-anchor": x > wide - 40 ? "end" :
                     i                        ? "middle" :
                                                "start"},
                `${i ? "" : "event "}${number(event)}`);
          }))));
  }

  /* {k, i}: band i of column k; i = alive.length: the rest. */
  hit(x, y) {
    const k = this.columnAt(x);
    if (k < 0) return null;
    const column = this.columns[k], bytes = this.most * (1 - (y - TOP) / this.height);
    if (bytes < 0 || bytes > column.level.bytes) return null;
    let base = 0, i = 0;
    for (; i < column.alive.length && (base += column.alive[i].bytes) < bytes;) i++;
    return {k, i};
  }
  textOf({k, i}) {
    const {level, alive, drawn} = this.columns[k], band = alive[i];
    if (band) return bandText(band, this.first);
    return [
      h("b", {}, `${size(level.bytes - drawn)} in smaller blocks`),
      h("div", {}, `${size(level.bytes)} in use after event ${number(level.event)}`)
    ];
  }
  place(e) {
    const box = this.box.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }
  move(e) {
    const [x, y] = this.place(e);
    if (this.from !== undefined && Math.abs(x - this.from) > 4) {
      this.show(Math.max(LEFT, Math.min(this.from, x)), TOP, Math.abs(x - this.from), this.height);
      return;
    }
    const hit = this.hit(x, y);
    if (hit)
      showTip(e.clientX, e.clientY, ...this.textOf(hit));
    else
      hideTip();
  }
  down(e) {
    this.from = this.place(e)[0];
    this.box.setPointerCapture(e.pointerId);
  }
  up(e) {
    const [x, y] = this.place(e), from = this.from;
    this.from = undefined;
    this.mark.hidden = true;
    if (Math.abs(x - from) > 4)
      this.zoomTo(this.eventAt(Math.min(x, from)), this.eventAt(Math.max(x, from)));
    else
      this.choose(this.hit(x, y));
  }
  eventAt(x) { return this.range[0] + Math.max(0, Math.min(1, (x - LEFT) / this.width)) * this.span; }
  zoomTo(from, to) {
    const least = 4, middle = (from + to) / 2, half = Math.max(to - from, least) / 2;
    this.hooks.zoom(Math.max(0, Math.floor(middle - half)), Math.ceil(middle + half));
  }
  zoom(factor, x = LEFT + this.width / 2) {
    const at = this.eventAt(x);
    this.zoomTo(at - (at - this.range[0]) * factor, at + (this.range[1] - at) * factor);
  }
  wheel(e) {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    clearTimeout(this.turning);
    this.turned = (this.turned ?? 1) * 1.0015 ** e.deltaY;
    const x = this.place(e)[0];
    this.turning = setTimeout(() => {
      this.zoom(this.turned, x);
      this.turned = 1;
    }, 120);
  }

  show(x, y, width, height) {
    this.mark.hidden = false;
    Object.assign(
        this.mark.style,
        {left: `${x}px`, top: `${y}px`, width: `${Math.max(width, 2)}px`, height: `${Math.max(height, 2)}px`});
  }
  choose(at) {
    this.at = at;
    if (!at) {
      this.mark.hidden = true;
      return;
    }
    const {alive, level, drawn} = this.columns[at.k], band = alive[at.i];
    const base = band ? alive.slice(0, at.i).reduce((sum, b) => sum + b.bytes, 0) : drawn;
    const top = this.yOf(band ? base + band.bytes : level.bytes);
    this.show(this.xOf(at.k), top, this.width / this.columns.length, this.yOf(base) - top);
    const text = this.textOf(at), box = this.box.getBoundingClientRect();
    showTip(box.left + this.xOf(at.k), box.top + top, ...text);
    announce(text.map((part) => part.textContent).join(", "));
  }
  key(e) {
    const {columns} = this, at = this.at ?? {k: Math.floor(columns.length / 2), i: 0};
    const go = (k, i) => {
      const kept = columns[at.k].alive[at.i], to = Math.max(0, Math.min(columns.length - 1, k));
      const same = k === at.k ? -1 : columns[to].alive.indexOf(kept);
      this.choose({k: to, i: same >= 0 ? same : Math.max(0, Math.min(columns[to].alive.length, i))});
    };
    const action = {
      ArrowLeft: () => go(at.k - 1, at.i),
      ArrowRight: () => go(at.k + 1, at.i),
      ArrowUp: () => go(at.k, at.i + 1),
      ArrowDown: () => go(at.k, at.i - 1),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.hooks.zoom(null, null),
      Escape: () => {
        this.choose(null);
        hideTip();
      }
    }[e.key];
    if (!action) return;
    action();
    e.preventDefault();
  }
}
