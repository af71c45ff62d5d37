/* command: the box behind ⌘K, and the sheet of keys. */

import {h, replace} from "./dom.js";

/* sources: functions (text) → promise of [{text, what, go()}]; results appear as they come. */
export function openCommand(sources) {
  const list = h("div", {role: "listbox", id: "command-list", "aria-label": "results"});
  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "command-list",
    "aria-label": "search or command",
    placeholder: "a name, a page, a question; :SELECT … for SQL"
  });
  const box = h("dialog", {class: "command"}, input, list);
  let items = [], at = 0, round = 0;
  const draw = () => replace(
      list,
      items.map(
          (item, i) => h(
              "div", {role: "option", id: `command-${i}`, "aria-selected": String(i === at), onclick: () => choose(i)},
              h("span", {class: "text"}, item.text), h("span", {class: "what"}, item.what))));
  const choose = (i) => {
    const item = items[i];
    if (item) {
      box.close();
      item.go();
    }
  };
  const search = async () => {
    const mine = ++round, text = input.value;
    items = [];
    at = 0;
    await Promise.all(sources.map(async (source) => {
      const found = await source(text).catch(() => []);
      if (mine !== round) return;
      items.push(...found);
      draw();
    }));
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      at = Math.max(0, Math.min(items.length - 1, at + (e.key === "ArrowDown" ? 1 : -1)));
      draw();
      input.setAttribute("aria-activedescendant", `command-${at}`);
      e.preventDefault();
    }
    if (e.key === "Enter") {
      choose(at);
      e.preventDefault();
    }
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  search();
}

const KEYS = [
  ["W / S", "half of the time in view, twice of it"],
  ["A / D", "pan left / right"],
  ["wheel", "scroll tracks; with Ctrl zoom at the cursor, with Shift pan"],
  ["drag", "pan"],
  ["Shift + drag, or drag in the ruler", "select a window and add up what is in it"],
  ["double click", "fit a slice"],
  ["← → ↑ ↓", "previous, next, outer, inner slice of the selected one; ↑ ↓ without one: the first in view"],
  ["Enter", "the first slice in view; with one selected: into its details, Esc comes back"],
  ["f", "fit the selected slice or window"],
  ["m", "select the time of the selected slice"],
  [". ,", "next, previous of the same name"],
  ["[ ]", "what launched it, what it launched"],
  ["n p", "next, previous step"],
  ["0", "the whole trace"],
  ["Alt + ←", "undo the last zoom"],
  ["/", "search names"],
  ["Ctrl + K", "command box"],
  ["Esc", "clear the selection"],
  ["?", "this list"],
];
export function openKeys() {
  const close = h("button", {onclick: () => box.close()}, "close");
  const box = h(
      "dialog", {class: "help", "aria-label": "keys"}, h("h1", {}, "Keys of the timeline"),
      h("table", {}, KEYS.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what)))), close);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
