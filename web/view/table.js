/* table: the one table of all pages. Only the rows in sight exist in the document. Click a head to sort (shift adds a
 * key), type into the row below to filter, arrows walk, Enter opens, c copies as Markdown. */

import {number, percent, scaleOf, shorten, shortenAll} from "../model/format.js";
import {isMangled} from "../model/mangled.js";
import {filterRows, numberFilter, orderOf, sortKeys, sortRows, textFilter, toCsv, toMarkdown} from "../model/table.js";

import {announce, copyText, h, replace} from "./dom.js";

const ROW = 24;
const MOST_COMPARED = 5000; /* long names of a column that are told apart */
const AHEAD = 12;           /* rows kept above and below those in sight */

/* options: {id, label, columns: names to show (default: those that tell something), open(record, event), sort:
 * "-total_ns", filters: {name: text}, first: names of columns to show first, wide: names of those of sentences, for
 * short tables, changed({sort, filters}), tall, most: longest name, head: {column: title}, cell: {column: (value,
 * record) => node} } */
export function tableView(table, options = {}) { return new TableView(table, options).element; }

class TableView {
  constructor(table, options) {
    Object.assign(this, {table, options});
    this.columns = putFirst(table, chooseColumns(table, options.columns), options.first ?? []);
    this.order = orderOf(table, this.columns);
    this.sort = options.sort ?? "";
    this.filters = {...(options.filters ?? {})};
    this.cursor = -1;
    this.scales = new Map(this.columns.map((i) => [i, scaleOf(table.columns[i].unit, table.largest(i))]));
    this.body = h("tbody", {});
    this.count = h("span", {class: "muted"});
    this.heads = h("thead", {});
    this.table_ =
        h("table",
          {role: "grid", "aria-label": options.label ?? table.question, tabindex: 0, onkeydown: (e) => this.key(e)},
          this.heads, this.body);
    this.box = h("div", {class: options.tall ? "table tall" : "table", id: options.id}, this.table_);
    this.box.addEventListener("scroll", () => this.draw(), {passive: true});
    this.element =
        h("div", {
          class: "table-view",
          style: options.tall ? {display: "flex", flexDirection: "column", minHeight: "0", flex: "1"} : {}
        },
          this.tools(), this.box);
    this.drawHeads();
    this.arrange();
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  tools() {
    const menu = h("div", {class: "menu", hidden: true});
    const toggle =
        h("button", {
          "aria-haspopup": "true",
          onclick: () => {
            menu.hidden = !menu.hidden;
            if (!menu.hidden) this.fillMenu(menu);
          }
        },
          "columns");
    menu.addEventListener("keydown", (e) => {
      if (e.key === "Escape") {
        menu.hidden = true;
        toggle.focus();
      }
    });
    return h(
        "div", {class: "table-tools", role: "group", "aria-label": "table"}, this.count, h("span", {class: "grow"}),
        h("span", {style: {position: "relative"}}, toggle, menu),
        h("button", {onclick: () => copyText(toMarkdown(this.table, this.columns, this.rows))}, "copy Markdown"),
        h("button", {onclick: () => copyText(toCsv(this.table, this.columns, this.rows))}, "copy CSV"));
  }
  fillMenu(menu) {
    replace(
        menu,
        this.table.columns.map(
            (column, i) =>
                h("label", {}, h("input", {
                    type: "checkbox",
                    checked: this.columns.includes(i),
                    onchange: (e) => this.toggleColumn(i, e.target.checked)
                  }),
                  column.name)));
    menu.style.right = "0";
  }
  toggleColumn(i, on) {
    this.columns = this.table.columns.map((_, k) => k).filter((k) => (k === i ? on : this.columns.includes(k)));
    if (!this.scales.has(i)) this.scales.set(i, scaleOf(this.table.columns[i].unit, this.table.largest(i)));
    this.drawHeads();
    this.arrange();
  }

  title(i) {
    const column = this.table.columns[i], scale = this.scales.get(i);
    const name = this.options.head?.[column.name] ?? column.name.replace(/_(ns|bytes|pct)$/, "").replaceAll("_", " ");
    return scale.unit ? `${name}, ${scale.unit}` : name;
  }
  drawHeads() {
    const chosen = sortKeys(this.table, this.sort), keys = chosen.length ? chosen : this.order ? [this.order] : [];
    const head = (i) => {
      const key = keys.find(([at]) => at === i);
      const numeric = this.table.isNumeric(i);
      return h(
          "th", {
            scope: "col",
            class: numeric ? "num" : null,
            "aria-sort": key ? (key[1] ? "descending" : "ascending") : "none",
            title: this.table.columns[i].meaning
          },
          h("button", {onclick: (e) => this.sortBy(i, e.shiftKey)}, this.title(i),
            h("span", {class: "sort", "aria-hidden": "true"}, key ? (key[1] ? " ↓" : " ↑") : "")));
    };
    const filter = (i) => {
      const name = this.table.columns[i].name;
      return h("th", {}, h("input", {
                 type: "search",
                 "aria-label": `filter ${name}`,
                 placeholder: this.table.isNumeric(i) ? "> 1ms" : "text or /re/",
                 value: this.filters[name] ?? "",
                 oninput: (e) => this.filterBy(name, e.target.value)
               }));
    };
    replace(
        this.heads, h("tr", {}, this.columns.map(head)),
        this.table.rows.length > 8 ? h("tr", {class: "filters"}, this.columns.map(filter)) : null);
  }
  sortBy(i, add) {
    const name = this.table.columns[i].name;
    const keys =
        add ? this.sort.split(",").filter(Boolean) : this.sort.split(",").filter((k) => k === name || k === "-" + name);
    const at = keys.findIndex((k) => k === name || k === "-" + name);
    const first = this.table.isNumeric(i) ? "-" + name : name;
    if (at < 0)
      keys.push(first);
    else if (keys[at] === first)
      keys[at] = first.startsWith("-") ? name : "-" + name;
    else
      keys.splice(at, 1);
    this.sort = keys.join(",");
    this.drawHeads();
    this.arrange();
    this.tell();
  }
  filterBy(name, text) {
    this.filters[name] = text;
    this.arrange();
    this.tell();
  }
  tell() { this.options.changed?.({sort: this.sort, filters: this.filters}); }

  arrange() {
    const tests = [], unread = [];
    for (const [name, text] of Object.entries(this.filters)) {
      const at = this.table.index.get(name);
      if (!text || at === undefined) continue;
      const test = this.table.isNumeric(at) ? numberFilter(text, this.scales.get(at)?.divisor ?? 1) : textFilter(text);
      if (test)
        tests.push([at, test]);
      else
        unread.push(text);
    }
    const {kept, left} = tests.length ? filterRows(this.table.rows, tests) : {kept: this.table.rows, left: 0};
    this.rows = sortRows(kept, sortKeys(this.table, this.sort));
    this.count.textContent = (tests.length ? `${number(this.rows.length)} of ${number(this.table.rows.length)} rows` :
                                             `${number(this.rows.length)} row${this.rows.length === 1 ? "" : "s"}`) +
        (left ? `; the filter takes too long, ${number(left)} rows were not looked at` : "") +
        unread.map((text) => `; the filter ${text} is not understood`).join("");
    this.bars = sortKeys(this.table, this.sort)
                    .slice(0, 1)
                    .filter(([at]) => this.table.isNumeric(at))
                    .map(([at]) => ({at, most: this.table.largest(at)}))[0];
    this.cursor = Math.min(this.cursor, this.rows.length - 1);
    this.drawn = null;
    this.table_.setAttribute("aria-rowcount", this.rows.length);
    this.draw();
  }

  draw() {
    const view = this.box.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - AHEAD);
    const past = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + view) / ROW) + AHEAD);
    const all = this.rows.length <= 80;
    const [from, to] = all ? [0, this.rows.length] : [first, past];
    if (this.drawn && this.drawn[0] === from && this.drawn[1] === to && this.drawn[2] === this.cursor) return;
    this.drawn = [from, to, this.cursor];
    const space = (rows) =>
        (rows > 0 ?
             h("tr", {"aria-hidden": "true", style: {height: `${rows * ROW}px`}},
               h("td", {colspan: this.columns.length, style: {height: `${rows * ROW}px`, padding: "0", border: "0"}})) :
             null);
    const lines = [];
    for (let k = from; k < to; k++) lines.push(this.line(k));
    replace(this.body, space(from), lines, space(this.rows.length - to));
  }
  line(k) {
    const row = this.rows[k];
    const opens = this.options.open;
    return h(
        "tr", {
          "aria-rowindex": k + 1,
          "aria-selected": k === this.cursor ? "true" : null,
          style: opens ? {cursor: "pointer"} : {},
          onclick: (e) => {
            this.cursor = k;
            if (opens && !e.target.closest("a,button,input")) opens(this.table.record(row), e);
            this.draw();
          }
        },
        this.columns.map((i) => this.cell(row, i)));
  }
  /* A text of a column, short; two that differ stay apart. */
  short(i, text) {
    const most = this.options.most ?? 64;
    if (text.length <= most && !isMangled(text)) return text;
    this.shorts = this.shorts ?? new Map();
    if (!this.shorts.has(i)) {
      const long = this.table.rows.map((row) => row[i])
                       .filter((value) => typeof value === "string" && (value.length > most || isMangled(value)));
      this.shorts.set(i, shortenAll(long.slice(0, MOST_COMPARED), most));
    }
    return this.shorts.get(i).get(text) ?? shorten(text, most);
  }
  cell(row, i) {
    const column = this.table.columns[i], value = row[i], numeric = this.table.isNumeric(i);
    const made = this.options.cell?.[column.name]?.(value, this.table.record(row));
    const text = column.type === "text" && value !== null ? this.short(i, String(value)) :
                                                            cellText(value, column, this.scales.get(i), 64);
    const bar = this.bars?.at === i && this.bars.most > 0 && typeof value === "number" ?
        h("span", {class: "inbar", style: {width: `${(100 * Math.abs(value)) / this.bars.most}%`}}) :
        null;
    const whole = !numeric && value !== null && String(value) !== text ? String(value) : null;
    const kind = this.options.wide?.includes(column.name) ? "name wide" : "name";
    return h("td", {class: numeric ? "num" : kind, title: whole}, bar, h("span", {class: "cell"}, made ?? text));
  }

  key(e) {
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity};
    if (e.target.closest("input")) return;
    if (e.key in moves) {
      this.cursor = Math.max(0, Math.min(this.rows.length - 1, (this.cursor < 0 ? -1 : this.cursor) + moves[e.key]));
      const top = this.cursor * ROW, heads = this.heads.offsetHeight;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + ROW + heads > this.box.scrollTop + this.box.clientHeight)
        this.box.scrollTop = top + ROW + heads - this.box.clientHeight;
      this.draw();
      if (this.rows[this.cursor])
        announce(this.columns.slice(0, 4)
                     .map(
                         (i) => `${this.table.columns[i].name} ${
                             cellText(this.rows[this.cursor][i], this.table.columns[i], this.scales.get(i), 64)}`)
                     .join(", "));
      e.preventDefault();
    } else if (e.key === "Enter" && this.cursor >= 0 && this.options.open) {
      this.options.open(this.table.record(this.rows[this.cursor]), e);
      e.preventDefault();
    } else if (e.key === "c" && !e.ctrlKey && !e.metaKey) {
      copyText(toMarkdown(this.table, this.columns, this.rows));
      e.preventDefault();
    }
  }
}

/* A moment of the file, 19 digits long, says nothing to a reader; the menu shows it. */
const MOMENT = /^(ts|start|end|first|last)_ns$/;
function chooseColumns(table, names) {
  const telling = new Set(table.telling());
  const wanted = names ? names.map((name) => table.index.get(name)).filter((i) => i !== undefined) :
                         table.columns.map((_, i) => i);
  const shown = wanted.filter((i) => telling.has(i) && (names || !MOMENT.test(table.columns[i].name)));
  return shown.length ? shown : wanted;
}

/* What decides comes behind the names in front: the last columns of a wide table are not seen. */
function putFirst(table, columns, names) {
  const first = names.map((name) => table.index.get(name)).filter((i) => columns.includes(i));
  const rest = columns.filter((i) => !first.includes(i)),
        at = rest.findIndex((i) => table.isNumeric(i) && !/^(rank|place|step)$/.test(table.columns[i].name));
  return at < 0 ? [...rest, ...first] : [...rest.slice(0, at), ...first, ...rest.slice(at)];
}

export function cellText(value, column, scale, most) {
  if (value === null || value === undefined) return "";
  if (column.type === "bool") return value ? "yes" : "no";
  if (column.type === "text") return shorten(String(value), most);
  if (column.unit === "%") return percent(Number(value)).replace(" %", "");
  if (!scale || scale.divisor === 1) return number(value);
  return number(Number(value) / scale.divisor);
}

/* Notes and losses below a table. said: what stands on the page already; what is shown now is added. */
export function notesView(table, said = new Set()) {
  const losses = table.losses.map((loss) => `${loss.name}: ${number(loss.count)} – ${loss.meaning}`);
  const lines = [...table.notes, ...losses].filter((line) => !said.has(line));
  for (const line of lines) said.add(line);
  return lines.length ? h("ul", {class: "notes"}, lines.map((line) => h("li", {}, line))) : null;
}
