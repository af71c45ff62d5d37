/* main: the frame of the page: top line, navigation, the page that the URL names, loading, theme, command box. */

import {Answers, Server} from "./model/api.js";
import {findEmpty} from "./model/empty.js";
import {number, size} from "./model/format.js";
import * as State from "./model/state.js";
import * as ask from "./pages/ask.js";
import * as diff from "./pages/diff.js";
import * as findings from "./pages/findings.js";
import * as memory from "./pages/memory.js";
import * as modules from "./pages/modules.js";
import * as overview from "./pages/overview.js";
import * as ranks from "./pages/ranks.js";
import * as roofline from "./pages/roofline.js";
import * as stacks from "./pages/stacks.js";
import * as tables from "./pages/tables.js";
import * as timeline from "./pages/timeline.js";
import {openCommand} from "./view/command.js";
import {h, hideTip, problem, replace} from "./view/dom.js";
import {openShare} from "./view/share.js";

/* As the navigation has them. */
const GROUPS = [
  {overview, findings, timeline}, {
    operators: tables.operators,
    kernels: tables.kernels,
    modules,
    stacks,
    memory,
    ranks,
    roofline,
    diff,
    losses: tables.losses,
  },
  {ask: ask.ask, sql: ask.sql}
];
const PAGES = Object.assign({}, ...GROUPS);
const FEW_SLICES = 100000; /* of a larger trace, questions are not asked for the navigation's sake */

const unknown = (name) => ({
  title: "Unknown page",
  draw: () =>
      h("div", {class: "sheet"}, h("div", {class: "pagehead"}, h("h1", {}, "There is no such page")),
        h("p", {class: "empty"}, `The address names the page "${name.slice(0, 60)}". `,
          h("a", {href: State.link("overview")}, "Overview")))
});

/* When what stands in the document now is on the screen. */
const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

class App {
  constructor(server) {
    this.server = server;
    this.answers = new Answers(server);
    this.shared = {classes: ["other"], traces: []};
    this.infos = new Map();
    this.round = 0;
    this.cleanups = [];
    this.stated = new Promise((resolve) => {
      this.isStated = resolve;
    });
    this.theme();
    this.drawNav();
    server.on((event) => this.event(event));
    State.subscribe((_, how) => {
      if (how === "moved" || State.get().page !== this.shownPage)
        this.show();
      else
        this.drawNav();
    });
    addEventListener("keydown", (e) => this.key(e));
    this.show();
  }

  get trace() { return Math.min(Number(State.get().trace ?? 0), Math.max(0, this.shared.traces.length - 1)); }

  event(event) {
    if (event.event === "disconnected") {
      this.banner("The server does not answer; trying again. Is tachograph view still running?");
      return;
    }
    if (event.event === "connected") {
      this.banner(null);
      return;
    }
    if (event.event !== "state") return;
    const before = this.shared.traces[this.trace];
    Object.assign(this.shared, event.result);
    this.isStated();
    const now = this.shared.traces[this.trace];
    if (before && now && before.generation !== now.generation) {
      this.answers.forget();
      this.infos.clear();
      if (before.generation)
        this.refresh();
      else
        this.show();
    }
    if (now?.state === "ready" && before?.state !== "ready") this.loadFacts();
    this.stateAt = performance.now();
    this.remark(now?.remark);
    if (now?.recording && !this.ticking) this.ticking = setInterval(() => this.drawBadge(), 1000);
    this.drawTop();
  }

  /* ---- a recording that goes on ---- */
  /* It was read again: the page takes what is new and stays where it is. One at a time, and not under someone's hands.
   */
  async refresh() {
    this.refreshDue = true;
    if (this.refreshing) return;
    this.refreshing = true;
    while (this.refreshDue) {
      if (this.isInUse()) {
        await new Promise((done) => setTimeout(done, 300));
        continue;
      }
      this.refreshDue = false;
      this.loadFacts();
      try {
        await (this.refreshPage ? this.refreshPage(await this.info()) : this.redrawInPlace());
      } catch (error) {
        this.refreshDue = error.code === "stale"; /* the next reading has come meanwhile */
      }
    }
    this.refreshing = false;
  }
  isInUse() {
    const page = document.getElementById("page"), focus = document.activeElement;
    return Boolean(
        document.querySelector("dialog[open]") || (page.contains(focus) && focus.matches("input,textarea,select")) ||
        (!getSelection().isCollapsed && page.contains(getSelection().anchorNode)));
  }
  async redrawInPlace() {
    const round = this.round, page = PAGES[this.shownPage], box = document.getElementById("page");
    if (!page || page.stays) return;
    const element = await page.draw(this.context());
    await Promise.allSettled([...element.querySelectorAll("section")].map((section) => section.done));
    if (round !== this.round) return;
    const opened = [...box.querySelectorAll(".toggle-table[aria-expanded=true]")].map((b) => b.closest("[id]").id);
    const scrolled = [box, ...box.querySelectorAll("[id]")]
                         .filter((e) => e.scrollTop || e.scrollLeft)
                         .map((e) => [e.id, e.scrollTop, e.scrollLeft]);
    const focus = box.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
    replace(box, element);
    for (const id of opened) document.getElementById(id)?.querySelector(".toggle-table")?.click();
    for (const [id, top, left] of scrolled) document.getElementById(id)?.scrollTo({top, left, behavior: "instant"});
    if (focus) document.getElementById(focus)?.focus({preventScroll: true});
  }
  remark(text) {
    if (text === this.remarked) return;
    this.remarked = text;
    document.querySelector(".remark")?.remove();
    if (text) document.getElementById("top").after(h("div", {class: "banner remark", role: "status"}, text));
  }
  drawBadge() {
    const now = this.shared.traces[this.trace], badge = document.getElementById("recording");
    if (!now?.recording) {
      clearInterval(this.ticking);
      this.ticking = null;
    }
    if (badge && now?.recording) badge.textContent = this.badgeText(now);
  }
  badgeText(now) {
    if (now.read_ms_ago === null) return "recording · waiting for its first operation";
    const seconds = Math.floor((now.read_ms_ago + performance.now() - this.stateAt) / 1000);
    return ["recording", this.steps, seconds < 2 ? "now" : `${seconds} s ago`].filter(Boolean).join(" · ");
  }

  info() {
    const trace = this.trace;
    if (!this.infos.has(trace)) {
      const promise = this.server.call("tracks", {trace});
      promise.catch(() => this.infos.delete(trace));
      this.infos.set(trace, promise);
    }
    return this.infos.get(trace);
  }

  /* ---- top line ---- */
  async loadFacts() {
    const trace = this.trace;
    const facts = await Promise
                      .all([
                        overview.askFacts(this.answers, trace), tables.losses.askAll(this.answers, trace),
                        findings.askAll(this.answers, trace).catch(() => null)
                      ])
                      .catch(() => null);
    if (!facts || trace !== this.trace) return;
    const [summary, losses, found] = facts;
    const rows = summary.records(),
          sum = (quantity) => rows.filter((row) => row.quantity === quantity && row.group === "summary")
                                  .reduce((total, row) => total + (row.value ?? 0), 0);
    const several = new Set(rows.map((row) => row.rank)).size;
    /* Ranks do the same steps. */
    const steps = Math.max(
        0, ...rows.filter((row) => row.quantity === "steps" && row.group === "summary").map((row) => row.value ?? 0));
    this.steps = `${number(steps)} step${steps === 1 ? "" : "s"}`;
    this.facts = [
      this.steps, several > 1 ? `${several} ranks` : null, `${number(sum("slices"))} slices`
    ].filter(Boolean).join(" · ");
    this.lost = losses.rows.length;
    this.found = found ? found.rows.length : null;
    this.drawTop();
    this.drawNav();
    if (sum("slices") > FEW_SLICES || this.shared.traces[trace]?.recording) return;
    await painted();
    const empty = await findEmpty(this.answers, trace, this.shared.traces.length, PAGES);
    if (trace !== this.trace) return;
    this.empty = empty;
    this.drawNav();
  }
  /* Another trace is shown: what the top line and the navigation say is of the one before. */
  forgetFacts() {
    this.steps = this.facts = this.lost = this.found = this.empty = undefined;
    this.drawTop();
    if (this.shared.traces[this.trace]?.state === "ready") this.loadFacts();
  }
  /* Bytes read of bytes, and how long the rest takes at the rate so far. */
  reading(now) {
    const text = `${size(now.bytes_done)}${now.bytes ? ` of ${size(now.bytes)}` : ""} read`, at = performance.now();
    if (this.begin?.trace !== now.trace) this.begin = {trace: now.trace, at, bytes: now.bytes_done};
    const seconds = (at - this.begin.at) / 1000, rate = (now.bytes_done - this.begin.bytes) / seconds;
    if (!now.bytes || seconds < 0.5 || !(rate > 0)) return text;
    return `${text}, about ${number(Math.ceil((now.bytes - now.bytes_done) / rate))} s left`;
  }
  drawTop() {
    const now = this.shared.traces[this.trace];
    const progress = !now || now.state === "ready" ? null :
        now.state === "failed"                     ? now.error?.text ?? "could not be read" :
        now.state === "indexing"                   ? "building the timeline; tables are there" :
                                                     this.reading(now);
    const choice = this.shared.traces.length > 1 ?
        h("select", {
          "aria-label": "trace",
          onchange: (e) => {
            location.hash = State.link(State.get().page, {trace: e.target.value});
          }
        },
          this.shared.traces.map((t) => h("option", {value: t.trace, selected: t.trace === this.trace}, t.name))) :
        h("b", {}, now?.name ?? "tachograph");
    if (choice.value !== undefined) choice.value = String(this.trace);
    replace(
        document.getElementById("top"),
        h("a", {
          class: "skip",
          href: "#page",
          onclick: (e) => {
            e.preventDefault(); /* what is behind # names a page */
            (document.querySelector(".timeline .rows") ?? document.getElementById("page")).focus();
          }
        },
          "skip to the page"),
        h("button", {
          id: "menu-button",
          "aria-label": "pages",
          onclick: () => document.getElementById("nav").classList.toggle("open")
        },
          "☰"),
        h("span", {class: "trace", title: now?.path}, choice),
        h("span", {class: "facts muted", title: now?.note}, [this.facts, now?.note].filter(Boolean).join(" · ")),
        h("span", {class: "space"}),
        now?.recording ? h("span", {id: "recording", class: "recording"}, this.badgeText(now)) : null,
        progress && !now?.recording ?
            h("span", {role: "status", class: now.state === "failed" ? "bad" : "muted"}, progress) :
            this.lost === undefined ? null :
            this.lost               ? h("a", {class: "health bad", href: State.link("losses")},
                                        `${number(this.lost)} kind${this.lost === 1 ? "" : "s"              } of loss`) :
                                      h("span", {class: "health muted"}, "no data lost"),
        h("button", {onclick: () => this.share(), disabled: now?.state !== "ready"}, "share"),
        h("button", {onclick: () => this.command(), title: "Ctrl+K"}, "search"),
        h("button", {"aria-label": "theme", title: "system, light or dark", onclick: () => this.nextTheme()},
                        {light: "☀", dark: "☾"}[State.get().theme] ?? "◐"));
    if (now?.state === "reading" && now.bytes)
      document.getElementById("top").append(h("div", {
        class: "progress",
        role: "progressbar",
        "aria-label": "reading",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": Math.floor((100 * now.bytes_done) / now.bytes),
        style: {width: `${(100 * now.bytes_done) / now.bytes}%`}
      }));
    document.title = now ? `${now.name} – tachograph` : "tachograph";
  }
  drawNav() {
    const count = {findings: this.found, losses: this.lost};
    replace(
        document.getElementById("nav"),
        GROUPS.map(
            (group, i) =>
                [i ? h("hr") : null,
                 Object.keys(group).map(
                     (name) => h(
                         "a", {
                           href: State.link(name),
                           "aria-current": State.get().page === name ? "page" : null,
                           class: this.empty?.has(name) ? "empty-page" : null,
                           title: this.empty?.get(name)
                         },
                         PAGES[name].title, count[name] ? h("span", {class: "count"}, number(count[name])) : null))]));
  }
  banner(text) {
    document.querySelector(".banner:not(.remark)")?.remove();
    if (text) document.getElementById("top").after(h("div", {class: "banner", role: "alert"}, text));
  }

  /* ---- pages ---- */
  async show() {
    const round = ++this.round, state = State.get(),
          page = Object.hasOwn(PAGES, state.page) ? PAGES[state.page] : unknown(state.page);
    hideTip();
    if (this.shownTrace !== undefined && this.shownTrace !== this.trace) this.forgetFacts();
    for (const end of this.cleanups.splice(0)) end();
    this.shownPage = state.page;
    this.drawNav();
    this.theme();
    document.getElementById("nav").classList.remove("open");
    const box = document.getElementById("page");
    box.classList.toggle("fill", Boolean(page.fill));
    document.body.dataset.ready = "false";
    if (!box.childElementCount || box.dataset.page !== state.page)
      replace(box, h("p", {class: "loading"}, "reading …"));
    box.dataset.page = state.page;
    this.refreshPage = null;
    let element;
    await this.stated; /* names of classes, list of traces */
    this.shownTrace = this.trace;
    try {
      element = await page.draw(this.context());
    } catch (error) {
      element = h("div", {class: "sheet"}, problem(error));
    }
    if (round !== this.round) return;
    replace(box, element);
    await Promise.allSettled([...box.querySelectorAll("section")].map((section) => section.done));
    await painted();
    if (round === this.round) document.body.dataset.ready = "true";
  }

  /* What a page gets. refreshed(f): f(info) takes in what is new of a recording that goes on; without it the page is
   * drawn again. */
  context() {
    return {
      server: this.server,
      answers: this.answers,
      trace: this.trace,
      state: {...State.get()},
      shared: this.shared,
      several: () => overview.askFacts(this.answers, this.trace)
                         .then((table) => new Set(table.records().map((row) => row.rank)).size > 1, () => false),
      info: () => this.info(),
      redraw: () => this.show(),
      cleanup: (f) => this.cleanups.push(f),
      refreshed: (f) => {
        this.refreshPage = f;
      }
    };
  }

  theme() {
    const {theme} = State.get();
    if (theme)
      document.documentElement.dataset.theme = theme;
    else
      delete document.documentElement.dataset.theme;
  }
  nextTheme() {
    State.set({theme: {undefined: "light", light: "dark", dark: undefined}[State.get().theme]});
    this.show();
    this.drawTop();
  }

  key(e) {
    if ((e.ctrlKey || e.metaKey) && e.key === "k") {
      this.command();
      e.preventDefault();
      return;
    }
    if (e.target.closest?.("input,textarea,select,dialog,.timeline .rows")) return;
    if (e.key === "/") {
      this.command();
      e.preventDefault();
    }
  }
  share() { openShare({server: this.server, trace: this.trace, names: this.shared.traces.map((t) => t.name)}); }
  command() {
    const go = (hash) => () => {
      location.hash = hash;
    };
    openCommand([
      async (text) => (
          text.startsWith(":") ? [{text: text.slice(1), what: "SQL", go: go(State.link("sql", {sql: text.slice(1)}))}] :
                                 []),
      async (text) => Object.entries(PAGES)
                          .filter(([, page]) => page.title.toLowerCase().includes(text.toLowerCase()))
                          .map(([name, page]) => ({text: page.title, what: "page", go: go(State.link(name))})),
      async (text) => {
        if (text.length < 2 || text.startsWith(":")) return [];
        const found = await this.server.call("search", {trace: this.trace, text, limit: 1});
        return found.names.slice(0, 20).map((name) => ({
                                              text: name.text,
                                              what: `${number(name.count)} on the timeline`,
                                              go: go(State.link("timeline", {find: name.text}))
                                            }));
      },
      async (text) => {
        const rows =
            (await this.answers.ask(this.trace, "questions")).records().filter((row) => row.kind === "question");
        return rows.filter((row) => text && `${row.question} ${row.meaning}`.toLowerCase().includes(text.toLowerCase()))
            .slice(0, 12)
            .map((row) => ({
                   text: `${row.question}: ${row.meaning}`,
                   what: "question",
                   go: go(State.link("ask", {q: row.question}))
                 }));
      },
    ]);
  }
}

globalThis.tachograph = new App(globalThis.tachographSource ?? new Server());
