/* Which line of the program's own code something was called from. */
#include "analyze/host/kernel_lines.h"

/* Recorders cut off the folder a file was found in, which for the standard library is one like any other: its
 * modules that call back into a program, or make tensors for it, are known by name. */
static bool is_of_library(struct tg__str frame) {
  static const char *const files[] = {
#define LIBRARY(file) file,
#include "analyze/host/library_files.def"
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (tg__str_has_prefix(frame, files[i])) return true;
  return false;
}

/* Inductor names the files it generates by a hash: c and 51 characters of base 32. */
static bool is_generated(struct tg__str path) {
  enum { LEN = 52 };
  for (size_t i = LEN; i + 3 <= path.len; i++) {
    if (memcmp(path.ptr + i, ".py", 3) != 0) continue;
    const char *const stem = path.ptr + i - LEN;
    return *stem == 'c' && (stem == path.ptr || stem[-1] == '/') &&
           strspn(stem, "abcdefghijklmnopqrstuvwxyz234567") == LEN;
  }
  return false;
}

/* Installed or generated. Recorders cut the folder of the packages off, too: of those only torch is known by its name,
 * and a folder such as pytorch/ is not it. */
static bool is_foreign(struct tg__str path) {
  return tg__str_contains(path, "site-packages/") || tg__str_contains(path, "dist-packages/") ||
         tg__str_has_prefix(path, "torch/") || tg__str_contains(path, "/torch/") || tg__str_contains(path, "<frozen") ||
         tg__str_contains(path, "lib/python") || is_generated(path);
}

/* A frame of a .py file that is neither foreign nor one of our own. */
bool tg__is_user_frame(struct tg__str name) {
  return !tg__str_has_prefix(name, "tachograph/_") && tg__str_contains(name, ".py(") && !is_foreign(name) &&
         !is_of_library(name);
}

/* The innermost frame of the program in a recorded stack, "a.py(1): f;b.py(2): g;…" from the inside out; empty when
 * there is none. */
struct tg__str tg__user_frame_of_stack(struct tg__str stack) {
  while (stack.len) {
    const char *const end = memchr(stack.ptr, ';', stack.len);
    const struct tg__str frame = {stack.ptr, end ? (uint32_t)(end - stack.ptr) : stack.len};
    if (tg__is_user_frame(frame)) return frame;
    const uint32_t taken = frame.len + (end != NULL);
    stack = (struct tg__str){stack.ptr + taken, stack.len - taken};
  }
  return stack;
}

/* Where the program called for this slice: a Python frame around it, else what was recorded with it or with an
 * operator around it. */
struct tg__str tg__user_frame(const struct tg__columns *t, uint32_t slice) {
  const struct tg__kernel_lines compiled = tg__kernel_lines_of(t, slice, NULL);
  if (compiled.count) return compiled.frames[0];
  for (uint32_t s = t->slices.parent[slice]; s != TG_NONE; s = t->slices.parent[s]) {
    const struct tg__str frame = tg__name(t, t->slices.name[s]);
    if (tg__slice_class(t, s) == TG__CLASS_PYTHON && tg__is_user_frame(frame)) return frame;
  }
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s]) {
    const uint32_t stack = tg__arg_str(t, t->slices.args[s], TG__K_CALL_STACK);
    const struct tg__str frame =
        stack == TG_NONE ? (struct tg__str){"", 0} : tg__user_frame_of_stack(tg__name(t, stack));
    if (frame.len) return frame;
  }
  return (struct tg__str){"", 0};
}

/* "file.py:12" as the place a frame was called from. */
static bool is_user_place(struct tg__str place) { return tg__str_contains(place, ".py:") && !is_foreign(place); }

/* The function of "file.py(9): function", with the colon. */
static struct tg__str function_of(struct tg__str frame) {
  const char *const close = memchr(frame.ptr, ')', frame.len);
  return close ? (struct tg__str){close + 1, (uint32_t)(frame.ptr + frame.len - close - 1)} : (struct tg__str){"", 0};
}

/* "file.py:12" and the frame around it become "file.py(12): function". */
static void put_place(const struct tg__columns *t, uint32_t slice, struct tg__str place, struct tg__out *out) {
  const char *const colon = memrchr(place.ptr, ':', place.len);
  const uint32_t file = (uint32_t)(colon - place.ptr);
  uint32_t frame = t->slices.parent[slice];
  while (frame != TG_NONE && !(tg__slice_class(t, frame) == TG__CLASS_PYTHON &&
                               tg__str_contains(tg__name(t, t->slices.name[frame]), ".py(")))
    frame = t->slices.parent[frame];
  const struct tg__str function =
      frame == TG_NONE ? (struct tg__str){"", 0} : function_of(tg__name(t, t->slices.name[frame]));
  tg__out_bytes(out, place.ptr, file);
  tg__out_char(out, '(');
  tg__out_bytes(out, colon + 1, place.len - file - 1);
  tg__out_char(out, ')');
  tg__out_bytes(out, function.ptr, function.len);
}

bool tg__call_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out) {
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s]) {
    const uint32_t from = tg__arg_str(t, t->slices.args[s], TG__K_CALL_FROM);
    if (from == TG_NONE || !tg__str_contains(tg__name(t, from), ".py:")) continue;
    put_place(t, s, tg__name(t, from), out);
    return true;
  }
  return false;
}

void tg__user_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out) {
  const struct tg__kernel_lines compiled = tg__kernel_lines_of(t, slice, NULL);
  if (compiled.count) {
    tg__out_bytes(out, compiled.frames[0].ptr, compiled.frames[0].len);
    return;
  }
  if (tg__class_is_device_work(tg__slice_class(t, slice))) slice = t->slices.cause[slice];
  if (slice == TG_NONE) return;
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s]) {
    const uint32_t from = tg__arg_str(t, t->slices.args[s], TG__K_CALL_FROM);
    if (from == TG_NONE || !is_user_place(tg__name(t, from))) continue;
    put_place(t, s, tg__name(t, from), out);
    return;
  }
  const struct tg__str frame = tg__user_frame(t, slice);
  tg__out_bytes(out, frame.ptr, frame.len);
}
