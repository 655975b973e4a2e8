/* host_list.h: the hosts that a job runs on, in the order of their node ranks,
 * as the user, PBS or LSF lists them. Pure except that it reads files; resolves
 * no names. */
#ifndef LAUNCHER_HOST_LIST_H
#define LAUNCHER_HOST_LIST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* ---- host_name.c ----
 *
 * Parses, checks and compares a host, [user@]host[:slots]. Pure; resolves no
 * names. */

enum { HOST_NAME_SLOTS_MAX = 65536 };

struct host_name {
	struct slice user; /* len 0: none */
	struct slice host; /* an IPv6 address without its brackets */
	uint32_t slots;    /* 0: not given */
};

/* Parses word, which n then points into. Returns NULL, or what is wrong with it
 * and what to write. A name that it accepts is safe as a word of ssh's and of a
 * shell's command line: a host has only letters, digits, '.', '-' and '_', or
 * is an IPv6 address, maybe with a zone; a user has no blanks and no character
 * special to a shell; neither begins with '-'. */
const char *host_name_parse(struct host_name *n, struct slice word);

/* 1 if all of s is a number of slots that is at least min (0 or 1); else 0. */
int host_name_slots(struct slice s, uint32_t min, uint32_t *slots);

/* Both take the host part alone and ignore case. */
int host_name_is_same(struct slice a, struct slice b);
uint64_t host_name_hash(struct slice host);

enum {
	HOST_LIST_MAX = 65536,     /* hosts; as many as a job may have nodes */
	HOST_LIST_NAME_MAX = 320,  /* bytes of [user@]host */
	HOST_LIST_SLOTS_MAX = HOST_NAME_SLOTS_MAX,
	HOST_LIST_FILE_MAX = 64 << 20, /* bytes; PBS writes a line a slot */
};

struct host {
	uint32_t name;  /* offset in text of [user@]host, as ssh takes it; an
			 * IPv6 address without its brackets */
	uint32_t slots; /* workers; 0: not given */
	uint32_t line;  /* in the file, or word in the list; from 1 */
};

struct host_list {
	struct host *hosts;
	uint32_t count, room;
	struct buf text; /* the names, each NUL-ended */
	char from[256];  /* "-H" or the file's name: begins each error */
};

void host_list_init(struct host_list *l);
void host_list_release(struct host_list *l);

/* The name of host i, i < count; valid until l changes. */
const char *host_list_name(const struct host_list *l, uint32_t i);

/* The parsers below fill an l that is as after host_list_init. They return 0,
 * ERR_USAGE or -ENOMEM; the caller releases l also after an error. Names are
 * safe in ssh's and a shell's command lines (host_name_parse); two names that
 * differ only in case or user are one host.
 *
 * ERR_USAGE names the word or line, what is wrong with it and what to write: a
 * host listed twice (OpenMPI adds the slots up, DeepSpeed refuses; here a node
 * is one host), no hosts at all, no or too many slots, a name that ssh would
 * take for an option. */

/* -H: HOST[:SLOTS] separated by commas, as in Horovod, hydra and OpenMPI
 * (--host); HOST may be [IPv6] and have USER@ before it. Blanks around a word
 * are ignored. */
int host_list_parse(struct host_list *l, struct slice text, struct err *e);

/* A hostfile's text; path is for errors. One host per line, in one of the forms
 *     host                       host:4                  (hydra)
 *     host slots=4 max_slots=8   user@host slots=4       (OpenMPI, DeepSpeed,
 *                                                         Horovod)
 * with blanks (for OpenMPI also around '='), comments after '#', empty lines,
 * Windows line ends and a BOM at the start. With max_slots, slots must be given
 * and not exceed it. OpenMPI's relative forms (+n0, +e) need a resource
 * manager's list and are ERR_USAGE. Pure: what host_list_read does after it has
 * read the file, and what tests and the fuzzer call. */
int host_list_parse_file(struct host_list *l, struct slice text,
			 const char *path, struct err *e);

/* Reads the file to its end and parses it; "-" is stdin. The error names the
 * file: -errno, or ERR_USAGE if it has more than HOST_LIST_FILE_MAX bytes. */
int host_list_read(struct host_list *l, const char *path, struct err *e);

/* A variable's value; NULL if it is not set. */
typedef const char *host_list_get(const char *name);

/* Reads the hosts that PBS or LSF gave this job. 1, or 0 if neither did. A host
 * is one entry, with a slot for each time that it is listed:
 *     PBS_NODEFILE       a file with a line for each slot; PBS_NP and
 *                        PBS_NUM_PPN are ignored
 *     LSB_DJOB_HOSTFILE  a file, the same; without it LSB_MCPU_HOSTS, "host
 *                        slots host slots"; without both LSB_HOSTS
 * Leaves out LSF's launch node, which runs the batch scripts on machines with
 * jsrun: a host of 0 slots or, if CSM_ALLOCATION_ID is set, the first of
 * several hosts if it has 1 slot. host.line is where a host is first listed.
 * ERR_USAGE and -errno name the variable and the file. */
int host_list_scheduler(struct host_list *l, host_list_get *get, struct err *e);

#endif
