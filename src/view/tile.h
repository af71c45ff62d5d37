/* tile: what all kinds of tiles have in common. */
#ifndef TG_TILE_H
#define TG_TILE_H

#include "view/view.h"

/* Does the tile lie where times can be? Then *begin is where, as in a file with this shift (tg__view_shift). */
bool tg__tile_begin(int64_t shift, unsigned level, int32_t tile, int64_t *begin);
void tg__tile_head(struct tg__out *out, uint32_t row, int32_t tile, uint16_t kind, uint16_t count);

#endif
