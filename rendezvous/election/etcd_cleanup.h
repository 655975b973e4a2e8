/* etcd_cleanup.h: watches the removal of a job that is over from etcd: its
 * leader writes /ddprun/JOB/ended (journal_etcd.h) and then removes all keys. A
 * process that leaves the job waits for that; if the leader has died, it stands
 * for election and removes them. Only reports the state. */
#ifndef RENDEZVOUS_ETCD_CLEANUP_H
#define RENDEZVOUS_ETCD_CLEANUP_H

#include "etcd/etcd.h"

struct etcd_cleanup;

enum etcd_cleanup_state {
	ETCD_CLEANUP_NONE,    /* the job continues, or is removed */
	ETCD_CLEANUP_THERE,   /* it is over and not removed yet */
	ETCD_CLEANUP_UNKNOWN, /* etcd did not answer, or it took too long */
};

/* Calls on_known as soon as the state is known; after ETCD_CLEANUP_THERE once
 * more, when it has changed or after twice the ttl and a few seconds.
 * etcd_cleanup_close may be called in it. etcd is borrowed. -ENOMEM. */
int etcd_cleanup_watch(struct etcd_cleanup **out, struct etcd *etcd,
		       uv_loop_t *loop, const char *job, uint32_t ttl_s,
		       void (*on_known)(void *owner,
					enum etcd_cleanup_state how),
		       void *owner, struct err *e);
/* NULL is fine. The memory is freed from the loop. Do not call it in a watch's
 * callback. */
void etcd_cleanup_close(struct etcd_cleanup *r);

#endif
