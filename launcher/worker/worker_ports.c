/* worker_ports.c: one bound socket for each port. */
#include "launcher/worker/worker_ports.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/sock.h"

int worker_ports_reserve(struct worker_ports *p, uint32_t n, struct err *e)
{
	struct worker_ports new = {
		.ports = calloc(n, sizeof(*new.ports)),
		.fds = calloc(n, sizeof(*new.fds)),
	};
	int rc = 0;

	if (!new.ports || !new.fds)
		rc = err_no_memory(e, "the workers' ports");
	while (rc == 0 && new.n < n) {
		int fd = sock_reserve_port(&new.ports[new.n], e);

		if (fd < 0)
			rc = fd;
		else
			new.fds[new.n++] = fd;
	}
	if (rc < 0) {
		worker_ports_release(&new);
		return rc;
	}
	worker_ports_release(p);
	*p = new;
	return 0;
}

void worker_ports_release(struct worker_ports *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		close(p->fds[i]);
	free(p->ports);
	free(p->fds);
	*p = (struct worker_ports){.n = 0};
}
