/* doctor_probes.h: the sections of the report of `ddprun doctor`. Each probe
 * appends its rows to a report, in a process of its own, which may hang or
 * crash. Private to the room. */
#ifndef LAUNCHER_DOCTOR_PROBES_H
#define LAUNCHER_DOCTOR_PROBES_H

#include "launcher/doctor/doctor.h"
#include "launcher/doctor/doctor_report.h"

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

#endif
