/* error.h: the one list of our error codes, and the text that goes with one.
 * Codes are negative ints; the operating system's are -errno, ours start
 * below -20000 so that they never meet errno's or libuv's. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/* name, code, the guilty party, in a few words for people. ddp.h has them all,
 * as DDP_ERR_name. */
#define ERR_LIST(X)                                                           \
	X(ARGUMENT, -20001, "bad argument from the caller")                    \
	X(USAGE, -20002, "bad command line or environment")                    \
	X(SYSTEM, -20003, "this host's operating system refused")              \
	X(REMOTE, -20004, "another process of the job failed or left")         \
	X(PROTOCOL, -20005, "the peer broke the protocol")                     \
	X(TIMEOUT, -20006, "the deadline passed")                              \
	X(ABORTED, -20007, "the round or the job was ended")                   \
	X(INTERNAL, -20008, "a bug of ours")                                   \
	X(REFUSED, -20009, "the server refused")                               \
	X(DATA, -20010, "a file's contents are wrong")                         \
	X(PROOF, -20011, "no proof that both belong to the job")               \
	X(MOVED, -20012, "the job's server is elsewhere")                      \
	X(NOT_YET, -20013, "the job has no server yet")                        \
	X(NO_ETCD, -20014, "etcd cannot be asked who the server is")           \
	X(CALLER, -20015, "a thread or process that may not call now")

enum {
#define X(name, code, text) ERR_##name = code,
	ERR_LIST(X)
#undef X
};

enum { ERR_TEXT_MAX = 1024 };

/* After a function whose result says that it failed: the compiler warns where
 * a caller drops it. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* Filled once, where the error is born, with host, rank, address and what to
 * do; nobody re-words it on the way up. An err that was never set is "". */
struct err {
	int code;
	char text[ERR_TEXT_MAX];
};

#define ERR_INIT {0, ""}

/* The same for what is done a million times a second: the text's other bytes
 * are left as they are. */
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

/* A remark that goes with a success: sets the text, and code to 0. */
void err_note(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* "Connection timed out", or our own list's text. Never NULL. */
const char *err_name(int code);

#endif
