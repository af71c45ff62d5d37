/* Fuzz target: any bytes as a .tsum file. Checksums are put right first (unless the first byte is odd); with 2 in it
 * the bytes are the record of one rank, unpacked, so that mutations need not get past zstd. Required: no
 * crash; an error has a text; whatever opens answers the questions about ranks or says why not, and saved and opened
 * again it is the same. */
#include "ranks/ranks.h"
#include "fuzz/packed_file.h"
#include "tachograph/read.h"
#include "trace/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_chunk(uint8_t *at, uint16_t type, const uint8_t *payload, size_t len) {
  tg__chunk_head_write(at, type, 0, 0, len, tg__checksum(payload, len));
  memcpy(at + TG_CHUNK_HEAD_BYTES, payload, len);
}

/* A file of one rank around its record; *len becomes its length. */
static uint8_t *wrap(const uint8_t *record, size_t *len) {
  const size_t packed = TG_PACKED_HEAD_BYTES + *len, ranks_at = TG_GREETING_BYTES,
               rank_at = ranks_at + tg__chunk_span(8);
  uint8_t *const file = calloc(1, rank_at + tg__chunk_span(packed)), *const payload = calloc(1, packed), one[8] = {1};
  if (!file || !payload) abort();
  tg__set32(payload, (uint32_t)*len); /* rows of one byte, as they are */
  payload[4] = 1;
  tg__set32(payload + 8, (uint32_t)*len);
  memcpy(payload + TG_PACKED_HEAD_BYTES, record, *len);
  tg__greeting_write(file);
  put_chunk(file + ranks_at, TG_CHUNK_RANKS_HEAD, one, sizeof one);
  put_chunk(file + rank_at, TG_CHUNK_RANK_SUMMARY, payload, packed);
  free(payload);
  *len = rank_at + (size_t)tg__chunk_span(packed);
  return file;
}

static uint8_t *make_file(const uint8_t *data, size_t size, size_t *len) {
  *len = size - 1;
  if (data[0] & 2) return wrap(data + 1, len);
  uint8_t *const file = malloc(size);
  if (!file) abort();
  memcpy(file, data + 1, *len);
  if (data[0] % 2 == 0) repair(file, *len);
  return file;
}

static struct tg_trace *open_ranks(const char *path) {
  struct tg_trace *t = NULL;
  struct tg_error e = {0};
  const enum tg_err err = tg_open(path, NULL, &t, &e);
  if (err && (t || !e.text[0] || e.code != err)) abort();
  if (t && !t->summaries) {
    tg_close(t);
    t = NULL;
  }
  return t;
}

/* Rows of the answer, -1 = refused. */
static long ask(struct tg_trace *t, const char *question, const char *by, const char *rules) {
  const struct tg_arg args[] = {{"by", by}, {"rules", rules}};
  struct tg_table *table = NULL;
  struct tg_error e = {0};
  const enum tg_err err = tg_ask(t, question, args, rules ? 2 : by ? 1 : 0, &table, &e);
  if (err && !e.text[0]) abort();
  if (table && !tg__table_is_valid(table, &e)) abort();
  const long rows = table ? (long)tg_table_rows(table) : -1;
  tg_table_free(table);
  return rows;
}

static void ask_all(struct tg_trace *t, long rows[8]) {
  rows[0] = ask(t, "ranks", "rank", NULL);
  rows[1] = ask(t, "ranks", "step", NULL);
  rows[2] = ask(t, "collectives", "part", NULL);
  rows[3] = ask(t, "collectives", "kind", NULL);
  rows[4] = ask(t, "collectives", "rank", "plugin");
  rows[5] = ask(t, "stragglers", NULL, NULL);
  rows[6] = ask(t, "clocks", NULL, NULL);
  rows[7] = ask(t, "spread", "op", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  long before[8], after[8];
  name_files("fuzz_tsum", "");
  if (size < 2 || size > 1 << 20) return 0;
  size_t len;
  uint8_t *const file = make_file(data, size, &len);
  write_file(in, file, len);
  free(file);
  struct tg_trace *const t = open_ranks(in);
  if (!t) return 0;
  ask_all(t, before);
  struct tg_error e;
  if (tg_save_ranks(t, out, &e)) abort();
  check_chunks(out);
  tg_close(t);
  struct tg_trace *const back = open_ranks(out);
  if (!back) abort();
  ask_all(back, after);
  if (memcmp(before, after, sizeof before) != 0) abort();
  tg_close(back);
  return 0;
}
