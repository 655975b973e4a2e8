/* job_roles.h: the roles of a job of several programs, as `ddprun status` and
 * `ddprun top` show them: from the text that its nodes gave the server,
 * "learner=0-3 actor=4,6-11 rest=*". Pure. The text is untrusted: words that
 * are no roles are skipped. */
#ifndef RENDEZVOUS_JOB_ROLES_H
#define RENDEZVOUS_JOB_ROLES_H

#include "rendezvous/wire.h"

struct job_role {
	struct slice name, ranks; /* "*": all that no other role has */
	int is_optional;
};

/* JOB's text; empty: the job has one program. */
struct slice job_roles_text(const struct wire_job *job);

/* 1 and the next role of *text, which begins as job_roles_text and shrinks as
 * it is read; 0 at its end. */
int job_roles_next(const struct wire_job *job, struct slice *text,
		   struct job_role *role);

/* The name of a rank's role; empty: not known. */
struct slice job_roles_of(const struct wire_job *job, uint32_t rank);

#endif
