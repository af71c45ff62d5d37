/* html: one file for mail, bug reports and archives. Modules of web/ stand in it as text; a few lines of script make
 * them modules again under addresses from the browser, since pages from disk may load none. */
#include "show/html.h"

#include <stdio.h>
#include <stdlib.h>

enum { BYTES_A_SLICE = 8, DEFAULT_BYTES = 50 << 20 }; /* base64 of at most six bytes */

/* ---- base64 of gzip -------------------------------------------------------------------------- */

static bool to_buffer(void *ctx, const char *bytes, size_t len) {
  struct tg__out *const o = ctx;
  tg__out_bytes(o, bytes, len);
  return !o->err;
}

static enum tg_err pack_page(const struct tg__out *plain, struct tg__out *packed, struct tg_error *e) {
  struct tg__packer *packer = NULL;
  enum tg_err err = plain->err ? plain->err : tg__packer_new(TG__GZIP, to_buffer, packed, &packer, e);
  if (!err && (!tg__packer_write(packer, plain->buf, plain->len) || !tg__packer_end(packer))) err = TG_MEMORY;
  tg__packer_free(packer);
  return err == TG_MEMORY ? tg__no_memory(e, "packing the page's data") : err;
}

static void put_base64(const struct tg__out *o, struct tg__out *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < o->len; i += 3) {
    const unsigned char *const b = (const unsigned char *)o->buf + i;
    const size_t left = o->len - i;
    const uint32_t v = (uint32_t)b[0] << 16 | (left > 1 ? (uint32_t)b[1] << 8 : 0) | (left > 2 ? b[2] : 0);
    tg__out_char(out, digits[v >> 18]);
    tg__out_char(out, digits[v >> 12 & 63]);
    tg__out_char(out, left > 1 ? digits[v >> 6 & 63] : '=');
    tg__out_char(out, left > 2 ? digits[v & 63] : '=');
  }
}

static enum tg_err put_data(const char *id, const struct tg__out *plain, struct tg__out *out, struct tg_error *e) {
  struct tg__out packed = {0};
  const enum tg_err err = pack_page(plain, &packed, e);
  if (!err) {
    tg__out_format(out, "<script type=\"text/plain\" id=\"%s\">", id);
    put_base64(&packed, out);
    tg__out_text(out, "</script>\n");
  }
  tg__out_free(&packed);
  return err;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Modules by path; an import names another one of them, so that one gets its address first. */
static const char loader[] =
    "const text = new Map([...document.querySelectorAll('script[data-path]')].map((s) => [s.dataset.path, s.text]));\n"
    "const made = new Map();\n"
    "const address = (path) => {\n"
    "  if (!made.has(path)) {\n"
    "    const base = new URL(path, 'file:///');\n"
    "    const code = text.get(path).replace(/(from\\s*)\"(\\.[^\"]+)\"/g,\n"
    "      (_, from, name) => `${from}\"${address(new URL(name, base).pathname.slice(1))}\"`);\n"
    "    made.set(path, URL.createObjectURL(new Blob([code], {type: 'text/javascript'})));\n"
    "  }\n"
    "  return made.get(path);\n"
    "};\n"
    "const packed = (id) => document.getElementById(id).text;\n"
    "const {openOffline} = await import(address('model/offline.js'));\n"
    "globalThis.tachographSource = await openOffline(packed('tg-meta'), packed('tg-slices'), packed('tg-series'));\n"
    "const saved = document.getElementById('tg-view')?.text;\n"
    "if (saved && !location.hash) history.replaceState(null, '', saved);\n"
    "await import(address('main.js'));\n";

static void put_file(const struct tg__web_file *f, struct tg__out *out) {
  const struct tg__str path = {f->path, (uint32_t)strlen(f->path)};
  if (tg__str_has_suffix(path, ".css")) {
    tg__out_text(out, "<style>\n");
    tg__out_bytes(out, f->bytes, f->len);
    tg__out_text(out, "</style>\n");
  } else if (tg__str_has_suffix(path, ".js")) {
    tg__out_format(out, "<script type=\"text/plain\" data-path=\"%s\">", f->path);
    tg__out_bytes(out, f->bytes, f->len);
    tg__out_text(out, "</script>\n");
  }
}

/* The report, for readers of the file without a browser, and for search. */
static enum tg_err put_summary(struct tg__columns *t, struct tg__out *out, struct tg_error *e) {
  struct tg__out text = {0};
  const struct tg__show_options plain = {.width = 100};
  const enum tg_err err = tg__text_report(&(struct tg_trace){.columns = t}, &plain, &text, e);
  tg__out_text(out, "<noscript><pre>");
  for (size_t i = 0; !err && i < text.len; i++) {
    const char c = text.buf[i];
    if (c == '&' || c == '<' || c == '>')
      tg__out_format(out, "&#%d;", c);
    else
      tg__out_char(out, c);
  }
  tg__out_text(out, "</pre></noscript>\n");
  tg__out_free(&text);
  return err;
}

static enum tg_err put_page(const struct tg__html_part *p, struct tg__columns *t, const char *note, struct tg__out *out,
                            struct tg_error *e) {
  struct tg__out meta = {0}, slices = {0}, series = {0};
  tg__out_text(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                    "content=\"width=device-width, initial-scale=1\">\n<title>tachograph</title>\n");
  for (const struct tg__web_file *f = tg__web_files; f->path; f++) put_file(f, out);
  tg__out_text(out, "</head>\n<body>\n");
  enum tg_err err = put_summary(t, out, e);
  tg__out_text(out, "<div id=\"app\"><header id=\"top\"></header><nav id=\"nav\" aria-label=\"pages\"></nav>"
                    "<main id=\"page\" tabindex=\"-1\"></main></div>\n"
                    "<div id=\"live\" class=\"visually-hidden\" aria-live=\"polite\"></div>\n");
  tg__html_meta(p, t, note, &meta);
  tg__html_slices(p, &slices);
  tg__html_series(p, &series);
  if (!err) err = put_data("tg-meta", &meta, out, e);
  if (!err) err = put_data("tg-slices", &slices, out, e);
  if (!err) err = put_data("tg-series", &series, out, e);
  tg__out_format(out, "<script type=\"module\">\n%s</script>\n</body>\n</html>\n", loader);
  tg__out_free(&meta);
  tg__out_free(&slices);
  tg__out_free(&series);
  return err;
}

/* ---- what fits ------------------------------------------------------------------------------- */

static uint64_t count_slices(const struct tg__html_part *p) {
  uint64_t count = 0;
  for (uint32_t row = 0; row < p->view->row_count; row++) count += tg__html_count_row(p, row);
  return count;
}

/* Too many: what starts first, up to a whole step where there are steps. */
static void fit(struct tg__html_part *p, uint64_t most, char *note, size_t size) {
  const struct tg__columns *const t = p->view->trace;
  const uint64_t all = count_slices(p);
  if (all <= most) return;
  int64_t low = 0, high = p->view->end_ns;
  while (low < high) { /* the latest end with which they fit */
    p->end_ns = low + (high - low + 1) / 2;
    if (count_slices(p) <= most)
      low = p->end_ns;
    else
      high = p->end_ns - 1;
  }
  p->end_ns = low;
  int64_t step_end = 0;
  for (uint32_t i = 0; i < t->step_count; i++) {
    const int64_t end = t->steps[i].end_ns + tg__view_shift(p->view, t->steps[i].rank);
    if (end <= low && end > step_end) step_end = end;
  }
  if (step_end) p->end_ns = step_end;
  snprintf(note, size, "the timeline holds the first %.1f of %.1f ms; the tables are of the whole trace",
           (double)p->end_ns / 1e6, (double)p->view->end_ns / 1e6);
}

static enum tg_err read_limit(const struct tg__show_options *o, uint64_t *bytes, struct tg_error *e) {
  const char *const text = tg__show_arg(o, "bytes");
  char *end = NULL;
  *bytes = DEFAULT_BYTES;
  if (!text) return TG_OK;
  const double n = strtod(text, &end);
  const double unit = *end == 'k' || *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : 1;
  if (end == text || n <= 0 || n * unit > 1e15 || (*end && unit == 1) || (*end && end[1]))
    return tg__fail(e, TG_USAGE, -1, "bytes=%.60s is not a size: use a number such as 50M", text);
  *bytes = (uint64_t)(n * unit);
  return TG_OK;
}

enum tg_err tg__html_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                           struct tg_error *e) {
  struct tg__ask selection = {0};
  struct tg__view *view = NULL;
  struct tg__series_set *series = NULL;
  uint64_t bytes;
  char note[160] = "";
  enum tg_err err = read_limit(o, &bytes, e);
  if (!err) err = tg__show_begin(t, o, TG__COL_ALL, &selection, e);
  if (!err) err = tg__view_open(t, 0, &view, e);
  if (!err) err = tg__series_open(view, &series, e);
  if (!err) {
    struct tg__html_part part = {.view = view, .series = series, .selection = &selection, .end_ns = INT64_MAX};
    fit(&part, bytes / BYTES_A_SLICE, note, sizeof note);
    err = put_page(&part, t, *note ? note : NULL, out, e);
  }
  if (!err) err = tg__show_end(out, e);
  tg__series_close(series);
  tg__view_close(view);
  tg__ask_end(&selection);
  return err;
}

enum tg_err tg__html_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                            struct tg_error *e) {
  struct tg__columns *columns;
  const enum tg_err err = tg__load_all_ranks(t, &columns, e); /* the timeline holds all ranks */
  return err ? err : tg__html_trace(columns, o, out, e);
}
