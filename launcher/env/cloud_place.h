/* cloud_place.h: this node's place in a job that a cloud or an operator of
 * Kubernetes started, read from the variables that it sets in each container.
 * A table has a row for each platform. Pure but for two small files that
 * cloud_view names; resolves no names. */
#ifndef LAUNCHER_CLOUD_PLACE_H
#define LAUNCHER_CLOUD_PLACE_H

#include "base/error.h"
#include "base/sock.h"

/* Where the facts are read. */
struct cloud_view {
	const char *(*get)(const char *name);
	char *const *vars; /* all variables, for names that are not fixed */
	const char *host;  /* the kernel's name of this host */
	const char *etc_hosts;       /* "/etc/hosts" */
	const char *resource_config; /* SageMaker's, for images without SM_* */
};

struct cloud_place {
	const char *platform; /* "AWS Batch" */
	uint32_t nodes;       /* 0: not known */
	long rank;            /* this node's; -1: not known */
	/* The first node's name or address. "": not known, or is_first says
	 * that it is this one. */
	char first[SOCK_HOST_MAX];
	int is_first;
	uint16_t port; /* for the first node's server; 0: any */
	uint32_t gpus; /* this node's; 0: not known */
	const char *rank_variable; /* rank was read from it; NULL: derived */
	char evidence[SOCK_HOST_MAX]; /* "AWS_BATCH_JOB_NUM_NODES=2" */
	const char *advice; /* what makes the missing facts known; or NULL */
};

/* 1: *p is this node's place in a job, and each field that is not known is 0,
 * -1 or "". 0: no platform's variables are set. ERR_USAGE: a variable cannot be
 * used, or two platforms contradict each other; the error names both, and the
 * options that decide. */
int cloud_place_read(struct cloud_place *p, const struct cloud_view *v,
		     struct err *e);

/* ---- cloud_spec.c: the rows that read JSON, and what they share with
 * cloud_place.c, whose rows read variables ---- */

/* A variable's value; NULL if it is not set or empty. */
const char *cloud_place_get(const struct cloud_view *v, const char *name);

/* Sets first and port from HOST or HOST:PORT; ERR_USAGE names the variable. */
int cloud_place_set_first(struct cloud_place *p, const char *name,
			  const char *text, struct err *e);

/* Rows: 1, 0 or ERR_USAGE, as cloud_place_read. */
int cloud_spec_sagemaker(struct cloud_place *p, const struct cloud_view *v,
			 struct err *e);
int cloud_spec_vertex(struct cloud_place *p, const struct cloud_view *v,
		      struct err *e);
int cloud_spec_tensorflow(struct cloud_place *p, const struct cloud_view *v,
			  struct err *e);

#endif
