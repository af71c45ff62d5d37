/* names: what the name of an event says about it. */
#include "analyze/analyze.h"

static unsigned char fold_name(char c) { return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* Does s start with `lower` at position i, without regard to ASCII case? */
static bool matches_at(struct tg__str s, size_t i, const char *lower) {
  for (; *lower; lower++, i++)
    if (i >= s.len || fold_name(s.ptr[i]) != (unsigned char)*lower) return false;
  return true;
}

/* Kernels of collectives: libraries by how their names begin, and the rest by what stands anywhere in them. */
static const char *const comm_begins[] = {
#define BEGIN(text, source) text,
#include "analyze/names/comm_families.def"
};
static const char *const comm_parts[] = {
#define PART(text, source) text,
#include "analyze/names/comm_families.def"
};

/* The name of a function without its type, namespace, template and arguments: "combine" of "void
 * a::combine<8>(int)". */
static struct tg__str function_of(struct tg__str kernel) {
  uint32_t end = 0, start = 0;
  static const char anonymous[] = "(anonymous namespace)::";
  while (end < kernel.len && kernel.ptr[end] != '<') {
    const bool is_anonymous = matches_at(kernel, end, anonymous);
    if (kernel.ptr[end] == '(' && !is_anonymous) break;
    const bool is_edge = is_anonymous || kernel.ptr[end] == ':' || kernel.ptr[end] == ' ';
    end += is_anonymous ? (uint32_t)sizeof anonymous - 1 : 1;
    if (is_edge) start = end;
  }
  return (struct tg__str){kernel.ptr + start, end - start};
}

static bool is_exchange(struct tg__str kernel) {
  const struct tg__str function = function_of(kernel);
#define EXCHANGE(name)                                                                                                 \
  if (tg__str_eq(function, TG_STR(name))) return true;
#include "analyze/names/comm_families.def"
  return false;
}

bool tg__name_is_collective_kernel(struct tg__str kernel) {
  bool begins[256] = {false}; /* a part, with this letter: most positions end here */
  for (size_t k = 0; k < sizeof comm_begins / sizeof *comm_begins; k++)
    if (matches_at(kernel, 0, comm_begins[k])) return true;
  for (size_t k = 0; k < sizeof comm_parts / sizeof *comm_parts; k++) begins[(unsigned char)comm_parts[k][0]] = true;
  for (size_t i = 0; i < kernel.len; i++) {
    if (!begins[fold_name(kernel.ptr[i])]) continue;
    for (size_t k = 0; k < sizeof comm_parts / sizeof *comm_parts; k++)
      if (matches_at(kernel, i, comm_parts[k])) return true;
  }
  return is_exchange(kernel);
}

bool tg__name_is_collective_call(struct tg__str op) {
  static const char *const calls[] = {"broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"};
  if (!tg__str_has_prefix(op, "nccl:") && !tg__str_has_prefix(op, "gloo:")) return false;
  const struct tg__str call = {op.ptr + 5, op.len - 5};
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
    if (call.len == strlen(calls[k]) && memcmp(call.ptr, calls[k], call.len) == 0) return true;
  return false;
}

bool tg__name_is_dataloader(struct tg__str annotation) {
  return (tg__str_has_prefix(annotation, "enumerate(DataLoader)#") && tg__str_has_suffix(annotation, ".__next__")) ||
         tg__str_has_prefix(annotation, "enumerate(DataPipe)#");
}

bool tg__name_is_compiled_region(struct tg__str name) { return tg__str_has_prefix(name, "Torch-Compiled Region"); }

bool tg__name_is_compiled_graph(struct tg__str name) {
  return tg__str_eq(name, TG_STR("CompiledFunction")) || tg__str_has_prefix(name, "## Call CompiledFxGraph");
}

/* Regions of compiled code hold work that no operator shows, those of the compiler and of collectives have
 * rules of their own. */
bool tg__name_is_label(struct tg__str annotation) {
  static const char *const work[] = {"Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph",
                                     "nccl:", "gloo:"};
  for (size_t i = 0; i < sizeof work / sizeof *work; i++)
    if (tg__str_has_prefix(annotation, work[i])) return false;
  return !tg__str_contains(annotation, "(dynamo_timed)");
}

bool tg__name_is_autograd_node(struct tg__str name) {
  if (tg__str_has_prefix(name, "autograd::engine::evaluate_function") || tg__str_has_prefix(name, "torch::autograd::"))
    return true;
  while (name.len && name.ptr[name.len - 1] >= '0' && name.ptr[name.len - 1] <= '9') name.len--;
  return tg__str_has_suffix(name, "Backward") && !tg__str_contains(name, "::");
}

bool tg__name_is_optimizer_step(struct tg__str annotation) { return tg__str_has_prefix(annotation, "Optimizer.step"); }

static size_t skip_spaces(struct tg__str s, size_t i) {
  while (i < s.len && (s.ptr[i] == ' ' || (s.ptr[i] >= '\t' && s.ptr[i] <= '\r'))) i++;
  return i;
}

bool tg__name_is_profiler_step(struct tg__str name, int64_t *number) {
  if (!tg__str_has_prefix(name, "ProfilerStep")) return false;
  size_t i = skip_spaces(name, strlen("ProfilerStep"));
  if (i >= name.len || name.ptr[i] != '#') return false;
  i = skip_spaces(name, i + 1);
  int64_t n = 0;
  const size_t first = i;
  for (; i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9'; i++)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, name.ptr[i] - '0', &n)) return false;
  if (i == first) return false;
  if (number) *number = n;
  return true;
}

/* Is `part` in s at or behind position `from`? */
static bool contains_from(struct tg__str s, size_t from, const char *part) {
  return from <= s.len && tg__str_contains((struct tg__str){s.ptr + from, s.len - (uint32_t)from}, part);
}

/* MTIA files all device work under one category, so only names separate copies, collectives and bookkeeping from
 * kernels. */
const char *tg__kernel_type_by_name(struct tg__str name) {
  static const char *const comm[] = {"nccl", "hip", "hccl"};
  static const char *const memory[] = {"Memcpy", "Memset", "dma"};
  static const char *const other[] = {"Stream Wait Event",
                                      "runFunction",
                                      "job_exe",
                                      "packet",
                                      "pe_exe",
                                      "cpum_exe_subgraph",
                                      "collective_subgraph_execution"};
  static const char *const other_parts[] = {"Memcpy", "Memset", "dma", "Sync"};
  for (size_t k = 0; k < sizeof comm / sizeof *comm; k++)
    if (tg__str_has_prefix(name, comm[k])) return "COMMUNICATION";
  if (tg__str_contains(name, "ncclKernel")) return "COMMUNICATION";
  for (size_t k = 0; k < sizeof memory / sizeof *memory; k++)
    if (tg__str_has_prefix(name, memory[k])) return "MEMORY";
  for (size_t k = 0; k < sizeof other / sizeof *other; k++)
    if (tg__str_has_prefix(name, other[k])) return "OTHER";
  for (size_t k = 0; k < sizeof other_parts / sizeof *other_parts; k++)
    if (tg__str_contains(name, other_parts[k])) return "OTHER";
  if (tg__str_has_prefix(name, "cuda") && contains_from(name, 4, "LaunchKernel")) return "OTHER";
  return "COMPUTATION";
}

static const char *type_by_class(enum tg__class cls) {
  if (cls == TG__CLASS_MEMCPY || cls == TG__CLASS_MEMSET) return "MEMORY";
  return cls == TG__CLASS_KERNEL ? NULL : "OTHER";
}

const char *tg__kernel_type(const struct tg__columns *t, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(t, slice);
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (cls == TG__CLASS_DEVICE_OTHER) return tg__kernel_type_by_name(name);
  const char *type = type_by_class(cls);
  if (type) return type;
  return tg__name_is_collective_kernel(name) ? "COMMUNICATION" : "COMPUTATION";
}

bool tg__names_open(struct tg__names *n, const struct tg__columns *t) {
  n->trace = t;
  n->flags = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  return n->flags != NULL;
}

unsigned tg__names_of(struct tg__names *n, uint32_t string_id) {
  const uint8_t known = n->flags[string_id];
  if (TG_LIKELY(known != 0)) return known;
  const struct tg__str name = tg__name(n->trace, string_id);
  unsigned flags = TG__NAME_KNOWN;
  if (tg__name_is_collective_kernel(name)) flags |= TG__NAME_COLLECTIVE_KERNEL;
  if (tg__name_is_collective_call(name)) flags |= TG__NAME_COLLECTIVE_CALL;
  if (tg__name_is_dataloader(name)) flags |= TG__NAME_DATALOADER;
  if (tg__name_is_optimizer_step(name)) flags |= TG__NAME_OPTIMIZER_STEP;
  if (tg__name_is_profiler_step(name, NULL)) flags |= TG__NAME_PROFILER_STEP;
  if (tg__str_contains(name, ".py(")) flags |= TG__NAME_FRAME;
  if (tg__str_has_prefix(name, "nn.Module: ")) flags |= TG__NAME_MODULE;
  n->flags[string_id] = (uint8_t)flags;
  return flags;
}

const char *tg__names_kernel_type(struct tg__names *n, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(n->trace, slice);
  if (cls != TG__CLASS_KERNEL) return tg__kernel_type(n->trace, slice);
  return tg__names_of(n, n->trace->slices.name[slice]) & TG__NAME_COLLECTIVE_KERNEL ? "COMMUNICATION" : "COMPUTATION";
}

void tg__names_close(struct tg__names *n) {
  tg__free(n->flags);
  n->flags = NULL;
}
