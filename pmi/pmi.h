/* pmi.h: PMI-1, which MPICH's mpiexec (hydra) and srun --mpi=pmi2 speak to
 * their ranks on the descriptor PMI_FD: one line "cmd=NAME key=value ..." each
 * way at a time (MPICH's src/pmi). A pure codec, and one exchange over it. */
#ifndef PMI_PMI_H
#define PMI_PMI_H

#include "base/buf.h"
#include "base/error.h"

enum { PMI_LINE_MAX = 2048, PMI_NAME_MAX = 256 };

/* Finds key in a line without its newline. 1 and *value, or 0. */
int pmi_field(struct slice line, const char *key, struct slice *value);
/* 0 if the line is the reply cmd, with rc=0 or without rc; else ERR_PROTOCOL,
 * or ERR_REMOTE with the launcher's message. */
int pmi_check(struct slice line, const char *cmd, struct err *e);

/* A session with the launcher. */
struct pmi {
	int fd;
	uint64_t deadline;
	char name[PMI_NAME_MAX]; /* the key space's */
	char line[PMI_LINE_MAX];
	struct slice reply; /* the last reply */
	struct err *e;
};

/* Call it once in a process. timeout_ms (< 0: forever) limits all calls up to
 * pmi_close, and all of them report errors in e. */
int pmi_open(struct pmi *p, int fd, int timeout_ms, struct err *e);
/* All ranks call it, each time with a new key; the text of the rank that sets
 * mine is copied to the others. */
int pmi_share(struct pmi *p, const char *key, int mine, char *text,
	      size_t size);
/* Ends the session: from then on the launcher accepts that this process
 * exits. */
int pmi_close(struct pmi *p);

#endif
