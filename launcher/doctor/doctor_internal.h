/* doctor_internal.h: what the files of `ddprun doctor` share: the lines of a
 * report, the probes that append them, and the processes that run the probes,
 * because a probe may hang or crash. */
#ifndef LAUNCHER_DOCTOR_INTERNAL_H
#define LAUNCHER_DOCTOR_INTERNAL_H

#include <sys/types.h>

#include "base/buf.h"
#include "launcher/doctor/doctor.h"

/* ---- doctor_report.c ----
 *
 * The lines of the report of `ddprun doctor`: titles, rows of a label and a
 * value, their marks and remedies; hides secrets. Pure, except that it reads
 * $HOME. */

enum doctor_mark {
	DOCTOR_FINE = ' ',
	DOCTOR_WARNING = '!',
	DOCTOR_ERROR = 'X',
};

/* Appends "MARK label   value". Control characters become '?', and $HOME '~'.
 * remedy, unless NULL, is a line of its own with the same mark. */
void doctor_put(struct buf *b, enum doctor_mark mark, const char *label,
		const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Appends a variable of the environment. The value of a name with TOKEN, KEY,
 * SECRET or the like is replaced by its length, the user and password in a URL
 * by asterisks; a long value is cut. */
void doctor_put_variable(struct buf *b, const char *name, const char *value);

/* Counts the rows with that mark; remedies do not count. */
int doctor_count(struct slice report, enum doctor_mark mark);

/* Appends the lines of report that other does not have. */
void doctor_put_difference(struct buf *b, struct slice report,
			   struct slice other);

/* ---- the probes ---- */

/* doctor_machine.c: the system, CPUs, memory, limits. */
void doctor_probe_machine(struct buf *b, const struct doctor_options *o);

/* doctor_network.c: names, interfaces, InfiniBand. */
void doctor_probe_network(struct buf *b, const struct doctor_options *o);

/* doctor_gpus.c: NVIDIA's GPUs, driver and libraries. */
void doctor_probe_gpus(struct buf *b, const struct doctor_options *o);
/* How many of NVIDIA's GPUs the kernel sees, whether or not a driver does. */
int doctor_gpus_on_bus(void);

/* doctor_software.c: programs, libraries, Python's packages. */
void doctor_probe_programs(struct buf *b, const struct doctor_options *o);
void doctor_probe_python(struct buf *b, const struct doctor_options *o);

/* doctor_job.c: what ddprun would infer; the variables that it and others read.
 */
void doctor_probe_job(struct buf *b, const struct doctor_options *o);
void doctor_probe_variables(struct buf *b, const struct doctor_options *o);

/* Reads the first line of a small file; "" if it cannot be read. */
enum { DOCTOR_LINE_MAX = 256 };
const char *doctor_read_line(const char *path, char line[DOCTOR_LINE_MAX]);

/* ---- doctor_task.c ----
 *
 * Runs functions in processes of their own, several at a time, each with a
 * time limit, and collects what they write. */

struct doctor_task {
	/* ---- the caller's ---- */
	/* Called in the child, whose stdout and stderr are read, and whose
	 * stdin is empty. May exec. */
	void (*run)(void *arg);
	void *arg;

	/* ---- the result ---- */
	struct buf out; /* at most 1 MiB */
	int status;     /* waitpid's; -errno if the child was not started */
	int is_late;    /* it was killed at the time limit */

	/* ---- private ---- */
	pid_t pid;
	int fd;
	uint64_t until;
};

/* Runs n tasks, at most width at a time, each for at most ms. Kills a child
 * with all processes of its group, and does not wait for it if the kernel
 * cannot end it. The children do not outlive this process. Blocks. */
void doctor_task_run(struct doctor_task *tasks, int n, int width, int ms);
void doctor_task_release(struct doctor_task *tasks, int n);

#endif
