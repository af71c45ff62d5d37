/* flame: a flame graph or an icicle on a canvas. Click zooms, Escape goes out, search shades; two fingers widen it and
 * one moves it sideways. The tree comes with its totals; widths are all that is worked out here. */

import {fitName, quantity} from "../model/format.js";

import {announce, h, hideTip, showTip} from "./dom.js";
import {Gestures} from "./gestures.js";
import {inkOn} from "./strips.js";

const ROW = 20, MOST_WIDENED = 1000;

/* tree: {name, value, self, children, cls, record}; options: {id, unit, up: roots below, open(node), leftHeavy} */
export function flameView(tree, options) {
  const canvas = h("canvas", {
    class: "flame",
    tabindex: 0,
    role: "img",
    "aria-label": `${
        options.label ?? "flame graph"}; arrows walk, Enter zooms, Escape goes out; the table below has the same data`
  });
  const path = h("div", {class: "muted", style: {minHeight: "20px"}});
  const box = h("div", {class: "chart", id: options.id}, path, canvas);
  /* widened: how often the width of the canvas the root is; left: what of that is left of the canvas, in pixels */
  const state = {root: tree, at: tree, search: null, boxes: [], widened: 1, left: 0};
  const depth = depthOf(tree, 0);
  canvas.style.height = `${(depth + 1) * ROW}px`; /* before it is drawn, so that nothing moves */
  const draw = () => drawFlame(canvas, box, tree, state, options, depth);
  const zoom = (node) => {
    state.root = node;
    state.widened = 1;
    state.left = 0;
    path.textContent = node === tree ? "" : `${node.name} – ${quantity(node.value, options.unit)}; Escape goes out`;
    draw();
  };
  const tell = (e) => {
    const hit = hitAt(state.boxes, canvas, e);
    canvas.style.cursor = hit ? "pointer" : "default";
    if (hit)
      tellOf(hit.node, e, tree, options);
    else
      hideTip();
  };
  const widen = (factor, x) => {
    const before = state.widened;
    state.widened = Math.min(Math.max(before * factor, 1), MOST_WIDENED);
    move((state.left + x) * (state.widened / before) - x);
  };
  const move = (left) => {
    state.left = Math.max(0, Math.min(left, (state.widened - 1) * box.clientWidth));
    hideTip();
    draw();
  };
  new Gestures(canvas, {
    selects: () => false,
    pan: (dx) => move(state.left - dx),
    zoom: (factor, x) => widen(1 / factor, x),
    tap: (e) => {
      const hit = hitAt(state.boxes, canvas, e);
      if (!hit) return;
      state.at = hit.node;
      zoom(hit.node);
      options.open?.(hit.node);
    },
    select: (x0, x1, state, e) => state === "moves" ? tell(e) : hideTip(),
    hover: tell
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("keydown", (e) => walk(e, tree, state, zoom, draw, options));
  new ResizeObserver(draw).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  box.search = (text) => {
    state.search = text ? text.toLowerCase() : null;
    draw();
  };
  box.redraw = draw;
  return box;
}

function tellOf(node, e, tree, options) {
  const share = tree.value ? `, ${((100 * node.value) / tree.value).toFixed(1)} % of all` : "";
  showTip(
      e.clientX, e.clientY, h("b", {}, node.name), h("div", {}, `${quantity(node.value, options.unit)}${share}`),
      h("div", {}, `own: ${quantity(node.self ?? 0, options.unit)}`));
}
function depthOf(node, d) { return node.children.reduce((most, child) => Math.max(most, depthOf(child, d + 1)), d); }
function parentOf(tree, node) {
  for (const child of tree.children) {
    if (child === node) return tree;
    const found = parentOf(child, node);
    if (found) return found;
  }
  return null;
}
function hitAt(boxes, canvas, e) {
  const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
  return boxes.find((b) => x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + ROW);
}
function walk(e, tree, state, zoom, draw, options) {
  const parent = parentOf(tree, state.at), siblings = parent?.children ?? [tree], k = siblings.indexOf(state.at);
  const down = options.up ? "ArrowUp" : "ArrowDown", up = options.up ? "ArrowDown" : "ArrowUp";
  const to = e.key === down  ? state.at.children[0] :
      e.key === up           ? parent :
      e.key === "ArrowRight" ? siblings[k + 1] :
      e.key === "ArrowLeft"  ? siblings[k - 1] :
                               undefined;
  if (e.key === "Escape") {
    zoom(state.root === tree ? tree : (parentOf(tree, state.root) ?? tree));
  } else if (e.key === "Enter") {
    zoom(state.at);
    options.open?.(state.at);
  } else if (to) {
    state.at = to;
    draw();
    announce(`${to.name}, ${quantity(to.value, options.unit)}`);
  } else
    return;
  e.preventDefault();
}

function drawFlame(canvas, box, tree, state, options, depth) {
  const width = Math.floor(box.clientWidth), rows = depth + 1, height = rows * ROW, ratio = devicePixelRatio || 1;
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const c = canvas.getContext("2d"), style = getComputedStyle(box);
  c.scale(ratio, ratio);
  c.font = `11px ${style.getPropertyValue("--mono")}`;
  c.textBaseline = "middle";
  state.boxes = [];
  const page = getComputedStyle(document.body).backgroundColor;
  const paint = {c, style, options, state, width, height, charWidth: c.measureText("m").width, colors: new Map(), page};
  const chain = [];
  for (let node = state.root; node && node !== tree; node = parentOf(tree, node)) chain.unshift(parentOf(tree, node));
  chain.forEach((node, d) => putBox(paint, node, 0, d, width));
  putTree(paint, state.root, -state.left, chain.length, width * state.widened);
}
function putTree(paint, node, x, d, w) {
  if (w < 0.5 || x >= paint.width || x + w <= 0) return;
  const from = Math.max(x, 0);
  putBox(paint, node, from, d, Math.min(x + w, paint.width) - from);
  let at = x;
  const kids = paint.options.leftHeavy ? node.children.slice().sort((a, b) => b.value - a.value) : node.children;
  const sum = Math.max(node.value, kids.reduce((total, child) => total + child.value, 0)) || 1;
  for (const child of kids) {
    const share = (child.value / sum) * w;
    putTree(paint, child, at, d + 1, share);
    at += share;
  }
}
const channels = (text) => /(\d+),?\s*(\d+),?\s*(\d+)/.exec(text).slice(1, 4).map(Number);
/* A colour on another as it is seen, as one word: red lowest. */
function blend(color, below, alpha) {
  const under = channels(below);
  const [r, g, b] = channels(color).map((v, i) => Math.round(v * alpha + under[i] * (1 - alpha)));
  return (b << 16) | (g << 8) | r;
}
function putBox({c, style, options, state, height, charWidth, colors, page}, node, x, d, w) {
  const y = options.up ? height - (d + 1) * ROW : d * ROW;
  const cls = node.cls ?? "python";
  if (!colors.has(cls)) colors.set(cls, resolve(style, cls));
  const found = !state.search || node.name.toLowerCase().includes(state.search);
  const alpha = found ? (node.shade ?? 0.55) : 0.12;
  c.globalAlpha = alpha;
  c.fillStyle = colors.get(cls);
  c.fillRect(x, y, Math.max(w - 0.5, 0.5), ROW - 1);
  c.globalAlpha = 1;
  if (node === state.at) {
    c.strokeStyle = style.color;
    c.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1.5, 0.5), ROW - 2);
  }
  if (w > 24) {
    const key = `${cls} ${alpha}`;
    if (!colors.has(key)) colors.set(key, inkOn(blend(colors.get(cls), page, alpha)));
    c.fillStyle = colors.get(key);
    const most = Math.floor((w - 6) / charWidth);
    c.fillText(fitName(node.name, most), x + 3, y + ROW / 2);
  }
  state.boxes.push({node, x, y, w});
}
const probes = new Map();
function resolve(style, cls) {
  const probe = probes.get(cls) ?? h("span", {hidden: true, style: {color: `var(--c-${cls})`}});
  if (!probe.isConnected) {
    document.body.append(probe);
    probes.set(cls, probe);
  }
  return getComputedStyle(probe).color;
}
