/* torch, seen from plain C: what its objects look like and which of its functions we call. Private to
 * capture/torch_*.c, memory_hook.c, python_api.c, python_delay.c, python_torch.c and python_types.c.
 *
 * torch_symbols.c finds the exported functions, torch_calibrate.c the layouts, torch_selftest.c proves both end to end,
 * torch_hook.c records, torch_inputs.c reads the inputs of an operation, torch_script.c the modules of TorchScript,
 * torch_lock.c takes torch's own lock, torch_delay.c makes operations begin later, torch_follow.c knows which are
 * open. */
#ifndef TG_CAPTURE_TORCH_H
#define TG_CAPTURE_TORCH_H

#include "capture/capture.h"

/* ---- what is exported (torch_symbols.c) ------------------------------------------------------ */

/* at::RecordFunctionCallback, by value; what an older or newer torch does not have at its end is not read by it. */
struct tg__torch_callback {
  void *(*start)(void **context, const void *rf); /* context: the hidden result slot of C++, see torch_hook.c */
  void (*end)(const void *rf, void *context);
  double probability;
  bool scopes[10];
  bool needs_inputs, needs_outputs, needs_ids;
  uint8_t rest[27];
};

struct tg__torch_texts { /* std::vector<std::string>, by value */
  uint8_t *first, *end, *room;
};

extern struct tg__torch_symbols {
  uint64_t (*add_callback)(struct tg__torch_callback callback);
  void (*remove_callback)(uint64_t handle);
  bool (*has_callbacks)(void); /* NULL in a torch that does not export it */
  const char *(*name)(const void *rf);
  const char *(*overload_name)(const void *rf); /* NULL before torch 2.7 */
  uint64_t (*thread_id)(void);
  uint64_t (*sequence_peek)(void);
  size_t (*num_inputs)(const void *rf);
  struct tg__torch_texts (*module_hierarchy)(void); /* NULL: before torch 2.6, which has strings of another layout */
  void (*delete)(void *block);                      /* frees memory of C++ */
  const void *undefined_tensor;                     /* the object that stands for no tensor */
  /* what objects of the classes with strides begin with, c10::TensorImpl first; 0 = not there */
  const void *strided_classes[5];
} tg__torch_symbols;

/* TG_NO_DATA when torch is not loaded, TG_UNSUPPORTED when it lacks something. */
enum tg_err tg__torch_find_symbols(struct tg_error *e);

/* What CPU tensors are allocated with, and the names under which torch's libraries ask for it. */
#define TG_TORCH_ALLOC "_ZN3c109alloc_cpuEm"
#define TG_TORCH_FREE "_ZN3c108free_cpuEPv"
struct tg__torch_allocator {
  void *(*alloc)(size_t bytes); /* throws when there is no memory */
  void (*free)(void *block);
};
enum tg_err tg__torch_find_allocator(struct tg__torch_allocator *out, struct tg_error *e);

/* What allocators of devices report to: each allocation and free, and each that failed. c10::Device is two bytes, type
 * and number, passed in a register. The allocator's lock is held meanwhile. */
#define TG_TORCH_REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define TG_TORCH_REPORT_FAILED "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
struct tg__torch_reports {
  void (*change)(void *block, int64_t bytes, size_t allocated, size_t reserved, uint16_t device);
  void (*failure)(int64_t bytes, size_t allocated, size_t reserved, uint16_t device);
};
/* false: this torch lacks one of them, and memory of devices is not recorded. */
bool tg__torch_find_reports(struct tg__torch_reports *out);
/* Whether some profiler's callbacks observe the calling thread only, or all threads. Ours is one of the latter while it
 * records operators. */
struct tg__torch_observers {
  bool (*on_thread)(void);
  bool (*on_all_threads)(void); /* NULL in a torch that does not export it */
};
/* false: torch is not loaded, or does not export the first. */
bool tg__torch_find_observers(struct tg__torch_observers *out);

/* ---- what was found out (torch_calibrate.c) -------------------------------------------------- */

enum tg__torch_fact {
#define FACT(group, name, meaning) TG_TORCH_##name,
#include "capture/torch_facts.def"
#undef FACT
  TG_TORCH_FACTS
};

struct tg__torch_abi {
  int32_t fact[TG_TORCH_FACTS];
  const void *tensor_type; /* the type of the elements of a list of tensors */
};
extern struct tg__torch_abi tg__torch_abi;
#define TG_FACT(name) (tg__torch_abi.fact[TG_TORCH_##name])

/* Runs the known operations in Python; set by python_torch.c. which: 0 = to calibrate, 1 = for the self-test.
 * TG_NO_DATA: torch is not imported (yet). */
enum tg__torch_program { TG_TORCH_CALIBRATION, TG_TORCH_TRIAL };
extern enum tg_err (*tg__torch_run_known)(enum tg__torch_program which, struct tg_error *e);

/* What the next known operation is; called by the program before it. extra: what Python knows of it. */
enum tg__torch_probe {
  TG_PROBE_NOTHING,
  TG_PROBE_OP,
  TG_PROBE_OTHER_OP,
  TG_PROBE_NODE,
  TG_PROBE_TEXT,
  TG_PROBE_TENSORS,
  TG_PROBE_CLASSES,
  TG_PROBE_VALUES,
  TG_PROBE_NOTE_FORWARD,
  TG_PROBE_NOTE_OP /* for the self-test: extra is the sequence number */
};
void tg__torch_announce(enum tg__torch_probe what, int64_t extra);

void tg__torch_observe(const uint8_t *rf); /* the announced operation begins */

/* Fill tg__torch_abi. known: the TG_RECORD_OPS and TG_RECORD_SHAPES bits for which all was found. */
enum tg_err tg__torch_calibrate(uint32_t *known, struct tg_error *e);

/* ---- proof (torch_selftest.c) ---------------------------------------------------------------- */

/* Record the trial program the way a session would and compare. TG_UNSUPPORTED with the first difference. */
enum tg_err tg__torch_self_test(uint32_t features, struct tg_error *e);
/* Once per process: symbols, calibration, self-test. *known as above; may be less than `features` with TG_OK. */
enum tg_err tg__torch_understand(uint32_t *known, struct tg_error *e);

/* Why inputs cannot be recorded: TG_UNSUPPORTED with the sentence. */
enum tg_err tg__torch_why_not(struct tg_error *e);

/* For tests: is a wrong fact noticed? Add delta to it, run the self-test, put it back. TG_OK = not noticed. */
enum tg_err tg__torch_abi_falsify(const char *name, int32_t delta, struct tg_error *e);
/* Name, meaning and value of fact i; false behind the last. */
bool tg__torch_abi_at(size_t i, const char **name, const char **meaning, int64_t *value);

/* A thread that writes into the memory of the self-test instead of a file; NULL outside of it. */
enum { TG_TRIAL_ROUNDS = 2 }; /* the trial program does everything twice: new things and known ones */
extern struct tg__torch_trial {
  struct tg__thread *thread;
  uintptr_t owner;                          /* what tg__torch_self() said on it */
  uint64_t forward_thread[TG_TRIAL_ROUNDS]; /* what torch said that they are */
  int64_t forward_sequence[TG_TRIAL_ROUNDS], op_sequence[TG_TRIAL_ROUNDS];
  uint32_t forward_notes, op_notes;
  uint64_t last_call;            /* number of the call that began last */
  bool calls_rise, calls_follow; /* each is greater than the one before; some one is the next */
} tg__torch_trial;
void tg__torch_trial_call(uint64_t call); /* number of the call that begins */
uint32_t tg__torch_trial_intern(enum tg__raw_dictionary kind, const void *bytes, size_t len);

/* The calling thread: differs between threads that live at the same time. */
static inline uintptr_t tg__torch_self(void) { return (uintptr_t)&tg__thread_here; }

/* A text's or shape's number, in the file or in the trial. */
uint32_t tg__torch_intern(struct tg__thread *t, enum tg__raw_dictionary kind, const void *bytes, size_t len);

/* ---- inputs (torch_inputs.c) ----------------------------------------------------------------- */

/* Number of the inputs of the operation that begins; 0 = no room. count: how many of those at the end are its own,
 * or all when there are fewer. Pointers are asked for before they are followed when t is the trial's. */
uint32_t tg__torch_inputs(struct tg__thread *t, const uint8_t *rf, uint32_t name, uint32_t count);
void tg__torch_inputs_learn(void);                  /* the kinds of values changed in tg__torch_abi */
void tg__torch_forget_inputs(struct tg__thread *t); /* of the trial's thread */

/* Says whether SHAPES can be had; joins with Python, without which nothing is understood of torch. */
extern const struct tg__source tg__source_torch_inputs; /* torch_hook.c */

/* ---- TorchScript (torch_script.c) ------------------------------------------------------------ */

/* Modules of TorchScript around what the calling thread is doing, outermost first, each with a dot behind it, as
 * torch writes them: TOP(Net)::forward.linear(Linear)::forward. Bytes written; 0 = runs no TorchScript. Functions
 * that do not fit `room` are left out. */
size_t tg__torch_script_modules(char *text, size_t room);

/* ---- torch's lock (torch_lock.c) ------------------------------------------------------------- */

void tg__torch_lock_find(void); /* once, while torch is not being recorded; some ms */
bool tg__torch_lock_is_known(void);
void tg__torch_lock_take(void); /* nothing when it is not known */
void tg__torch_lock_release(void);

/* ---- delays (torch_delay.c) ------------------------------------------------------------------ */

enum { TG_DELAY_PLACES = 16, TG_DELAY_NAME = 1024 };
void tg__torch_delay(const uint8_t *rf); /* an operation begins; waits where it is the one that is delayed */
void tg__torch_delay_ended(const void *rf, void *context);
/* Name a place, before any is chosen; len without a zero byte. false: there are no more places, or the name is too
 * long. */
bool tg__torch_delay_name(size_t place, const char *name, size_t len);
void tg__torch_delay_choose(int place, uint64_t ns); /* place -1: none. While operations run */
uint64_t tg__torch_delayed(size_t place);            /* how often it was delayed */

/* ---- hook (torch_hook.c) --------------------------------------------------------------------- */

/* A callback that calls tg__torch_observe. false: torch refused it. */
bool tg__torch_watch_begin(void);
void tg__torch_watch_end(void);
/* A callback that calls tg__torch_delay, without a recording. false: torch refused it. */
bool tg__torch_delays_begin(void);
void tg__torch_delays_end(void);
bool tg__torch_delays_are_off(void);
/* A callback that calls tg__torch_follow (kept.h), for operators only. false: torch refused it. */
bool tg__torch_follow_add(void);
void tg__torch_follow_remove(void);
/* Callbacks that record into the trial. false: torch refused them. */
bool tg__torch_trial_begin(uint32_t features);
void tg__torch_trial_end(void);
void tg__torch_forget_caches(struct tg__thread *t);

/* Well mixed from two words: the halves of their product, folded. */
static inline uint64_t tg__hash_mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
