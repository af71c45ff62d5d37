/* Strings: views, hash, UTF-8, and the interner from several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/base.h"

static int reset_allocator(void **state) {
  (void)state;
  tg__alloc_fail_after(-1);
  return 0;
}

static void views_compare(void **state) {
  assert_true(tg__str_eq(TG_STR("abc"), TG_STR("abc")));
  assert_false(tg__str_eq(TG_STR("abc"), TG_STR("abd")));
  assert_false(tg__str_eq(TG_STR("abc"), TG_STR("ab")));
  assert_true(tg__str_eq((struct tg__str){NULL, 0}, TG_STR("")));
  assert_true(tg__str_cmp(TG_STR("ab"), TG_STR("abc")) < 0);
  assert_true(tg__str_cmp(TG_STR("b"), TG_STR("abc")) > 0);
  assert_true(tg__str_cmp(TG_STR("\xff"), TG_STR("a")) > 0); /* bytes, not chars */
  assert_int_equal(tg__str_cmp(TG_STR("a"), TG_STR("a")), 0);
  assert_true(tg__str_has_prefix(TG_STR("aten::mm"), "aten::"));
  assert_false(tg__str_has_prefix(TG_STR("at"), "aten::"));
  assert_true(tg__str_has_suffix(TG_STR("trace.json"), ".json"));
  assert_false(tg__str_has_suffix(TG_STR("json"), ".json"));
  assert_true(tg__str_contains(TG_STR("a nccl kernel"), "nccl"));
  assert_false(tg__str_contains(TG_STR("ncc"), "nccl"));
  assert_true(tg__str_contains(TG_STR("x"), ""));
  assert_true(tg__str_eq_nocase(TG_STR("KerNel"), "kernel"));
  assert_false(tg__str_eq_nocase(TG_STR("kernel"), "kernels"));
  assert_false(tg__str_eq_nocase(TG_STR("kernels"), "kernel"));
  assert_false(tg__str_eq_nocase(TG_STR("@"), "`")); /* 32 apart, but no letters */
}

/* Every byte must count, at every length; and the length itself. */
static void numbers_are_read_whole(void **state) {
  static const struct {
    const char *text;
    bool is;
    int64_t value;
  } cases[] = {{"0", true, 0},
               {"-17", true, -17},
               {"+5", true, 5},
               {"9223372036854775807", true, INT64_MAX},
               {"9223372036854775808", false, 0},
               {"", false, 0},
               {"-", false, 0},
               {"1 ", false, 0},
               {"1.0", false, 0},
               {"0x1", false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t v = 0;
    const struct tg__str s = {cases[i].text, (uint32_t)strlen(cases[i].text)};
    if (tg__str_to_int(s, &v) != cases[i].is || v != cases[i].value) fail_msg("%s: %lld", cases[i].text, (long long)v);
  }
  double real = 0;
  assert_true(tg__str_to_real(TG_STR("-2.5e3"), &real) && real == -2500);
  assert_false(tg__str_to_real(TG_STR(""), &real));
  assert_false(tg__str_to_real(TG_STR("1,"), &real));
  assert_false(tg__str_to_real(TG_STR("1\0"), &real)); /* a zero byte ends nothing */
  assert_false(tg__str_to_real(TG_STR("0000000000000000000000000000000000000000000000000000000000000001"),
                               &real)); /* 64 bytes */
}

static void hash_sees_every_byte(void **state) {
  char text[100];
  memset(text, 'x', sizeof text);
  for (size_t len = 0; len < sizeof text; len++) {
    const uint64_t plain = tg__hash(text, len);
    assert_int_equal(plain, tg__hash(text, len));
    assert_int_not_equal(plain, tg__hash(text, len + 1));
    for (size_t i = 0; i < len; i++) {
      text[i] ^= 1;
      assert_int_not_equal(plain, tg__hash(text, len));
      text[i] ^= 1;
    }
  }
}

/* Names that differ in a running number fill 2^16 buckets about as evenly as chance would: with 65536 keys, 1/e of
 * the buckets stay empty, that is 24109; three standard deviations are 300. */
static void hash_spreads_running_numbers(void **state) {
  static unsigned char low[1 << 16], high[1 << 16];
  for (unsigned i = 0; i < 1 << 16; i++) {
    char text[40];
    const int len = snprintf(text, sizeof text, "enumerate(DataLoader)#%u.__next__", i);
    const uint64_t h = tg__hash(text, (size_t)len);
    low[h & 0xffff] = 1;
    high[h >> 48] = 1;
  }
  unsigned empty_low = 0, empty_high = 0;
  for (unsigned i = 0; i < 1 << 16; i++) {
    empty_low += !low[i];
    empty_high += !high[i];
  }
  assert_in_range(empty_low, 23800, 24420);
  assert_in_range(empty_high, 23800, 24420);
}

static unsigned length_of(const char *text) { return tg__utf8_length((const unsigned char *)text, strlen(text)); }

static void utf8_is_strict(void **state) {
  assert_int_equal(length_of("a"), 1);
  assert_int_equal(length_of("\xc3\xa9"), 2);         /* é */
  assert_int_equal(length_of("\xe2\x82\xac"), 3);     /* € */
  assert_int_equal(length_of("\xf0\x9f\x98\x80"), 4); /* U+1F600 */
  assert_int_equal(length_of("\xf4\x8f\xbf\xbf"), 4); /* U+10FFFF */
  assert_int_equal(length_of("\xf4\x90\x80\x80"), 0); /* beyond */
  assert_int_equal(length_of("\xed\xa0\x80"), 0);     /* U+D800, a surrogate half */
  assert_int_equal(length_of("\xed\x9f\xbf"), 3);     /* U+D7FF, just before */
  assert_int_equal(length_of("\xc0\xaf"), 0);         /* overlong / */
  assert_int_equal(length_of("\xe0\x9f\xbf"), 0);     /* overlong */
  assert_int_equal(length_of("\xf0\x8f\xbf\xbf"), 0); /* overlong */
  assert_int_equal(length_of("\x80"), 0);
  assert_int_equal(length_of("\xe2\x82"), 0); /* cut */
  assert_int_equal(length_of("\xe2\x28\xa1"), 0);
  assert_int_equal(tg__utf8_length((const unsigned char *)"x", 0), 0);
}

static bool steers(uint32_t c) {
  unsigned char text[4];
  unsigned n = 1;
  text[0] = (unsigned char)c;
  if (c >= 0x800) {
    n = 3;
    text[0] = (unsigned char)(0xE0 | c >> 12), text[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F)),
    text[2] = (unsigned char)(0x80 | (c & 0x3F));
  } else if (c >= 0x80) {
    n = 2;
    text[0] = (unsigned char)(0xC0 | c >> 6), text[1] = (unsigned char)(0x80 | (c & 0x3F));
  }
  return tg__utf8_is_unsafe(text, n);
}

/* Unicode's categories Cc, Zl and Zp, its Bidi_Control characters, and the blanks without width. U+200C and 200D
 * join letters: they stay. */
static void what_steers_a_terminal_is_known(void **state) {
  static const struct {
    uint32_t from, to;
  } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200b},
                {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}};
  size_t r = 0;
  for (uint32_t c = 0; c < 0x10000; c++) {
    if (c >= 0xD800 && c < 0xE000) continue;
    while (r < sizeof ranges / sizeof *ranges && c > ranges[r].to) r++;
    assert_int_equal(steers(c), r < sizeof ranges / sizeof *ranges && c >= ranges[r].from);
  }
}

static void interner_gives_ids_in_order(void **state) {
  enum { COUNT = 70000 }; /* more than one block of the directory */
  struct tg__strings *s = tg__strings_new();
  char text[32];
  assert_int_equal(tg__strings_find(s, "x", 1), TG_NONE);
  for (uint32_t i = 0; i < COUNT; i++) {
    const int len = snprintf(text, sizeof text, "name %u", i);
    assert_int_equal(tg__strings_add(s, text, (size_t)len), i);
  }
  assert_int_equal(tg__strings_count(s), COUNT);
  assert_int_equal(tg__strings_add(s, "", 0), COUNT);
  assert_int_equal(tg__strings_add(s, NULL, 0), COUNT);
  assert_int_equal(tg__strings_add(s, "a\0b", 3), COUNT + 1); /* any bytes */
  assert_int_equal(tg__strings_add(s, "a\0c", 3), COUNT + 2);
  for (uint32_t i = 0; i < COUNT; i += 7) {
    const int len = snprintf(text, sizeof text, "name %u", i);
    assert_int_equal(tg__strings_add(s, text, (size_t)len), i);
    assert_int_equal(tg__strings_find(s, text, (size_t)len), i);
    assert_true(tg__str_eq(tg__strings_get(s, i), (struct tg__str){text, (uint32_t)len}));
  }
  assert_int_equal(tg__strings_count(s), COUNT + 3);
  assert_int_equal(tg__strings_get(s, COUNT).len, 0);
  assert_int_equal(tg__strings_add(s, text, UINT32_MAX), TG_NONE);
  assert_int_equal(tg__strings_get(s, TG_NONE).len, 0); /* an id that was never given */
  tg__strings_free(s);
}

/* Whichever allocation fails, strings already there stay, and the interner works on afterwards. */
static void interner_survives_failure(void **state) {
  for (long calls = 1; calls < 40; calls++) {
    tg__alloc_fail_after(calls);
    struct tg__strings *s = tg__strings_new();
    if (!s) {
      tg__alloc_fail_after(-1);
      continue;
    }
    uint32_t ids[300];
    char text[32];
    for (int i = 0; i < 300; i++) ids[i] = tg__strings_add(s, text, (size_t)snprintf(text, sizeof text, "text %d", i));
    tg__alloc_fail_after(-1);
    uint32_t expected = 0;
    for (int i = 0; i < 300; i++) {
      const size_t len = (size_t)snprintf(text, sizeof text, "text %d", i);
      assert_int_equal(tg__strings_find(s, text, len), ids[i]);
      if (ids[i] != TG_NONE) assert_int_equal(ids[i], expected++);
    }
    assert_int_equal(tg__strings_count(s), expected); /* no holes */
    assert_int_equal(tg__strings_add(s, "another", 7), expected);
    tg__strings_free(s);
  }
  tg__alloc_fail_after(1);
  assert_null(tg__strings_new());
}

enum { THREADS = 4, ROUNDS = 20000 };
struct crowd {
  struct tg__strings *strings;
  uint32_t ids[THREADS][ROUNDS];
};

static void add_many(void *ctx, size_t thread) {
  struct crowd *c = ctx;
  for (uint32_t i = 0; i < ROUNDS; i++) {
    const uint32_t k = (i * 7919u + (uint32_t)thread * 4999u) % ROUNDS; /* each in another order */
    char text[32];
    const size_t len = (size_t)snprintf(text, sizeof text, "shared %u", k);
    const uint32_t id = tg__strings_add(c->strings, text, len);
    const struct tg__str back = tg__strings_get(c->strings, id); /* while the others add */
    c->ids[thread][k] = tg__str_eq(back, (struct tg__str){text, (uint32_t)len}) ? id : TG_NONE;
  }
}

static void interner_is_shared_by_threads(void **state) {
  static struct crowd c;
  c.strings = tg__strings_new();
  tg__threads_run(THREADS, THREADS, add_many, &c);
  assert_int_equal(tg__strings_count(c.strings), ROUNDS);
  static unsigned char seen[ROUNDS];
  for (uint32_t k = 0; k < ROUNDS; k++) {
    assert_in_range(c.ids[0][k], 0, ROUNDS - 1);
    assert_false(seen[c.ids[0][k]]);
    seen[c.ids[0][k]] = 1;
    for (int t = 1; t < THREADS; t++) assert_int_equal(c.ids[t][k], c.ids[0][k]);
  }
  tg__strings_free(c.strings);
}

static void format_words(char *buf, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tg__format_words(buf, size, format, args);
  va_end(args);
}

static void what_does_not_fit_ends_with_whole_words(void **state) {
  char buf[20];
  (void)state;
  format_words(buf, sizeof buf, "%s", "exactly nineteen ch");
  assert_string_equal(buf, "exactly nineteen ch");
  format_words(buf, sizeof buf, "%s", "exactly nineteen chars");
  assert_string_equal(buf, "exactly nineteen…");
  format_words(buf, sizeof buf, "%s", "one_word_without_an_end_of_it"); /* 16 bytes and the sign */
  assert_string_equal(buf, "one_word_without…");
  format_words(buf, sizeof buf, "%s", "123456789012345ÄÄÄÄÄ"); /* the Ä at 15 is not cut in two */
  assert_string_equal(buf, "123456789012345…");
  struct tg_error e;
  char words[2000] = "";
  for (int i = 0; i < 300; i++) strcat(words, "words ");
  tg__fail(&e, TG_USAGE, -1, "%s", words);
  assert_true(strlen(e.text) < sizeof e.text && strlen(e.text) > 400);
  assert_string_equal(e.text + strlen(e.text) - 8, "words…");
}

static void a_list_of_names_ends_with_a_whole_name(void **state) {
  char list[16] = "";
  (void)state;
  tg__list_name(list, sizeof list, "a");
  tg__list_name(list, sizeof list, "bcd");
  assert_string_equal(list, "a, bcd");
  tg__list_name(list, sizeof list, "efghij"); /* with the sign behind it that is 20 bytes */
  assert_string_equal(list, "a, bcd, …");
  tg__list_name(list, sizeof list, "k");
  assert_string_equal(list, "a, bcd, …");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(views_compare),
      cmocka_unit_test(numbers_are_read_whole),
      cmocka_unit_test(hash_sees_every_byte),
      cmocka_unit_test(hash_spreads_running_numbers),
      cmocka_unit_test(utf8_is_strict),
      cmocka_unit_test(what_steers_a_terminal_is_known),
      cmocka_unit_test(what_does_not_fit_ends_with_whole_words),
      cmocka_unit_test(a_list_of_names_ends_with_a_whole_name),
      cmocka_unit_test(interner_gives_ids_in_order),
      cmocka_unit_test_teardown(interner_survives_failure, reset_allocator),
      cmocka_unit_test(interner_is_shared_by_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
