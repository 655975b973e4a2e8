/* cpus.c: the kernel's CPU sets, in an array larger than cpu_set_t. */
#include "launcher/plan/cpus.h"

#include <errno.h>
#include <string.h>

void cpus_add(struct cpus *c, uint32_t cpu)
{
	CPU_SET_S(cpu, sizeof(c->sets), c->sets);
}

int cpus_has(const struct cpus *c, uint32_t cpu)
{
	return CPU_ISSET_S(cpu, sizeof(c->sets), c->sets) != 0;
}

uint32_t cpus_count(const struct cpus *c)
{
	return (uint32_t)CPU_COUNT_S(sizeof(c->sets), c->sets);
}

void cpus_put(struct buf *b, const struct cpus *c)
{
	const char *comma = "";

	for (uint32_t i = 0; i < CPUS_MAX; i++) {
		uint32_t first = i;

		if (!cpus_has(c, i))
			continue;
		while (i + 1 < CPUS_MAX && cpus_has(c, i + 1))
			i++;
		buf_printf(b, "%s%u", comma, first);
		if (i > first)
			buf_printf(b, "-%u", i);
		comma = ",";
	}
}

int cpus_allowed(struct cpus *c, struct err *e)
{
	memset(c, 0, sizeof(*c));
	if (sched_getaffinity(0, sizeof(c->sets), c->sets) < 0)
		return err_set(e, -errno, "cannot ask which CPUs this process "
			       "may use: %s", strerror(errno));
	return 0;
}

int cpus_are_too_few(uint32_t n)
{
	struct err e = ERR_INIT;
	struct cpus c;

	return cpus_allowed(&c, &e) == 0 && n > cpus_count(&c);
}
