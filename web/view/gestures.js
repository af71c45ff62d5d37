/* gestures: mouse and fingers on a picture. One finger or the mouse pans, two fingers zoom, a tap chooses, and a finger
 * that rests selects what it is drawn over next. */

const SLACK = {
  mouse: 3,
  pen: 6,
  touch: 8
},
      REST_MS = 400, LEAST_GAP = 8;

/* The pointers of an element, as calls of `actions`; x and y are pixels from its left and top edge:
 *   selects(event, x, y)        whether a drag of the mouse that begins here selects; else it pans
 *   pan(dx, dy, x0)             moved since the last call; x0: where the drag began
 *   zoom(factor, x)             above 1: out, around x
 *   tap(event)                  pressed and released in one place
 *   select(x0, x1, state, event)  "moves", "ends" or "drops" (a second finger, or the browser took the pointer); the
 *                               event of "moves"
 *   hover(event)                a pointer that is not pressed */
export class Gestures {
  constructor(element, actions) {
    Object.assign(this, {element, actions, fingers: new Map(), drag: null});
    element.addEventListener("pointerdown", (e) => this.down(e));
    element.addEventListener("pointermove", (e) => this.move(e));
    element.addEventListener("pointerup", (e) => this.up(e));
    element.addEventListener("pointercancel", (e) => this.cancel(e));
    element.addEventListener("contextmenu", (e) => this.drag?.touch && e.preventDefault()); /* a finger that rests */
  }
  place(e) {
    const box = this.element.getBoundingClientRect();
    return {x: e.clientX - box.left, y: e.clientY - box.top};
  }

  down(e) {
    if (e.button !== 0) return;
    this.element.setPointerCapture(e.pointerId);
    const at = this.place(e);
    this.fingers.set(e.pointerId, at);
    this.drop();
    const touch = e.pointerType === "touch";
    const select = !touch && this.actions.selects(e, at.x, at.y);
    this.drag = {x: at.x, y: at.y, touch, select, moved: this.fingers.size > 1};
    if (touch && this.fingers.size === 1) this.timer = setTimeout(() => this.rest(e), REST_MS);
  }
  rest(e) {
    this.drag.select = true;
    this.actions.select(this.drag.x, this.drag.x, "moves", e);
  }
  /* Forget a selection that has begun, and one that a resting finger would begin. */
  drop() {
    clearTimeout(this.timer);
    if (this.drag?.select) this.actions.select(this.drag.x, this.drag.x, "drops");
    this.drag = null;
  }

  move(e) {
    const last = this.fingers.get(e.pointerId);
    if (!this.drag || !last) {
      if (e.pointerType !== "touch") this.actions.hover(e);
      return;
    }
    const at = this.place(e), drag = this.drag;
    if (this.fingers.size > 1) {
      this.pinch(e.pointerId, at);
      return;
    }
    if (!drag.moved) {
      if (Math.hypot(at.x - drag.x, at.y - drag.y) <= (SLACK[e.pointerType] ?? SLACK.mouse)) return;
      drag.moved = true;
      clearTimeout(this.timer);
    }
    this.fingers.set(e.pointerId, at);
    if (drag.select)
      this.actions.select(drag.x, at.x, "moves", e);
    else
      this.actions.pan(at.x - last.x, at.y - last.y, drag.x);
  }
  /* The time between two fingers stays between them: zoomed by their gap, moved by their middle. */
  pinch(id, at) {
    const measure = () => {
      const [a, b] = this.fingers.values();
      return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, gap: Math.max(LEAST_GAP, Math.hypot(a.x - b.x, a.y - b.y))};
    };
    const before = measure();
    this.fingers.set(id, at);
    const now = measure();
    this.actions.zoom(before.gap / now.gap, before.x);
    this.actions.pan(now.x - before.x, now.y - before.y, now.x);
  }

  up(e) {
    if (!this.fingers.delete(e.pointerId) || !this.drag || this.fingers.size) return;
    clearTimeout(this.timer);
    const drag = this.drag;
    this.drag = null;
    if (drag.moved && drag.select)
      this.actions.select(drag.x, this.place(e).x, "ends");
    else if (!drag.moved) {
      if (drag.touch && drag.select) this.actions.select(drag.x, drag.x, "drops");
      this.actions.tap(e);
    }
  }
  cancel(e) {
    this.fingers.delete(e.pointerId);
    this.drop();
  }
}
