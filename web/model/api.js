/* api: calls to the server, over one WebSocket, or by POST where there is none. docs/viewer-api.md has every message.
 * The page takes its data from an object with call(name, members), tiles(members) and on(listener); the offline page
 * has another such object (offline.js). */

import {Table} from "./table.js";
import {decode} from "./tiles.js";

export class ApiError extends Error {
  constructor(error) {
    super(error.text ?? String(error.code));
    this.code = error.code;
    this.next = error.next ?? null;
  }
}

/* JSON in which integers beyond 2^53 stay exact, as BigInt, where the browser gives their text. */
export function parseJson(text) {
  if (!/[\[:,]\s*-?\d{16,}\s*[,\]}]/.test(text)) return JSON.parse(text);
  return JSON.parse(
      text,
      (key, value, context) =>
          typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ?
          BigInt(context.source) :
          value);
}

export class Server {
  constructor(base = new URL(".", location.href)) {
    this.base = base;
    this.waiting = new Map(); /* id → {resolve, reject, message} */
    this.listeners = new Set();
    this.next = 1;
    this.retry = 250;
    this.open();
  }

  on(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
  emit(event) {
    for (const listener of [...this.listeners]) listener(event);
  }

  open() {
    const url = new URL("ws", this.base);
    url.protocol = url.protocol.replace("http", "ws");
    try {
      this.socket = new WebSocket(url);
    } catch {
      this.socket = null;
      return;
    }
    this.socket.binaryType = "arraybuffer";
    this.ever = this.ever ?? false;
    this.socket.onopen = () => {
      this.retry = 250;
      this.ever = true;
      for (const {message} of this.waiting.values()) this.socket.send(message);
      this.emit({event: "connected"});
    };
    this.socket.onmessage = ({data}) => this.receive(data);
    this.socket.onclose = () => {
      if (!this.ever) {
        this.socket = null;
        this.postAll();
        return;
      } /* no WebSocket here: by POST from now on */
      this.emit({event: "disconnected"});
      setTimeout(() => this.open(), this.retry);
      this.retry = Math.min(5000, this.retry * 2);
    };
  }

  receive(data) {
    if (data instanceof ArrayBuffer) {
      this.finish(new DataView(data).getUint32(0, true), data);
      return;
    }
    const reply = parseJson(data);
    if (reply.event)
      this.emit(reply);
    else
      this.finish(reply.id, reply);
  }

  finish(id, reply) {
    const call = this.waiting.get(id);
    if (!call) return;
    this.waiting.delete(id);
    if (reply.error)
      call.reject(new ApiError(reply.error));
    else
      call.resolve(reply instanceof ArrayBuffer ? reply : reply.result);
  }

  send(message) {
    const id = this.next;
    this.next = (this.next % 0xffffffff) + 1;
    const text = JSON.stringify({id, ...message});
    const promise = new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject, message: text}));
    promise.id = id;
    if (!this.socket)
      this.post(id, text);
    else if (this.socket.readyState === WebSocket.OPEN)
      this.socket.send(text);
    return promise;
  }

  async post(id, text) {
    try {
      const response = await fetch(
          new URL("api", this.base), {method: "POST", body: text, headers: {"Content-Type": "application/json"}});
      const binary = response.headers.get("Content-Type")?.startsWith("application/octet-stream");
      this.finish(id, binary ? await response.arrayBuffer() : parseJson(await response.text()));
    } catch (error) {
      this.finish(id, {
        error:
            {code: "network", text: `the server does not answer (${error.message}); is tachograph view still running?`}
      });
    }
  }
  postAll() {
    for (const [id, {message}] of this.waiting) this.post(id, message);
    this.poll();
  }
  /* Without a WebSocket no event comes unasked. */
  async poll() {
    try {
      const result = await this.send({call: "state"});
      this.emit({event: "connected"});
      this.emit({event: "state", result});
    } catch {
      this.emit({event: "disconnected"});
    }
    setTimeout(() => this.poll(), 1000);
  }

  call(name, members = {}) { return this.send({call: name, ...members}); }
  /* A call that is not needed any more: it fails with `cancelled`, if it can be stopped. */
  stop(call) {
    if (this.waiting.has(call.id)) this.send({call: "cancel", of: call.id}).catch(() => {});
  }
  /* The page of a trace as one file: its bytes. */
  async save(members) { return (await this.send({call: "save", ...members})).slice(8); }
  /* members: {trace, level, tiles: [row, tile, …]}. {generation, level, tiles} as decode() of tiles.js gives it. */
  async tiles(members) {
    const reply = decode(await this.send({call: "tiles", ...members}));
    if (!reply)
      throw new ApiError(
          {code: "malformed", text: "the server sent tiles that this page does not understand; reload the page"});
    return reply;
  }
}

/* Answers by question and arguments, each asked once for a generation of a trace. */
export class Answers {
  constructor(server) {
    this.server = server;
    this.kept = new Map();
  }
  /* args: {name: text}; undefined and empty ones are left out. A Table, or an ApiError. */
  ask(trace, question, args = {}) {
    const given = Object.fromEntries(
        Object.entries(args).filter(([, v]) => v !== undefined && v !== null && v !== "").map(([k,
                                                                                                v]) => [k, String(v)]));
    const key = JSON.stringify([trace, question, Object.entries(given).sort()]);
    if (!this.kept.has(key)) {
      const call = this.server.call("ask", {trace, question, args: given});
      const answer = call.then((result) => new Table(result));
      answer.stop = () => this.server.stop?.(call);
      answer.catch(() => this.kept.delete(key));
      this.kept.set(key, answer);
    }
    return this.kept.get(key);
  }
  forget() { this.kept.clear(); }
}
