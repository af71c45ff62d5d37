/* Commands that run in the Python package: they need other packages of Python. */
#include "cli/cli.h"

int tg__cli_in_python(struct tg__cli *c, const char *module, const char *const *words, size_t count) {
  const char *const caller = tg__getenv("TACHOGRAPH_PYTHON");
  const char **const argv = tg__arena_get(&c->arena, (count + 4) * sizeof *argv);
  if (!argv) return tg__cli_no_memory(c);
  size_t n = 0;
  argv[n++] = caller && *caller ? caller : "python3";
  argv[n++] = "-m";
  argv[n++] = module;
  for (size_t i = 0; i < count; i++) argv[n++] = words[i];
  argv[n] = NULL;
  struct tg_error e = {0};
  int status = TG__EXIT_OK;
  if (tg__program_run(argv, NULL, 0, -1, &status, &e)) return tg__cli_failed(c, &e, "pip install tachograph");
  return status;
}
