/* pattern: regular expressions that cannot take long. The browser's own go back and forth, and one that comes in an
 * address could hold the page up for ever; these look at each character of a text once. They are the server's: POSIX
 * extended ones without regard to case, and \d \w \s; no {n}, no \1, nothing that looks ahead or behind. */

const MOST_LENGTH = 200, MOST_KEPT = 2000;

class Unreadable extends Error {}

const CLASSES = {
  d: (c) => c >= "0" && c <= "9",
  w: (c) => /[a-z0-9_]/i.test(c),
  s: (c) => /\s/.test(c)
};
function classOf(letter) {
  const test = CLASSES[letter.toLowerCase()];
  return test && (letter === letter.toLowerCase() ? test : (c) => !test(c));
}

const anyCase = (test) => (c) => test(c) || test(c.toLowerCase()) || test(c.toUpperCase());

/* Parses into states: {test, next} takes a character; {split: [next…]} goes on without one; {edge, next} only at the
 * begin or the end. `next` of what is open is filled in later. */
class Parser {
  constructor(text) { Object.assign(this, {text, at: 0, states: []}); }
  add(state) { return this.states.push(state) - 1; }
  peek() { return this.text[this.at]; }

  /* Each returns [first state, the states that wait for what follows]. */
  alternatives() {
    const [first, open] = this.sequence(), starts = [first], ends = [...open];
    while (this.peek() === "|") {
      this.at++;
      const [start, more] = this.sequence();
      starts.push(start);
      ends.push(...more);
    }
    return starts.length === 1 ? [first, ends] : [this.add({split: starts}), ends];
  }
  sequence() {
    let start = null, open = [];
    while (this.at < this.text.length && this.peek() !== "|" && this.peek() !== ")") {
      const [first, ends] = this.repeated();
      if (start === null)
        start = first;
      else
        this.join(open, first);
      open = ends;
    }
    if (start !== null) return [start, open];
    const nothing = this.add({split: []});
    return [nothing, [nothing]];
  }
  join(open, to) {
    for (const i of open) {
      const state = this.states[i];
      if (state.split)
        state.split.push(to);
      else
        state.next = to;
    }
  }
  repeated() {
    let [start, open] = this.atom();
    for (; "*+?".includes(this.peek() ?? "-"); this.at++) {
      const sign = this.peek(), again = this.add({split: [start]});
      if (sign !== "?") this.join(open, again);
      open = sign === "?" ? [again, ...open] : [again];
      if (sign !== "+") start = again;
    }
    if (this.peek() === "{") throw new Unreadable();
    return [start, open];
  }
  atom() {
    const c = this.text[this.at++];
    if (c === "(") {
      if (this.text.startsWith("?:", this.at)) this.at += 2;
      if (this.peek() === "?") throw new Unreadable();
      const inner = this.alternatives();
      if (this.text[this.at++] !== ")") throw new Unreadable();
      return inner;
    }
    if ("*+?{".includes(c)) throw new Unreadable();
    const state = c === "^" || c === "$" ? {edge: c} :
                                           {test: c === "." ? () => true :
                                                c === "["   ? this.set() :
                                                              this.one(c)};
    const i = this.add(state);
    return [i, [i]];
  }
  one(c) {
    if (c !== "\\") return anyCase((x) => x === c);
    const letter = this.text[this.at++];
    const known = letter && classOf(letter);
    if (!letter || (!known && /[\w]/.test(letter))) throw new Unreadable();
    return known ?? anyCase((x) => x === letter);
  }
  set() {
    const tests = [], not = this.peek() === "^";
    if (not) this.at++;
    for (let first = true;; first = false) {
      let c = this.text[this.at++];
      if (c === undefined) throw new Unreadable();
      if (c === "]" && !first) break;
      if (c === "[" && ":.=".includes(this.peek() ?? "-")) throw new Unreadable();
      if (c === "\\") {
        const test = this.one(c);
        tests.push(test);
        continue;
      }
      if (this.peek() !== "-" || this.text[this.at + 1] === "]" || this.text[this.at + 1] === undefined) {
        tests.push((x) => x === c);
        continue;
      }
      const last = this.text[this.at + 1];
      this.at += 2;
      tests.push((x) => x >= c && x <= last);
    }
    const any = anyCase((x) => tests.some((test) => test(x)));
    return not ? (x) => !any(x) : any;
  }
}

export class Pattern {
  constructor(states, start) {
    Object.assign(this, {states, start, kept: new Map()});
    this.first = this.known(this.reach([start], true, false));
  }

  /* All states that are there without a further character. */
  reach(from, atBegin, atEnd) {
    const seen = new Set(), todo = [...from];
    while (todo.length) {
      const i = todo.pop();
      if (seen.has(i)) continue;
      seen.add(i);
      const {split, edge, next} = this.states[i];
      if (split) todo.push(...split);
      if ((edge === "^" && atBegin) || (edge === "$" && atEnd)) todo.push(next);
    }
    return seen;
  }
  /* A set of states with where each character leads from it, worked out once. */
  known(set) {
    const key = [...set].sort((a, b) => a - b).join();
    let found = this.kept.get(key);
    if (!found) {
      if (this.kept.size >= MOST_KEPT) this.kept.clear();
      found = {set, isMatch: this.ends(set), next: new Map()};
      this.kept.set(key, found);
    }
    return found;
  }
  ends(set) { return [...set].some((i) => this.states[i].done); }
  step(from, c) {
    let to = from.next.get(c);
    if (to) return to;
    const moved = [this.start]; /* a match may begin at each character */
    for (const i of from.set) {
      const {test, next} = this.states[i];
      if (test?.(c)) moved.push(next);
    }
    to = this.known(this.reach(moved, false, false));
    from.next.set(c, to);
    return to;
  }
  /* Is there a match anywhere in the text? */
  test(text) {
    let now = this.first;
    for (const c of text) {
      if (now.isMatch) return true;
      now = this.step(now, c);
    }
    return now.isMatch || this.ends(this.reach(now.set, text === "", true));
  }
}

/* Null: no such pattern, or longer than 200 characters. */
export function compile(text) {
  if (text.length > MOST_LENGTH) return null;
  const parser = new Parser(text);
  try {
    const [start, open] = parser.alternatives();
    if (parser.at < text.length) return null; /* a bracket that was never opened */
    parser.join(open, parser.add({done: true}));
    return new Pattern(parser.states, start);
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}
