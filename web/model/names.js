/* names: texts of the trace by number, asked for in batches as they come into sight. */

export class NameStore {
  constructor(server, trace) { Object.assign(this, {server, trace, kept: new Map(), asked: new Set(), queue: []}); }
  get(name) { return this.kept.get(name); }
  /* Calls done once when some of these have come. */
  async want(names, done) {
    const fresh = [...new Set(names)].filter((name) => !this.kept.has(name) && !this.asked.has(name)).slice(0, 4096);
    if (!fresh.length) return;
    for (const name of fresh) this.asked.add(name);
    try {
      const {texts} = await this.server.call("names", {trace: this.trace, names: fresh});
      fresh.forEach((name, i) => this.kept.set(name, texts[i]));
      done();
    } finally {
      for (const name of fresh) this.asked.delete(name);
    }
  }
}
