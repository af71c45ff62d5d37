/* mangled: names of C++ functions as the compiler writes them, made readable: the function and its template arguments
 * without namespaces and parameters. Not a demangler: what it does not know (substitutions, expressions) is left out,
 * and the whole name is always at hand. One pass, whatever the name. */

const TYPES = {
  v: "void",
  b: "bool",
  c: "char",
  a: "int8",
  h: "uint8",
  s: "short",
  t: "ushort",
  i: "int",
  j: "uint",
  l: "long",
  m: "ulong",
  x: "int64",
  y: "uint64",
  f: "float",
  d: "double"
};
const FLOATS = [["DF16b", "bf16"], ["DF16_", "half"], ["Dh", "half"]];
const SUBSTITUTED = /S[\dA-Z]*_|S[tabsiod]/y, MOST = 8000;

class Reader {
  constructor(name) { Object.assign(this, {text: name.slice(0, MOST), at: 2, out: "", depth: 0, item: ""}); }
  /* A name: the next one in the same nesting takes its place, as namespaces come first. */
  put(word) { this.item = word; }
  flush() {
    if (this.item) this.out += (/[\w>]$/.test(this.out) ? ", " : "") + this.item;
    this.item = "";
  }
  one(pattern) {
    pattern.lastIndex = this.at;
    const m = pattern.exec(this.text);
    if (m) this.at += m[0].length;
    return m;
  }
  step() {
    const digits = this.one(/\d+/y);
    if (digits) {
      const word = this.text.slice(this.at, this.at + Number(digits[0]));
      this.at += Number(digits[0]);
      if (!word.startsWith("_GLOBAL__N")) this.put(word);
      return;
    }
    const value = this.one(/L([a-z])(n?)(\d+)E/y);
    if (value) {
      this.flush();
      this.put(value[1] === "b" ? String(value[3] !== "0") : (value[2] ? "-" : "") + value[3]);
      this.flush();
      return;
    }
    if (this.enumerator()) return;
    if (this.one(SUBSTITUTED)) { /* a namespace or a type from before; a name behind it takes its place */
      this.flush();
      this.put("_");
      return;
    }
    const known = FLOATS.find(([code]) => this.text.startsWith(code, this.at));
    const c = this.text[this.at];
    this.at += known ? known[0].length : 1;
    if (known || (TYPES[c] && this.depth)) {
      this.flush();
      this.put(known ? known[1] : TYPES[c]);
      this.flush();
    } else if (c === "I" || c === "J")
      this.open(c);
    else if (c === "N")
      this.nest();
    else if (c === "E")
      this.close();
  }
  /* A value of an enumeration: its type, then its number. */
  enumerator() {
    if (!this.one(/L(?=[NS\d])/y)) return false;
    const nested = this.one(/N/y);
    for (let names = 0; nested || !names;) {
      if (this.one(SUBSTITUTED)) continue;
      const digits = this.one(/\d+/y);
      if (!digits) break;
      this.at += Number(digits[0]);
      names++;
    }
    if (nested) this.one(/E/y);
    const value = this.one(/(n?)(\d+)E/y);
    this.flush();
    if (value) this.put((value[1] ? "-" : "") + value[2]);
    this.flush();
    return true;
  }
  open(c) {
    if (c === "I" || !this.item) this.flush();
    this.stack.push(c);
    if (c === "I") {
      this.out += "<";
      this.depth++;
    }
  }
  nest() {
    this.flush();
    this.stack.push("N");
  }
  close() {
    this.flush();
    if (this.stack.pop() !== "I") return;
    this.out += ">";
    this.depth--;
  }
  read() {
    this.stack = [];
    while (this.at < this.text.length && !(this.depth === 0 && this.out.includes("<"))) this.step();
    this.flush();
    return this.out;
  }
}

export const isMangled = (name) => /^_Z[NK\d]/.test(name);
export const readMangled = (name) => new Reader(name).read() || name;
