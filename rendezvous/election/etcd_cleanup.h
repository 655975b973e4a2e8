/* etcd_cleanup.h: what is left in etcd of a job that is over: a server that
 * sees the end writes /ddprun/JOB/ended (journal_etcd.h), and then removes all.
 * Who leaves the job waits here until that is done; where it is not, as that
 * server died, he does it. Says only how it stands. */
#ifndef RENDEZVOUS_ETCD_CLEANUP_H
#define RENDEZVOUS_ETCD_CLEANUP_H

#include "etcd/etcd.h"

struct etcd_cleanup;

enum etcd_cleanup_state {
	ETCD_CLEANUP_NONE,  /* the job goes on, or all of it has been removed */
	ETCD_CLEANUP_THERE, /* it is over, and has not been removed yet */
	ETCD_CLEANUP_UNKNOWN, /* etcd did not say, or it took too long */
};

/* on_told: as soon as it is known; after ETCD_CLEANUP_THERE once more when that
 * has changed, or waiting has taken twice the ttl and some seconds.
 * etcd_cleanup_close may be called in it. etcd is borrowed. -ENOMEM. */
int etcd_cleanup_watch(struct etcd_cleanup **out, struct etcd *etcd,
		       uv_loop_t *loop, const char *job, uint32_t ttl_s,
		       void (*on_told)(void *owner,
				       enum etcd_cleanup_state how),
		       void *owner, struct err *e);
/* NULL is fine; the memory goes from the loop. Not from a watch's callback. */
void etcd_cleanup_close(struct etcd_cleanup *r);

#endif
