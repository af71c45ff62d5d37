/* The libraries that stand for NVIDIA's in the tests: libcupti and libcuda in one, playing a script. Nothing of it
 * knows the recorder: records are laid out here by the numbers of CUPTI's headers.
 *
 * A script is lines; `#` begins a comment. Times are ns after the start of the script's play, numbers are decimal, the
 * last word of a kernel is its name up to the end of the line. README.md has the commands. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

/* Plays a text; 0, or the number of the line that is no command. */
int fake_run(const char *script);
void fake_reset(void); /* as freshly loaded, but for what is enabled */
uint64_t fake_number(
    const char *what); /* enabled, subscribed, requested, refused, registered, flushed; told: calls of the subscriber */

#endif
