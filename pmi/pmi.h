/* pmi.h: PMI-1, what MPICH's mpiexec (hydra) and srun --mpi=pmi2 speak with
 * their ranks on the descriptor PMI_FD: one line "cmd=NAME key=value ..." each
 * way at a time (MPICH's src/pmi). A pure codec, and one exchange over it. */
#ifndef PMI_PMI_H
#define PMI_PMI_H

#include "base/buf.h"
#include "base/error.h"

enum { PMI_LINE_MAX = 2048, PMI_NAME_MAX = 256 };

/* The value of key in a line without its end; 1 and *value, or 0. */
int pmi_field(struct slice line, const char *key, struct slice *value);
/* 0 if the line is the answer cmd, with rc=0 or none; else ERR_PROTOCOL, or
 * ERR_REMOTE with what the launcher says. */
int pmi_check(struct slice line, const char *cmd, struct err *e);

/* What is under way with the launcher. */
struct pmi {
	int fd;
	uint64_t deadline;
	char name[PMI_NAME_MAX]; /* of the key space */
	char line[PMI_LINE_MAX];
	struct slice said; /* the last answer */
	struct err *e;
};

/* Once a process; all of it until pmi_close within timeout_ms (< 0: for ever).
 * e is written to until then. */
int pmi_open(struct pmi *p, int fd, int timeout_ms, struct err *e);
/* One rank's text, that of the one with mine, becomes that of all ranks, which
 * all call it, each time with a new key. */
int pmi_share(struct pmi *p, const char *key, int mine, char *text,
	      size_t size);
/* The launcher then counts this process as one that may end when it likes, and
 * closes its end. */
int pmi_close(struct pmi *p);

#endif
