/* Where to look: from a complaint in words to the command that looks into it, and the question that any trace
 * answers. */
#include "show/parts.h"

#include <ctype.h>

enum { WORD_MOST = 32, LEAST_PREFIX = 5, SYMPTOMS_MOST = 32 };

static const struct symptom {
  const char *complaint, *keywords, *command, *answers;
} symptoms[] = {
#define SYMPTOM(complaint, keywords, command, answers) {complaint, keywords, command, answers},
#include "diagnose/symptoms.def"
#undef SYMPTOM
};
enum { SYMPTOM_COUNT = sizeof symptoms / sizeof *symptoms };
_Static_assert((int)SYMPTOM_COUNT <= (int)SYMPTOMS_MOST, "scores have room");

/* The next word of a text, in lower case; false at its end. */
static bool next_word(const char **text, char word[WORD_MOST]) {
  const char *p = *text;
  size_t n = 0;
  while (*p && !isalnum((unsigned char)*p)) p++;
  for (; isalnum((unsigned char)*p); p++)
    if (n + 1 < WORD_MOST) word[n++] = (char)tolower((unsigned char)*p);
  word[n] = 0;
  *text = p;
  return n > 0;
}

/* Equal, or beginnings of one another that are long enough: profile, profiling. */
static bool are_alike(const char *a, const char *b, bool exactly) {
  size_t same = 0;
  while (a[same] && a[same] == b[same]) same++;
  if (!a[same] && !b[same]) return true;
  return !exactly && same >= LEAST_PREFIX;
}

static int score_of(const struct symptom *s, const char *words, bool exactly) {
  char word[WORD_MOST], keyword[WORD_MOST];
  int score = 0;
  while (next_word(&words, word)) {
    bool found = false;
    for (const char *keywords = s->keywords; !found && next_word(&keywords, keyword);)
      found = are_alike(word, keyword, exactly);
    score += found;
  }
  return score;
}

static bool is_one_word(const char *words) {
  char word[WORD_MOST];
  return next_word(&words, word) && !next_word(&words, word);
}

/* The beginning of a question's name: then the question is meant. */
static bool begins_question(const char *words) {
  char word[WORD_MOST];
  if (!next_word(&words, word)) return false;
  for (size_t i = 0; i < tg__catalog.count; i++)
    if (strncmp(tg__catalog.questions[i].name, word, strlen(word)) == 0) return true;
  return false;
}

bool tg__symptom_match(const char *words, size_t i, const char **complaint, const char **command,
                       const char **answers) {
  const bool exactly = is_one_word(words); /* a single word may be the name of a question, misspelt */
  int scores[SYMPTOMS_MOST];
  if (exactly && begins_question(words)) return false;
  for (size_t k = 0; k < SYMPTOM_COUNT; k++) scores[k] = score_of(&symptoms[k], words, exactly);
  for (;; i--) {
    size_t best = 0;
    for (size_t k = 1; k < SYMPTOM_COUNT; k++)
      if (scores[k] > scores[best]) best = k;
    if (scores[best] == 0) return false;
    scores[best] = 0;
    if (i) continue;
    *complaint = symptoms[best].complaint;
    *command = symptoms[best].command;
    *answers = symptoms[best].answers;
    return true;
  }
}

const char *tg__fallback_question(const struct tg_trace *trace) {
  return tg__question_name(trace->summaries ? TG__Q_ranks : TG__Q_overview);
}
