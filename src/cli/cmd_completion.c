/* tachograph completion: scripts for bash, zsh and fish, made from commands.def. */
#include "cli/cli.h"

/* Inside single quotes of a shell; for zsh colons and brackets of descriptions are escaped as well. */
static void put_quoted(struct tg__out *out, const char *text, const char *escaped) {
  for (const char *p = text; *p; p++) {
    if (*p == '\'')
      tg__out_text(out, "'\\''");
    else if (strchr(escaped, *p))
      tg__out_format(out, "\\%c", *p);
    else
      tg__out_char(out, *p);
  }
}

static void put_commands(struct tg__out *out) {
  for (size_t i = 0; i < tg__command_count(); i++) tg__out_format(out, "%s%s", i ? " " : "", tg__commands[i].name);
}

static void put_questions(struct tg__out *out) {
  for (size_t i = 0; i < tg_question_count(); i++) tg__out_format(out, "%s%s", i ? " " : "", tg_question_name(i));
}

static void put_formats(struct tg__out *out) {
  const char *gap = "";
  for (size_t i = 0; i < tg__format_count(); i++) {
    if (!tg__formats[i].trace) continue;
    tg__out_format(out, "%s%s", gap, tg__formats[i].name);
    gap = " ";
  }
}

static void bash_script(struct tg__out *out) {
  tg__out_text(
      out,
      "_tachograph() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n  case $prev "
      "in\n"
      "    --format|-f) words='text json csv' ;;\n    --color) words='auto always never' ;;\n    --to|-t) words='");
  put_formats(out);
  tg__out_text(out,
               "' ;;\n  esac\n  if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return; fi\n"
               "  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '");
  put_commands(out);
  tg__out_text(out, "' -- \"$cur\") $(compgen -f -- \"$cur\")); return; fi\n  if [[ $cur == -* ]]; then\n    case "
                    "${COMP_WORDS[1]} in\n");
  for (size_t i = 0; i < tg__command_count(); i++) {
    tg__out_format(out, "      %s) words='", tg__commands[i].name);
    const struct tg__option *option;
    for (size_t k = 0; (option = tg__command_option(&tg__commands[i], k)) != NULL; k++)
      tg__out_format(out, "%s--%s", k ? " " : "", option->name);
    tg__out_text(out, "' ;;\n");
  }
  tg__out_text(out, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return\n  fi\n  case "
                    "${COMP_WORDS[1]} in\n    ask|questions) words='");
  put_questions(out);
  tg__out_text(out, "' ;;\n    help) words='");
  put_commands(out);
  tg__out_text(out, "' ;;\n    completion) words='bash zsh fish' ;;\n  esac\n"
                    "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n}\n"
                    "complete -o filenames -F _tachograph tachograph\n");
}

static void zsh_script(struct tg__out *out) {
  const struct tg__option *option;
  tg__out_text(out, "#compdef tachograph\n_tachograph() {\n  local -a commands\n  commands=(\n");
  for (size_t i = 0; i < tg__command_count(); i++) {
    tg__out_format(out, "    '%s:", tg__commands[i].name);
    put_quoted(out, tg__commands[i].meaning, ":");
    tg__out_text(out, "'\n");
  }
  tg__out_text(
      out, "  )\n  if ((CURRENT == 2)); then _describe command commands; _files; return; fi\n  case $words[2] in\n");
  for (size_t i = 0; i < tg__command_count(); i++) {
    const char *name = tg__commands[i].name;
    tg__out_format(out, "    %s) _arguments", name);
    for (size_t k = 0; (option = tg__command_option(&tg__commands[i], k)) != NULL; k++) {
      tg__out_format(out, " \\\n      '--%s[", option->name);
      put_quoted(out, option->meaning, "[]:\\");
      tg__out_text(out, "]");
      if (option->value)
        tg__out_format(out, ":%s:%s", option->value, strcmp(option->name, "output") == 0 ? "_files" : " ");
      tg__out_text(out, "'");
    }
    tg__out_text(out, " \\\n      '*: :_files' ;;\n");
  }
  tg__out_text(out, "  esac\n  [[ $words[2] == (ask|questions) ]] && compadd -- ");
  put_questions(out);
  tg__out_text(out, "\n  [[ $words[2] == help ]] && compadd -- ");
  put_commands(out);
  tg__out_text(out, "\n  [[ $words[2] == completion ]] && compadd -- bash zsh fish\n  return 0\n}\n"
                    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _tachograph \"$@\"; else compdef _tachograph "
                    "tachograph; fi\n");
}

static void fish_script(struct tg__out *out) {
  const struct tg__option *option;
  for (size_t i = 0; i < tg__command_count(); i++) {
    const char *name = tg__commands[i].name;
    tg__out_format(out, "complete -c tachograph -n __fish_use_subcommand -a %s -d '", name);
    put_quoted(out, tg__commands[i].meaning, "\\");
    tg__out_text(out, "'\n");
    for (size_t k = 0; (option = tg__command_option(&tg__commands[i], k)) != NULL; k++) {
      tg__out_format(out, "complete -c tachograph -n '__fish_seen_subcommand_from %s' -l %s", name, option->name);
      if (option->letter) tg__out_format(out, " -s %c", option->letter);
      if (option->value) tg__out_text(out, " -r");
      tg__out_text(out, " -d '");
      put_quoted(out, option->meaning, "\\");
      tg__out_text(out, "'\n");
    }
  }
  tg__out_text(out, "complete -c tachograph -n '__fish_seen_subcommand_from ask questions' -a '");
  put_questions(out);
  tg__out_text(out, "'\ncomplete -c tachograph -n '__fish_seen_subcommand_from help' -a '");
  put_commands(out);
  tg__out_text(out, "'\ncomplete -c tachograph -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n");
}

int tg__cmd_completion(struct tg__cli *c) {
  static const struct {
    const char *shell;
    void (*script)(struct tg__out *out);
  } shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
    if (strcmp(shells[i].shell, c->operands[0]) != 0) continue;
    struct tg__out text = {0};
    shells[i].script(&text);
    return tg__cli_text(c, "completion", &text);
  }
  return tg__cli_usage(c, NULL, "there is no completion for '%s': bash, zsh or fish", c->operands[0]);
}
