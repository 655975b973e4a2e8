/* aloud.h: what an agent that waits says of it: for whom, since when, and what
 * brings them. Decides nothing, and keeps nothing. */
#ifndef LAUNCHER_ALOUD_H
#define LAUNCHER_ALOUD_H

#include "launcher/membership/member.h"

/* Outside the job, or while a last call is out; else it is silent: the server
 * says whom for, and when. */
void aloud_speak(const struct member *m);
/* What the server said: m->awaited, after so many seconds. */
void aloud_awaited(const struct member *m, unsigned long long s);
void aloud_spare(const struct member *m);
/* "2 nodes", "2 to 4 nodes"; returns text. */
const char *aloud_nodes(const struct member *m, char *text, size_t size);

#endif
