/* dom: elements made in one call. Texts are always set as text, never as markup: names of a trace are hostile. */

import {shorten} from "../model/format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on"))
      element.addEventListener(key.slice(2), value);
    else if (key === "style")
      Object.assign(element.style, value); /* by property: the page allows no style attributes */
    else if (key === "value" || key === "checked")
      element[key] = value;
    else
      element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/* Screen readers say it; it is not visible. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/* A tip goes when the pointer leaves what has tips, also where that was taken out of the document meanwhile. */
let tip = null;
export function showTip(x, y, ...content) {
  if (!tip) {
    tip = h("div", {class: "tip", role: "tooltip"});
    document.body.append(tip);
    document.addEventListener("pointerover", (e) => {
      if (!e.target.closest?.(".chart, .timeline .rows, .block-map")) hideTip();
    });
    for (const event of ["blur", "wheel", "keydown", "pointercancel"])
      addEventListener(event, hideTip, {capture: true, passive: true});
  }
  replace(tip, ...content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 16 + box.height > innerHeight ? Math.max(4, y - box.height - 8) : y + 16}px`;
}
export function hideTip() {
  if (tip) tip.hidden = true;
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("copied");
    return true;
  } catch {
    const area = h("textarea", {value: text});
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    announce(done ? "copied" : "the browser does not let this page copy");
    return done;
  }
}

/* What a page shows when a question has no answer here: the sentence, and the next command. */
export function problem(error) {
  return h(
      "div", {class: "empty", role: error.code === "no_data" ? null : "alert"}, h("p", {}, error.message),
      error.next ? h("p", {}, "next: ", h("code", {}, error.next)) : null);
}

/* A text on a canvas that is not wider than this: its middle is left out. */
export function fitText(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let low = 2, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (c.measureText(shorten(text, middle)).width <= width)
      low = middle;
    else
      high = middle - 1;
  }
  return shorten(text, low);
}
