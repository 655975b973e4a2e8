/* pmix_frame.h: the messages between an agent and its helper, the process that
 * runs libpmix's server (pmix_helper.h), on a pair of sockets. A frame is u32
 * length of what follows, u8 type, u32 id, i32 code, data. Pure. */
#ifndef LAUNCHER_PMIX_FRAME_H
#define LAUNCHER_PMIX_FRAME_H

#include "base/buf.h"

enum {
	PMIX_FRAME_HEAD = 13,
	PMIX_FRAME_MAX = 512 << 20, /* a fence has a value of each node */
};

/* The ids of requests are their sender's; a reply has the same. */
enum pmix_frame_type {
	/* to the helper */
	HELPER_BEGIN = 1,    /* data: struct pmix_job. Answered by READY */
	HELPER_FENCED,       /* the answer to FENCE: code, data of all nodes */
	HELPER_WANTED,       /* code: a rank of this node. Answered by DATA */
	HELPER_FOUND,        /* the answer to WANT: code, data */
	HELPER_HEARD,        /* the answer to SAID */
	/* from it */
	HELPER_READY,        /* data: each rank's variables (pmix_vars) */
	HELPER_FAILED,       /* data: text; there is no server */
	HELPER_CONNECTED,    /* id: the rank that has called MPI_Init */
	HELPER_FINALIZED,    /* id: the rank that has called MPI_Finalize */
	HELPER_ABORT,        /* id: the rank, code: MPI_Abort's, data: text */
	HELPER_FENCE,        /* all ranks of this node wait; data: theirs */
	HELPER_WANT,         /* code: a rank of another node. Needs its data */
	HELPER_DATA,         /* the answer to WANTED: code, data */
	HELPER_REFUSED,      /* id: the rank, data: what it was refused */
	HELPER_SAID,         /* code: a rank of this node, data: text for its
			      * stderr. Needs HEARD */
	HELPER_TYPES
};

struct pmix_frame {
	uint8_t type;
	uint32_t id;
	int32_t code; /* of PMIx (pmix_abi.h), unless said otherwise */
	struct slice data;
};

void pmix_frame_put(struct buf *b, const struct pmix_frame *f);
/* What precedes f->data, for a sender without memory. */
void pmix_frame_head(const struct pmix_frame *f, uint8_t head[PMIX_FRAME_HEAD]);
/* Parses the first frame of in: its size; 0: more bytes are needed;
 * ERR_PROTOCOL. */
MUST_CHECK long pmix_frame_cut(struct slice in, struct pmix_frame *f,
			       struct err *e);

/* The text of a message that an Open MPI before version 5 hands its server to
 * print, such as "*** MPI_ERR_TRUNCATE: message truncated": the bytes of
 * PMIX_LOG_MSG are a file, a topic, 1 and the text, each a count (1) and a
 * value. Empty if the bytes are anything else. */
struct slice pmix_said(struct slice bytes);

/* ---- the variables of READY ----
 *
 * The variables by which the ranks of a node find libpmix's server
 * ("PMIX_RANK=3"), as many for each rank. Pure. */

struct pmix_vars {
	char *text;
	char **vars; /* rank i's from i * n on, in text */
	uint32_t n;
};

/* The variables of one more rank: those of env, which ends with NULL, and n
 * more. */
void pmix_vars_put(struct buf *b, char *const *env, char *const *more,
		   uint32_t n);
/* Those of nproc ranks. ERR_PROTOCOL: the ranks do not have the same number of
 * them; -ENOMEM. After an error v needs no release. */
int pmix_vars_get(struct pmix_vars *v, struct slice bytes, uint32_t nproc,
		  struct err *e);
void pmix_vars_release(struct pmix_vars *v);

#endif
