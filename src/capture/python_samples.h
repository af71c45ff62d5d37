/* Shared by the files that look at threads from another one: what they do, and where. */
#ifndef TG_PYTHON_SAMPLES_H
#define TG_PYTHON_SAMPLES_H

#include "capture/python_stack.h"

#define TG_DOING_LOCK "lock"
#define TG_DOING_GIL "gil"
#define TG_DOING_READY "ready" /* of another thread: it could go on, and hardly used a core since the look before */

/* python_doing.c: a file that says which system call a thread is in, to be closed; -1: not to be had. The second
 * returns the word that the record SAMPLE has for it. is_working: what the thread is taken to do where the file does
 * not say. */
int tg__doing_open(uint32_t os_thread);
const char *tg__doing_now(int call_file, bool is_working);

/* python_samples.c: number of the stack in the dictionary of the calling thread; 0: none to be had. Takes the GIL for a
 * place that was not seen before. */
uint32_t tg__far_frames_number(struct tg__thread *t, const struct tg__far_frames *f);

uint64_t tg__time_on(clockid_t clock); /* 0: no such clock */

/* python_side_samples.c: records where the other threads of its interpreter are at this moment. only_busy: those that
 * used a core for half of the time since the look before. */
void tg__side_samples_take(struct tg__thread *t, const PyThreadState *watched, uint64_t ticks, bool only_busy);

#endif
