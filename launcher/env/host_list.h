/* host_list.h: the hosts that a job is to run on, in the order of their node
 * ranks: as the user lists them, or as PBS or LSF does. Pure but for the
 * reading of files; it resolves no name. */
#ifndef LAUNCHER_HOST_LIST_H
#define LAUNCHER_HOST_LIST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/env/host_name.h"

enum {
	HOST_LIST_MAX = 65536,     /* hosts; as many as a job may have nodes */
	HOST_LIST_NAME_MAX = 320,  /* bytes of [user@]host */
	HOST_LIST_SLOTS_MAX = HOST_NAME_SLOTS_MAX,
	HOST_LIST_FILE_MAX = 64 << 20, /* bytes; PBS writes a line a slot */
};

struct host {
	uint32_t name;  /* where in text: [user@]host, as ssh takes it; an IPv6
			 * address without its brackets */
	uint32_t slots; /* workers; 0: not said */
	uint32_t line;  /* of the file, or word of the list, counted from 1 */
};

struct host_list {
	struct host *hosts;
	uint32_t count, room;
	struct buf text; /* the names, each NUL-ended */
	char from[256];  /* "-H", or the file's name: begins each error */
};

void host_list_init(struct host_list *l);
void host_list_release(struct host_list *l);

/* The i-th, i < count; valid until l changes. */
const char *host_list_name(const struct host_list *l, uint32_t i);

/* The parsers below fill an l that is as after host_list_init. Names are safe
 * in ssh's and a shell's command lines (host_name.h); two that differ only in
 * case or user are one host. */

/* -H: HOST[:SLOTS] between commas, as Horovod, hydra and OpenMPI (--host) have
 * it; HOST may be [IPv6], and have USER@ before it. Blanks about a word do not
 * count.
 *
 * ERR_USAGE here and below names the word or line, what is wrong with it and
 * what to write: a host twice (OpenMPI adds the two up, DeepSpeed refuses;
 * here a node is one host), no hosts at all, no or too many slots, a name that
 * ssh would take for an option. -ENOMEM. l is then to be released. */
int host_list_parse(struct host_list *l, struct slice text, struct err *e);

/* A hostfile's text; path is for errors. One host a line, as any of
 *     host                       host:4                  (hydra)
 *     host slots=4 max_slots=8   user@host slots=4       (OpenMPI, DeepSpeed,
 *                                                         Horovod)
 * with blanks (OpenMPI has them about '=' too), comments after '#', empty
 * lines, Windows' line ends and a BOM at its start. max_slots is a limit that
 * slots, which must be there then, keeps. OpenMPI's relative forms (+n0, +e)
 * need a resource manager's list and are ERR_USAGE. */
int host_list_parse_file(struct host_list *l, struct slice text,
			 const char *path, struct err *e);

/* Reads it to its end, then the same; "-" is stdin. -errno names the file, and
 * so does ERR_USAGE where it has more than HOST_LIST_FILE_MAX bytes. */
int host_list_read(struct host_list *l, const char *path, struct err *e);

/* A variable's value, NULL where it is not set. */
typedef const char *host_list_get(const char *name);

/* What PBS or LSF gave this job, 1; 0 where none of the two did. A host counts
 * once, with as many slots as it is listed times:
 *     PBS_NODEFILE       a file, a line for each slot; $PBS_NP, PBS_NUM_PPN are
 *                        not asked
 *     LSB_DJOB_HOSTFILE  a file, the same; without it LSB_MCPU_HOSTS, "host
 *                        slots host slots"; without both LSB_HOSTS
 * LSF's launch node, where batch scripts run on machines with jsrun, is left
 * out: a host of 0 slots, or with CSM_ALLOCATION_ID set the first, of 1 slot
 * and with others after it. Each host's line is where it is first. ERR_USAGE,
 * -errno name the variable and the file. */
int host_list_scheduler(struct host_list *l, host_list_get *get, struct err *e);

#endif
