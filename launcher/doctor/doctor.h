/* doctor.h: `ddprun doctor`: what ddprun finds on each host of a job, what it
 * would infer from it, what is wrong and how to mend it, as a text for a bug
 * report. The values of secrets are never in it. Starts no job, and needs
 * neither a rendezvous nor a secret, for either may be what is broken. */
#ifndef LAUNCHER_DOCTOR_H
#define LAUNCHER_DOCTOR_H

#include "launcher/config/remote_options.h"

/* What ddprun infers from its options and its environment. Texts are borrowed;
 * "" and NULL: nothing is known. */
struct doctor_options {
	const char *error;   /* why no job could start with these options */
	const char *started; /* "in Slurm step 12.0"; "": by hand */
	const char *nnodes_text;
	uint32_t nodes; /* the job's; 0: not known */
	uint32_t nproc;
	const char *nproc_why;
	const char *endpoint, *job;
	long node_rank; /* -1: the rendezvous chooses */
	const char *auth, *token_file; /* --auth, --token-file */
	int is_host_only; /* `ddprun doctor host`: leaves the job out */
};

/* Prints the report on this host to stdout. Each probe is a process of its own
 * and has 15 s: a driver that hangs or crashes is a finding. Returns 0, or
 * EXIT_UNFIT if something is wrong. Lines begin with the host's name if the
 * job has several nodes, whose output is then in one terminal. */
int doctor_run(const struct doctor_options *o);

/* The same on the hosts of r, over ssh, at most 32 at a time: the report on the
 * first host, and the lines of each other host that differ from it. A host that
 * cannot be reached is an error in the report. */
int doctor_run_hosts(const struct doctor_options *o,
		     const struct remote_options *r);

void doctor_print_help(void);

#endif
