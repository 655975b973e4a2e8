/* wire.h: docs/protocol.txt as code: frames, and each message as a struct with
 * its put and get. Pure: bytes in, messages out; no sockets, no state.
 * Shared by the launcher, the SDK and the server. */
#ifndef RENDEZVOUS_WIRE_H
#define RENDEZVOUS_WIRE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
	WIRE_VERSION = 11,
	WIRE_PREFACE_SIZE = 8,
	WIRE_MARK_SIZE = 4, /* the part of it before the version */
	WIRE_NONCE_SIZE = 32,
	WIRE_WHICH_SIZE = 16,
	WIRE_GREETING_SIZE =
		WIRE_PREFACE_SIZE + WIRE_NONCE_SIZE + WIRE_WHICH_SIZE,
	WIRE_HEADER_SIZE = 12,
	WIRE_HELLO_MAX = 4096,
	WIRE_WELCOME_MAX = 128 << 10, /* from a server without proof yet */
	WIRE_BODY_MAX = 16 << 20,
	WIRE_KEY_MAX = 8 << 10,
	WIRE_VALUE_MAX = 8 << 20,
	WIRE_KEYS_MAX = 131072,
	WIRE_NODES_MAX = 65536,
	WIRE_NPROC_MAX = 65536,
	WIRE_RANK_OF_SPARE = -2,	/* JOIN's node_rank; -1: any */
	WIRE_WORLD_MAX = WIRE_KEYS_MAX, /* ranks; a GATHER's list holds them */
	WIRE_NAME_MAX = 1024,		/* job, host, address, node id, proof */
	WIRE_TEXT_MAX = 64 << 10,	/* text for people: reasons, tails */
	WIRE_DUMP_REPLY_MAX = 1 << 20,	/* a node's part of a dump */
	WIRE_STACK_MAX = 16 << 10,	/* STACK's text */
	WIRE_GROUPS_MAX = 8, /* each rank's, in PROGRESS */
	WIRE_DUMP_MAX_MS = 600000,
	WIRE_DUMP_LINES_MAX = 1000,	/* lines of a worker's stream */
	WIRE_OUTPUT_MAX = 16 << 10,	/* their bytes */
	WIRE_TOKEN_SIZE = 16, /* the token of a rank that passes on a shared
			       * list */
	WIRE_HASH_SIZE = 32,
	WIRE_ADDRS_MAX = 64,  /* a node's */
	WIRE_ALIKE_MAX = 8 << 10, /* JOIN's and JOB's alike */
	WIRE_LEASE_MS = 5000, /* silence after which a node is lost */
	WIRE_LEASE_MIN_MS = 100,
	WIRE_PINGS = 20, /* in a lease; a server that answers none is lost.
			  * With fewer, a lease could be nearly over when an
			  * outage begins */
};

/* LOOK's and STACK's rank: all ranks of the node. */
#define WIRE_ALL_RANKS UINT32_MAX

#define WIRE_NO_TIMEOUT UINT32_MAX

extern const char wire_preface[WIRE_PREFACE_SIZE];

/* Bits: how a client may authenticate. */
enum wire_method { WIRE_NO_PROOF = 1, WIRE_BY_SECRET = 2, WIRE_BY_MUNGE = 4 };

enum wire_kind { WIRE_REQUEST, WIRE_REPLY, WIRE_ERROR_REPLY, WIRE_NOTICE };
enum wire_role { WIRE_AGENT = 1, WIRE_WORKER = 2, WIRE_TOOL = 3 };
enum wire_verdict {
	WIRE_SUCCESS,
	WIRE_FAILURE,
	WIRE_RESTART,
	WIRE_ENDED,
	WIRE_REGROUP,
};

/* How urgently a job must stop; a higher level includes the lower ones. */
enum wire_level {
	WIRE_WARNED = 1, /* workers that poll ddp_should_stop are notified */
	WIRE_STOPPED,	 /* all workers are signalled */
	WIRE_CUT,	 /* all workers are killed */
};
/* Why: a signal, the time limit, or the end of the ssh that started it. */
enum wire_cause { WIRE_BY_SIGNAL, WIRE_BY_LIMIT, WIRE_BY_SSH };

/* What the server knows of a node that sends RESUME. */
enum wire_known {
	WIRE_UNKNOWN,
	WIRE_KNOWN,
	WIRE_LOST, /* the job continues without it; it may JOIN again */
	WIRE_OVER, /* its job has ended */
};

/* EXITED's early. */
enum wire_early {
	WIRE_LEFT_EARLY = 1, /* with 0, after ddp_init, without ddp_finalize */
	WIRE_HANGS,	     /* it has not exited: it is to be ended */
	WIRE_LEFT_OUT,	     /* it failed, but its role is optional */
	WIRE_DIFFERS,	     /* it made another call than most ranks */
	WIRE_WRONG_DATA,     /* a check of libddp found wrong numbers there */
};

/* What a rank does, as its agent sees it. */
enum wire_doing {
	RANK_STARTS,  /* too little is known */
	RANK_WORKS,   /* it writes, at the rate of a checkpoint */
	RANK_BUSY,    /* it uses CPU time, and shows nothing else */
	RANK_BLOCKED, /* in the kernel, for a device or a file system */
	RANK_IDLE,
	RANK_STOPPED, /* by a signal or a debugger */
	RANK_CALLS,   /* it waits in a call of libddp */
	/* it reads, touches new memory, or has new children: it loads data, or
	 * compiles, or is in a loop */
	RANK_LOADS,
	RANK_DOINGS
};

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_SET = 10,
	WIRE_GET,
	WIRE_WAIT,
	WIRE_ADD,
	WIRE_COMPARE_SET,
	WIRE_APPEND,
	WIRE_DELETE,
	WIRE_MULTI_GET,
	WIRE_MULTI_SET,
	WIRE_BARRIER,
	WIRE_GATHER,
	WIRE_SHARE,
	WIRE_SHARED_LIST,
	WIRE_JOIN = 30,
	WIRE_STATE,
	WIRE_START,
	WIRE_EXITED,
	WIRE_FAILED,
	WIRE_LEAVE,
	WIRE_END,
	WIRE_PING,
	WIRE_STOP,
	WIRE_VOUCH,
	WIRE_VOUCHED,
	WIRE_RESUME,
	WIRE_PROGRESS,
	WIRE_STALLED,
	WIRE_SLOW,
	WIRE_GPUS,
	WIRE_GPU_NEWS,
	WIRE_ROLE_NEWS,
	WIRE_LOOK,
	WIRE_STACK,
	WIRE_FATE = 50,
	WIRE_GOODBYE,
	WIRE_WAITING,
	WIRE_DUMP = 60,
	WIRE_DUMP_REQUEST,
	WIRE_DUMP_REPLY,
	WIRE_NODE,
	WIRE_STATUS,
	WIRE_JOB,
	WIRE_RANKS,
};

/* One frame; body points into the buffer that it was cut from. */
struct wire_frame {
	enum wire_type type;
	enum wire_kind kind;
	uint32_t id;
	struct slice body;
};

/* Cuts the frame at the start of in. Returns its size in bytes, 0 if more bytes
 * are needed, or ERR_PROTOCOL with a text if it breaks a limit or its type or
 * kind does not exist. */
MUST_CHECK long wire_cut(struct slice in, uint32_t body_max,
			 struct wire_frame *f, struct err *e);

/* Starts a frame in out and returns a mark for wire_end, which fills in the
 * length. The body is put between the two calls. */
size_t wire_begin(struct buf *out, enum wire_type type, enum wire_kind kind,
		  uint32_t id);
void wire_end(struct buf *out, size_t mark);

/* Puts a frame with an empty body. */
void wire_put_empty(struct buf *out, enum wire_type type, enum wire_kind kind,
		    uint32_t id);

/* Puts the greeting: methods are bits of enum wire_method, nonce has
 * WIRE_NONCE_SIZE bytes; which has WIRE_WHICH_SIZE (proof_which), or is NULL if
 * the server takes any job. */
void wire_put_greeting(struct buf *out, unsigned methods, const void *nonce,
		       const void *which);
/* Reads as much of a greeting as has arrived. 1: it is complete, *methods is
 * set; 0: it is incomplete; ERR_PROTOCOL with a text: it is not a greeting. */
int wire_get_greeting(struct slice in, unsigned *methods, struct err *e);

/* The part of a body that its last field, a proof, covers. */
struct slice wire_signed(struct slice body, struct slice proof);

/* "HELLO", "JOIN", or "type 99", for logs. */
const char *wire_type_name(int type);

/* The fields of each message, in order. A `list` is a u32 count and then its
 * items as raw bytes: build it in a buf, walk it with a reader (and check the
 * reader: get does not validate the items).
 * F(kind, name); kinds: u8 u16 u32 u64 i32 i64 str list. */
#define WIRE_HELLO_FIELDS(F) F(u8, role) F(str, job) F(str, host) \
	F(u32, round) F(u32, rank) F(u64, session) F(u8, method)               \
	F(str, nonce) F(str, proof)
#define WIRE_WELCOME_FIELDS(F) F(str, grant) F(i32, code) F(str, text)        \
	F(str, proof)
#define WIRE_KEY_FIELDS(F) F(str, key)
#define WIRE_KEY_VALUE_FIELDS(F) F(str, key) F(str, value)
#define WIRE_WAIT_FIELDS(F) F(u32, timeout_ms) F(list, keys)
#define WIRE_ADD_FIELDS(F) F(str, key) F(i64, delta)
#define WIRE_COMPARE_SET_FIELDS(F) F(str, key) F(str, expected) F(str, desired)
#define WIRE_BARRIER_FIELDS(F) F(str, key) F(u32, size) F(u32, timeout_ms)
#define WIRE_GATHER_FIELDS(F) F(str, key) F(u32, size) F(u32, timeout_ms) \
	F(str, value)
#define WIRE_SHARE_FIELDS(F) F(str, key) F(u32, size) F(u32, timeout_ms)      \
	F(str, addr) F(u16, port) F(str, token) F(str, value)                 \
	F(u8, of_nodes) F(u32, node)
#define WIRE_SHARED_FIELDS(F) F(u32, comers) F(u32, depth) F(u32, bytes)      \
	F(str, hash) F(str, addr) F(u16, port) F(str, token) F(list, values)
#define WIRE_INT_FIELDS(F) F(i64, value)
#define WIRE_VALUE_FIELDS(F) F(u8, found) F(str, value)
#define WIRE_LIST_FIELDS(F) F(list, items)
#define WIRE_TEXT_FIELDS(F) F(str, text)
#define WIRE_ERROR_FIELDS(F) F(i32, code) F(str, text)
#define WIRE_JOIN_FIELDS(F) F(str, node_id) F(str, host) F(str, addr)         \
	F(u16, master_port) F(u8, hosts_server) F(i32, node_rank)              \
	F(u32, min_nodes) F(u32, max_nodes) F(u32, nproc)                      \
	F(u32, max_restarts) F(u32, max_no_progress) F(u32, swap_after)        \
	F(u32, backoff_ms) F(str, role) F(u32, last_call_ms) F(u32, lease_ms)  \
	F(u8, agent_store) F(u8, store_open) F(u64, steps) F(str, alike)       \
	F(list, addrs)
#define WIRE_STATE_FIELDS(F) F(u32, joined) F(u32, min_nodes)                 \
	F(u32, max_nodes) F(u32, spares) F(u8, spare) F(u32, last_call_ms)     \
	F(str, missing)
#define WIRE_START_FIELDS(F) F(u32, round) F(u32, attempt) F(u32, changes)    \
	F(u32, node_rank) F(u32, nnodes) F(u32, base_rank)                     \
	F(u32, world_size) F(u32, role_base_rank) F(u32, role_world_size)      \
	F(str, master_addr) F(u16, master_port) F(u8, agent_store)             \
	F(u16, coordinator_port)
#define WIRE_EXITED_FIELDS(F) F(u32, round) F(u32, rank) F(u32, local_rank)   \
	F(i64, pid) F(i32, code) F(i32, signal) F(u64, ran_ms)                 \
	F(u8, stopped) F(u8, core) F(u64, max_rss_kib) F(str, tail)            \
	F(str, why) F(str, error) F(str, log) F(str, last)                     \
	F(u8, early) F(str, missed) F(u64, steps)
#define WIRE_FAILED_FIELDS(F) F(u32, round) F(i32, exit_code) F(str, text)
#define WIRE_RESUME_FIELDS(F) F(str, node_id) F(u8, began) F(u32, round)      \
	F(u8, ended) F(list, addrs)
#define WIRE_RESUMED_FIELDS(F) F(u8, known) F(u8, joined) F(u32, heard)      \
	F(str, text)
#define WIRE_LEAVE_FIELDS(F) F(i32, signal) F(str, text)
#define WIRE_STOP_FIELDS(F) F(u8, level) F(u8, cause) F(u8, whole)            \
	F(i32, signal) F(u32, grace_ms) F(str, text)
#define WIRE_VOUCH_FIELDS(F) F(u32, number) F(str, peer) F(u16, peer_port)    \
	F(str, own) F(u16, own_port)
#define WIRE_VOUCHED_FIELDS(F) F(u32, number) F(u8, yes) F(i64, uid)          \
	F(str, text)
#define WIRE_END_FIELDS(F) F(u32, round) F(u8, verdict) F(i32, exit_code)     \
	F(u32, restarts_left) F(str, text) F(i32, rank) F(u32, local_rank)     \
	F(u32, node_rank) F(str, host) F(i64, pid) F(i32, code)                \
	F(i32, signal) F(u64, ran_ms) F(u8, core) F(u64, max_rss_kib)          \
	F(str, tail) F(str, why) F(str, error) F(str, log) F(str, last)        \
	F(str, swap)
#define WIRE_FATE_FIELDS(F) F(u32, rank) F(u32, timeout_ms)
#define WIRE_WAITING_FIELDS(F) F(u32, request) F(u64, waited_ms) F(str, text) \
	F(str, peer) F(u16, peer_port) F(str, own) F(u16, own_port)
#define WIRE_DUMP_FIELDS(F) F(u8, json) F(u8, no_stacks) F(u32, last)         \
	F(u32, timeout_ms) F(u32, lines) F(u32, rank)
#define WIRE_DUMP_REQUEST_FIELDS(F) F(u32, number) WIRE_DUMP_FIELDS(F)
#define WIRE_DUMP_REPLY_FIELDS(F) \
	F(u32, number) F(str, text) F(str, page) F(str, out) F(str, err)       \
	F(list, calls)
#define WIRE_NODE_FIELDS(F) F(i32, node_rank) F(str, host) F(u8, answered)    \
	F(u64, silent_ms) F(str, text) F(str, page) F(str, out) F(str, err)    \
	F(list, calls)
#define WIRE_PROGRESS_FIELDS(F) F(u32, round) F(u32, patience_ms)           \
	F(list, ranks)
#define WIRE_STALLED_FIELDS(F) F(u32, round) F(u8, doing) F(u32, rank)       \
	F(u64, stalled_ms) F(str, text) F(str, why)
#define WIRE_SLOW_FIELDS(F) F(u32, round) F(u32, rank) F(u8, over)           \
	F(u32, share) F(str, text)
#define WIRE_GPUS_FIELDS(F) F(u32, round) F(i32, node_rank) F(str, host)     \
	F(list, gpus)
#define WIRE_GPU_NEWS_FIELDS(F) F(u32, round) F(u32, node_rank)              \
	F(u32, index) F(u32, xid) F(u8, severity) F(str, host) F(str, uuid)    \
	F(str, text) F(str, action)
#define WIRE_ROLE_NEWS_FIELDS(F) F(u32, round) F(u32, rank)                  \
	F(u32, node_rank) F(u8, left_out) F(str, host) F(str, text)
#define WIRE_LOOK_FIELDS(F) F(u32, round) F(u32, rank)
#define WIRE_STACK_FIELDS(F) F(u32, round) F(u32, rank) F(str, text)
#define WIRE_RANKS_FIELDS(F) F(str, job) F(u32, round) F(list, ranks)
#define WIRE_ASKED_FIELDS(F) F(u32, asked)
#define WIRE_JOB_FIELDS(F) F(str, job) F(u8, state) F(u64, state_ms)          \
	F(u32, round) F(u32, attempt) F(u32, max_restarts) F(u32, changes)     \
	F(u32, min_nodes) F(u32, max_nodes) F(u32, joined) F(u32, spares)      \
	F(u32, world_size) F(u32, exited) F(u32, connected)                    \
	F(u64, waited_ms) F(str, text) F(str, cause) F(u64, keys)              \
	F(u64, bytes) F(str, alike) F(list, nodes)

/* struct name suffix, FIELDS macro */
/* clang-format off */
#define WIRE_MESSAGES(M)                                                      \
	M(hello, WIRE_HELLO_FIELDS) M(welcome, WIRE_WELCOME_FIELDS)           \
	M(key, WIRE_KEY_FIELDS) M(key_value, WIRE_KEY_VALUE_FIELDS)           \
	M(wait, WIRE_WAIT_FIELDS) M(add, WIRE_ADD_FIELDS)                     \
	M(compare_set, WIRE_COMPARE_SET_FIELDS)                               \
	M(barrier, WIRE_BARRIER_FIELDS) M(gather, WIRE_GATHER_FIELDS)         \
	M(share, WIRE_SHARE_FIELDS) M(shared, WIRE_SHARED_FIELDS)             \
	M(int, WIRE_INT_FIELDS) M(value, WIRE_VALUE_FIELDS)                   \
	M(list, WIRE_LIST_FIELDS) M(text, WIRE_TEXT_FIELDS)                   \
	M(error, WIRE_ERROR_FIELDS) M(join, WIRE_JOIN_FIELDS)                 \
	M(state, WIRE_STATE_FIELDS) M(start, WIRE_START_FIELDS)               \
	M(exited, WIRE_EXITED_FIELDS) M(failed, WIRE_FAILED_FIELDS)           \
	M(leave, WIRE_LEAVE_FIELDS) M(stop, WIRE_STOP_FIELDS)                 \
	M(vouch, WIRE_VOUCH_FIELDS) M(vouched, WIRE_VOUCHED_FIELDS)           \
	M(end, WIRE_END_FIELDS) M(resume, WIRE_RESUME_FIELDS)                 \
	M(resumed, WIRE_RESUMED_FIELDS) M(fate, WIRE_FATE_FIELDS)             \
	M(waiting, WIRE_WAITING_FIELDS) M(dump, WIRE_DUMP_FIELDS)             \
	M(dump_request, WIRE_DUMP_REQUEST_FIELDS)                             \
	M(dump_reply, WIRE_DUMP_REPLY_FIELDS) M(node_dump, WIRE_NODE_FIELDS)  \
	M(asked, WIRE_ASKED_FIELDS) M(job, WIRE_JOB_FIELDS)               \
	M(progress, WIRE_PROGRESS_FIELDS) M(stalled, WIRE_STALLED_FIELDS)     \
	M(slow, WIRE_SLOW_FIELDS) M(gpus, WIRE_GPUS_FIELDS)                   \
	M(gpu_news, WIRE_GPU_NEWS_FIELDS)                                     \
	M(role_news, WIRE_ROLE_NEWS_FIELDS)                                   \
	M(look, WIRE_LOOK_FIELDS) M(stack, WIRE_STACK_FIELDS)                 \
	M(ranks, WIRE_RANKS_FIELDS)
/* clang-format on */

struct wire_items {
	uint32_t count;
	struct slice bytes; /* the items, without the count */
};

typedef uint8_t wire_field_u8;
typedef uint16_t wire_field_u16;
typedef uint32_t wire_field_u32;
typedef uint64_t wire_field_u64;
typedef int32_t wire_field_i32;
typedef int64_t wire_field_i64;
typedef struct slice wire_field_str;
typedef struct wire_items wire_field_list;

/* For each message: struct wire_NAME; wire_put_NAME writes a whole frame;
 * wire_get_NAME reads a frame's body (slices point into it) and returns 0, or
 * ERR_PROTOCOL if it is too short, too long, or breaks a limit. */
#define WIRE_DECLARE_FIELD(kind, name) wire_field_##kind name;
#define WIRE_DECLARE(name, FIELDS)                                            \
	struct wire_##name {                                                  \
		FIELDS(WIRE_DECLARE_FIELD)                                    \
	};                                                                    \
	void wire_put_##name(struct buf *out, enum wire_type type,            \
			     enum wire_kind kind, uint32_t id,                \
			     const struct wire_##name *m);                    \
	MUST_CHECK int wire_get_##name(const struct wire_frame *f,            \
				       struct wire_##name *m, struct err *e);
WIRE_MESSAGES(WIRE_DECLARE)
#undef WIRE_DECLARE
#undef WIRE_DECLARE_FIELD

/* Copies an END together with the bytes of its slices, which move into bytes
 * and live as long as it does; from must not point there. -ENOMEM, or -ENOBUFS
 * beyond the maximum of bytes: the copy's slices are empty, and its numbers are
 * right. */
MUST_CHECK int wire_copy_end(struct wire_end *to, const struct wire_end *from,
			     struct buf *bytes);

/* An item of JOIN's and JOB's alike, which is no list: the items fill the text.
 */
struct wire_option {
	struct slice name, value; /* "": not given */
};
void wire_put_option(struct buf *alike, const struct wire_option *o);
struct wire_option wire_get_option(struct reader *r);
/* 1, and the value of an option, or 0. */
int wire_find_option(struct slice alike, struct slice name,
		     struct slice *value);

/* An item of DUMP_REPLY's calls. r->bad is set if the list is malformed. */
enum wire_call_kind { WIRE_CALL_COLLECTIVE, WIRE_CALL_SEND, WIRE_CALL_RECV };
enum wire_call_wait {
	WIRE_CALL_PASSES,
	WIRE_CALL_WAITS,  /* the rank was in it at two moments */
	WIRE_CALL_SLEEPS, /* and used no CPU between them */
};
struct wire_call {
	uint32_t rank, comm;
	uint64_t number; /* plus 1; 0: it has made none */
	struct slice words;
	uint32_t place; /* the rank's own rank in comm */
	uint32_t peer;	/* the other's, if it is a message */
	uint8_t kind, waits;
};
/* An item of JOB's nodes. */
enum wire_node_state {
	WIRE_NODE_RUNS,
	WIRE_NODE_WAITS,
	WIRE_NODE_STOPS,
	WIRE_NODE_SPARE,
	WIRE_NODE_GONE,
};
struct wire_job_node {
	struct slice host, addr, role;
	int32_t node_rank; /* -1: none yet */
	uint8_t state;
	uint32_t nproc, base_rank, exited, connected;
	uint64_t silent_ms;
};
void wire_put_job_node_item(struct buf *items, const struct wire_job_node *n);
struct wire_job_node wire_get_job_node_item(struct reader *r);

/* An item of PROGRESS's and RANKS's ranks. */
struct wire_rank {
	uint32_t rank, local_rank;
	int64_t pid;
	uint8_t doing;
	uint64_t quiet_ms;  /* since it last made progress */
	uint64_t does_ms;   /* since it began to do this */
	uint64_t world;	    /* how many collectives of the world it entered */
	uint32_t comm;	    /* the collective's that it is in */
	uint64_t number;    /* that collective's, plus 1; 0: it is in none */
	int32_t peer;	    /* the rank of its send or recv, or -1 */
	int64_t step;	    /* the last it reported; -1: none */
	uint64_t step_us;   /* the mean time of its last steps, or 0 */
	struct slice call;  /* it is in, or was in last; or "" */
	struct slice words; /* what it does: "sleeps (nanosleep)" */
	int32_t waited;	    /* in thousandths of the last minute; -1: unknown */
	struct slice cause; /* why it may have been slow in that minute */
	int32_t cpu;	    /* thousandths of a CPU that it uses; -1: unknown */
	int64_t memory;	    /* resident bytes; -1: unknown */
	struct wire_items groups; /* at most WIRE_GROUPS_MAX */
};
/* A group of ranks that a rank belongs to. */
struct wire_group {
	uint32_t comm;	/* its number, the same for all its ranks */
	uint32_t size;	/* ranks */
	int32_t waited; /* in its collectives, as in struct wire_rank */
	struct slice name;
};
void wire_put_group_item(struct buf *items, const struct wire_group *g);
struct wire_group wire_get_group_item(struct reader *r);
void wire_put_rank_item(struct buf *items, const struct wire_rank *n);
struct wire_rank wire_get_rank_item(struct reader *r);

/* What NVML reports about a GPU; -1: it does not. Memory is in bytes, throttle
 * the bits of nvmlClocksThrottleReasons, ecc_* count uncorrected errors: since
 * the driver was loaded, and since the GPU was made. instances: of MIG. */
#define WIRE_GPU_NUMBERS(F)                                                   \
	F(temperature) F(utilization) F(memory_used) F(memory_total)          \
	F(throttle) F(ecc_volatile) F(ecc_aggregate) F(remap_pending)         \
	F(remap_failed) F(nvlinks) F(nvlinks_inactive) F(nvlink_errors)       \
	F(instances) F(is_lost)

/* An item of GPUS's gpus. */
struct wire_gpu {
	uint32_t index; /* NVML's */
	struct slice uuid, name;
#define F(field) int64_t field;
	WIRE_GPU_NUMBERS(F)
#undef F
};
void wire_put_gpu_item(struct buf *items, const struct wire_gpu *g);
struct wire_gpu wire_get_gpu_item(struct reader *r);

void wire_put_call_item(struct buf *items, const struct wire_call *c);
struct wire_call wire_get_call_item(struct reader *r);

#endif
