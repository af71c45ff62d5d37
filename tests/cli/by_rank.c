/* tachograph-by-rank: the command line as it is, but every folder of ranks is read rank by rank, whatever its size. */
#include "ranks/ranks.h"

__attribute__((constructor)) static void read_rank_by_rank(void) { tg__ranks_large(0); }
