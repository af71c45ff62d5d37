/* comm_names: what names and args of events say about collectives. */
#include "analyze/ranks/comm_names.h"

#include <stdio.h>

/* ---- roles ----------------------------------------------------------------------------------- */

static bool starts_with_any(struct tg__str s, const char *const *list) {
  for (; *list; list++)
    if (tg__str_has_prefix(s, *list)) return true;
  return false;
}

enum tg__comm_role tg__comm_role(struct tg__str name, bool is_kernel) {
  static const char *const spans[] = {"nccl:", "gloo:", "rccl:", "xccl:", "hccl:", "mpi:", "ucc:", NULL};
  static const char *const requests[] = {"c10d::", "_c10d_functional::", NULL};
  if (is_kernel) return tg__name_is_collective_kernel(name) ? TG__COMM_KERNEL : TG__COMM_NONE;
  if (tg__str_eq(name, TG_STR("record_param_comms"))) return TG__COMM_PARAMS;
  char peers[24];
  if (starts_with_any(name, spans)) return tg__comm_kind(name, peers).len ? TG__COMM_SPAN : TG__COMM_NONE;
  if (starts_with_any(name, requests)) return tg__comm_kind(name, peers).len ? TG__COMM_REQUEST : TG__COMM_NONE;
  return TG__COMM_NONE;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Where the word for the collective begins: behind the library, and in a kernel behind "Kernel_" or "oneccl_". */
static size_t word_begin(struct tg__str s) {
  size_t at = 0;
  for (size_t i = 0; i < s.len; i++) {
    if (s.ptr[i] == '(' || s.ptr[i] == '<') break;
    if (s.ptr[i] == ':') at = i + 1;
    if (i + 7 <= s.len && (memcmp(s.ptr + i, "Kernel_", 7) == 0 || memcmp(s.ptr + i, "oneccl_", 7) == 0)) at = i + 7;
  }
  return at;
}

/* Only letters, in lower case: all_gather_into_tensor, AllGather and _allgather_base then begin alike. */
static size_t letters_of(struct tg__str s, size_t from, char *out, size_t room) {
  size_t n = 0;
  for (size_t i = from; i < s.len && n + 1 < room; i++) {
    const char c = s.ptr[i];
    if (c >= 'A' && c <= 'Z') {
      out[n++] = (char)(c + 32);
    } else if (c >= 'a' && c <= 'z') {
      out[n++] = c;
    } else if (c != '_') {
      break;
    }
  }
  out[n] = 0;
  return n;
}

/* "send 0->1" and "recv 1<-0" (and "recv 0->1" as some write it) are two ends of one transfer. */
static void read_peers(struct tg__str s, size_t from, char peers[24]) {
  unsigned long a = 0, b = 0;
  char text[32], arrow[3] = "";
  const size_t n = s.len - from < sizeof text - 1 ? s.len - from : sizeof text - 1;
  memcpy(text, s.ptr + from, n);
  text[n] = 0;
  if (sscanf(text, "%*[a-zA-Z_] %7lu%2[<>-]%7lu", &a, arrow, &b) != 3) return;
  const bool turned = arrow[0] == '<';
  snprintf(peers, 24, " %lu->%lu", turned ? b : a, turned ? a : b);
}

struct tg__str tg__comm_kind(struct tg__str name, char peers[24]) {
  static const struct {
    const char *begins, *kind;
  } kinds[] = {
      {"allreduce", "all_reduce"},
      {"allgather", "all_gather"},
      {"alltoall", "all_to_all"},
      {"reducescatter", "reduce_scatter"},
      {"broadcast", "broadcast"},
      {"reduce", "reduce"},
      {"gather", "gather"},
      {"scatter", "scatter"},
      {"barrier", "barrier"},
      {"monitoredbarrier", "barrier"},
      {"sendrecv", "send_recv"},
      {"send", "send_recv"},
      {"recv", "send_recv"},
      {"coalesced", "coalesced"},
      {"crossdevicereduce", "all_reduce"},
      {"oneshotallreduce", "all_reduce"},
      {"twoshotallreduce", "all_reduce"},
  };
  char word[32];
  const size_t from = word_begin(name);
  peers[0] = 0;
  letters_of(name, from, word, sizeof word);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (strncmp(word, kinds[k].begins, strlen(kinds[k].begins)) != 0) continue;
    if (strcmp(kinds[k].kind, "send_recv") == 0) read_peers(name, from, peers);
    return (struct tg__str){kinds[k].kind, (uint32_t)strlen(kinds[k].kind)};
  }
  return TG_STR("");
}

bool tg__comm_ends_together(struct tg__str kind) {
  static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (kind.len == strlen(kinds[k]) && memcmp(kind.ptr, kinds[k], kind.len) == 0) return true;
  return false;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

int64_t tg__dtype_bytes(struct tg__str dtype) {
  static const struct {
    const char *name;
    int64_t bytes;
  } types[] = {
      {"float", 4},          {"double", 8},      {"half", 2},          {"bfloat16", 2},  {"long", 8},
      {"long int", 8},       {"int", 4},         {"short", 2},         {"short int", 2}, {"char", 1},
      {"byte", 1},           {"signed char", 1}, {"unsigned char", 1}, {"bool", 1},      {"complexfloat", 8},
      {"complexdouble", 16}, {"complexhalf", 4},
  };
  if (tg__str_has_prefix(dtype, "c10::")) dtype = (struct tg__str){dtype.ptr + 5, dtype.len - 5};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    if (tg__str_eq_nocase(dtype, types[k].name)) return types[k].bytes;
  return tg__str_has_prefix(dtype, "Float8") ? 1 : 0;
}

/* The next text of a JSON list of texts; false at its end. Names of types have no escapes. */
static bool next_type(struct tg__str types, size_t *at, struct tg__str *out) {
  while (*at < types.len && types.ptr[*at] != '"') ++*at;
  if (*at >= types.len) return false;
  const size_t from = ++*at;
  while (*at < types.len && types.ptr[*at] != '"') ++*at;
  *out = (struct tg__str){types.ptr + from, (uint32_t)(*at - from)};
  if (*at < types.len) ++*at;
  return true;
}

/* Elements of the value at dims[*at], a list of sizes or of such lists; *at moves behind it. */
static int64_t elements(struct tg__str dims, size_t *at) {
  int64_t sum = 0, product = 1, number = 0;
  bool open = false, digits = false, any = false;
  int depth = 0;
  for (; *at < dims.len; ++*at) {
    const char c = dims.ptr[*at];
    if (c >= '0' && c <= '9') {
      digits = true;
      if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, c - '0', &number)) return 0;
      continue;
    }
    if (digits && __builtin_mul_overflow(product, number, &product)) return 0;
    open |= digits;
    any |= digits || (c == '[' && depth > 0);
    digits = false;
    number = 0;
    if (c == '[') {
      depth++;
      product = 1;
    } else if (c == ']') {
      if (open && __builtin_add_overflow(sum, product, &sum)) return 0;
      open = false;
      product = 1;
      if (--depth <= 0) {
        ++*at;
        break;
      }
    }
  }
  return any || digits ? sum : 1; /* [] is a tensor without dimensions: one element */
}

int64_t tg__tensor_bytes(struct tg__str dims, struct tg__str types) {
  size_t at = 0, type_at = 0;
  int64_t total = 0, bytes;
  bool known = false;
  struct tg__str type;
  while (at < dims.len && dims.ptr[at] != '[') at++;
  at++; /* inside the outer list */
  while (at < dims.len && next_type(types, &type_at, &type)) {
    while (at < dims.len && dims.ptr[at] != '[' && dims.ptr[at] != ']') at++;
    if (at >= dims.len || dims.ptr[at] == ']') break;
    const int64_t count = elements(dims, &at), width = tg__dtype_bytes(type);
    if (width == 0) continue;
    known = true;
    if (__builtin_mul_overflow(count, width, &bytes) || __builtin_add_overflow(total, bytes, &total)) return -1;
  }
  return known ? total : -1;
}
