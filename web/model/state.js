/* state: what the page shows, as the part of the URL behind '#'. Page, trace, window of time, selection, filters,
 * sort order and theme all stand there, so a link shows what its sender saw. No DOM but `location` and `history`. */

const listeners = new Set();
let current = parse(location.hash);

/* "#/kernels?trace=0&sort=-total_ns" → {page: "kernels", trace: "0", sort: "-total_ns"} */
export function parse(hash) {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const out = {page: decodeURIComponent(cut < 0 ? text : text.slice(0, cut)) || "overview"};
  if (cut >= 0)
    for (const [key, value] of new URLSearchParams(text.slice(cut + 1))) out[key] = value;
  return out;
}

export function toHash(state) {
  const query = new URLSearchParams();
  for (const key of Object.keys(state).sort())
    if (key !== "page" && state[key] !== undefined && state[key] !== null && state[key] !== "")
      query.set(key, state[key]);
  const text = query.toString();
  return `#/${encodeURIComponent(state.page)}${text ? "?" + text : ""}`;
}

export const get = () => current;

/* The keys that every page keeps. */
const LASTING = ["trace", "theme", "rank"];

/* The address of another page, with what lasts and what is given. */
export function link(page, extra = {}) {
  const state = {page};
  for (const key of LASTING)
    if (current[key] !== undefined) state[key] = current[key];
  return toHash({...state, ...extra});
}

/* Change some keys. push: a new entry of the history (a jump); else the present one is replaced (a drag). */
export function set(patch, push = false) {
  const next = {...current, ...patch};
  for (const key of Object.keys(next))
    if (next[key] === undefined || next[key] === null) delete next[key];
  const hash = toHash(next);
  if (hash === toHash(current)) return;
  const changed = next.page !== current.page;
  current = next;
  if (push || changed)
    history.pushState(null, "", hash);
  else
    history.replaceState(null, "", hash);
  for (const listener of [...listeners]) listener(current, "set");
}

/* Calls listener(state, "set" | "moved") after every change; returns what ends that. moved: by a link, back or forward.
 */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function moved() {
  const next = parse(location.hash);
  if (toHash(next) === toHash(current)) return;
  current = next;
  for (const listener of [...listeners]) listener(current, "moved");
}
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
