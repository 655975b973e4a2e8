/* step_address.c: Slurm's addresses instead of its names. */
#include "launcher/config/step_address.h"

#include <stdio.h>

#include "base/local_addrs.h"
#include "base/log.h"
#include "launcher/config/scontrol.h"

static int resolve(const struct config *c, const char *at,
		   struct sock_addr *out, int max)
{
	struct endpoint ep = {.port = c->endpoint.port};

	snprintf(ep.host, sizeof(ep.host), "%s", at);
	return sock_resolve(&ep, out, max, NULL);
}

/* As where a host's own name is 127.0.1.1: the server then listens at all
 * addresses by which others may come (listen_addrs.h). */
static int own(const struct config *c, const char *host, struct sock_addr *out)
{
	log_warn("on %s its own name in Slurm, '%s', does not resolve: the "
		 "rendezvous server listens at all of this host's addresses",
		 host, c->endpoint.host);
	return sock_addr_number("127.0.0.1", c->endpoint.port, out);
}

int step_address_find(const struct config *c, const char *host,
		      struct sock_addr *out, int max, int *is_guess,
		      struct err *e)
{
	const struct allocation *step = &c->slurm;
	char at[SOCK_HOST_MAX];
	struct err why = *e;
	int n;

	*is_guess = 0;
	if (c->is_host == 1 && step->node_index == 0)
		return own(c, host, out);
	if (scontrol_address(c->endpoint.host, at) &&
	    (n = resolve(c, at, out, max)) > 0) {
		log_warn("on %s '%s' does not resolve; trying %s, where Slurm "
			 "finds it", host, c->endpoint.host, at);
		return n;
	}
	err_set(e, why.code, "the nodes of this step of Slurm's meet on the "
		"first one, and on %s its %.900s (with --rdzv-endpoint "
		"ADDRESS:PORT)", host, why.text);
	n = step->srun_at[0] ? resolve(c, step->srun_at, out, max) : 0;
	if (n <= 0)
		return why.code;
	log_warn("on %s '%s' does not resolve; trying %s, where srun runs",
		 host, c->endpoint.host, step->srun_at);
	*is_guess = 1;
	return n;
}

/* srun's address is this host's in a batch script, and all nodes know it. */
void step_address_own(const struct config *c, char *text)
{
	char own_texts[1][SOCK_TEXT_MAX];
	struct sock_addr a;

	if (c->slurm.srun_at[0] && resolve(c, c->slurm.srun_at, &a, 1) > 0 &&
	    sock_addr_is_local(&a) && !sock_addr_is_loopback(&a))
		snprintf(text, SOCK_TEXT_MAX, "%s", c->slurm.srun_at);
	else if (local_addrs(own_texts, 1) > 0)
		snprintf(text, SOCK_TEXT_MAX, "%s", own_texts[0]);
	else
		snprintf(text, SOCK_TEXT_MAX, "%s", c->endpoint.host);
}
