/* crash_environment.h: the library's two variables in the environment of the
 * program that has loaded it, for crash_handler.c, whose library it is in. */
#ifndef LAUNCHER_CRASH_ENVIRONMENT_H
#define LAUNCHER_CRASH_ENVIRONMENT_H

#include <stdint.h>

/* CRASH_VARIABLE's value, or NULL. */
const char *crash_environment_find(void);

/* Takes the library of that agent out of LD_PRELOAD, and CRASH_VARIABLE out of
 * the environment, unless this program is known to start others in its place:
 * a shell, Python, env, numactl and their like. What other programs start may
 * run as another user, in another container or on another host, where the
 * dynamic loader would complain that it cannot preload the library. Call it
 * before main. */
void crash_environment_leave(int32_t agent);

#endif
