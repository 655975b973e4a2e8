/* remote_host.c: clocks, and the lines for users. */
#include "launcher/ssh/remote_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/failure/exit_code.h"
#include "launcher/plan/shell_words.h"

uint64_t remote_host_unix_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The host read its clock between our times `asked` and `now`. */
static int64_t remote_host_skew_ms(uint64_t asked, uint64_t theirs,
				   uint64_t now)
{
	if (theirs > now)
		return (int64_t)(theirs - now);
	return theirs < asked ? -(int64_t)(asked - theirs) : 0;
}

int remote_host_set_ready(struct remote_host *h,
			  const struct remote_ready *ready)
{
	h->nproc = ready->nproc;
	h->cpus = ready->cpus;
	h->gpus = ready->gpus;
	h->skew_ms = remote_host_skew_ms(h->asked_ms, ready->unix_ms,
					 remote_host_unix_ms());
	free(h->addr);
	h->addr = strndup(ready->addr.data, ready->addr.len);
	return h->addr ? 0 : -ENOMEM;
}

void remote_host_release(struct remote_host *h)
{
	free(h->addr);
	free(h->why);
}

static void remote_host_put_ok(struct buf *b, const struct remote_host *h,
			       const struct remote_options *o)
{
	buf_printf(b, "fine: ddprun %s, working directory%s%s too; %u worker%s,"
		   " %u CPU%s, %u GPU%s; clock ",
		   h->copied ? "was copied there" : "is there",
		   o->no_program ? "" : " and ",
		   o->no_program ? "" : o->words[0], h->nproc,
		   h->nproc == 1 ? "" : "s", h->cpus,
		   h->cpus == 1 ? "" : "s", h->gpus, h->gpus == 1 ? "" : "s");
	if (h->skew_ms)
		buf_printf(b, "%+.3f s\n", (double)h->skew_ms / 1000);
	else
		buf_printf(b, "right\n");
}

int remote_host_print_check(const struct remote_host *hosts, uint32_t n,
			    const struct remote_options *o)
{
	struct buf b = BUF_INIT(64 << 20);
	struct slice text;
	int code = 0, rc;

	for (uint32_t i = 0; i < n; i++) {
		const struct remote_host *h = &hosts[i];

		buf_printf(&b, "%s: ", host_list_name(o->hosts, i));
		if (h->state == HOST_READY)
			remote_host_put_ok(&b, h, o);
		else
			buf_printf(&b, "FAILED: %s\n", h->why ? h->why : "");
		if (h->state != HOST_READY && !code)
			code = (int)h->code;
	}
	rc = buf_bytes(&b, &text);
	if (rc == 0)
		rc = file_write_all(STDOUT_FILENO, text.data, text.len);
	buf_release(&b);
	if (rc == 0)
		return code;
	log_error("error: cannot write to stdout: %s", err_name(rc));
	return EXIT_OS;
}

static void remote_host_put_ssh(struct buf *b, const struct remote_branch *m)
{
	const char *arg;
	size_t at = 0;

	buf_put(b, m->ssh.data, m->ssh.len);
	while ((arg = remote_list_next(&m->args, &at))) {
		buf_put_u8(b, ' ');
		shell_words_quote(b, arg);
	}
}

void remote_host_print_dry_run(const struct remote_options *o,
			       const struct remote_branch *m)
{
	struct buf ssh = BUF_INIT(1 << 20);

	remote_host_put_ssh(&ssh, m);
	for (uint32_t i = 0; i < o->hosts->count; i++) {
		const struct host *h = &o->hosts->hosts[i];
		char slots[24];

		snprintf(slots, sizeof(slots), "%u", h->slots);
		printf("node %u: %.*s %s ddprun, workers: %s\n", i,
		       (int)ssh.len, ssh.data, host_list_name(o->hosts, i),
		       h->slots ? slots : o->nproc_text);
	}
	buf_release(&ssh);
}
