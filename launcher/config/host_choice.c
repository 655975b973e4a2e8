/* host_choice.c: reads the hosts from the options or from a scheduler. */
#include "launcher/config/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "launcher/config/config_internal.h"
#include "rendezvous/wire.h"

static int host_choice_is_given(const struct config *c)
{
	return c->hosts_text || c->hostfile;
}

/* ---- incompatible options ---- */

static int host_choice_refuse(const char *option, const char *advice,
			      struct err *e)
{
	return err_set(e, ERR_USAGE, "-H (--hostfile) with %s: %s", option,
		       advice);
}

static int host_choice_check(const struct config *c, struct err *e)
{
	const char *command = launch_env_has_started();

	if (c->hosts_text && c->hostfile)
		return err_set(e, ERR_USAGE,
			       "-H and --hostfile both name the hosts; leave "
			       "one of them out");
	if (c->standalone)
		return host_choice_refuse("--standalone",
					  "that is for a job on this host "
					  "alone; leave one of them out",
					  e);
	if (c->node_rank_given)
		return host_choice_refuse("--node-rank",
					  "the order of the list determines "
					  "the ranks; leave it out",
					  e);
	if (c->endpoint_given)
		return host_choice_refuse(
			"--rdzv-endpoint",
			"the hosts meet on the first one, at a free port; "
			"leave it out, or give the address to listen on with "
			"--master-addr",
			e);
	if (c->local_addr_given)
		return host_choice_refuse("--local-addr", "each host finds its "
					  "own; leave it out", e);
	if (command)
		return host_choice_refuse(
			command,
			"it has already started ddprun on its nodes; leave -H "
			"out, or start ddprun without it",
			e);
	return 0;
}

/* ---- a list of one host ---- */

/* 1 if the name is this host's, as "user@n1.site.org" is n1's. */
static int host_choice_is_this_host(const char *name)
{
	char own[SOCK_HOST_MAX];
	const char *at = strchr(name, '@');
	size_t n;

	sock_host_name(own);
	name = at ? at + 1 : name;
	n = strcspn(name, ".");
	return strcspn(own, ".") == n && strncasecmp(own, name, n) == 0;
}

static int host_choice_is_localhost(const char *name)
{
	return strcmp(name, "localhost") == 0 || strcmp(name, "::1") == 0 ||
	       strcmp(name, "127.0.0.1") == 0;
}

/* ---- the decision ---- */

static int host_choice_read_list(struct config *c, struct err *e)
{
	if (c->hosts_text)
		return host_list_parse(&c->hosts, SLICE_STR(c->hosts_text), e);
	return host_list_read(&c->hosts, c->hostfile, e);
}

/* Checks --nproc-per-node against the slots: fewer workers than slots are fine,
 * more contradict the user's own list. A scheduler's slots are not workers. */
static int host_choice_fit_slots(struct config *c, struct err *e)
{
	long n;

	if (!c->nproc_given ||
	    parse_long(c->nproc_text, 1, WIRE_NPROC_MAX, "", &n, NULL) < 0)
		return 0;
	for (uint32_t i = 0; i < c->hosts.count; i++) {
		struct host *h = &c->hosts.hosts[i];

		if (h->slots && (long)h->slots < n && !c->from_scheduler)
			return err_set(e, ERR_USAGE, "--nproc-per-node %ld: %s "
				       "has %u for %s; leave one of the two "
				       "out, or list %s with %ld", n,
				       c->hosts.from, h->slots,
				       host_list_name(&c->hosts, i),
				       host_list_name(&c->hosts, i), n);
		if (h->slots)
			h->slots = (uint32_t)n;
	}
	return 0;
}

static void host_choice_use_this_host(struct config *c)
{
	uint32_t slots = c->hosts.hosts[0].slots;

	c->over_ssh = 0;
	if (slots) {
		snprintf(c->slots_text, sizeof(c->slots_text), "%u", slots);
		c->nproc_text = c->slots_text;
		c->nproc_given = 1;
	} else if (!c->nproc_given) {
		c->nproc_text = "auto";
	}
}

/* --ssh-args and --ssh-width are for ssh: with another program, each host is
 * reached from here. */
static void host_choice_reach(struct config *c)
{
	if (!c->env.reach)
		return;
	c->ssh_program = c->env.reach;
	c->ssh_args = c->env.reach_args;
	c->ssh_width = HOST_LIST_MAX;
}

int host_choice_init(struct config *c, struct err *e)
{
	int rc;

	host_list_init(&c->hosts);
	if (launch_env_has_decided()) {
		c->world_size = 0; /* shared out already */
		return launch_defaults_init(c, e);
	}
	if (host_choice_is_given(c)) {
		rc = host_choice_check(c, e);
		if (rc == 0)
			rc = host_choice_read_list(c, e);
		c->over_ssh = rc == 0;
	} else {
		rc = launch_defaults_init(c, e);
		if (rc == 0 && c->env.role == LAUNCH_HOSTS) {
			rc = c->env.source->list_hosts(&c->hosts, e);
			c->over_ssh = c->from_scheduler = rc == 0;
			host_choice_reach(c);
		}
	}
	if (c->over_ssh && host_choice_fit_slots(c, e) < 0)
		return ERR_USAGE;
	if (c->over_ssh && world_size_place(c, e) < 0)
		return ERR_USAGE;
	if (c->over_ssh && c->hosts.count == 1 && !c->host_check &&
	    !c->env.reach &&
	    (host_choice_is_localhost(host_list_name(&c->hosts, 0)) ||
	     (c->from_scheduler &&
	      host_choice_is_this_host(host_list_name(&c->hosts, 0)))))
		host_choice_use_this_host(c);
	if (rc >= 0 && c->host_check && !c->over_ssh)
		return err_set(e, ERR_USAGE,
			       "--host-check checks the hosts of -H or "
			       "--hostfile; give one of them");
	if (c->over_ssh && !c->nproc_given)
		c->nproc_text = "auto";
	if (c->over_ssh && !c->nnodes_given) {
		snprintf(c->nodes_text, sizeof(c->nodes_text), "%u",
			 c->hosts.count);
		c->nnodes_text = c->nodes_text;
	}
	return rc < 0 ? rc : 0;
}

/* If the job chose its own endpoint, no other hosts can join: does not wait for
 * more than are listed. */
static void host_choice_expect_no_more(struct config *c)
{
	c->max_nodes = c->hosts.count;
	snprintf(c->nodes_text, sizeof(c->nodes_text), "%u:%u", c->min_nodes,
		 c->max_nodes);
	c->nnodes_text = c->nodes_text;
}

int host_choice_nodes(struct config *c, struct err *e)
{
	uint32_t n = c->hosts.count;

	if (!c->over_ssh)
		return 0;
	if (c->min_nodes > n)
		return err_set(e, ERR_USAGE, "--nnodes %s: %s lists %u host%s; "
			       "list more, or ask for fewer", c->nnodes_text,
			       c->hosts.from, n, n == 1 ? "" : "s");
	/* only the first hosts; in an elastic job the others are spares */
	if (!strchr(c->nnodes_text, ':'))
		c->hosts.count = c->min_nodes;
	else if (c->max_nodes > n && !c->endpoint_given)
		host_choice_expect_no_more(c);
	return 0;
}

int host_choice_can_lose(const struct config *c)
{
	return c->min_nodes < c->max_nodes || c->hosts.count > c->max_nodes;
}

void host_choice_log(const struct config *c)
{
	struct buf b;

	if (!c->from_scheduler)
		return;
	buf_init(&b, 4096);
	for (uint32_t i = 0; i < c->hosts.count; i++) {
		buf_printf(&b, "%s%s", i ? "," : "",
			   host_list_name(&c->hosts, i));
		if (c->hosts.hosts[i].slots)
			buf_printf(&b, ":%u", c->hosts.hosts[i].slots);
	}
	if (b.failed)
		log_info("taking the hosts from %s: %u of them", c->hosts.from,
			 c->hosts.count);
	else
		log_info("taking %s as -H %.*s%s%s", c->hosts.from,
			 (int)b.len, b.data, c->env.reach ? " --ssh " : "",
			 c->env.reach ? c->env.reach : "");
	buf_release(&b);
}
