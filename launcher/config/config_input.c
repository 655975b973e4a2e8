/* config_input.c: which workers read standard input, and which one has the
 * terminal. */
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "launcher/config/config_internal.h"
#include "launcher/worker/input.h"
#include "launcher/worker/tty.h"
#include "rendezvous/wire.h"

static int config_decide_stdin(struct config *c, struct err *e)
{
	if (strcmp(c->stdin_to, "none") == 0)
		c->stdin_rank = INPUT_NONE;
	else if (strcmp(c->stdin_to, "all") == 0)
		c->stdin_rank = INPUT_ALL;
	else if (parse_long(c->stdin_to, 0, WIRE_WORLD_MAX - 1, "",
			    &c->stdin_rank, NULL) < 0)
		return err_set(e, ERR_USAGE, "--stdin '%s': give the rank that "
			       "reads ddprun's standard input, all, or none",
			       c->stdin_to);
	return 0;
}

static int config_decide_tty(struct config *c, int is_remote, struct err *e)
{
	uint64_t ranks = (uint64_t)c->max_nodes * c->nproc;

	c->tty_rank = TTY_NONE;
	if (!c->tty)
		return 0;
	if (parse_long(c->tty, 0, WIRE_WORLD_MAX - 1, "", &c->tty_rank,
		       NULL) < 0)
		return err_set(e, ERR_USAGE, "--tty '%s': give the rank of the "
			       "worker that gets the terminal", c->tty);
	if (c->stdin_given)
		return err_set(e, ERR_USAGE, "--tty and --stdin: the keys of "
			       "the terminal are for rank %s; leave --stdin "
			       "out", c->tty);
	if (!is_remote && c->max_nodes == 1 && (uint64_t)c->tty_rank >= ranks)
		return err_set(e, ERR_USAGE, "--tty %s: the job's ranks are 0 "
			       "to %u", c->tty, c->nproc - 1);
	if ((is_remote || c->max_nodes == 1) && !c->env.lent_fd &&
	    !c->dry_run && !c->host_check &&
	    (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return err_set(e, ERR_USAGE, "--tty %s: standard %s of ddprun "
			       "is not a terminal; start it in one (salloc, "
			       "srun --pty, ssh -t, docker run -it)", c->tty,
			       isatty(STDIN_FILENO) ? "output" : "input");
	c->stdin_rank = INPUT_NONE;
	return 0;
}

int config_decide_input(struct config *c, int is_remote, struct err *e)
{
	int rc = config_decide_stdin(c, e);

	return rc == 0 ? config_decide_tty(c, is_remote, e) : rc;
}
