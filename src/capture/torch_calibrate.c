/* torch_calibrate: finds the layout of torch's objects by observing objects with known contents. The program in
 * python_torch.c announces each operation; every observation excludes the offsets that do not fit, and one offset must
 * remain for each field. Every address is checked for readability before it is read. */
#include "capture/torch.h"

enum { OBJECT_BYTES = 400, PLACES = OBJECT_BYTES, VALUE = 16 };

struct tg__torch_abi tg__torch_abi;
enum tg_err (*tg__torch_run_known)(enum tg__torch_program which, struct tg_error *e);

/* ---- candidate offsets ----------------------------------------------------------------------- */

/* excluded[fact][place]: a value was observed there that the fact cannot have. */
static struct candidates {
  bool excluded[TG_TORCH_FACTS][PLACES];
  uint32_t observations[TG_TORCH_FACTS];
  enum tg__torch_probe announced;
  int64_t extra;
  uintptr_t owner;                      /* the thread that is observed: others continue to work */
  const uint8_t *schema_at[PLACES / 8]; /* pointers of the operation that was seen first */
  uint64_t forward_thread;
  uint64_t calls[PLACES / 8]; /* what stood there at the observation before */
  uint32_t value_kinds[16];
  const uint8_t *tensor_type;
} candidates;

static void exclude_unless(enum tg__torch_fact fact, size_t place, bool fits) {
  if (!fits) candidates.excluded[fact][place] = true;
}

static int32_t only_place(enum tg__torch_fact fact, size_t *left) {
  int32_t place = -1;
  *left = 0;
  for (size_t i = 0; i < PLACES; i++)
    if (!candidates.excluded[fact][i]) place = (int32_t)i, ++*left;
  return *left == 1 && candidates.observations[fact] ? place : -1;
}

/* Of what can be done without: 0 = not found. */
static int32_t place_or_0(enum tg__torch_fact fact) {
  size_t left;
  const int32_t place = only_place(fact, &left);
  return place < 0 ? 0 : place;
}

/* ---- RecordFunction -------------------------------------------------------------------------- */

/* Is this the std::string `text`? Learns from the first where the length stands. */
static bool is_string(const uint8_t *string, const char *text) {
  const size_t len = strlen(text);
  if (!tg__capture_can_read(string, 16)) return false;
  const uint8_t *const bytes = tg__at_pointer(string);
  if (!tg__capture_can_read(bytes, len + 1) || memcmp(bytes, text, len + 1) != 0) return false;
  int32_t length = 0;
  if (tg__at64(string + 8) == len)
    length = 8;
  else if (tg__capture_can_read(bytes - 24, 8) && tg__at64(bytes - 24) == len)
    length = -24;
  if (!TG_FACT(string_length)) TG_FACT(string_length) = length;
  return length && length == TG_FACT(string_length);
}

static bool is_tensor(const uint8_t *impl) {
  return tg__capture_can_read(impl, 176) && tg__at_pointer(impl) == tg__torch_symbols.strided_classes[0];
}

static void check_words(const uint8_t *rf, uint8_t scope, int64_t sequence, uint64_t forward) {
  const uint8_t name_kind = scope == TG_RAW_OP;
  for (size_t i = 0; i < PLACES; i++) {
    const bool aligned = i % 8 == 0 && i + 8 <= OBJECT_BYTES;
    exclude_unless(TG_TORCH_sequence, i, aligned && (int64_t)tg__at64(rf + i) == sequence);
    exclude_unless(TG_TORCH_forward_thread, i, aligned && tg__at64(rf + i) == forward);
    exclude_unless(TG_TORCH_name_kind, i, rf[i] == name_kind);
    exclude_unless(TG_TORCH_scope, i, rf[i] == scope);
  }
  candidates.observations[TG_TORCH_sequence]++;
  candidates.observations[TG_TORCH_forward_thread]++;
  candidates.observations[TG_TORCH_name_kind]++;
  candidates.observations[TG_TORCH_scope]++;
}

/* The number of the call: small, and greater each time. */
static void check_call(const uint8_t *rf) {
  const uint64_t most = UINT64_C(1) << 40;
  for (size_t i = 0; i < PLACES; i++) {
    const bool aligned = i % 8 == 0 && i + 8 <= OBJECT_BYTES;
    const uint64_t word = aligned ? tg__at64(rf + i) : 0;
    exclude_unless(TG_TORCH_call, i, aligned && word > candidates.calls[i / 8] && word < most);
    if (aligned) candidates.calls[i / 8] = word;
  }
  candidates.observations[TG_TORCH_call]++;
}

/* The schema: one pointer for all calls of an operation, another for another operation. */
static void check_schema(const uint8_t *rf, bool other) {
  const bool first = !candidates.observations[TG_TORCH_name];
  for (size_t i = 0; i < PLACES; i++) {
    const bool aligned = i % 8 == 0 && i + 8 <= OBJECT_BYTES;
    const uint8_t *const p = aligned ? tg__at_pointer(rf + i) : NULL;
    if (aligned && first) candidates.schema_at[i / 8] = p;
    exclude_unless(TG_TORCH_name, i,
                   aligned && tg__capture_can_read(p, 8) && (p == candidates.schema_at[i / 8]) != other);
  }
  candidates.observations[TG_TORCH_name]++;
}

static void check_text(const uint8_t *rf) {
  const char *const name = tg__torch_symbols.name(rf);
  for (size_t i = 0; i < PLACES; i++)
    exclude_unless(TG_TORCH_name, i, i % 8 == 0 && !candidates.excluded[TG_TORCH_name][i] && is_string(rf + i, name));
}

/* Pointer to `count` values, the first of them a tensor. */
static void check_inputs(const uint8_t *rf, uint64_t count) {
  for (size_t i = 0; i < PLACES; i++) {
    bool fits = i % 8 == 0 && i + 16 <= OBJECT_BYTES && tg__at64(rf + i + 8) == count &&
                tg__capture_can_read(tg__at_pointer(rf + i), count * VALUE);
    fits = fits && is_tensor(tg__at_pointer(tg__at_pointer(rf + i)));
    exclude_unless(TG_TORCH_inputs, i, fits);
  }
  candidates.observations[TG_TORCH_inputs]++;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Tensor i of an operation with tensor inputs only; NULL when the layout is not known that far. */
static const uint8_t *tensor_input(const uint8_t *rf, size_t i) {
  size_t left;
  const int32_t place = only_place(TG_TORCH_inputs, &left);
  if (place < 0) return NULL;
  const uint8_t *const value = tg__at_pointer(rf + place) + i * VALUE;
  return tg__capture_can_read(value, VALUE) && tg__capture_can_read(tg__at_pointer(value), 176) ? tg__at_pointer(value)
                                                                                                : NULL;
}

/* Inputs: sizes (7, 11, 13) with strides (1009, 53, 2), seven dimensions of sizes 2…8, then one of each scalar type. */
static void check_tensors(const uint8_t *rf) {
  static const uint64_t three[] = {3, 7, 11, 13}, strides[] = {1009, 53, 2}, seven[] = {2, 3, 4, 5, 6, 7, 8};
  static const uint8_t types[] = {7,  7, 6, 4,
                                  11, 0, 9}; /* of all inputs: double, float, long, bool, byte, complex float */
  const uint8_t *const small = tensor_input(rf, 0), *const large = tensor_input(rf, 1);
  for (size_t i = 0; i < PLACES; i++) {
    const uint8_t *const p = small && large && i % 8 == 0 && i + 32 <= 176 ? small + i : NULL;
    const uint8_t *const sizes = p ? tg__at_pointer(large + i + 8) : NULL;
    const bool fits = p && memcmp(p, three, sizeof three) == 0 && tg__at64(large + i) == 7 &&
                      tg__capture_can_read(sizes, sizeof seven) && memcmp(sizes, seven, sizeof seven) == 0;
    exclude_unless(TG_TORCH_tensor_dims, i, fits);
    exclude_unless(TG_TORCH_tensor_strides, i,
                   small && i % 8 == 0 && i + sizeof strides <= 176 && memcmp(small + i, strides, sizeof strides) == 0);
  }
  for (size_t input = 0; input < sizeof types; input++) {
    const uint8_t *const impl = tensor_input(rf, input);
    for (size_t i = 0; i < PLACES; i++)
      exclude_unless(TG_TORCH_tensor_type, i, impl && i % 2 == 0 && i + 2 <= 176 && tg__at16(impl + i) == types[input]);
  }
  candidates.observations[TG_TORCH_tensor_dims]++;
  candidates.observations[TG_TORCH_tensor_strides]++;
  candidates.observations[TG_TORCH_tensor_type]++;
}

/* Inputs: a tensor, one with sizes from Python, one with strides from Python, a sparse one (strides from torch). */
static void check_classes(const uint8_t *rf) {
  static const unsigned policies[] = {0, 2, 1, 1};
  size_t left;
  const int32_t type = only_place(TG_TORCH_tensor_type, &left);
  for (size_t i = 0; i < PLACES; i++) /* bits, counted from the scalar type on */
    for (size_t input = 0; input < 4; input++) {
      const uint8_t *const impl = tensor_input(rf, input);
      const size_t byte = (size_t)(type < 0 ? 0 : type) + i / 8;
      exclude_unless(TG_TORCH_tensor_policy, i,
                     impl && byte + 2 <= 176 && (tg__at16(impl + byte) >> i % 8 & 3) == policies[input]);
    }
  candidates.observations[TG_TORCH_tensor_policy]++;
}

/* The inside of a list, seen at one of integers 11, 22, 33; then the element type, seen at that and a list of
 * tensors. */
static void check_list(const uint8_t *ints, const uint8_t *tensors) {
  for (size_t i = 0; i < PLACES; i++) {
    bool fits = i % 8 == 0 && i + 24 <= 64 && tg__capture_can_read(ints, 64) && tg__capture_can_read(tensors, 64);
    const uint8_t *const item = fits ? tg__at_pointer(ints + i) : NULL, *const tensor =
                                                                            fits ? tg__at_pointer(tensors + i) : NULL;
    bool items = fits && tg__at_pointer(ints + i + 8) == item + 3 * VALUE && tg__capture_can_read(item, 3 * VALUE);
    items = items && tg__at64(item) == 11 && tg__at64(item + VALUE) == 22 && tg__at64(item + 2 * VALUE) == 33;
    items = items && tg__at_pointer(tensors + i + 8) == tensor + 2 * VALUE && tg__capture_can_read(tensor, 2 * VALUE) &&
            is_tensor(tg__at_pointer(tensor));
    exclude_unless(TG_TORCH_list_items, i, items);
  }
  candidates.observations[TG_TORCH_list_items]++;
  size_t left;
  const int32_t items = only_place(TG_TORCH_list_items, &left);
  if (items < 0) return;
  /* The vector is three pointers; the type stands behind it. */
  for (size_t i = 0; i < PLACES; i++) exclude_unless(TG_TORCH_list_type, i, (int32_t)i == items + 24);
  candidates.observations[TG_TORCH_list_type]++;
  const uint8_t *const of_ints = tg__at_pointer(ints + items + 24), *const of_tensors =
                                                                        tg__at_pointer(tensors + items + 24);
  if (of_ints != of_tensors && tg__capture_can_read(of_ints, 8) && tg__capture_can_read(of_tensors, 8))
    candidates.tensor_type = of_tensors;
}

#define TWO_AND_A_HALF 0x4004000000000000 /* 2.5 as its bits */
static const char long_text[] = "a text that is too long for the object itself";

/* Inputs: tensor, 1234567890123, 2.5, True, 1+2j, the text, None, [11, 22, 33], [tensor, tensor]. */
static void check_values(const uint8_t *rf) {
  enum { TENSOR, INT, REAL, BOOL, COMPLEX, TEXT, NONE, INTS, TENSORS, COUNT };
  size_t left;
  const int32_t place = only_place(TG_TORCH_inputs, &left);
  const uint8_t *const value = place < 0 ? NULL : tg__at_pointer(rf + place);
  if (!value || tg__at64(rf + place + 8) != COUNT || !tg__capture_can_read(value, COUNT * VALUE)) return;
  if (tg__at64(value + INT * VALUE) != 1234567890123 || tg__at64(value + REAL * VALUE) != TWO_AND_A_HALF ||
      value[BOOL * VALUE] != 1)
    return;
  for (size_t i = 0; i < COUNT; i++) candidates.value_kinds[i] = tg__at32(value + i * VALUE + 8);
  for (size_t i = 0; i < PLACES; i++) /* behind the payload, and the same for the two lists */
    exclude_unless(TG_TORCH_value_kind, i, i == 8 && candidates.value_kinds[INTS] == candidates.value_kinds[TENSORS]);
  candidates.observations[TG_TORCH_value_kind]++;
  const uint8_t *const text = tg__at_pointer(value + TEXT * VALUE);
  for (size_t i = 0; i < PLACES; i++)
    exclude_unless(TG_TORCH_string_text, i,
                   i % 8 == 0 && i + 16 <= 64 && tg__capture_can_read(text, 64) && is_string(text + i, long_text));
  candidates.observations[TG_TORCH_string_text]++;
  check_list(tg__at_pointer(value + INTS * VALUE), tg__at_pointer(value + TENSORS * VALUE));
}

/* ---- observations ---------------------------------------------------------------------------- */

static void note_sequence(enum tg__torch_probe what, int64_t sequence) {
  struct tg__torch_trial *const t = &tg__torch_trial;
  if (what == TG_PROBE_NOTE_OP) {
    t->op_sequence[t->op_notes++ % TG_TRIAL_ROUNDS] = sequence;
    return;
  }
  t->forward_thread[t->forward_notes % TG_TRIAL_ROUNDS] = tg__torch_symbols.thread_id();
  t->forward_sequence[t->forward_notes++ % TG_TRIAL_ROUNDS] = sequence;
}

void tg__torch_announce(enum tg__torch_probe what, int64_t extra) {
  if (what >= TG_PROBE_NOTE_FORWARD) {
    note_sequence(what, extra);
    return;
  }
  candidates.announced = what;
  candidates.extra = extra;
  candidates.owner = tg__torch_self();
  if (what == TG_PROBE_OP) candidates.forward_thread = tg__torch_symbols.thread_id();
}

void tg__torch_observe(const uint8_t *rf) {
  if (candidates.announced == TG_PROBE_NOTHING || tg__torch_self() != candidates.owner ||
      !tg__capture_can_read(rf, OBJECT_BYTES))
    return;
  const enum tg__torch_probe what = candidates.announced;
  candidates.announced = TG_PROBE_NOTHING;
  check_call(rf);
  switch (what) {
  case TG_PROBE_OP:
  case TG_PROBE_OTHER_OP:
    check_words(rf, TG_RAW_OP, (int64_t)tg__torch_symbols.sequence_peek(), 0);
    check_schema(rf, what == TG_PROBE_OTHER_OP);
    check_inputs(rf, (uint64_t)candidates.extra);
    break;
  case TG_PROBE_NODE:
    check_words(rf, TG_RAW_BACKWARD, candidates.extra, candidates.forward_thread);
    check_text(rf);
    break;
  case TG_PROBE_TEXT:
    check_words(rf, TG_RAW_USER, -1, 0);
    check_text(rf);
    break;
  case TG_PROBE_TENSORS:
    check_tensors(rf);
    break;
  case TG_PROBE_CLASSES:
    check_classes(rf);
    break;
  case TG_PROBE_VALUES:
    check_values(rf);
    break;
  default:
    break;
  }
}

/* ---- the result ------------------------------------------------------------------------------ */

static bool take_kinds(struct tg_error *e) {
  static const enum tg__torch_fact facts[] = {TG_TORCH_kind_tensor, TG_TORCH_kind_int,     TG_TORCH_kind_double,
                                              TG_TORCH_kind_bool,   TG_TORCH_kind_complex, TG_TORCH_kind_string,
                                              TG_TORCH_kind_none,   TG_TORCH_kind_list};
  enum { KINDS = sizeof facts / sizeof *facts };
  for (size_t i = 0; i < KINDS; i++) {
    for (size_t k = 0; k < i; k++)
      if (candidates.value_kinds[k] == candidates.value_kinds[i]) {
        tg__fail(e, TG_UNSUPPORTED, -1, "inputs: torch's values do not say their kind where expected (%u twice)",
                 candidates.value_kinds[i]);
        return false;
      }
    tg__torch_abi.fact[facts[i]] = (int32_t)candidates.value_kinds[i];
  }
  tg__torch_abi.tensor_type = candidates.tensor_type;
  if (!candidates.tensor_type)
    tg__fail(e, TG_UNSUPPORTED, -1, "inputs: the element type of torch's lists is not where expected");
  return candidates.tensor_type != NULL;
}

static bool take_place(enum tg__torch_fact fact, const char *name, struct tg_error *e) {
  size_t left;
  const int32_t place = only_place(fact, &left);
  if (place < 0) {
    tg__fail(e, TG_UNSUPPORTED, -1,
             "operators: '%s' could be at %zu offsets of torch's objects after %u observations, not at one", name, left,
             candidates.observations[fact]);
    return false;
  }
  tg__torch_abi.fact[fact] = place;
  return true;
}

/* What is left on the stack may look the same by chance: in the text's own room while a schema stands there, and in
 * padding. The kind stands behind the text (its size follows from the offset of its length) and is the first that
 * fits. */
static bool derive_name_layout(struct tg_error *e) {
  if (!take_place(TG_TORCH_name, "name", e)) return false;
  const size_t name = (size_t)TG_FACT(name), text_bytes = TG_FACT(string_length) > 0 ? 32 : 8;
  for (size_t i = 0; i < PLACES; i++) exclude_unless(TG_TORCH_name_kind, i, i >= name + text_bytes && i < name + 48);
  for (size_t i = name; i < PLACES; i++)
    if (!candidates.excluded[TG_TORCH_name_kind][i])
      memset(&candidates.excluded[TG_TORCH_name_kind][i + 1], true, PLACES - i - 1);
  return take_place(TG_TORCH_name_kind, "name_kind", e);
}

static bool take_ops(struct tg_error *e) {
  if (!TG_FACT(string_length)) {
    tg__fail(e, TG_UNSUPPORTED, -1, "operators: torch's texts do not say their length where expected");
    return false;
  }
  return take_place(TG_TORCH_sequence, "sequence", e) && take_place(TG_TORCH_forward_thread, "forward_thread", e) &&
         derive_name_layout(e);
}

static bool take_shapes(struct tg_error *e) {
  const bool found =
      take_place(TG_TORCH_inputs, "inputs", e) && take_place(TG_TORCH_value_kind, "value_kind", e) &&
      take_place(TG_TORCH_string_text, "string_text", e) && take_place(TG_TORCH_list_items, "list_items", e) &&
      take_place(TG_TORCH_list_type, "list_type", e) && take_place(TG_TORCH_tensor_dims, "tensor_dims", e) &&
      take_place(TG_TORCH_tensor_strides, "tensor_strides", e) && take_place(TG_TORCH_tensor_type, "tensor_type", e) &&
      take_place(TG_TORCH_tensor_policy, "tensor_policy", e) && take_kinds(e);
  if (!found) return false;
  TG_FACT(tensor_strides) -= TG_FACT(tensor_dims);
  TG_FACT(tensor_policy) += 8 * TG_FACT(tensor_type);
  return true;
}

enum tg_err tg__torch_calibrate(uint32_t *known, struct tg_error *e) {
  memset(&candidates, 0, sizeof candidates);
  memset(&tg__torch_abi, 0, sizeof tg__torch_abi);
  *known = 0;
  tg__torch_symbols
      .thread_id(); /* torch numbers threads when it is first asked: this one before those of the calibration */
  if (!tg__torch_run_known)
    return tg__fail(e, TG_UNSUPPORTED, -1, "operators: torch can only be understood with Python in the process");
  if (!tg__torch_watch_begin()) return tg__fail(e, TG_UNSUPPORTED, -1, "operators: torch did not take the callback");
  const enum tg_err err = tg__torch_run_known(TG_TORCH_CALIBRATION, e);
  tg__torch_watch_end();
  candidates.announced = TG_PROBE_NOTHING;
  if (err) return err;
  if (!take_ops(e)) return TG_UNSUPPORTED;
  *known = TG_RECORD_OPS;
  TG_FACT(scope) = place_or_0(TG_TORCH_scope);
  TG_FACT(call) = place_or_0(TG_TORCH_call);
  if (!take_shapes(e)) return TG_UNSUPPORTED;
  *known |= TG_RECORD_SHAPES;
  return TG_OK;
}
