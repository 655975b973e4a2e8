/* pmix_abi.h: the few types of PMIx that we need, declared here, so that
 * libpmix.so.2 can be loaded without its headers. They follow the ABI of the
 * PMIx standard (pmix_common.h and pmix_server.h), which is the same in
 * versions 3 to 5; a test compares them with the headers where these are
 * installed. */
#ifndef PMI_PMIX_ABI_H
#define PMI_PMIX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PMIX_ABI_LIBRARY "libpmix.so.2"

enum {
	PMIX_ABI_KEY_BYTES = 512,
	PMIX_ABI_NAMESPACE_BYTES = 256,
};

enum pmix_abi_type {
	PMIX_ABI_BOOL = 1,
	PMIX_ABI_STRING = 3,
	PMIX_ABI_INT = 6,
	PMIX_ABI_UINT16 = 13,
	PMIX_ABI_UINT32 = 14,
	PMIX_ABI_INFO = 24,
	PMIX_ABI_BYTE_OBJECT = 27,
	PMIX_ABI_DATA_ARRAY = 39,
	PMIX_ABI_RANK = 40,
};

enum pmix_abi_status {
	PMIX_ABI_SUCCESS = 0,
	PMIX_ABI_ERROR = -1,
	PMIX_ABI_ERR_NOMEM = -32,
	PMIX_ABI_ERR_NOT_SUPPORTED = -47,
	PMIX_ABI_OPERATION_SUCCEEDED = -157, /* at once: no callback */
};

enum { PMIX_ABI_GLOBAL = 3 }; /* a scope: for ranks here and elsewhere */

#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)

struct pmix_abi_proc {
	char nspace[PMIX_ABI_NAMESPACE_BYTES];
	uint32_t rank;
};

struct pmix_abi_array {
	uint16_t type;
	size_t size;
	void *array;
};

struct pmix_abi_value {
	uint16_t type;
	union {
		uint8_t flag;
		char *string;
		int integer;
		uint16_t u16;
		uint32_t u32, rank;
		struct pmix_abi_array *array;
		struct {
			char *data;
			size_t size;
		} bytes;
		void *largest[3]; /* the standard's pmix_envar_t */
	} data;
};

struct pmix_abi_info {
	char key[PMIX_ABI_KEY_BYTES];
	uint32_t flags;
	struct pmix_abi_value value;
};

/* ---- of a server ---- */

typedef void pmix_abi_done(int status, void *arg);
typedef void pmix_abi_release(void *arg);
typedef void pmix_abi_modex(int status, const char *data, size_t n, void *arg,
			    pmix_abi_release *release, void *release_arg);
typedef void pmix_abi_found(int status, char *data, size_t n, void *arg);

/* The functions that the library calls, in its own thread. The members up to
 * client_connected2 are those of version 4; an older library reads fewer. NULL:
 * not supported. */
struct pmix_abi_module {
	int (*client_connected)(const struct pmix_abi_proc *proc, void *object,
				pmix_abi_done *done, void *arg);
	int (*client_finalized)(const struct pmix_abi_proc *proc, void *object,
				pmix_abi_done *done, void *arg);
	int (*abort)(const struct pmix_abi_proc *proc, void *object, int status,
		     const char *text, struct pmix_abi_proc *procs, size_t n,
		     pmix_abi_done *done, void *arg);
	int (*fence_nb)(const struct pmix_abi_proc *procs, size_t n,
			const struct pmix_abi_info *info, size_t ninfo,
			char *data, size_t size, pmix_abi_modex *done,
			void *arg);
	int (*direct_modex)(const struct pmix_abi_proc *proc,
			    const struct pmix_abi_info *info, size_t ninfo,
			    pmix_abi_modex *done, void *arg);
	void (*publish)(void), (*lookup)(void), (*unpublish)(void);
	int (*spawn)(const struct pmix_abi_proc *proc,
		     const struct pmix_abi_info *info, size_t ninfo,
		     const void *apps, size_t n, void (*done)(void), void *arg);
	void (*connect)(void), (*disconnect)(void);
	int (*register_events)(int *codes, size_t n,
			       const struct pmix_abi_info *info, size_t ninfo,
			       pmix_abi_done *done, void *arg);
	int (*deregister_events)(int *codes, size_t n, pmix_abi_done *done,
				 void *arg);
	void (*listener)(void), (*notify_event)(void), (*query)(void);
	void (*tool_connected)(void);
	void (*log)(const struct pmix_abi_proc *proc,
		    const struct pmix_abi_info *data, size_t n,
		    const struct pmix_abi_info *directives, size_t ndirectives,
		    pmix_abi_done *done, void *arg);
	void (*allocate)(void);
	int (*job_control)(const struct pmix_abi_proc *from,
			   const struct pmix_abi_proc *targets, size_t n,
			   const struct pmix_abi_info *info, size_t ninfo,
			   void (*done)(void), void *arg);
	void (*monitor)(void), (*get_credential)(void);
	void (*validate_credential)(void), (*iof_pull)(void);
	void (*push_stdin)(void), (*group)(void), (*fabric)(void);
	int (*client_connected2)(const struct pmix_abi_proc *proc, void *object,
				 struct pmix_abi_info *info, size_t ninfo,
				 pmix_abi_done *done, void *arg);
	/* room for the members of later versions */
	void (*later[16])(void);
};

#endif
