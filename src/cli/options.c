/* The words of a call become a struct tg__cli. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *option_value_of(const struct tg_arg *items, size_t count, const char *name) {
  for (size_t i = count; i-- > 0;) { /* the last one wins */
    if (strcmp(items[i].name, name) == 0) return items[i].value;
  }
  return NULL;
}

const char *tg__cli_setting(const struct tg__cli *c, const char *name) {
  return option_value_of(c->settings, c->setting_count, name);
}
const char *tg__cli_argument(const struct tg__cli *c, const char *name) {
  return option_value_of(c->arguments, c->argument_count, name);
}
bool tg__cli_wants_json(const struct tg__cli *c) { return c->format && strcmp(c->format, "json") == 0; }

long tg__cli_rows(const struct tg__cli *c, const char *name, long fallback) {
  const char *text = tg__cli_setting(c, name);
  if (!text) return fallback;
  char *end;
  errno = 0;
  const long n = strtol(text, &end, 10);
  return errno || *end || end == text || n < 1 ? -1 : n;
}

void tg__cli_free(struct tg__cli *c) { tg__arena_free(&c->arena); }

bool tg__cli_needs(const struct tg__cli *c, size_t count) {
  if (c->operand_count == count) return true;
  if (c->operand_count > count)
    tg__cli_usage(c, NULL, "unexpected argument '%s' for %s", c->operands[count], c->command->name);
  else
    tg__cli_usage(c, NULL, "%s needs %s", c->command->name, c->command->operands);
  return false;
}

/* ---- finding an option ----------------------------------------------------------------------- */

/* The k-th argument any question takes, for options that commands.def does not list (--min-us). */
static const char *question_argument(size_t k) {
  const char *name;
  for (size_t q = 0; q < tg_question_count(); q++) {
    for (size_t i = 0; tg_question_argument(q, i, &name, NULL, NULL); i++) {
      if (k-- == 0) return name;
    }
  }
  return NULL;
}

static bool takes_questions(const struct tg__command *command) {
  return strcmp(command->name, "ask") == 0 || strcmp(command->name, "diff") == 0;
}

static const char *option_name(const void *ctx, size_t k) {
  const struct tg__command *command = ctx;
  size_t own = 0;
  while (own < k && tg__command_option(command, own)) own++;
  const struct tg__option *option = tg__command_option(command, own);
  if (option) return option->name;
  return takes_questions(command) ? question_argument(k - own) : NULL;
}

/* min-us and min_us are one name. */
static bool same_name(const char *name, const char *typed, size_t len) {
  if (strlen(name) != len) return false;
  for (size_t i = 0; i < len; i++) {
    if ((name[i] == '-' ? '_' : name[i]) != (typed[i] == '-' ? '_' : typed[i])) return false;
  }
  return true;
}

static const struct tg__option *find_option(const struct tg__command *command, const char *name, size_t len,
                                            char letter) {
  const struct tg__option *option;
  for (size_t k = 0; (option = tg__command_option(command, k)) != NULL; k++) {
    if (letter ? option->letter == letter : same_name(option->name, name, len)) return option;
  }
  return NULL;
}

static const char *find_argument(const char *typed, size_t len) {
  const char *name;
  for (size_t k = 0; (name = question_argument(k)) != NULL; k++) {
    if (same_name(name, typed, len)) return name;
  }
  return NULL;
}

/* A copy of a name with all its dashes, or low lines, the one way. */
static const char *spelled(struct tg__cli *c, const char *name, char from, char to) {
  char *const own = tg__arena_copy(&c->arena, name, strlen(name));
  for (char *p = own; p && *p; p++)
    if (*p == from) *p = to;
  return own ? own : name;
}
static const char *as_typed(struct tg__cli *c, const char *name) { return spelled(c, name, '_', '-'); }

static int unknown_option(struct tg__cli *c, const char *word, size_t len) {
  char text[64] = "", next[128];
  memcpy(text, word, len < sizeof text - 1 ? len : sizeof text - 1);
  const char *bare = text + strspn(text, "-");
  const char *near = tg__nearest_text(bare, option_name, c->command);
  snprintf(next, sizeof next, "tachograph %s --help", c->command->name);
  if (near)
    return tg__cli_usage(c, next, "%s has no option '%s'; did you mean '--%s'?", c->command->name, text,
                         as_typed(c, near));
  return tg__cli_usage(c, next, "%s has no option '%s'", c->command->name, text);
}

/* ---- taking an option ------------------------------------------------------------------------ */

struct words {
  char **items;
  int count, next;
};

static void add_argument(struct tg_arg *items, size_t *count, const char *name, const char *value) {
  items[(*count)++] = (struct tg_arg){name, value};
}

/* The value behind `=`, or glued to the letter, or the next word. NULL: there is none. */
static const char *take_value(struct words *w, const char *glued) {
  if (glued) return glued;
  return w->next < w->count ? w->items[w->next++] : NULL;
}

static int missing_value(struct tg__cli *c, const char *name, const char *value) {
  const char *const typed = as_typed(c, name);
  return tg__cli_usage(c, NULL, "--%s needs a value: --%s %s", typed, typed, value);
}

static int take_long(struct tg__cli *c, struct words *w, const char *word) {
  const char *equals = strchr(word, '=');
  const size_t len = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
  const char *glued = equals ? equals + 1 : NULL;
  const struct tg__option *option = find_option(c->command, word + 2, len, 0);
  const char *argument = !option && takes_questions(c->command) ? find_argument(word + 2, len) : NULL;
  if (!option && !argument) return unknown_option(c, word, len + 2);
  if (option && !option->value) {
    if (glued) return tg__cli_usage(c, NULL, "--%s takes no value", option->name);
    add_argument(c->settings, &c->setting_count, option->name, "");
    return -1;
  }
  const char *name = option ? option->name : argument;
  const char *value = take_value(w, glued);
  if (!value) return missing_value(c, name, option ? option->value : "VALUE");
  if (option && !option->is_argument)
    add_argument(c->settings, &c->setting_count, name, value);
  else
    add_argument(c->arguments, &c->argument_count, spelled(c, name, '-', '_'), value);
  return -1;
}

static int take_letters(struct tg__cli *c, struct words *w, const char *word) {
  for (const char *p = word + 1; *p; p++) {
    const struct tg__option *option = find_option(c->command, NULL, 0, *p);
    if (!option) return unknown_option(c, word, strlen(word));
    if (!option->value) {
      add_argument(c->settings, &c->setting_count, option->name, "");
      continue;
    }
    const char *value = take_value(w, p[1] ? p + 1 : NULL);
    if (!value) return missing_value(c, option->name, option->value);
    add_argument(c->settings, &c->setting_count, option->name, value);
    break;
  }
  return -1;
}

static const char DASHES[] = "--";

bool tg__cli_says_dashes(const struct tg__cli *c) { return tg__cli_setting(c, DASHES) != NULL; }

static int take_words(struct tg__cli *c, struct words *w) {
  const bool runs = tg__command_runs_a_program(c->command);
  bool options_are_over = false;
  while (w->next < w->count) {
    const char *word = w->items[w->next++];
    int status = -1;
    if (options_are_over || word[0] != '-' || word[1] == 0) {
      c->operands[c->operand_count++] = word;
    } else if (strcmp(word, DASHES) == 0) {
      options_are_over = true;
      add_argument(c->settings, &c->setting_count, DASHES, "");
    } else {
      status = word[1] == '-' ? take_long(c, w, word) : take_letters(c, w, word);
    }
    if (status >= 0) return status;
    options_are_over = options_are_over || (runs && (c->operand_count || tg__cli_setting(c, "module")));
  }
  return -1;
}

/* ---- what every command understands ---------------------------------------------------------- */

static int set_threads(struct tg__cli *c) {
  const char *text = tg__cli_setting(c, "threads");
  if (!text) return -1;
  char *end;
  errno = 0;
  const long n = strtol(text, &end, 10);
  if (errno || *end || end == text || n < 1 || n > 1024)
    return tg__cli_usage(c, NULL, "--threads needs a number from 1 to 1024, not '%s'", text);
  c->threads = (unsigned)n;
  return -1;
}

bool tg__cli_read_width(const char *text, unsigned *width) {
  enum { LEAST = 20, MOST = 100000 };
  char *end;
  if (!text || !*text) return false;
  const long n = strtol(text, &end, 10);
  if (*end || n < LEAST || n > MOST) return false;
  *width = (unsigned)n;
  return true;
}

static int set_width(struct tg__cli *c) {
  const char *text = tg__cli_setting(c, "width");
  if (!text || tg__cli_read_width(text, &c->width)) return -1;
  return tg__cli_usage(c, NULL, "--width needs a number of columns, 20 or more, not '%s'", text);
}

static int set_color(struct tg__cli *c) {
  const char *when = tg__cli_setting(c, "color");
  const char *no_color = tg__getenv("NO_COLOR");
  if (!when || strcmp(when, "auto") == 0) {
    c->color = strcmp(c->out_path, "-") == 0 && tg__is_terminal(STDOUT_FILENO) && !(no_color && *no_color);
  } else if (strcmp(when, "always") == 0) {
    c->color = true;
  } else if (strcmp(when, "never") != 0) {
    return tg__cli_usage(c, NULL, "--color is auto, always or never, not '%s'", when);
  }
  return -1;
}

/* --json, --format, the suffix of the output file, text: the first that is given. */
static int set_format(struct tg__cli *c) {
  const struct tg__str out = {c->out_path, (uint32_t)strlen(c->out_path)};
  const char *given = tg__cli_setting(c, "format");
  if (tg__cli_setting(c, "json")) {
    if (given && strcmp(given, "json") != 0)
      return tg__cli_usage(c, NULL, "--json and --format %s contradict each other", given);
    given = "json";
  }
  const bool is_report = strcmp(c->command->name, "report") == 0;
  if (!given)
    given = tg__str_has_suffix(out, ".json")                ? "json"
            : tg__str_has_suffix(out, ".csv")               ? "csv"
            : tg__str_has_suffix(out, ".md")                ? "md"
            : is_report && tg__str_has_suffix(out, ".html") ? "html"
                                                            : "text";
  const struct tg__format *format = tg__format_find(given);
  if (!format || (!format->table && !(is_report && format->report)))
    return tg__cli_usage(c, NULL, "'%s' is no format for a table: text, json, csv or md", given);
  c->format = given;
  return -1;
}

static int apply_global_options(struct tg__cli *c) {
  const char *out_path = tg__cli_setting(c, "output");
  c->out_path = out_path ? out_path : "-";
  int status = set_format(c);
  if (status < 0) status = set_threads(c);
  if (status < 0) status = set_color(c);
  if (status < 0) status = set_width(c);
  return status;
}

/* ---- which command --------------------------------------------------------------------------- */

static bool looks_like_a_path(const char *word) {
  return strchr(word, '/') || strchr(word, '.') || strchr(word, '*') || strcmp(word, "-") == 0 ||
         tg__path_kind(word) != TG__PATH_NONE;
}

/* Sets the command and the index of the first word behind it. A file name without a command means report. */
static int choose_command(struct tg__cli *c, struct words *w) {
  const char *word = w->count ? w->items[0] : "help";
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
  c->command = tg__command_find(word);
  if (c->command) {
    w->next = w->count ? 1 : 0;
    return -1;
  }
  if (word[0] == '-' && word[1])
    return tg__cli_usage(c, "tachograph help", "the command comes before its options; '%s' is not a command", word);
  if (looks_like_a_path(word)) {
    c->command = tg__command_find("report");
    return -1;
  }
  if (tg_question_find(word) < tg_question_count())
    return tg__cli_usage(c, "tachograph ask --help", "'%s' is a question, not a command: tachograph ask FILE %s", word,
                         word);
  const char *near = tg__command_nearest(word);
  if (near) return tg__cli_usage(c, "tachograph help", "there is no command '%s'; did you mean '%s'?", word, near);
  return tg__cli_usage(c, "tachograph help", "there is no command '%s', nor a file of that name", word);
}

int tg__cli_parse(struct tg__cli *c, int argc, char **argv) {
  *c = (struct tg__cli){.format = "text", .out_path = "-"};
  const size_t most = (size_t)argc + 1;
  c->operands = tg__arena_get(&c->arena, most * sizeof *c->operands);
  c->settings = tg__arena_get(&c->arena, most * sizeof *c->settings * 4); /* a word may hold several letters */
  c->arguments = tg__arena_get(&c->arena, most * sizeof *c->arguments);
  if (!c->operands || !c->settings || !c->arguments) return tg_err_status(TG_MEMORY);
  struct words w = {argv + 1, argc > 0 ? argc - 1 : 0, 0};
  int status = choose_command(c, &w);
  if (status < 0) status = take_words(c, &w);
  return status < 0 ? apply_global_options(c) : status;
}
