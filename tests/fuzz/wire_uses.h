/* wire_uses.h: the message of each type of frame, as a request or notice and as
 * a reply. fuzz_wire parses by this list, and seeds.c writes a frame of each
 * type. A new type needs a row. */
#ifndef TESTS_FUZZ_WIRE_USES_H
#define TESTS_FUZZ_WIRE_USES_H

#include "rendezvous/wire.h"

/* U(type, message, reply's message); `empty`: the frame has no body */
#define WIRE_USES(U)                                                    \
	U(HELLO, hello, welcome) U(SET, key_value, empty)               \
	U(GET, key, value) U(WAIT, wait, empty) U(ADD, add, int)        \
	U(COMPARE_SET, compare_set, value) U(APPEND, key_value, int)    \
	U(DELETE, key, int) U(MULTI_GET, list, list)                    \
	U(MULTI_SET, list, empty) U(BARRIER, barrier, empty)            \
	U(GATHER, gather, list) U(SHARE, share, shared)                 \
	U(SHARED_LIST, empty, list) U(JOIN, join, empty)                \
	U(STATE, state, empty) U(START, start, empty)                   \
	U(EXITED, exited, empty) U(FAILED, failed, empty)               \
	U(LEAVE, leave, empty) U(END, end, empty) U(PING, empty, empty) \
	U(STOP, stop, empty) U(VOUCH, vouch, empty)                     \
	U(VOUCHED, vouched, empty) U(RESUME, resume, resumed)           \
	U(PROGRESS, progress, empty) U(STALLED, stalled, empty)         \
	U(SLOW, slow, empty) U(FATE, fate, text)                        \
	U(GOODBYE, empty, empty) U(WAITING, waiting, empty)             \
	U(DUMP, dump, asked) U(DUMP_REQUEST, dump_request, empty)       \
	U(DUMP_REPLY, dump_reply, empty) U(NODE, node_dump, empty)      \
	U(STATUS, empty, asked) U(JOB, job, empty) U(RANKS, ranks, empty) \
	U(GPUS, gpus, empty) U(GPU_NEWS, gpu_news, empty)               \
	U(ROLE_NEWS, role_news, empty) U(LOOK, look, empty)             \
	U(STACK, stack, empty)

#endif
