/* Behind the advice of a finding the settings that it begins from, as settings.def lists them. */
#include "diagnose/findings.h"

static const struct {
  enum tg__cause cause;
  const char *document, *of, *member, *name, *unset;
} settings[] = {
#define SETTING(cause, document, of, member, name, unset) {TG__CAUSE_##cause, document, of, member, name, unset},
#include "diagnose/settings.def"
};

/* Where the recording has other conditions, a missing one is unset. */
static struct tg__str value_of(const struct tg__facts *f, size_t k) {
  const struct tg__str document = tg__document_member(f->t, f->rank, settings[k].document),
                       of = settings[k].of ? tg__json_member(document, settings[k].of) : document,
                       raw = tg__json_member(of, settings[k].member);
  if (raw.len) return tg__json_plain(raw);
  return tg__json_member(document, "torch").len
             ? (struct tg__str){settings[k].unset, (uint32_t)strlen(settings[k].unset)}
             : TG_STR("");
}

void tg__say_settings(const struct tg__facts *f, struct tg__finding *x) {
  enum { LONGEST = 60 };
  const char *before = " Now: ";
  for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
    const struct tg__str value = settings[k].cause == x->cause ? value_of(f, k) : TG_STR("");
    if (!value.len) continue;
    TG_ADD(x->advice, "%s%s=%.*s", before, settings[k].name, (int)(value.len < LONGEST ? value.len : LONGEST),
           value.ptr);
    before = ", ";
  }
  if (*before == ',') TG_ADD(x->advice, ".");
}
