/* show, private: the JSON forms of a trace's strings and args, worked out once and written fast (argsjson.c). */
#ifndef TG_SHOW_ARGSJSON_H
#define TG_SHOW_ARGSJSON_H

#include "show/parts.h"
#include "show/buffer.h"

struct tg__forms;
struct tg__forms *tg__forms_new(const struct tg__columns *t); /* NULL on no memory */
void tg__forms_free(struct tg__forms *f);
/* Escaped, without quotes. */
struct tg__str tg__form_body(struct tg__forms *f, uint32_t string_id, struct tg__out *out);

/* Members of the event that are not args, each with a comma in front; the key `skip` is left out (TG_NONE: none is). */
void tg__put_top(struct tg__forms *f, struct tg__buffer *buffer, uint32_t args, uint32_t skip);
/* `before` and the args object; nothing, and false, when the event had none. */
bool tg__put_args(struct tg__forms *f, struct tg__buffer *buffer, uint32_t args, struct tg__str before);

#endif
