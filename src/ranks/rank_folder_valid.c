/* rank_folder_valid: the invariants of a folder that is read rank by rank, as code; asserted when it is opened and when
 * a file or all of its ranks come into memory. */
#include "ranks/ranks.h"

#define CHECK(condition, text) TG__CHECK(condition, "folder of ranks: " text)

static bool ranks_are_valid(const struct tg__job_ranks *ranks, size_t files, struct tg_error *e) {
  uint64_t tracks = 0, slices = 0, marks = 0;
  for (size_t i = 0; i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i], *const before = i ? r - 1 : NULL;
    CHECK(r->file_index < files, "a rank of a file that is not there");
    CHECK(!before || before->file_index <= r->file_index, "ranks out of the order of their files");
    CHECK(r->rank_in_file == (before && before->file_index == r->file_index ? before->rank_in_file + 1 : 0),
          "a file's ranks are not numbered from 0 on");
    CHECK(r->first_track == tracks && r->first_slice == slices && r->first_mark == marks,
          "tracks, slices or marks of a rank do not follow those before");
    tracks += r->tracks;
    slices += r->slices;
    marks += r->marks;
  }
  return true;
}

bool tg__rank_folder_is_valid(const struct tg__rank_folder *d, struct tg_error *e) {
  const size_t files = tg__folder_count(d->files);
  const struct tg__columns *const first = d->kept[0].trace, *const second = d->kept[1].trace;
  CHECK(!first || d->kept[0].file_index < files, "a kept trace of a file that is not there");
  CHECK(!second || d->kept[1].file_index < files, "a kept trace of a file that is not there");
  CHECK(!first || !second || (first != second && d->kept[0].file_index != d->kept[1].file_index),
        "a file is kept twice");
  return ranks_are_valid(&d->ranks, files, e);
}
