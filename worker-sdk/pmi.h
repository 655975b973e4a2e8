/* pmi.h: PMI-1, what MPICH's mpiexec (hydra) and srun --mpi=pmi2 speak with
 * their ranks on the descriptor PMI_FD: one line "cmd=NAME key=value ..." each
 * way at a time (MPICH's src/pmi). A pure codec, and one exchange over it. */
#ifndef SDK_PMI_H
#define SDK_PMI_H

#include "base/buf.h"
#include "base/error.h"

enum { DDP__PMI_LINE_MAX = 2048, DDP__PMI_NAME_MAX = 256 };

/* The value of key in a line without its end; 1 and *value, or 0. */
int ddp__pmi_field(struct slice line, const char *key, struct slice *value);
/* 0 if the line is the answer cmd, with rc=0 or none; else ERR_PROTOCOL, or
 * ERR_REMOTE with what the launcher says. */
int ddp__pmi_check(struct slice line, const char *cmd, struct err *e);

/* Rank 0's text into that of all ranks, which all call it: init, put, barrier,
 * get, finalize, so that the launcher counts this process as one that may end
 * when it likes. Once a process: the launcher closes its end. */
int ddp__pmi_share(int fd, int rank, char *text, size_t size, int timeout_ms,
		   struct err *e);

#endif
