/* launch_env.c: the table of sources, and the decisions about signals and exit
 * codes that follow from its fields. */
#include "launcher/env/launch_env.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/env/launch_env_internal.h"
#include "launcher/worker/spawn.h"

/* The first row that recognizes its variables is chosen. PBS and LSF come after
 * those that start ddprun on each node: they only list hosts, and another
 * launcher may have started us on these. Clouds come last: any of these may run
 * in their containers. */
static const struct launch_source *const sources[] = {
	&ssh_env, &slurm_env, &openmpi_env, &mpich_env, &flux_env, &pbs_env,
	&lsf_env, &mpi_operator_env, &cloud_env,
};

#define EACH_SOURCE(s)                                                        \
	(const struct launch_source *const *s = sources;                      \
	 s < sources + sizeof(sources) / sizeof(*sources); s++)

/* ---- at the start ---- */

static void launch_env_on_early(int number)
{
	_exit(1);
}

void launch_env_catch_early(void)
{
	int early = 0;

	/* the workers get the original disposition */
	spawn_remember_signal(SIGTERM);
	for EACH_SOURCE(s)
		early |= (*s)->is_early && (*s)->is_early();
	if (early && !spawn_was_ignored(SIGTERM))
		signal(SIGTERM, launch_env_on_early);
}

void launch_env_drop_early(void)
{
	struct sigaction now;

	if (sigaction(SIGTERM, NULL, &now) == 0 &&
	    now.sa_handler == launch_env_on_early)
		signal(SIGTERM, SIG_DFL);
}

int launch_env_init(struct launch_env *env, const struct launch_request *r,
		    struct err *e)
{
	for EACH_SOURCE(s) {
		int rc;

		*env = (struct launch_env){.source = *s};
		rc = (*s)->read(env, r, e);
		if (rc)
			return rc < 0 ? rc : 0;
	}
	*env = (struct launch_env){.role = LAUNCH_BY_HAND};
	return 0;
}

const char *launch_env_getenv(const char *name)
{
	return getenv(name);
}

int launch_env_is_marked(void)
{
	if (getenv("DDP_AGENT_ID"))
		return 1;
	for EACH_SOURCE(s) {
		for (const char *const *m = (*s)->marks; m && *m; m++) {
			if (getenv(*m))
				return 1;
		}
	}
	return 0;
}

const char *launch_env_has_started(void)
{
	const char *command = NULL;

	for EACH_SOURCE(s) {
		if (!command && (*s)->has_started)
			command = (*s)->has_started();
	}
	return command;
}

int launch_env_has_decided(void)
{
	int decided = 0;

	for EACH_SOURCE(s)
		decided |= (*s)->has_decided && (*s)->has_decided();
	return decided;
}

int launch_env_take_auth(struct auth *a, struct err *e)
{
	int rc = 0;

	for EACH_SOURCE(s) {
		if (rc == 0 && (*s)->take_auth)
			rc = (*s)->take_auth(a, e);
	}
	return rc;
}

void launch_env_restore(const struct launch_env *env)
{
	for EACH_SOURCE(s) {
		if ((*s)->restore)
			(*s)->restore(env);
	}
}

/* ---- where the nodes meet ---- */

int launch_env_exchange(const struct launch_env *env,
			const struct launch_offer *o,
			struct bootstrap_record *out, struct err *e)
{
	return env->source->exchange(env, o, out, e);
}

void launch_env_end_exchange(void)
{
	mpi_bootstrap_end();
}

int launch_env_resolve(const struct launch_env *env, const struct endpoint *at,
		       int hosts, struct sock_addr *out, int max,
		       int *is_guess, struct err *e)
{
	*is_guess = 0;
	if (!env->source || !env->source->resolve)
		return e->code;
	return env->source->resolve(env, at, hosts, out, max, is_guess, e);
}

void launch_env_own_addr(const struct launch_env *env,
			 const struct endpoint *at, char *text)
{
	if (!env->source || !env->source->own_addr ||
	    !env->source->own_addr(env, text))
		memcpy(text, at->host, strlen(at->host) + 1);
}

void launch_env_name_nodes(const struct launch_env *env, const char *nodes,
			   struct buf *out)
{
	static const char word[] = "node ", unknown[] = " (not connected";
	char name[LAUNCH_NAME_MAX];
	const char *at = nodes;
	char *end;
	unsigned long rank;

	while (env->source && env->source->name_of &&
	       (at = strstr(nodes, word)) != NULL) {
		rank = strtoul(at + sizeof(word) - 1, &end, 10);
		buf_put(out, nodes, (size_t)(end - nodes));
		nodes = end;
		env->source->name_of(env, (uint32_t)rank, name);
		if (!name[0])
			continue;
		if (strncmp(end, unknown, sizeof(unknown) - 1) == 0) {
			buf_printf(out, " (%s, ", name);
			nodes += 2;
		} else if (strncmp(end, " (", 2) != 0) {
			buf_printf(out, " (%s)", name);
		}
	}
	buf_put(out, nodes, strlen(nodes));
}

/* ---- signals and the end ---- */

int launch_env_is_echo(const struct launch_env *env, int number)
{
	return env->signals_reach_all &&
	       (number == SIGTERM || env->echoes_all);
}

int launch_env_exit_code(const struct launch_env *env, int number, int was_in)
{
	return launch_env_is_echo(env, number) && env->highest_code_wins &&
			       !was_in
		       ? 1
		       : 128 + number;
}

void launch_env_block_echoes(const struct launch_env *env,
			     const struct signal_set *ending,
			     const struct signal_set *warning)
{
	sigset_t set;

	sigemptyset(&set);
	if (env->signals_reach_all)
		sigaddset(&set, SIGTERM);
	for (int i = 1; i <= SIGNAL_SET_MAX; i++) {
		if (signal_set_has(warning, i) ||
		    (env->echoes_all && signal_set_has(ending, i)))
			sigaddset(&set, i);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void launch_env_linger(const struct launch_env *env)
{
	if (env->linger_ms)
		poll(NULL, 0, env->linger_ms);
}

int launch_env_is_gone(const struct launch_env *env)
{
	return env->source && env->source->is_gone && env->source->is_gone();
}

int launch_env_passed_signal(const struct launch_env *env)
{
	return !env->source || !env->source->passed_signal ||
	       env->source->passed_signal();
}

int launch_env_send_page(const struct launch_env *env, struct slice page,
			 int first_is_here)
{
	return env->source && env->source->send_page &&
	       env->source->send_page(page, first_is_here);
}
