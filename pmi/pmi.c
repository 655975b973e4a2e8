/* pmi.c: PMI-1 lines, and one exchange. */
#include "pmi/pmi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- lines ---- */

int pmi_field(struct slice line, const char *key, struct slice *value)
{
	const char *at = line.data, *end = line.data + line.len, *stop;
	size_t len = strlen(key);

	for (; at < end; at = stop + 1) {
		stop = memchr(at, ' ', (size_t)(end - at));
		if (!stop)
			stop = end;
		if ((size_t)(stop - at) > len && !memcmp(at, key, len) &&
		    at[len] == '=') {
			at += len + 1;
			*value = SLICE(at, (size_t)(stop - at));
			return 1;
		}
	}
	return 0;
}

static int pmi_is(struct slice s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

int pmi_check(struct slice line, const char *cmd, struct err *e)
{
	struct slice command, rc, msg = {"", 0};

	if (!pmi_field(line, "cmd", &command) || !pmi_is(command, cmd))
		return err_set(e, ERR_PROTOCOL,
			       "expected %s from the launcher on PMI_FD, but "
			       "got '%.*s'",
			       cmd, (int)(line.len < 200 ? line.len : 200),
			       line.data);
	if (!pmi_field(line, "rc", &rc) || pmi_is(rc, "0"))
		return 0;
	pmi_field(line, "msg", &msg);
	return err_set(e, ERR_REMOTE, "the launcher refused on PMI_FD: %s, "
		       "rc %.*s %.*s", cmd, rc.len < 20 ? (int)rc.len : 20,
		       rc.data, msg.len < 200 ? (int)msg.len : 200, msg.data);
}

/* ---- the exchange ---- */

static int pmi_failed(struct pmi *t, int error)
{
	return err_set(
		t->e, -error,
		"cannot talk to the launcher on PMI_FD %d: %s; did it start "
		"this process, and is this the first time (ddp_init once)?",
		t->fd, strerror(error));
}

static int pmi_send(struct pmi *t, const char *text)
{
	size_t sent = 0, len = strlen(text);
	ssize_t n;

	while (sent < len) {
		n = send(t->fd, text + sent, len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno == ENOTSOCK)
			n = write(t->fd, text + sent, len - sent);
		if (n < 0 && errno != EINTR)
			return pmi_failed(t, errno);
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int pmi_wait(struct pmi *t)
{
	struct pollfd p = {t->fd, POLLIN, 0};
	int rc, ms = -1;

	do {
		uint64_t now = clock_ms();

		if (t->deadline != UINT64_MAX)
			ms = now < t->deadline ? (int)(t->deadline - now) : 0;
		rc = poll(&p, 1, ms);
	} while (rc < 0 && errno == EINTR);
	if (rc > 0)
		return 0;
	return rc < 0 ? pmi_failed(t, errno)
		      : err_set(t->e, ERR_TIMEOUT,
				"the launcher does not answer on PMI_FD: has "
				"every rank got this far (ddp_init)?");
}

/* Reads one line byte by byte, so as not to read beyond it. */
static int pmi_receive(struct pmi *t, const char *cmd)
{
	size_t at = 0;
	ssize_t n;
	int rc;

	while (at < sizeof(t->line)) {
		rc = pmi_wait(t);
		if (rc)
			return rc;
		n = read(t->fd, t->line + at, 1);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return pmi_failed(t, n ? errno : EPIPE);
		if (t->line[at] == '\n') {
			t->reply = SLICE(t->line, at);
			return pmi_check(t->reply, cmd, t->e);
		}
		at++;
	}
	return err_set(t->e, ERR_PROTOCOL,
		       "the launcher's line on PMI_FD is too long");
}

static int pmi_request(struct pmi *t, const char *text, const char *answer)
{
	int rc = pmi_send(t, text);

	return rc ? rc : pmi_receive(t, answer);
}

static int pmi_get_name(struct pmi *t)
{
	struct slice name;
	int rc = pmi_request(t, "cmd=get_my_kvsname\n", "my_kvsname");

	if (rc)
		return rc;
	if (!pmi_field(t->reply, "kvsname", &name) || !name.len ||
	    name.len >= PMI_NAME_MAX)
		return err_set(
			t->e, ERR_PROTOCOL,
			"the launcher named no key space on PMI_FD: '%.*s'",
			SLICE_FMT(t->reply));
	memcpy(t->name, name.data, name.len);
	t->name[name.len] = 0;
	return 0;
}

static int pmi_put(struct pmi *t, const char *key, const char *text)
{
	char line[PMI_LINE_MAX];

	snprintf(line, sizeof(line), "cmd=put kvsname=%s key=%s value=%s\n",
		 t->name, key, text);
	return pmi_request(t, line, "put_result");
}

static int pmi_get(struct pmi *t, const char *key, char *text, size_t size)
{
	char line[PMI_LINE_MAX];
	struct slice value;
	int rc;

	snprintf(line, sizeof(line), "cmd=get kvsname=%s key=%s\n", t->name,
		 key);
	rc = pmi_request(t, line, "get_result");
	if (rc)
		return rc;
	if (!pmi_field(t->reply, "value", &value) || value.len >= size)
		return err_set(t->e, ERR_PROTOCOL,
			       "the launcher's answer on PMI_FD has no value, "
			       "or its value is too long");
	memcpy(text, value.data, value.len);
	text[value.len] = 0;
	return 0;
}

int pmi_open(struct pmi *t, int fd, int timeout_ms, struct err *e)
{
	int rc;

	t->fd = fd;
	t->e = e;
	t->deadline = timeout_ms < 0 ? UINT64_MAX
				     : clock_ms() + (uint64_t)timeout_ms;
	rc = pmi_request(t, "cmd=init pmi_version=1 pmi_subversion=1\n",
			 "response_to_init");
	return rc ? rc : pmi_get_name(t);
}

int pmi_share(struct pmi *t, const char *key, int mine, char *text,
	      size_t size)
{
	int rc = mine ? pmi_put(t, key, text) : 0;

	if (!rc)
		rc = pmi_request(t, "cmd=barrier_in\n", "barrier_out");
	return rc ? rc : pmi_get(t, key, text, size);
}

int pmi_close(struct pmi *t)
{
	return pmi_request(t, "cmd=finalize\n", "finalize_ack");
}
