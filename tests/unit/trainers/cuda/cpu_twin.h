/* cpu_twin.h: the CPU twin with which tests compare the kernels, opened before
 * each test and closed after it; and the kernels' state, zeroed. */
#ifndef TESTS_CPU_TWIN_H
#define TESTS_CPU_TWIN_H

#include "tests/unit/trainers/cuda/kernels.h"
#include "trainers/ops/cpu.h"

static struct device *cpu;
static struct kernel_state state;

static inline void cpu_twin_open(void)
{
	struct device_options o = {.threads = 1, .core = -1};
	struct err e = ERR_INIT;

	ck_assert_msg(ops_cpu.open(&o, &cpu, &e) == 0, "%s", e.text);
	srand(7);
	memset(&state, 0, sizeof(state));
}

static inline void cpu_twin_close(void)
{
	ops_cpu.close(cpu);
}

/* A case whose tests have the twin. */
static inline TCase *cpu_twin_case(void)
{
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, cpu_twin_open, cpu_twin_close);
	return t;
}

#endif
