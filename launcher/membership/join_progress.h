/* join_progress.h: what an agent that waits says of it: for whom, since when,
 * and what brings them. Decides nothing, and keeps nothing. */
#ifndef LAUNCHER_JOIN_PROGRESS_H
#define LAUNCHER_JOIN_PROGRESS_H

#include "launcher/membership/member.h"

/* Outside the job, or while a last call is out; else it is silent: the server
 * says whom for, and when. */
void join_progress_log(const struct member *m);
/* What the server said: m->awaited, after so many seconds. */
void join_progress_log_awaited(const struct member *m, unsigned long long s);
void join_progress_log_spare(const struct member *m);
/* "2 nodes", "2 to 4 nodes"; returns text. */
const char *join_progress_nodes(const struct member *m, char *text,
				size_t size);

#endif
