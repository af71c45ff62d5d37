/* Compressed input and output: what one makes the other reads, whole, in members, with something behind, cut and
 * damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static char path[64];

static int make_path(void **state) {
  snprintf(path, sizeof path, "test_base_inflate.XXXXXX");
  const int fd = mkstemp(path);
  if (fd >= 0) close(fd);
  return fd < 0;
}

static int remove_path(void **state) {
  tg__alloc_fail_after(-1);
  return unlink(path);
}

static void put(const void *bytes, size_t len) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, len, f), len);
  fclose(f);
}

/* Text like a trace: repeats itself, but not so much that all of it is one match. */
static struct tg__out make_text(size_t about) {
  struct tg__out o = {0};
  uint64_t x = 1;
  while (o.len < about) {
    x = x * UINT64_C(6364136223846793005) + 1;
    tg__out_format(&o, "{\"ph\":\"X\",\"name\":\"op%u\",\"ts\":%u.%03u},\n", (unsigned)(x >> 60), (unsigned)(x >> 30),
                   (unsigned)(x >> 54) % 1000);
  }
  assert_int_equal(o.err, TG_OK);
  return o;
}

static bool append(void *ctx, const char *bytes, size_t len) {
  tg__out_bytes(ctx, bytes, len);
  return true;
}

/* Compress; false when this build cannot. */
static bool pack(enum tg__packing packing, const char *bytes, size_t len, size_t piece, struct tg__out *to) {
  struct tg__packer *p;
  struct tg_error e;
  const enum tg_err err = tg__packer_new(packing, append, to, &p, &e);
  if (err == TG_UNSUPPORTED) return false;
  assert_int_equal(err, TG_OK);
  for (size_t at = 0; at < len; at += piece)
    assert_true(tg__packer_write(p, bytes + at, len - at < piece ? len - at : piece));
  assert_true(tg__packer_end(p));
  tg__packer_free(p);
  assert_int_equal(to->err, TG_OK);
  return true;
}

struct result {
  struct tg__out text;
  int64_t last; /* 0 at the end, -1 broken */
  enum tg__packing packing;
  struct tg_error error;
};

static struct result read_all(size_t piece) {
  struct result r = {0};
  struct tg__input *in;
  assert_int_equal(tg__input_open(path, &in, &r.error), TG_OK);
  r.packing = tg__input_packing(in);
  char *buf = malloc(piece);
  while ((r.last = tg__input_read(in, buf, piece, &r.error)) > 0) tg__out_bytes(&r.text, buf, (size_t)r.last);
  struct tg_error again;
  assert_int_equal(tg__input_read(in, buf, piece, &again), r.last); /* the end stays the end */
  free(buf);
  tg__input_close(in);
  return r;
}

static void assert_reads(size_t piece, enum tg__packing packing, const struct tg__out *text) {
  struct result r = read_all(piece);
  assert_int_equal(r.last, 0);
  assert_int_equal(r.packing, packing);
  assert_int_equal(r.text.len, text->len);
  if (text->len) assert_memory_equal(r.text.buf, text->buf, text->len);
  tg__out_free(&r.text);
}

static void plain_files_pass_through(void **state) {
  static const char *const texts[] = {"", "x", "{}", "[1]", "\x1f\x8b", "\x1f\x8b\x07zzz", "\x28\xb5\x2f"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct tg__out text = {0};
    tg__out_text(&text, texts[i]);
    put(texts[i], strlen(texts[i]));
    for (size_t piece = 1; piece < 10; piece++) assert_reads(piece, TG__PLAIN, &text);
    tg__out_free(&text);
  }
  struct tg__out text = make_text(2000000);
  put(text.buf, text.len);
  assert_reads(300000, TG__PLAIN, &text);
  tg__out_free(&text);
}

static void packed_files_come_back(void **state) {
  static const enum tg__packing packings[] = {TG__GZIP, TG__ZSTD};
  static const size_t sizes[] = {0, 1, 1000, 3000000};
  for (int k = 0; k < 2; k++) {
    for (size_t s = 0; s < 4; s++) {
      struct tg__out text = make_text(sizes[s]), packed = {0};
      text.len = sizes[s];
      if (pack(packings[k], text.buf, text.len, 70001, &packed)) {
        put(packed.buf, packed.len);
        assert_reads(1 << 20, packings[k], &text);
        assert_reads(4093, packings[k], &text);
        if (s < 3) assert_reads(1, packings[k], &text);
      }
      tg__out_free(&packed);
      tg__out_free(&text);
    }
  }
}

/* Members end and begin at every place of the 512 KiB read buffer's edge: the first member's length is varied by a
 * filler that does not compress, so that its end, trailer and the next header fall on either side of the refill. */
static void members_join_across_buffer_edges(void **state) {
  struct tg__out first = {0}, second = make_text(3000), head = {0}, tail = {0};
  uint64_t x = 7;
  for (int i = 0; i < 70000; i++) {
    x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    tg__out_bytes(&first, &x, 8);
  }
  if (!pack(TG__GZIP, first.buf, 520000, 1 << 20, &head)) {
    tg__out_free(&first);
    tg__out_free(&second);
    skip();
  }
  assert_true(pack(TG__GZIP, second.buf, second.len, 1 << 20, &tail));
  const size_t overhead = head.len - 520000;
  for (size_t shift = 0; shift < 48; shift++) {
    const size_t len = (512 << 10) - overhead - 24 + shift;
    struct tg__out file = {0}, text = {0};
    assert_true(pack(TG__GZIP, first.buf, len, 1 << 20, &file));
    tg__out_bytes(&file, tail.buf, tail.len);
    put(file.buf, file.len);
    tg__out_bytes(&text, first.buf, len);
    tg__out_bytes(&text, second.buf, second.len);
    assert_reads(1 << 20, TG__GZIP, &text);
    tg__out_free(&file);
    tg__out_free(&text);
  }
  tg__out_free(&first);
  tg__out_free(&second);
  tg__out_free(&head);
  tg__out_free(&tail);
}

/* What stands behind the last member: nothing and padding are no loss, anything else is one, with its place. */
static void many_members_and_what_is_behind(void **state) {
  static const enum tg__packing packings[] = {TG__GZIP, TG__ZSTD};
  static const char zeros[1 << 20];
  static const struct {
    const char *bytes;
    size_t zeros; /* before them */
  } behind[] = {{"", 0},     {"", 1},         {"", 5},  {"", sizeof zeros},       {"rubbish", 0},
                {"\x1f", 0}, {"\x1f\x8b", 0}, {"x", 3}, {"rubbish", sizeof zeros}};
  for (int k = 0; k < 2; k++) {
    for (size_t b = 0; b < sizeof behind / sizeof *behind; b++) {
      struct tg__out text = make_text(50000), packed = {0};
      bool can = true;
      for (size_t at = 0; can && at < text.len; at += 5000) {
        can = pack(packings[k], text.buf + at, text.len - at < 5000 ? text.len - at : 5000, 1 << 20, &packed);
        if (at == 20000) can = can && pack(packings[k], "", 0, 1, &packed); /* an empty one between */
        if (at == 30000) tg__out_bytes(&packed, zeros, 7);                  /* and padding */
      }
      tg__out_bytes(&packed, zeros, behind[b].zeros);
      char place[64];
      snprintf(place, sizeof place, "followed by something else at byte %zu of", packed.len);
      tg__out_text(&packed, behind[b].bytes);
      put(packed.buf, packed.len);
      if (can && !*behind[b].bytes) {
        assert_reads(1 << 20, packings[k], &text);
        assert_reads(777, packings[k], &text);
      } else if (can) {
        struct result r = read_all(777);
        assert_int_equal(r.last, -1);
        assert_int_equal(r.error.code, TG_DAMAGED);
        assert_non_null(strstr(r.error.text, place));
        assert_int_equal(r.text.len, text.len);
        assert_memory_equal(r.text.buf, text.buf, text.len);
        tg__out_free(&r.text);
      }
      tg__out_free(&packed);
      tg__out_free(&text);
    }
  }
}

/* Cut anywhere: what comes is a true beginning, and the break is told with its place. A zstd block (128 KiB of text)
 * comes whole or not at all, so that text is longer and not cut at every byte. */
static void cut_anywhere_gives_what_came_before(void **state) {
  static const enum tg__packing packings[] = {TG__GZIP, TG__ZSTD};
  static const size_t sizes[] = {6000, 300000}, steps[] = {1, 997};
  for (int k = 0; k < 2; k++) {
    struct tg__out text = make_text(sizes[k]), packed = {0};
    if (!pack(packings[k], text.buf, text.len, 1 << 20, &packed)) {
      tg__out_free(&text);
      continue;
    }
    size_t longest = 0;
    for (size_t cut = 4; cut < packed.len; cut += steps[k]) {
      put(packed.buf, cut);
      struct result r = read_all(1 << 16);
      assert_int_equal(r.last, -1);
      assert_int_equal(r.error.code, TG_DAMAGED);
      assert_non_null(strstr(r.error.text, "cut off"));
      assert_int_equal(r.error.offset, r.text.len);
      assert_true(r.text.len <= text.len && r.text.len >= longest);
      if (r.text.len) assert_memory_equal(r.text.buf, text.buf, r.text.len);
      longest = r.text.len;
      tg__out_free(&r.text);
    }
    assert_true(longest > text.len / 4);
    tg__out_free(&packed);
    tg__out_free(&text);
  }
}

/* One bit wrong in the middle: no crash, never more than a bounded amount, and for gzip the checksum or the code
 * says so. */
static void one_wrong_bit_is_noticed(void **state) {
  struct tg__out text = make_text(20000), packed = {0};
  if (!pack(TG__GZIP, text.buf, text.len, 1 << 20, &packed)) {
    tg__out_free(&text);
    skip();
  }
  for (size_t at = 10; at < packed.len - 8; at += 13) {
    packed.buf[at] ^= 1 << at % 8;
    put(packed.buf, packed.len);
    packed.buf[at] ^= 1 << at % 8;
    struct result r = read_all(1 << 16);
    assert_int_equal(r.last, -1);
    assert_int_equal(r.error.code, TG_DAMAGED);
    tg__out_free(&r.text);
  }
  tg__out_free(&packed);
  tg__out_free(&text);
}

static void a_pipe_is_read_too(void **state) {
  struct tg__out text = make_text(20000), packed = {0};
  if (!pack(TG__GZIP, text.buf, text.len, 1 << 20, &packed)) {
    tg__out_free(&text);
    skip();
  }
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  const int both_ends = open(path, O_RDWR);
  assert_int_equal(write(both_ends, packed.buf, packed.len), packed.len); /* fits the pipe: about 5 KB */
  struct tg__input *in;
  assert_int_equal(tg__input_open(path, &in, NULL), TG_OK);
  assert_int_equal(tg__input_file_bytes(in), -1);
  close(both_ends);
  static char buf[1 << 16];
  size_t total = 0;
  for (int64_t n; (n = tg__input_read(in, buf + total, sizeof buf - total, NULL)) > 0;) total += (size_t)n;
  assert_int_equal(total, text.len);
  assert_memory_equal(buf, text.buf, total);
  assert_int_equal(tg__input_bytes_taken(in), packed.len);
  tg__input_close(in);
  tg__out_free(&packed);
  tg__out_free(&text);
}

/* A build without the codec says so at once, instead of calling the file damaged. */
static void a_missing_codec_is_named(void **state) {
  static const char *const magics[] = {"\x1f\x8b\x08 and so on", "\x28\xb5\x2f\xfd and so on"};
  static const char *const names[] = {"gzip", "zstd"};
  for (int k = 0; k < 2; k++) {
    char missing[16];
    snprintf(missing, sizeof missing, "no %s", names[k]);
    const bool can = !strstr(tg__input_codecs(), missing);
    struct tg__input *in;
    struct tg_error e;
    put(magics[k], strlen(magics[k]));
    assert_int_equal(tg__input_open(path, &in, &e), can ? TG_OK : TG_UNSUPPORTED);
    if (!can) assert_non_null(strstr(e.text, names[k]));
    tg__input_close(in);
  }
}

static void opening_survives_failure(void **state) {
  struct tg__out packed = {0};
  if (!pack(TG__GZIP, "hello", 5, 5, &packed)) skip();
  put(packed.buf, packed.len);
  int failures = 0;
  for (long calls = 1; calls < 10; calls++) {
    struct tg__input *in;
    struct tg_error e;
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg__input_open(path, &in, &e);
    tg__alloc_fail_after(-1);
    if (err)
      assert_int_equal(err, TG_MEMORY);
    else
      tg__input_close(in);
    failures += err != TG_OK;
  }
  assert_in_range(failures, 3, 8); /* the input, the file, the buffer, and what the codec takes from us */
  tg__out_free(&packed);
  struct tg__input *in;
  struct tg_error e;
  unlink(path);
  assert_int_equal(tg__input_open(path, &in, &e), TG_NOT_FOUND);
  put("", 0);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)
int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_FILE(plain_files_pass_through),
      WITH_FILE(packed_files_come_back),
      WITH_FILE(members_join_across_buffer_edges),
      WITH_FILE(many_members_and_what_is_behind),
      WITH_FILE(cut_anywhere_gives_what_came_before),
      WITH_FILE(one_wrong_bit_is_noticed),
      WITH_FILE(a_pipe_is_read_too),
      WITH_FILE(a_missing_codec_is_named),
      WITH_FILE(opening_survives_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
