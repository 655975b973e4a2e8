/* loop.h: libuv, with a compiler warning for every dropped result. Include this
 * instead of <uv.h>. Calls that cannot fail (timers, uv_pipe_init, uv_tcp_init)
 * are not marked.
 * libuv itself calls abort() if epoll_ctl fails: see docs/testing-faults.md. */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/error.h"

MUST_CHECK int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
MUST_CHECK int uv_poll_init_socket(uv_loop_t *loop, uv_poll_t *poll,
				   uv_os_sock_t socket);
MUST_CHECK int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb cb);
MUST_CHECK int uv_signal_init(uv_loop_t *loop, uv_signal_t *handle);
MUST_CHECK int uv_signal_start(uv_signal_t *handle, uv_signal_cb cb,
			       int signum);
MUST_CHECK int uv_async_init(uv_loop_t *loop, uv_async_t *handle,
			     uv_async_cb cb);
MUST_CHECK int uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work,
			     uv_after_work_cb after);
MUST_CHECK int uv_fileno(const uv_handle_t *handle, uv_os_fd_t *fd);
MUST_CHECK int uv_pipe_open(uv_pipe_t *pipe, uv_file fd);
MUST_CHECK int uv_tcp_open(uv_tcp_t *tcp, uv_os_sock_t socket);
MUST_CHECK int uv_tcp_connect(uv_connect_t *req, uv_tcp_t *tcp,
			      const struct sockaddr *addr, uv_connect_cb cb);
MUST_CHECK int uv_tcp_getsockname(const uv_tcp_t *tcp, struct sockaddr *name,
				  int *size);
MUST_CHECK int uv_tcp_getpeername(const uv_tcp_t *tcp, struct sockaddr *name,
				  int *size);
MUST_CHECK int uv_listen(uv_stream_t *stream, int backlog,
			 uv_connection_cb cb);
MUST_CHECK int uv_accept(uv_stream_t *server, uv_stream_t *client);
MUST_CHECK int uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc,
			     uv_read_cb read);
MUST_CHECK int uv_write(uv_write_t *req, uv_stream_t *stream,
			const uv_buf_t bufs[], unsigned int n, uv_write_cb cb);
MUST_CHECK int uv_try_write(uv_stream_t *stream, const uv_buf_t bufs[],
			    unsigned int n);

/* uv_loop_init, but 0 or -errno where that aborts: if the process may open a
 * first file, and then no more. */
MUST_CHECK static inline int loop_init(uv_loop_t *loop)
{
	/* epoll, an eventfd, and two ends of a pipe; one to spare */
	int fds[5], n = 0, rc = 0;

	while (rc == 0 && n < (int)(sizeof(fds) / sizeof(*fds))) {
		fds[n] = eventfd(0, EFD_CLOEXEC);
		if (fds[n] < 0)
			rc = -errno;
		else
			n++;
	}
	while (n)
		close(fds[--n]);
	return rc < 0 ? rc : uv_loop_init(loop);
}

/* Returns rc; if it is an error, sets e: "cannot watch stdout: Too many open
 * files". */
static inline int loop_check(int rc, struct err *e, const char *what)
{
	return rc < 0 ? err_set(e, rc, "%s: %s", what, err_name(rc)) : rc;
}

#endif
