/* timeline: the page around the timeline: toolbar, search, details, aggregate of a selection, keys, the URL. */

import {number, quantity} from "../model/format.js";
import {NameStore} from "../model/names.js";
import * as State from "../model/state.js";
import {Table, toMarkdown} from "../model/table.js";
import {openKeys} from "../view/command.js";
import {detailsView, frameOf, sourceView} from "../view/details.js";
import {announce, copyText, h, problem, replace} from "../view/dom.js";
import {Moved, refresh} from "../view/refresh.js";
import {splitter} from "../view/splitter.js";
import {tableView} from "../view/table.js";
import {Timeline} from "../view/timeline.js";

export const title = "Timeline";
export const fill = true;

export async function draw(context) {
  const info = await context.info();
  return new TimelinePage(context, info).element;
}

/* A slice by its place: its number is another one in a file, and when a recording is read again. */
const placeOf = (slice) => `${slice.row},${slice.start_ns}`;

const numbers = (text) => new Set((text ?? "").split(",").filter(Boolean).map(Number));

class TimelinePage {
  constructor(context, info) {
    Object.assign(this, {context, info, server: context.server, trace: context.trace});
    const {state} = context;
    this.settings = {
      folded: new Set((state.folded ?? "").split(";").filter(Boolean)),
      pinned: numbers(state.pin),
      hidden: numbers(state.hide),
      wide: state.wide === "1"
    };
    this.names = new NameStore(this.server, this.trace);
    this.details = h("aside", {
      class: "details",
      "aria-label": "details",
      tabindex: -1,
      hidden: true,
      onkeydown: (e) => {
        if (e.key === "Escape") this.timeline.rows.focus();
      }
    });
    this.areaBox = h("div", {class: "area", "aria-label": "selection", hidden: true});
    this.timeline = new Timeline(
        {server: this.server, traceNumber: this.trace, info, classes: context.shared.classes, names: this.names},
        this.settings, {
          window: (t0, t1) => this.saveWindow(t0, t1),
          chose: (slice) => this.choose(slice === null ? null : {slice}),
          area: (a, b) => this.select(a, b),
          key: (e) => this.key(e),
          fold: (line) => this.fold(line)
        });
    this.body =
        h("div", {class: "body"}, this.timeline.rows, splitter({
            axis: "x",
            label: "width of the details",
            size: () => this.details.offsetWidth,
            most: () => this.body.clientWidth - 240,
            resize: (px) => this.body.style.setProperty("--details", `${px}px`)
          }),
          this.details);
    this.element =
        h("div", {class: "timeline", id: "timeline"}, this.toolbar(), this.timeline.mini, this.body, splitter({
            axis: "y",
            label: "height of the sums",
            size: () => this.areaBox.offsetHeight,
            most: () => this.element.clientHeight - 240,
            resize: (px) => {
              this.areaBox.style.height = this.areaBox.style.maxHeight = `${px}px`;
            }
          }),
          this.areaBox);
    context.cleanup(() => clearTimeout(this.saving));
    context.refreshed((now) => this.refresh(now));
    this.restore(state);
  }

  toolbar() {
    this.find = h("input", {
      type: "search",
      id: "find",
      placeholder: "search names  ( / )",
      "aria-label": "search names",
      value: this.context.state.find ?? "",
      onkeydown: (e) => {
        if (e.key === "Enter") this.walkHits(e.shiftKey ? -1 : 1);
        if (e.key === "Escape") this.timeline.rows.focus();
        e.stopPropagation();
      },
      oninput: () => this.search(this.find.value)
    });
    this.hitText = h("span", {class: "muted", role: "status", style: {minWidth: "180px"}});
    const button = (text, label, go) => h("button", {"aria-label": label, title: label, onclick: go}, text);
    return h(
        "div", {class: "bar", role: "toolbar", "aria-label": "timeline"}, this.find,
        button("‹", "previous hit", () => this.walkHits(-1)), button("›", "next hit", () => this.walkHits(1)),
        this.hitText, h("span", {class: "grow"}), button("−", "zoom out", () => this.timeline.zoom(2)),
        button("+", "zoom in", () => this.timeline.zoom(0.5)), button("all", "the whole trace", () => this.whole()),
        button("tracks", "show and hide tracks", (e) => this.trackMenu(e.target)), button("wide", "taller rows", () => {
          this.settings.wide = !this.settings.wide;
          this.saveSettings();
        }), button("?", "all keys", openKeys));
  }

  restore(state) {
    const steps = this.info.steps;
    if (state.rank !== undefined) this.timeline.goToRank(state.rank);
    if (state.t0 !== undefined && state.t1 !== undefined)
      this.timeline.show(Number(state.t0), Number(state.t1));
    else if (state.step !== undefined) {
      const rank =
          state.rank === undefined ? null : this.info.ranks.findIndex((r) => String(r.number) === String(state.rank));
      const step = steps.find(([n, , , r]) => String(n) === state.step && (rank === null || rank < 0 || r === rank));
      if (step) {
        this.timeline.show(step[1] - (step[2] - step[1]) * 0.1, step[2] + (step[2] - step[1]) * 0.1);
        this.select(step[1], step[2]);
      }
    }
    if (state.s0 !== undefined && state.s1 !== undefined) this.select(Number(state.s0), Number(state.s1));
    if (state.at !== undefined) {
      const [row, at_ns] = state.at.split(",").map(Number);
      this.choose({row, at_ns}, false);
    } else if (state.slice !== undefined)
      this.choose({slice: Number(state.slice)}, false);
    if (state.find) this.search(state.find, state.t0 === undefined && state.step === undefined);
  }
  saveWindow(t0, t1) {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => State.set({t0: Math.round(t0), t1: Math.round(t1), step: undefined}), 250);
  }
  saveSettings() {
    State.set({
      folded: [...this.settings.folded].join(";") || undefined,
      pin: [...this.settings.pinned].join(",") || undefined,
      hide: [...this.settings.hidden].join(",") || undefined,
      wide: this.settings.wide ? "1" : undefined
    });
    this.timeline.arrange();
  }
  fold(line) {
    const {folded} = this.settings;
    if (folded.has(line.key))
      folded.delete(line.key);
    else
      folded.add(line.key);
    this.saveSettings();
  }
  trackMenu(button) {
    this.menu?.remove();
    if (this.menu?.open) {
      this.menu = null;
      return;
    }
    const toggle = (set, track) => () => {
      if (set.has(track))
        set.delete(track);
      else
        set.add(track);
      this.saveSettings();
    };
    this.menu =
        h("div", {
          class: "menu",
          role: "dialog",
          "aria-label": "tracks",
          style: {right: "12px", top: "40px", maxWidth: "min(480px, 94vw)"},
          onkeydown: (e) => {
            if (e.key === "Escape") {
              this.trackMenu(button);
              button.focus();
            }
          }
        },
          this.info.tracks.map(
              (track) =>
                  h("div", {style: {display: "flex", gap: "8px"}},
                    h("label", {style: {flex: "1"}}, h("input", {
                        type: "checkbox",
                        checked: !this.settings.hidden.has(track.track),
                        onchange: toggle(this.settings.hidden, track.track)
                      }),
                      `${this.rankOf(track)}${track.name || track.process} `,
                      h("span", {class: "muted"}, number(track.slices))),
                    h("label", {}, h("input", {
                        type: "checkbox",
                        checked: this.settings.pinned.has(track.track),
                        onchange: toggle(this.settings.pinned, track.track)
                      }),
                      "pin"))));
    this.menu.open = true;
    this.element.append(this.menu);
  }
  /* A recording that goes on was read again. */
  async refresh(info) {
    const moved = new Moved(this.info, info), {slice} = this, {pinned, hidden, folded} = this.settings;
    const move = (set, to) => {
      const kept = [...set].map(to).filter((v) => v !== undefined);
      set.clear();
      for (const v of kept) set.add(v);
    };
    await refresh(this.timeline, info, moved);
    this.info = info;
    move(pinned, (track) => moved.track(track));
    move(hidden, (track) => moved.track(track));
    move(folded, (key) => {
      const number = /^track (\d+)$/.exec(key);
      const track = number && moved.track(Number(number[1]));
      return !number ? key : track === undefined ? undefined : `track ${track}`;
    });
    this.saveSettings();
    if (this.timeline.area) this.select(...this.timeline.area);
    if (this.find.value) this.search(this.find.value);
    if (slice) await this.chooseAgain(slice, moved);
  }
  async chooseAgain(slice, moved) {
    const row = moved.row(slice.row);
    const now = row === undefined ?
        null :
        await this.server.call(
            "slice",
            {trace: this.trace, generation: this.info.generation, row, at_ns: slice.start_ns + moved.ns, reach_ns: 0});
    if (now?.name !== slice.name || now.start_ns !== slice.start_ns + moved.ns) {
      this.clear();
      return;
    }
    this.slice = this.timeline.selected = now;
    State.set({at: placeOf(now)});
    this.timeline.later();
  }
  rankOf(track) {
    return this.info.ranks.length > 1 ? `rank ${this.info.ranks[track.rank]?.number ?? track.rank} · ` : "";
  }
  whole() { this.timeline.show(0, this.info.end_ns, true); }

  /* ---- one slice ---- */
  /* which: {slice}, or {row, at_ns}; null: none. */
  async choose(which, push = true) {
    if (which === null) {
      this.clear();
      return;
    }
    try {
      const slice =
          await this.server.call("slice", {trace: this.trace, generation: this.info.generation || undefined, ...which});
      if (slice) this.showSlice(slice, push);
    } catch (error) {
      if (error.code !== "stale") this.openDetails(problem(error));
    }
  }
  showSlice(slice, push) {
    this.slice = slice;
    this.timeline.selected = slice;
    State.set({at: placeOf(slice), slice: undefined}, push);
    this.timeline.reveal(slice);
    announce(`${slice.name}, ${quantity(slice.dur_ns, "ns")}${
        slice.same_name ? `, ${slice.same_name.position + 1} of ${slice.same_name.count}` :
                          ""}${slice.step != null ? `, step ${slice.step}` : ""}`);
    this.openDetails(detailsView(slice, {
      classes: this.context.shared.classes,
      go: (ref) => this.choose({slice: ref.slice}),
      search: (name) => {
        this.find.value = name;
        this.search(name);
      },
      source: async (frame) => {
        const at = frameOf(frame);
        return at ? sourceView(this.server, this.trace, at.file, at.line) : null;
      }
    }));
  }
  /* Without one to walk from: the first in view, of the uppermost row in sight that has one. */
  async chooseFirst() {
    const {t0, t1, layout, sight} = this.timeline;
    for (const line of layout.lines.slice(sight.from, sight.past)) {
      if (line.kind !== "row" || !["cpu", "device", "async", "other"].includes(line.track.kind)) continue;
      const at_ns = Math.max(0, Math.ceil(t0));
      const slice = await this.server.call("slice", {
        trace: this.trace,
        generation: this.info.generation || undefined,
        row: line.row,
        at_ns,
        reach_ns: Math.max(0, Math.floor(t1) - at_ns)
      });
      if (!slice || slice.start_ns > t1 || slice.start_ns + slice.dur_ns < t0) continue;
      this.showSlice(slice, true);
      return;
    }
    announce("no slice is in view");
  }
  openDetails(...content) {
    this.details.hidden = false;
    this.body.classList.add("with-details");
    replace(
        this.details,
        h("button", {style: {float: "right"}, "aria-label": "close details", onclick: () => this.clear()}, "×"),
        content);
    this.timeline.later();
  }
  clear() {
    this.slice = this.timeline.selected = this.timeline.area = null;
    this.details.hidden = this.areaBox.hidden = true;
    this.body.classList.remove("with-details");
    State.set({at: undefined, slice: undefined, s0: undefined, s1: undefined});
    this.timeline.later();
  }

  /* ---- a window of time ---- */
  async select(start, end) {
    this.timeline.area = [start, end];
    this.timeline.later();
    const by = this.context.state.aggregate ?? "name";
    State.set({s0: Math.round(start), s1: Math.round(end)});
    this.areaBox.hidden = false;
    const round = (this.round = (this.round ?? 0) + 1);
    try {
      const median = this.medianStep(start, end), compared = median && this.context.state.vs === "1";
      const table = new Table(await this.server.call("aggregate", {
        trace: this.trace,
        start_ns: Math.round(start),
        end_ns: Math.round(end),
        by,
        limit: 500,
        ...(compared ? {other_start_ns: median[1], other_end_ns: median[2]} : {})
      }));
      if (round === this.round) {
        replace(this.areaBox, this.areaHead(table, start, end, by, median), tableView(table, {
                  id: "aggregate-table",
                  label: "selection",
                  first: ["change_ns", "other_ns"],
                  head: {other_ns: `in step ${median?.[0]}`, change_ns: "longer by"},
                  open: (row) => {
                    if (by === "name") {
                      this.find.value = row.name;
                      this.search(row.name);
                    }
                  }
                }));
        requestAnimationFrame(() => this.timeline.keepInSight()); /* the table takes room from the rows */
      }
    } catch (error) {
      if (round === this.round) replace(this.areaBox, problem(error));
    }
  }
  /* The step of middle length among those of the rank whose step is selected; null: no step is, or there are few. */
  medianStep(start, end) {
    const mine = this.info.steps.find(([, from, to]) => Math.abs(from - start) < 1 && Math.abs(to - end) < 1);
    const steps =
        this.info.steps.filter((step) => mine && step[3] === mine[3]).sort((a, b) => a[2] - a[1] - b[2] + b[1]);
    const median = steps[steps.length >> 1];
    return steps.length < 3 || median === mine ? null : median;
  }
  areaHead(table, start, end, by, median) {
    const choice =
        h("select", {
          "aria-label": "add up by",
          onchange: (e) => {
            State.set({aggregate: e.target.value});
            this.context.state.aggregate = e.target.value;
            this.select(start, end);
          }
        },
          ["name", "class", "category", "shape", "module", "line", "track", "step"].map(
              (value) => h("option", {value}, value)));
    choice.value = by;
    return h(
        "div", {class: "table-tools"}, h("b", {}, quantity(end - start, "ns")),
        h("span", {class: "muted"}, table.notes.slice(0, 2).join("; ")), h("label", {}, "by ", choice),
        median ? h("button", {
          "aria-pressed": String(this.context.state.vs === "1"),
          title: "the step of middle length",
          onclick: () => {
            this.context.state.vs = this.context.state.vs === "1" ? undefined : "1";
            State.set({vs: this.context.state.vs});
            this.select(start, end);
          }
        },
                   `against the median step, #${median[0]}`) :
                 null,
        h("button", {onclick: () => this.timeline.fit(start, end)}, "fit"),
        h("button", {onclick: () => copyText(toMarkdown(table, table.columns.map((_, i) => i), table.rows))},
          "copy as text"),
        h("button", {
          "aria-label": "close selection",
          onclick: () => {
            this.timeline.area = null;
            this.areaBox.hidden = true;
            State.set({s0: undefined, s1: undefined});
            this.timeline.later();
          }
        },
          "×"));
  }

  /* ---- search ---- */
  async search(text, jump = false) {
    const round = (this.searchRound = (this.searchRound ?? 0) + 1);
    State.set({find: text || undefined});
    this.found = null;
    if (!text) {
      this.timeline.highlight = null;
      this.hitText.textContent = "";
      this.timeline.later();
      return;
    }
    try {
      const found = await this.server.call("search", {
        trace: this.trace,
        text,
        kind: /^\/.*\/$/.test(text) ? "regex" : "contains",
        ...(/^\/.*\/$/.test(text) ? {text: text.slice(1, -1)} : {}),
        limit: 1
      });
      if (round !== this.searchRound) return;
      this.found = found;
      this.timeline.highlight = new Set(found.names.map((name) => name.name));
      this.hitText.textContent = found.count ?
          `${number(found.count)} hit${found.count === 1 ? "" : "s"}, ${quantity(found.total_ns, "ns")}` :
          "no hit";
      announce(this.hitText.textContent);
      this.timeline.later();
      if (jump && found.hits[0]) this.choose({slice: found.hits[0].slice}, false);
    } catch (error) {
      if (round === this.searchRound) this.hitText.textContent = error.message;
    }
  }
  async walkHits(way) {
    if (!this.find.value) return;
    const text = this.find.value, regex = /^\/.*\/$/.test(text);
    const from = this.slice ? {after: this.slice.slice} : {};
    const found = await this.server.call("search", {
      trace: this.trace,
      text: regex ? text.slice(1, -1) : text,
      kind: regex ? "regex" : "contains",
      backwards: way < 0,
      limit: 1,
      ...from
    });
    const hit = found.hits[0];
    if (!hit) {
      if (this.slice) {
        this.slice = null;
        this.walkHits(way);
      }
      return;
    }
    this.hitText.textContent = `${number(found.position + 1)} of ${number(found.count)}`;
    this.choose({slice: hit.slice});
  }

  /* ---- keys ---- */
  key(e) {
    if (e.ctrlKey || e.metaKey) return;
    const t = this.timeline, near = this.slice?.near ?? {}, go = (ref) => {
      if (ref) this.choose({slice: ref.slice});
    };
    const byCode = {KeyW: () => t.zoom(0.5), KeyS: () => t.zoom(2), KeyA: () => t.pan(-0.15), KeyD: () => t.pan(0.15)};
    const byKey = {
      ArrowLeft: () =>
          (e.altKey       ? t.undo() :
               this.slice ? go(near.previous) :
                            t.pan(-0.15)),
      ArrowRight: () => (this.slice ? go(near.next) : t.pan(0.15)),
      ArrowUp: () => (this.slice ? go(this.slice.parents?.[0]) : this.chooseFirst()),
      ArrowDown: () => (this.slice ? go(near.first_child) : this.chooseFirst()),
      Enter: () => (this.slice ? this.details.focus() : this.chooseFirst()),
      ".": () => go(near.next_same_name),
      ",": () => go(near.previous_same_name),
      "[": () => this.slice && go(this.slice.causes?.[0]),
      "]": () => this.slice && go(this.slice.effects?.[0]),
      n: () => this.walkSteps(1),
      p: () => this.walkSteps(-1),
      0: () => this.whole(),
      f: () =>
          (this.slice ? t.fit(this.slice.start_ns, this.slice.start_ns + this.slice.dur_ns) :
                        t.area && t.fit(...t.area)),
      m: () => this.slice && this.select(this.slice.start_ns, this.slice.start_ns + this.slice.dur_ns),
      "/": () => this.find.focus(),
      "?": openKeys,
      Escape: () => this.clear(),
    };
    const action = byKey[e.key] ?? byCode[e.code];
    if (!action) return;
    action();
    e.preventDefault();
  }
  walkSteps(way) {
    const middle = (this.timeline.t0 + this.timeline.t1) / 2, steps = this.info.steps;
    const at = steps.findIndex(([, start, end]) => middle >= start && middle < end);
    const next = steps[at < 0 ? (way > 0 ? 0 : steps.length - 1) : Math.max(0, Math.min(steps.length - 1, at + way))];
    if (next) {
      this.timeline.show(next[1] - (next[2] - next[1]) * 0.1, next[2] + (next[2] - next[1]) * 0.1, true);
      announce(`step ${next[0]}, ${quantity(next[2] - next[1], "ns")}`);
    }
  }
}
