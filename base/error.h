/* error.h: the list of our error codes, and the error: a code with its text.
 * Codes are negative ints. The operating system's are -errno; ours start below
 * -20000, so that they never collide with errno's or libuv's. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/* Name, code, and a few words that name the guilty party. ddp.h has all of
 * them, as DDP_ERR_name. */
#define ERR_LIST(X)                                                           \
	X(ARGUMENT, -20001, "bad argument from the caller")                    \
	X(USAGE, -20002, "bad command line or environment")                    \
	X(SYSTEM, -20003, "this host's operating system refused")              \
	X(REMOTE, -20004, "another process of the job failed or left")         \
	X(PROTOCOL, -20005, "the peer broke the protocol")                     \
	X(TIMEOUT, -20006, "the deadline passed")                              \
	X(ABORTED, -20007, "the round or the job has ended")                   \
	X(INTERNAL, -20008, "a bug of ours")                                   \
	X(REFUSED, -20009, "the server refused")                               \
	X(DATA, -20010, "a file's contents are invalid")                       \
	X(PROOF, -20011, "no proof that both sides belong to the job")         \
	X(MOVED, -20012, "the job's server is elsewhere")                      \
	X(NOT_YET, -20013, "the job has no server yet")                        \
	X(NO_ETCD, -20014, "etcd does not answer")                             \
	X(CALLER, -20015, "called by a thread or process that may not")

enum {
#define X(name, code, text) ERR_##name = code,
	ERR_LIST(X)
#undef X
};

enum { ERR_TEXT_MAX = 1024 };

/* For functions that return an error: the compiler warns where a caller drops
 * the result. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* Filled once, where the error is born, with host, rank, address and remedy;
 * callers hand it up as it is. The text of an err that was never set is "". */
struct err {
	int code;
	char text[ERR_TEXT_MAX];
};

#define ERR_INIT {0, ""}

/* As ERR_INIT, for hot paths: leaves the other bytes of the text alone. */
static inline void err_init(struct err *e)
{
	e->code = 0;
	e->text[0] = '\0';
}

/* Sets code and text and returns code. e may be NULL: only the code counts.
 * The result is always negative: a code that is not (an errno of 0) becomes
 * ERR_INTERNAL, so that a failure can never be returned as a success.
 * Compilers and static analysers see this through err_negative(). */
#define err_set(e, ...) err_negative(err_put(e, __VA_ARGS__))

int err_put(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static inline int err_negative(int code)
{
	if (code >= 0)
		__builtin_unreachable();
	return code;
}

/* Out of memory: sets -ENOMEM and "WHAT: out of memory", where fmt makes WHAT,
 * the object or the operation that lacks memory. Returns -ENOMEM. */
#define err_no_memory(e, ...) err_negative(err_put_no_memory(e, __VA_ARGS__))

int err_put_no_memory(struct err *e, const char *what, ...)
	__attribute__((format(printf, 2, 3)));

/* A remark on a success: sets the text, and code to 0. */
void err_note(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* "Connection timed out", or our own list's text. Never NULL. */
const char *err_name(int code);

enum { SIGNAL_NAME_MAX = 24 };

/* "SIGKILL", or "signal 40" if it has no name, into out[SIGNAL_NAME_MAX];
 * returns out. */
const char *signal_name(int number, char *out);

#endif
