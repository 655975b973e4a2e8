/* pmix_service.h: serves PMIx to the workers of one round on this node: a
 * helper process runs libpmix's server (pmix_helper.h); this is its link to the
 * agent and to the other nodes. A fence is an exchange among nodes, as a
 * barrier of PMI-1 is; what ranks ask each other without a fence (direct modex)
 * goes by letters. */
#ifndef LAUNCHER_PMIX_SERVICE_H
#define LAUNCHER_PMIX_SERVICE_H

#include "launcher/pmi/attendance.h"
#include "launcher/pmi/node_mail.h"
#include "launcher/pmi/pmi_exchange.h"
#include "launcher/pmix/helper_link.h"
#include "launcher/pmix/pmix_frame.h"
#include "launcher/pmix/pmix_job.h"

struct pmix_service_events {
	/* The workers may be started: their variables are there. */
	void (*on_ready)(void *owner);
	/* The round cannot go on. */
	void (*on_failed)(void *owner, const char *text);
	/* A worker has called MPI_Abort and has had time to exit. */
	void (*on_abort_over)(void *owner, uint32_t local_rank);
	/* A worker hands over text that belongs on its stderr. */
	void (*on_said)(void *owner, uint32_t local_rank, struct slice text);
	/* Called before the round's folder is made: if this process is killed,
	 * another one has to remove it. */
	void (*note_folder)(void *owner, const char *path);
};

/* A fence in which this node's ranks wait. */
struct pmix_fence {
	struct pmix_fence *next;
	uint32_t id;
	struct buf data;
};

/* Another node has asked for the data of a rank. */
struct pmix_want {
	struct pmix_want *next;
	uint32_t id, node, their_id, rank;
};

struct pmix_service {
	void *owner;
	const struct pmix_service_events *events;
	uv_loop_t *loop;
	struct pmix_job job;
	struct attendance attendance;
	struct helper_link helper;
	struct pmi_exchange exchange; /* with more than one node */
	struct node_mail mail;	      /* likewise */
	struct pmix_vars vars;
	struct pmix_fence *fences, **last_fence;
	struct pmix_want *wants;
	uint32_t last_want;
	uv_timer_t abort;
	int open_parts, has_helper, has_exchange, has_mail;
	int is_closing, has_failed, is_ready, is_exchanging, is_over;
	int has_logged_refusal;
	struct err *starting; /* pmix_service_new's, while it runs */
	char lost[192]; /* how the helper ended; or "" */
};

/* Starts the helper and, with several nodes, connects to the server. on_ready
 * follows. Copies job, without ranks and nodes: it learns them. The folder for
 * the round's files is created, in job->folder if that is in memory, and
 * removed. NULL: e says why. The pointers in round must outlive it. */
struct pmix_service *pmix_service_new(uv_loop_t *loop,
				      const struct pmix_job *job,
				      const struct pmi_exchange_round *round,
				      const struct pmix_service_events *events,
				      void *owner, struct err *e);
/* The worker's variables, n of them. */
char *const *pmix_service_vars(const struct pmix_service *s,
			       uint32_t local_rank, uint32_t *n);
/* As in pmi_service.h */
void pmix_service_ended(struct pmix_service *s, uint32_t local_rank,
			int has_failed);
int pmix_service_aborted(const struct pmix_service *s, uint32_t local_rank,
			 int *code, char *text, size_t size);
/* How the helper ended, although workers may still need it; or "". */
const char *pmix_service_lost(struct pmix_service *s);
/* A child ended: 1 if it was the helper. NULL is fine. */
int pmix_service_reaped(struct pmix_service *s, pid_t pid, int status);
/* The helper's pid, or 0. NULL is fine. */
pid_t pmix_service_pid(const struct pmix_service *s);
/* Closes all, and lets the helper end; the memory is freed from the loop. NULL
 * is fine. */
void pmix_service_close(struct pmix_service *s);

#endif
