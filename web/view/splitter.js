/* splitter: the line between two parts of a page, moved by the pointer or the arrows. */

import {h} from "./dom.js";

/* axis: "x" moves left and right, the part behind it grows to the left; "y" likewise upwards. size() of that part in
 * pixels; resize(pixels), within [80, most()]. */
export function splitter({axis, label, size, resize, most}) {
  const to = (px) => resize(Math.round(Math.max(80, Math.min(px, most()))));
  let from = null;
  return h("div", {
    class: `splitter ${axis}`,
    role: "separator",
    tabindex: 0,
    "aria-label": label,
    "aria-orientation": axis === "x" ? "vertical" : "horizontal",
    onpointerdown: (e) => {
      from = {at: axis === "x" ? e.clientX : e.clientY, size: size()};
      e.target.setPointerCapture(e.pointerId);
      e.preventDefault();
    },
    onpointermove: (e) => {
      if (from) to(from.size + from.at - (axis === "x" ? e.clientX : e.clientY));
    },
    onpointerup: () => (from = null),
    onpointercancel: () => (from = null),
    onkeydown: (e) => {
      const way = {ArrowUp: 1, ArrowLeft: 1, ArrowDown: -1, ArrowRight: -1}[e.key];
      if (!way) return;
      to(size() + way * 24);
      e.preventDefault();
      e.stopPropagation();
    }
  });
}
