/* The settings that DistributedDataParallel and FSDP stated when the recording stopped: the document's member
 * "parallel". */
#include "analyze/ranks/buckets.h"

#include <math.h>

/* A size in MiB; NaN: the member is missing, or is no size. */
static double size_of(struct tg__str object, const char *key) {
  double mb;
  return tg__str_to_real(tg__json_member(object, key), &mb) && mb > 0 && mb <= 1e6 ? mb : NAN;
}

struct tg__reducer tg__reducer_of(const struct tg__columns *t, uint32_t rank) {
  const struct tg__str ddp = tg__json_member(tg__document_member(t, rank, "parallel"), "ddp");
  struct tg__reducer r = {.cap_mb = size_of(ddp, "bucket_cap_mb"),
                          .first_cap_mb = size_of(ddp, "first_bucket_cap_mb"),
                          .is_rebuilt = tg__str_eq(tg__json_member(ddp, "is_rebuilt"), TG_STR("true"))};
  for (struct tg__members m = tg__members_of(tg__json_member(ddp, "bucket_bytes")); tg__members_next(&m);) {
    double bytes;
    if (!tg__str_to_real(m.value, &bytes) || !(bytes > 0)) continue;
    r.least = r.count == 0 ? bytes : fmin(r.least, bytes);
    r.most = fmax(r.most, bytes);
    r.count++;
  }
  return r;
}

static void note_reducer(const struct tg__columns *t, uint32_t rank, struct tg_table *out) {
  const struct tg__reducer r = tg__reducer_of(t, rank);
  if (isnan(r.cap_mb)) return;
  struct tg__out text = {0};
  tg__out_format(&text, "rank %lld: DistributedDataParallel has bucket_cap_mb=%g", (long long)t->ranks[rank].number,
                 r.cap_mb);
  if (r.first_cap_mb < r.cap_mb) tg__out_format(&text, ", %g for the first bucket", r.first_cap_mb);
  if (r.count)
    tg__out_format(&text, "; its reducer made %zu bucket%s of %.2f to %.2f MB%s", r.count, r.count == 1 ? "" : "s",
                   r.least / 1e6, r.most / 1e6,
                   r.is_rebuilt ? ", in the order in which gradients become ready" : ", which the first steps rebuild");
  if (!text.err) tg__table_note(out, "%.*s", (int)text.len, text.buf);
  tg__out_free(&text);
}

/* "FSDP of 4 modules: sharding_strategy=FULL_SHARD, …" */
static void note_gathers(const struct tg__columns *t, uint32_t rank, const char *key, const char *name,
                         struct tg_table *out) {
  enum { LONGEST = 40 };
  const struct tg__str said = tg__json_member(tg__document_member(t, rank, "parallel"), key),
                       modules = tg__json_member(said, "count");
  if (!modules.len || modules.len > LONGEST) return;
  struct tg__out text = {0};
  tg__out_format(&text, "rank %lld: %s of %.*s modules", (long long)t->ranks[rank].number, name, (int)modules.len,
                 modules.ptr);
  const char *before = ": ";
  for (struct tg__members m = tg__members_of(said); tg__members_next(&m);) {
    const struct tg__str value = tg__json_plain(m.value);
    if (tg__str_eq(m.key, TG_STR("count")) || m.key.len > LONGEST || value.len > LONGEST) continue;
    tg__out_format(&text, "%s%.*s=%.*s", before, (int)m.key.len, m.key.ptr, (int)value.len, value.ptr);
    before = ", ";
    if (text.len > 400) break;
  }
  if (!text.err) tg__table_note(out, "%.*s", (int)text.len, text.buf);
  tg__out_free(&text);
}

void tg__note_wrappers(const struct tg__columns *t, uint32_t rank, struct tg_table *out) {
  note_reducer(t, rank, out);
  note_gathers(t, rank, "fsdp1", "FullyShardedDataParallel", out);
  note_gathers(t, rank, "fsdp2", "fully_shard", out);
}
