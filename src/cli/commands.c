/* The tables behind commands.def. */
#include "cli/cli.h"

const struct tg__command tg__commands[] = {
#define OPTION(command, name, letter, value, meaning)
#define ARGUMENT(command, name, value, meaning)
#define COMMAND(name, operands, meaning, example) {#name, operands, meaning, example, tg__cmd_##name},
#include "cli/commands.def"
#undef OPTION
#undef ARGUMENT
#undef COMMAND
};

static const struct tg__option options[] = {
#define OPTION(command, name, letter, value, meaning) {#command, name, letter, value, meaning, false},
#define ARGUMENT(command, name, value, meaning) {#command, name, 0, value, meaning, true},
#define COMMAND(name, operands, meaning, example)
#include "cli/commands.def"
#undef OPTION
#undef ARGUMENT
#undef COMMAND
};
enum { OPTION_COUNT = sizeof options / sizeof *options };

size_t tg__command_count(void) { return sizeof tg__commands / sizeof *tg__commands; }

const struct tg__command *tg__command_find(const char *name) {
  if (strcmp(name, "compare") == 0) name = "diff"; /* what people try first */
  for (size_t i = 0; i < tg__command_count(); i++) {
    if (strcmp(tg__commands[i].name, name) == 0) return &tg__commands[i];
  }
  return NULL;
}

/* Has the command an option of this name of its own? Then that one counts. */
static bool has_own(const struct tg__command *command, const char *name) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (strcmp(options[i].command, command->name) == 0 && strcmp(options[i].name, name) == 0) return true;
  }
  return false;
}

const struct tg__option *tg__command_option(const struct tg__command *command, size_t k) {
  for (int shared = 0; shared < 2; shared++) {
    const char *owner = shared ? "every" : command->name;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
      if (strcmp(options[i].command, owner) != 0 || (shared && has_own(command, options[i].name))) continue;
      if (k-- == 0) return &options[i];
    }
  }
  return NULL;
}

bool tg__command_runs_a_program(const struct tg__command *command) {
  return strcmp(command->name, "run") == 0 || strcmp(command->name, "prove") == 0;
}

static const char *command_name(const void *ctx, size_t k) {
  return k < tg__command_count() ? tg__commands[k].name : NULL;
}

const char *tg__command_nearest(const char *word) { return tg__nearest_text(word, command_name, NULL); }
