/* meet.h: where the ddpruns meet that an MPI launcher started, one a node: the
 * first tells the others through that launcher, PMIx or PMI-1, which no
 * variable does. Before the loop runs: it blocks. */
#ifndef LAUNCHER_MEET_H
#define LAUNCHER_MEET_H

#include "launcher/config/config.h"
#include "pmi/pmix.h"

/* What PMIx says of this process; -errno, ERR_REMOTE, ERR_USAGE as pmix.h. What
 * asked waits for meet, or to be dismissed. */
int meet_ask_pmix(struct pmix_self *self, struct err *e);
void meet_dismiss(void);

/* All ddpruns of c->mpirun call it, and have within c->rdzv_timeout_s the same
 * c->endpoint, an address of the first one's that the second has connected to
 * (on a port that stays reserved), and the same c->job unless it was given. The
 * first is to host. The launcher is spoken to by a child, which ends here: this
 * process gets no thread of PMIx's. */
int meet(struct config *c, struct err *e);

#endif
