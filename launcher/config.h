/* config.h: what the user asked for: the command line and the environment,
 * checked and decided. Starts nothing, opens no socket. */
#ifndef LAUNCHER_CONFIG_H
#define LAUNCHER_CONFIG_H

#include <stdint.h>

#include "base/option.h"
#include "base/sock.h"

struct config {
	/* as given; NULL or the default where not */
	const char *nnodes_text;
	const char *nproc_text;
	const char *endpoint_text;
	const char *job; /* --rdzv-id */
	const char *backend;
	const char *master_addr;
	const char *local_addr;
	long node_rank; /* -1: any */
	long master_port;
	long max_restarts;
	double grace_s;      /* --shutdown-timeout */
	double rdzv_timeout_s;
	int standalone;
	int no_python;
	int endpoint_given, job_given, node_rank_given;
	int master_addr_given, master_port_given, local_addr_given;

	/* decided */
	uint32_t nnodes;
	uint32_t nproc;
	struct endpoint endpoint;
	int private_endpoint; /* 127.0.0.1 and any free port: no one joins */
	char **words;         /* the program and its arguments, in argv */
	char job_text[40];    /* a random one, for --standalone */
};

extern const struct option_spec config_options[];

/* Returns 0, OPTION_WANT_HELP, OPTION_WANT_VERSION, or ERR_USAGE with the text
 * that names the option, the value and what to do. argv and the environment
 * must outlive c. */
int config_parse(struct config *c, int argc, char **argv, struct err *e);

/* "N" or "N:N" into *out. Pure. */
int config_parse_nnodes(const char *text, uint32_t *out, struct err *e);

/* Raises the soft limit of open files as far as n workers need it (*soft is
 * what it was, 0 if it was left alone); -EMFILE, -EAGAIN naming the limit. */
int config_check_limits(uint32_t nproc, uint64_t *soft, struct err *e);

void config_print_help(void);

#endif
