/* proc_tcp.c: the kernel's net/ipv4/tcp_ipv4.c and net/ipv6/tcp_ipv6.c print
 * " 0: 0100007F:1F90 0100007F:D2C4 01 00000000:00000000 00:00000000 00000000
 * 1000 0 12345 ...". Addresses are 32-bit words of network-order bytes, printed
 * in the host's byte order. */
#include "launcher/worker/proc_tcp.h"

#include <string.h>

enum {
	WORD_DIGITS = 8,
	PORT_DIGITS = 4,
	V6_WORDS = 4,
	TIMER_RESEND = 1 /* the kernel's timer for retransmissions runs */
};

struct proc_tcp_cursor {
	const char *p, *end;
};

static int proc_tcp_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Takes a number of 1 to `most` digits in that base; 0: there is none. */
static int proc_tcp_take_number(struct proc_tcp_cursor *t, unsigned base,
				int most, uint64_t *out)
{
	int n = 0, d;

	for (*out = 0; t->p < t->end && n < most; n++, t->p++) {
		d = proc_tcp_digit(*t->p);
		if (d < 0 || (unsigned)d >= base)
			break;
		*out = *out * base + (unsigned)d;
	}
	return n;
}

static void proc_tcp_skip_blanks(struct proc_tcp_cursor *t)
{
	while (t->p < t->end && *t->p == ' ')
		t->p++;
}

static int proc_tcp_take_char(struct proc_tcp_cursor *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return 0;
	t->p++;
	return 1;
}

static int proc_tcp_skip_word(struct proc_tcp_cursor *t)
{
	const char *from;

	proc_tcp_skip_blanks(t);
	from = t->p;
	while (t->p < t->end && *t->p != ' ')
		t->p++;
	return t->p > from;
}

static int proc_tcp_take_addr(struct proc_tcp_cursor *t, struct sock_addr *a)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a->ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->ss;
	uint32_t words[V6_WORDS];
	uint64_t number;
	int n = 0, digits = 0;

	proc_tcp_skip_blanks(t);
	while (n < V6_WORDS &&
	       (digits = proc_tcp_take_number(t, 16, WORD_DIGITS, &number)) ==
		       WORD_DIGITS)
		words[n++] = (uint32_t)number;
	if ((n != 1 && n != V6_WORDS) || digits % WORD_DIGITS ||
	    !proc_tcp_take_char(t, ':') ||
	    proc_tcp_take_number(t, 16, PORT_DIGITS, &number) != PORT_DIGITS)
		return 0;
	memset(a, 0, sizeof(*a));
	if (n == 1) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, words, sizeof(v4->sin_addr));
		a->len = sizeof(*v4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, words, sizeof(v6->sin6_addr));
		a->len = sizeof(*v6);
	}
	sock_addr_set_port(a, (uint16_t)number);
	sock_addr_unmap(a);
	return 1;
}

static int proc_tcp_take_hex(struct proc_tcp_cursor *t, uint32_t *out)
{
	uint64_t number;

	proc_tcp_skip_blanks(t);
	if (!proc_tcp_take_number(t, 16, WORD_DIGITS, &number))
		return 0;
	*out = (uint32_t)number;
	return 1;
}

/* "00000240:00000000 01:00000014 00000003": queues for output and input, the
 * timer and its ticks, retransmissions. */
static int proc_tcp_take_queues(struct proc_tcp_cursor *t, struct proc_tcp *out)
{
	uint32_t timer, ignored;

	if (!proc_tcp_take_hex(t, &out->unacked) ||
	    !proc_tcp_take_char(t, ':') || !proc_tcp_take_hex(t, &ignored) ||
	    !proc_tcp_take_hex(t, &timer) || !proc_tcp_take_char(t, ':') ||
	    !proc_tcp_take_hex(t, &ignored) ||
	    !proc_tcp_take_hex(t, &out->resent))
		return 0;
	if (timer != TIMER_RESEND)
		out->resent = 0;
	return 1;
}

int proc_tcp_parse(struct slice line, struct proc_tcp *out)
{
	struct proc_tcp_cursor t = {line.data, line.data + line.len};
	uint64_t number;

	proc_tcp_skip_blanks(&t);
	if (!proc_tcp_take_number(&t, 10, 20, &number) ||
	    !proc_tcp_take_char(&t, ':') ||
	    !proc_tcp_take_addr(&t, &out->own) ||
	    !proc_tcp_take_addr(&t, &out->peer))
		return 0;
	proc_tcp_skip_blanks(&t);
	if (proc_tcp_take_number(&t, 16, 2, &number) != 2)
		return 0;
	out->state = (unsigned)number;
	if (!proc_tcp_take_queues(&t, out))
		return 0;
	proc_tcp_skip_blanks(&t);
	if (!proc_tcp_take_number(&t, 10, 10, &number) || number > UINT32_MAX)
		return 0;
	out->uid = (uint32_t)number;
	if (!proc_tcp_skip_word(&t)) /* the timeout */
		return 0;
	proc_tcp_skip_blanks(&t);
	return proc_tcp_take_number(&t, 10, 19, &out->inode) > 0;
}
