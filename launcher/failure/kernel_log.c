/* kernel_log.c: reads /dev/kmsg, which returns one record per read. */
#include "launcher/failure/postmortem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_MAX = 8 << 10, RECORDS_MAX = 20000 };

#define KILL "oom-kill:constraint="
#define XID "NVRM: Xid"
/* Follows the KILL line, which the kernel omits when it kills many at once. */
#define KILLED "Killed process "
/* "prog[4711]: segfault at 10 ip 000055d2 sp 00007ffd error 4 in prog[...]" */
#define FAULT "]: segfault at "

void kernel_log_open(struct kernel_log *k)
{
	k->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	kernel_log_skip(k);
}

void kernel_log_skip(struct kernel_log *k)
{
	k->n = 0;
	if (k->fd >= 0 && lseek(k->fd, 0, SEEK_END) < 0)
		kernel_log_close(k);
}

void kernel_log_close(struct kernel_log *k)
{
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

static const char *kernel_log_line(const struct kernel_log *k, unsigned i)
{
	return k->lines[i % KERNEL_LOG_LINES];
}

static unsigned kernel_log_oldest(const struct kernel_log *k)
{
	return k->n > KERNEL_LOG_LINES ? k->n - KERNEL_LOG_LINES : 0;
}

void kernel_log_add(struct kernel_log *k, const char *record, size_t len)
{
	const char *text = memchr(record, ';', len);
	const char *found, *newline;
	size_t left;

	if (!text)
		return;
	/* the record's first line is the text, the others are "KEY=value" */
	text++;
	left = len - (size_t)(text - record);
	newline = memchr(text, '\n', left);
	if (newline)
		left = (size_t)(newline - text);
	found = memmem(text, left, KILL, strlen(KILL));
	if (!found)
		found = memmem(text, left, XID, strlen(XID));
	if (!found && (memmem(text, left, KILLED, strlen(KILLED)) ||
		       memmem(text, left, FAULT, strlen(FAULT))))
		found = text;
	if (!found)
		return;
	snprintf(k->lines[k->n++ % KERNEL_LOG_LINES], KERNEL_LOG_LINE_MAX,
		 "%.*s", (int)(left - (size_t)(found - text)), found);
}

void kernel_log_read(struct kernel_log *k)
{
	char record[RECORD_MAX];

	for (int i = 0; k->fd >= 0 && i < RECORDS_MAX; i++) {
		ssize_t n = read(k->fd, record, sizeof(record));

		/* EPIPE: records were overwritten; the next read continues */
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			break;
		kernel_log_add(k, record, (size_t)n);
	}
}

/* The value of ",name=" up to the next comma, or NULL. */
static const char *kernel_log_field(const char *line, const char *name,
				    size_t *len)
{
	const char *at = strstr(line, name);

	if (!at)
		return NULL;
	at += strlen(name);
	*len = strcspn(at, ",");
	return at;
}

/* "oom-kill:constraint=...,oom_memcg=/x,...,pid=4711,uid=0" */
static int kernel_log_parse_reason(const char *line, pid_t pid,
				   struct kernel_kill *kill)
{
	size_t len;
	const char *value = kernel_log_field(line, ",pid=", &len);

	if (strncmp(line, KILL, strlen(KILL)) != 0 || !value ||
	    strtol(value, NULL, 10) != pid)
		return 0;
	value = line + strlen(KILL);
	len = strcspn(value, ",");
	kill->cgroup = strncmp(value, "CONSTRAINT_MEMCG", len) == 0;
	value = kernel_log_field(line, ",oom_memcg=", &len);
	snprintf(kill->path, sizeof(kill->path), "%.*s", value ? (int)len : 0,
		 value ? value : "");
	return 1;
}

/* "Memory cgroup out of memory: Killed process 4711 (python3) ..." */
static int kernel_log_parse_victim(const char *line, pid_t pid,
				   struct kernel_kill *kill)
{
	const char *at = strstr(line, KILLED);

	if (!at || strtol(at + strlen(KILLED), NULL, 10) != pid)
		return 0;
	kill->cgroup = strncmp(line, "Memory cgroup", 13) == 0;
	kill->path[0] = '\0';
	return 1;
}

int kernel_log_killed(const struct kernel_log *k, pid_t pid,
		      struct kernel_kill *kill)
{
	for (unsigned i = kernel_log_oldest(k); i < k->n; i++) {
		if (kernel_log_parse_reason(kernel_log_line(k, i), pid, kill))
			return 1;
	}
	for (unsigned i = kernel_log_oldest(k); i < k->n; i++) {
		if (kernel_log_parse_victim(kernel_log_line(k, i), pid, kill))
			return 1;
	}
	return 0;
}

const char *kernel_log_xid(const struct kernel_log *k)
{
	for (unsigned i = k->n; i > kernel_log_oldest(k); i--) {
		if (strncmp(kernel_log_line(k, i - 1), XID, strlen(XID)) == 0)
			return kernel_log_line(k, i - 1);
	}
	return NULL;
}

int kernel_log_fault(const struct kernel_log *k, pid_t pid,
		     struct kernel_fault *fault)
{
	for (unsigned i = k->n; i > kernel_log_oldest(k); i--) {
		const char *line = kernel_log_line(k, i - 1);
		const char *at = strstr(line, FAULT);
		unsigned long long address, ip, sp;
		const char *open = at;

		while (open && open > line && *open != '[')
			open--;
		if (!at || strtol(open + 1, NULL, 10) != pid ||
		    sscanf(at + strlen(FAULT), "%llx ip %llx sp %llx",
			   &address, &ip, &sp) != 3)
			continue;
		*fault = (struct kernel_fault){address, sp};
		return 1;
	}
	return 0;
}
