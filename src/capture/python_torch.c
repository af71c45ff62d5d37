/* python_torch: the operations that calibration and self-test look at. They are run in Python because that is where
 * torch is; on a thread of its own, which no mode, guard or default of the program reaches, and on which no autograd
 * engine is started. */
#include <pthread.h>

#include "capture/python_api.h"
#include "capture/torch.h"

/* ---- the programs ---------------------------------------------------------------------------- */

/* `torch`, `look` and `elsewhere` (runs a function on another thread) are given. look(what, extra): see enum
 * tg__torch_observe. */
static const char common[] =
    "import _thread\n"
    "enter, leave = torch.autograd._record_function_with_args_enter, torch.autograd._record_function_with_args_exit\n"
    "def mark(name, *args):\n"
    "    leave(enter(name, *args))\n"
    "def elsewhere(f):\n"
    "    out, done = [], _thread.allocate_lock()\n"
    "    done.acquire()\n"
    "    def run():\n"
    "        try:\n"
    "            out.append(f())\n"
    "        except Exception as problem:\n"
    "            out.append(problem)\n"
    "        done.release()\n"
    "    _thread.start_new_thread(run, ())\n"
    "    done.acquire()\n"
    "    if isinstance(out[0], Exception):\n"
    "        raise out[0]\n"
    "    return out[0]\n"
    "f64 = torch.float64\n"
    "def filled(sizes, strides, dtype=f64):\n"
    "    return torch.empty_strided(sizes, strides, dtype=dtype, device='cpu').fill_(1)\n"
    "class Wrapped(torch.Tensor):\n"
    "    @classmethod\n"
    "    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):\n"
    "        return [2, 3]\n"
    "def wrapped(who):\n"
    "    return torch.Tensor._make_wrapper_subclass(Wrapped, (2, 3), dtype=f64, device='cpu',\n"
    "                                               dispatch_sizes_strides_policy=who)\n"
    "sparse = torch.sparse_coo_tensor(torch.empty((1, 0), dtype=torch.int64, device='cpu'),\n"
    "                                 torch.empty((0,), dtype=f64, device='cpu'), (4,), check_invariants=False)\n";

static const char calibration[] =
    "OP, OTHER_OP, NODE, TEXT, TENSORS, CLASSES, VALUES = range(1, 8)\n"
    "x = filled((3, 4), (4, 1)).requires_grad_()\n"
    "gradient = filled((3, 4), (4, 1))\n"
    "def forward():\n"
    "    out = []\n"
    "    for i in range(3):\n"
    "        look(OP, 3)\n"
    "        out.append(torch.add(x, gradient))\n"
    "    look(OTHER_OP, 3)\n"
    "    out.append(torch.sub(x, gradient))\n"
    "    return out\n"
    "for y in elsewhere(forward)[:3]:\n"
    "    look(NODE, y.grad_fn._sequence_nr())\n"
    "    y.grad_fn(gradient)\n"
    "for name in ('a name that does not fit into the object', 'short', 'another name that is longer than the object "
    "has room for'):\n"
    "    look(TEXT, 0)\n"
    "    mark(name)\n"
    "small = filled((7, 11, 13), (1009, 53, 2))\n"
    "large = torch.empty((2, 3, 4, 5, 6, 7, 8), dtype=f64, device='cpu')\n"
    "types = torch.float32, torch.int64, torch.bool, torch.uint8, torch.complex64\n"
    "tensors = [small, large] + [torch.empty((1,), dtype=t, device='cpu') for t in types]\n"
    "look(TENSORS, 0)\n"
    "mark('tensors', *tensors)\n"
    "look(VALUES, 0)\n"
    "mark('values', small, 1234567890123, 2.5, True, 1 + 2j, 'a text that is too long for the object itself', None,\n"
    "     [11, 22, 33], [small, small])\n"
    "for i in range(4):\n"
    "    tensors = filled((2, 3), (3, 1)), wrapped('sizes'), wrapped('strides'), sparse\n"
    "    look(CLASSES, 0)\n"
    "    mark('classes', *tensors)\n";

static const char trial[] =
    "NOTE_FORWARD, NOTE_OP = 8, 9\n"
    "x = filled((3, 4), (4, 1)).requires_grad_()\n"
    "gradient = filled((3, 4), (4, 1))\n"
    "small = filled((7, 11, 13), (1009, 53, 2))\n"
    "large = filled((2, 3, 1, 2, 1, 2, 1), (12, 4, 4, 2, 2, 1, 1), torch.int32)\n"
    "def forward():\n"
    "    y = torch.add(x, gradient)\n"
    "    look(NOTE_FORWARD, y.grad_fn._sequence_nr())\n"
    "    return y\n"
    "for i in range(2):\n"
    "    y = elsewhere(forward)\n"
    "    span = enter('Prüfung eines Namens, der länger ist als kurze Texte: 測試 🚂', small, 42, 2.25, False,\n"
    "                 'a text that fits nowhere else', None, [1, -2, 3], [0.5], [True, False], ['a', 'bc'], [small, "
    "large], 1 + 2j)\n"
    "    z = torch.add(x, gradient, alpha=3)\n"
    "    leave(span)\n"
    "    look(NOTE_OP, z.grad_fn._sequence_nr())\n"
    "    y.grad_fn(gradient)\n"
    "    with torch.no_grad():\n"
    "        torch.cat([gradient, gradient], 1)\n"
    "        torch.sum(gradient, [0], True)\n"
    "        large.clone()\n"
    "    mark('classes', wrapped('sizes'), sparse)\n";

/* ---- running them ---------------------------------------------------------------------------- */

struct run {
  enum tg__torch_program which;
  enum tg_err err;
  struct tg_error *e;
};

static PyObject *look(PyObject *self, PyObject *args) {
  int what;
  long long extra;
  if (!PyArg_ParseTuple(args, "iL", &what, &extra)) return NULL;
  tg__torch_announce((enum tg__torch_probe)what, extra);
  Py_RETURN_NONE;
}
static PyMethodDef look_method = {"look", look, METH_VARARGS, NULL};

/* torch as it was imported; NULL when it is not, or not to the end. New reference. */
static PyObject *imported_torch(void) {
  PyObject *const modules = PyImport_GetModuleDict();
  PyObject *const torch = modules ? PyDict_GetItemString(modules, "torch") : NULL;
  PyObject *const spec = torch ? PyObject_GetAttrString(torch, "__spec__") : NULL;
  PyObject *const unfinished = spec ? PyObject_GetAttrString(spec, "_initializing") : NULL;
  const bool ready = torch && (!unfinished || !PyObject_IsTrue(unfinished));
  Py_XDECREF(unfinished);
  Py_XDECREF(spec);
  PyErr_Clear();
  if (!ready) return NULL;
  Py_INCREF(torch);
  return torch;
}

static void say_exception(struct run *r) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *const text = value ? PyObject_Str(value) : NULL;
  const char *const words = text ? PyUnicode_AsUTF8(text) : NULL;
  r->err = tg__fail(r->e, TG_UNSUPPORTED, -1, "operators: torch does not run the known operations: %.200s",
                    words ? words : "no text");
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
}

static bool run_text(PyObject *names, const char *text) {
  PyObject *const result = PyRun_String(text, Py_file_input, names, names);
  Py_XDECREF(result);
  return result != NULL;
}

static void run_with_gil(struct run *r) {
  PyObject *const torch = imported_torch();
  PyObject *const names = torch ? PyDict_New() : NULL;
  PyObject *const function = names ? PyCFunction_New(&look_method, NULL) : NULL;
  if (!torch) {
    r->err = tg__fail(r->e, TG_NO_DATA, -1, "operators: torch is not loaded yet");
  } else {
    const bool given = function && PyDict_SetItemString(names, "torch", torch) == 0 &&
                       PyDict_SetItemString(names, "look", function) == 0 &&
                       PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0;
    if (!given || !run_text(names, common) || !run_text(names, r->which == TG_TORCH_TRIAL ? trial : calibration))
      say_exception(r);
  }
  if (names)
    PyDict_Clear(
        names); /* its functions refer to it: without this their tensors would stay until the next garbage collection */
  Py_XDECREF(function);
  Py_XDECREF(names);
  Py_XDECREF(torch);
}

static void *run_on_thread(void *argument) {
  struct run *const r = argument;
  const PyGILState_STATE gil = PyGILState_Ensure();
  if (r->which == TG_TORCH_TRIAL) tg__torch_trial.owner = tg__torch_self();
  run_with_gil(r);
  tg__torch_trial.owner = 0;
  PyGILState_Release(gil);
  return NULL;
}

static enum tg_err run_known(enum tg__torch_program which, struct tg_error *e) {
  struct run r = {.which = which, .err = TG_OK, .e = e};
  pthread_t thread;
  if (!tg__python_is_alive()) return tg__fail(e, TG_NO_DATA, -1, "operators: Python is not running");
  PyThreadState *const saved = PyGILState_Check() ? PyEval_SaveThread() : NULL;
  if (pthread_create(&thread, NULL, run_on_thread, &r) == 0)
    pthread_join(thread, NULL);
  else
    r.err = tg__fail(e, TG_MEMORY, -1, "operators: no thread can be started");
  if (saved) PyEval_RestoreThread(saved);
  return r.err;
}

/* ---- for Python ------------------------------------------------------------------------------ */

/* abi() -> {name: (value, meaning)}: what was found out about this torch; empty before the first recording */
static PyObject *abi(PyObject *module, PyObject *unused) {
  PyObject *const dict = PyDict_New();
  const char *name, *meaning;
  int64_t value;
  for (size_t i = 0; dict && tg__torch_abi_at(i, &name, &meaning, &value); i++) {
    PyObject *const row = Py_BuildValue("(Ls)", (long long)value, meaning);
    const bool put = row && PyDict_SetItemString(dict, name, row) == 0;
    Py_XDECREF(row);
    if (put) continue;
    Py_DECREF(dict);
    return NULL;
  }
  return dict;
}

static PyObject *fork_is_safe(PyObject *module, PyObject *unused) { return PyBool_FromLong(tg__torch_lock_is_known()); }

/* abi_falsify(name, delta) -> the sentence with which the self-test refuses, None when it does not notice */
static PyObject *abi_falsify(PyObject *module, PyObject *args) {
  const char *name;
  int delta;
  struct tg_error e = {0};
  if (!PyArg_ParseTuple(args, "si:abi_falsify", &name, &delta)) return NULL;
  const enum tg_err err = tg__torch_abi_falsify(name, delta, &e);
  if (!err) Py_RETURN_NONE;
  if (err != TG_UNSUPPORTED) return PyErr_Format(PyExc_RuntimeError, "%s", e.text);
  return PyUnicode_DecodeUTF8(e.text, (Py_ssize_t)strlen(e.text), "replace");
}

static PyMethodDef torch_methods[] = {
    {"abi", abi, METH_NOARGS, "abi() -> {name: (value, meaning)}: what was found out about this torch's objects"},
    {"fork_is_safe", fork_is_safe, METH_NOARGS,
     "fork_is_safe() -> bool: a fork takes the lock of torch's list of callbacks"},
    {"abi_falsify", abi_falsify, METH_VARARGS,
     "abi_falsify(name, delta) -> str | None: how the self-test refuses a wrong one"},
    {0},
};

bool tg__python_torch_register(PyObject *module) {
  tg__torch_run_known = run_known;
  return tg__source_add(&tg__source_torch_inputs) && PyModule_AddFunctions(module, torch_methods) == 0;
}
