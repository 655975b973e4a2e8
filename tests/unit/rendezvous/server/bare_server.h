/* bare_server.h: a server without sockets. Its journal is in a memory file,
 * whose bytes another server can read. */
#ifndef TESTS_UNIT_BARE_SERVER_H
#define TESTS_UNIT_BARE_SERVER_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/daemon/daemon.h"
#include "rendezvous/query/query.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/limits.h"

/* A server that has not read a journal. */
static inline struct server *new_server(size_t max_keys, size_t max_bytes)
{
	struct server *s = calloc(1, sizeof(*s));

	s->loop = s->pool.loop = malloc(sizeof(*s->loop));
	ck_assert_int_eq(uv_loop_init(s->loop), 0);
	s->max_keys = max_keys;
	s->max_bytes = max_bytes;
	s->lease_ms = s->idle_ms = s->pool.silent_ms = 60000;
	s->hooks = &daemon_hooks;
	wait_report_init(s);
	limits_init(s);
	return s;
}

/* A server with the journal in fd, which it takes. On failure e has the
 * code. */
static inline struct server *server_at(int fd, size_t max_keys,
				       size_t max_bytes, struct err *e)
{
	struct server *s = new_server(max_keys, max_bytes);

	e->code = recovery_start(s, NULL, fd, e);
	return s;
}

static inline struct server *open_server(int fd)
{
	struct err e = ERR_INIT;
	struct server *s = server_at(fd, 1000, 64 << 20, &e);

	ck_assert_msg(e.code == 0, "%s", e.text);
	return s;
}

static inline void close_server(struct server *s)
{
	recovery_forget(s);
	wait_report_close(s);
	limits_close(s);
	uv_run(s->loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(s->loop), 0);
	free(s->loop);
	hash_table_release(&s->by_number);
	hash_table_release(&s->jobs);
	hash_table_release(&s->tenants);
	conn_pool_release(&s->pool);
	free(s);
}

/* A memory file with these bytes. */
static inline int image(const char *bytes, size_t n)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	ck_assert_int_eq(pwrite(fd, bytes, n, 0), (ssize_t)n);
	return fd;
}

/* The file's bytes, up to its last batch. */
static inline char *bytes_of(int fd, size_t *n)
{
	struct stat st;
	char *bytes;

	ck_assert_int_eq(fstat(fd, &st), 0);
	*n = (size_t)st.st_size;
	bytes = malloc(*n);
	ck_assert_int_eq(pread(fd, bytes, *n, 0), (ssize_t)*n);
	while (*n && !bytes[*n - 1])
		--*n;
	*n += 8; /* a batch may end in zeroes */
	return bytes;
}

/* Limits the size of files, to imitate a full disk. */
static inline void limit_files(rlim_t bytes)
{
	struct rlimit r;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes < r.rlim_max ? bytes : r.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
}

#endif
