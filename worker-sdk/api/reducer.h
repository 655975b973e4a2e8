/* reducer.h: shared by the reducer's files: its state, and the check that all
 * ranks made the same reducer. */
#ifndef SDK_REDUCER_H
#define SDK_REDUCER_H

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/api/bucket.h"
#include "worker-sdk/ddp.h"

enum reducer_state {
	REDUCER_IDLE,
	REDUCER_LOCAL,	/* a backward pass without synchronisation */
	REDUCER_SYNC,	/* a step with synchronisation */
	REDUCER_FAILED	/* why: r->failed */
};

/* The largest absolute value of each parameter's gradient, [n] each. */
struct ddp__reducer_norms {
	double factor; /* an outlier is this many times the median */
	double *mine;  /* on this rank, in this step, before the average */
	double *now;   /* from this step's averages */
	double *usual; /* from the averages before */
	int is_usual;  /* there were some */
};

struct ddp_reducer {
	/* The communicator of its buckets. Usually its own, of the same ranks,
	 * so that buckets never change order with the program's calls; or the
	 * program's, if no start depends on timing: on GPUs, and with one rank.
	 * NULL: the world ended first. */
	ddp_comm *c;
	int owns_c;
	enum ddp_type type;
	size_t element; /* bytes */
	int apart;	/* gradients are separate spans */
	char *grads;	/* if not apart: their arena; the caller's */
	char **data;	/* [n] the gradients; the caller's */
	/* [buckets] copies of the gradients; NULL: they are contiguous and
	 * averaged in place. */
	char **room;
	void *registration; /* with NCCL, or NULL */
	struct ddp_reducer_options o;
	struct ddp__buckets b;
	enum reducer_state state;
	struct err failed;
	enum ddp_op op; /* DDP_AVG, or DDP_SUM for ddp_reducer_use_sums */
	int alone; /* one rank and no hook: nothing to average */
	ddp_request **requests; /* [buckets] NULL: complete */
	int landed; /* buckets that are complete */
	/* Looks for gradients that are not finite, and the first one of this
	 * step on this rank, plus 1. */
	int checks_finite, not_finite;
	struct ddp__reducer_norms *norms; /* NULL: they are not compared */
	int held; /* the last bucket is ready, and finish will run it */
	uint16_t *wire; /* the arena as bf16, or NULL */
	int on_gpu; /* the gradients are, and wire */
	struct ddp__nccl_bf16 *converts; /* f32 to wire and back; or NULL */
	/* [n] each, with find_unused: */
	unsigned char *mine; /* had a gradient on this rank since the last
			      * average */
	unsigned char *used; /* had one on any rank, at the last average */
	char *kept; /* saved gradients of parameters that this rank did not
		     * use */
};

/* After data is set: allocates room and wire. 0 or -ENOMEM. */
int ddp__reducer_memory_init(struct ddp_reducer *r);
/* For gradients on a GPU: makes wire there, and registers with NCCL what it
 * averages. Another backend: 0. */
int ddp__reducer_use_gpu(struct ddp_reducer *r, struct err *e);
void ddp__reducer_memory_release(struct ddp_reducer *r);
/* Bucket k as it is averaged, copied or in place; sets *type. NULL: it could
 * not be converted on the GPU; ddp__last_error has the reason. */
void *ddp__reducer_load(struct ddp_reducer *r, int k, enum ddp_type *type);
/* 1 if ddp__reducer_load returns a copy of bucket k's gradients. */
int ddp__reducer_is_copied(const struct ddp_reducer *r, int k);
/* After the average: copies bucket k back to the gradients. */
int ddp__reducer_land(struct ddp_reducer *r, int k);

/* 1 if gradient i has neither NaN nor infinity. */
int ddp__reducer_is_finite(const struct ddp_reducer *r, int i);
/* Ends a step with checks_finite. Collective on r->c: 0, or on all ranks the
 * error of the lowest rank with r->not_finite, or of an average that is not
 * finite although no rank has one. */
int ddp__reducer_agree_finite(struct ddp_reducer *r);

/* 0 if a check may be switched on or off now; what: the call. */
int ddp__reducer_check_check(const struct ddp_reducer *r, const char *what);

/* A step with synchronisation begins. */
void ddp__reducer_reset_norms(struct ddp_reducer *r);
/* Gradient i of this rank is complete. */
void ddp__reducer_note_norm(struct ddp_reducer *r, int i);
/* Ends a step with norms. Collective on r->c: 0, or on all ranks the error that
 * names the outlier. */
int ddp__reducer_agree_norms(struct ddp_reducer *r);
void ddp__reducer_norms_free(struct ddp_reducer *r);

/* Collective on c: 0 if all ranks have equal n, counts, type and options and no
 * rank failed; else an error on all ranks. ours: code 0, or this rank's
 * error. */
int ddp__reducer_agree(ddp_comm *c, const struct ddp_reducer *r,
		       const size_t *counts, int n, const struct err *ours);

#endif
