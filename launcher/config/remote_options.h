/* remote_options.h: what the head of a job over ssh needs to know of the user's
 * settings: the hosts, how to reach them, and what travels to them. config.c
 * fills it from the command line. */
#ifndef LAUNCHER_REMOTE_OPTIONS_H
#define LAUNCHER_REMOTE_OPTIONS_H

#include "launcher/env/host_list.h"
#include "launcher/worker/signal_set.h"

/* Texts and hosts are borrowed. */
struct remote_options {
	const struct host_list *hosts;
	uint32_t min_nodes, max_nodes;
	int can_lose;	/* a host, and the job continues (host_choice.c) */
	int host_check; /* only look whether the hosts could run the job */
	int dry_run;
	const char *program, *args; /* ssh, --ssh-args */
	double timeout_s;
	long width; /* the tree's; 0: chosen */

	/* ---- what the head sends to each host ---- */
	int noptions;		 /* number of words of argv that are options */
	char **words;		 /* the program and its arguments */
	const char *programs;	 /* the text of several roles; NULL: words has
				  * one */
	int no_program;		 /* --host-check needs none */
	const char *nnodes_text, *nproc_text;
	const char *job; /* --rdzv-id; NULL: a random name */
	int draws_secret; /* the user gave none */
	const char *master_addr; /* the server's; NULL: the first host's */
	long master_port;	 /* 0: any */
	double heartbeat_s, shutdown_timeout_s;

	/* ---- the head itself ---- */
	const char *log_dir;
	struct signal_set ending, forwarded;
	long stdin_rank;
	int lends_terminal; /* --tty */
};

#endif
