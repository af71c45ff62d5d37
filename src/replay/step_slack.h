/* step_slack: how much later nodes may begin and no step ends later, private to this folder. */
#ifndef TG_STEP_SLACK_H
#define TG_STEP_SLACK_H

#include "replay/step_graph.h"

#define TG__SLACK_WITHOUT_END INT64_MAX /* no step waits for it */

struct tg__replay_slack {
  const struct tg__replay_graph *g;
  struct tg__replay_times x; /* replayed as recorded */
  int64_t *end_ns;           /* by step */
  int64_t *latest_ns;        /* by node: the latest begin with which no step ends later; TG__SLACK_WITHOUT_END */
  /* of a try with several nodes that begin later */
  struct tg__replay_times tried;
  int64_t *tried_end_ns, *late_ns; /* by step, by node */
  size_t tries;                    /* so far: each is a pass over all nodes */
};
/* s is to be closed either way. TG_OK or TG_MEMORY. */
enum tg_err tg__slack_open(struct tg__replay_slack *s, const struct tg__replay_graph *g);
void tg__slack_close(struct tg__replay_slack *s);
/* How much later only this node may begin. */
int64_t tg__slack_alone(const struct tg__replay_slack *s, uint32_t node);
/* How much later each of these may begin when all of them do; least_ns: the least of tg__slack_alone over them. */
int64_t tg__slack_together(struct tg__replay_slack *s, const uint32_t *nodes, size_t count, int64_t least_ns);

#endif
