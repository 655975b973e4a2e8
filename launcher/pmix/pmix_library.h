/* pmix_library.h: libpmix.so.2, the library that serves PMIx: loaded when it is
 * needed, with declarations of our own (pmi/pmix_abi.h). */
#ifndef LAUNCHER_PMIX_LIBRARY_H
#define LAUNCHER_PMIX_LIBRARY_H

#include "base/error.h"
#include "pmi/pmix_abi.h"

struct pmix_library {
	int (*server_init)(const struct pmix_abi_module *module,
			   struct pmix_abi_info *info, size_t n);
	int (*server_finalize)(void);
	int (*generate_regex)(const char *in, char **out);
	int (*generate_ppn)(const char *in, char **out);
	int (*register_nspace)(const char *name, int nlocal,
			       struct pmix_abi_info *info, size_t n,
			       pmix_abi_done *done, void *arg);
	int (*register_client)(const struct pmix_abi_proc *proc, uid_t uid,
			       gid_t gid, void *object, pmix_abi_done *done,
			       void *arg);
	int (*setup_fork)(const struct pmix_abi_proc *proc, char ***env);
	int (*dmodex_request)(const struct pmix_abi_proc *proc,
			      pmix_abi_found *done, void *arg);
	const char *(*error_string)(int status);
};

/* ERR_SYSTEM: the library or a function is missing; e says what to do. */
int pmix_library_load(struct pmix_library *l, struct err *e);
/* The same, tried by a child, so that this process stays small. It forks: call
 * it before there are threads. */
int pmix_library_check(struct err *e);

#endif
