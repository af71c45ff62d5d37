/* share: the view for somebody else: one file that holds it, or the command that shows it. The address of a served page
 * is neither: it works only on this machine, and its token opens the trace to whoever has it. */

import {quantity} from "../model/format.js";
import * as State from "../model/state.js";

import {copyText, h} from "./dom.js";

const quote = (word) => (/^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/* The view as the saved file needs it: that holds one trace. */
const viewOfFile = () => State.toHash({...State.get(), trace: undefined, b: undefined});

async function saveFile(server, trace, name) {
  const page = await server.save({trace});
  /* Made by the document: the end of a script, spelled out here, would end this one in the file. */
  const view = h("script", {type: "text/plain", id: "tg-view"}, viewOfFile()).outerHTML;
  const file = new Blob([page, view], {type: "text/html"});
  const link = h("a", {href: URL.createObjectURL(file), download: `${name.replace(/[^\w.-]/g, "_")}.html`});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  return file.size;
}

/* names: of all traces of the page. */
export function openShare({server, trace, names}) {
  const isFile = !server.base, done = h("p", {class: "muted", role: "status"});
  const save =
      h("button", {
        onclick: async () => {
          save.disabled = true;
          done.textContent = "writing the file …";
          try {
            done.textContent = `saved, ${quantity(await saveFile(server, trace, names[trace]), "bytes")}`;
          } catch (error) {
            done.textContent = error.message;
          }
          save.disabled = false;
        }
      },
        "save this view as a file");
  const command = `tachograph view ${names.map(quote).join(" ")} --at '${State.toHash(State.get())}'`;
  const copy =
      h("button",
        {onclick: async () => (done.textContent = await copyText(command) ? "copied" : "select the text and copy it")},
        "copy the command");
  const box = h(
      "dialog", {class: "help share", "aria-label": "share this view"}, h("h1", {}, "Share this view"),
      h("p", {}, "One file for any browser: tables, findings and the timeline, opened where you are now."), save,
      h("p", {}, "For somebody who has the trace:"), h("p", {}, h("code", {}, command)), copy,
      isFile ?
          null :
          h("p", {class: "muted"},
            "The address of this page works on this machine only, while tachograph view runs. Do not send it: its token opens the trace to others here."),
      done, h("p", {}, h("button", {onclick: () => box.close()}, "close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
