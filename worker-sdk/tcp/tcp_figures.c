/* tcp_figures.c: TCP_INFO and what it means. */
#include "worker-sdk/tcp/tcp_figures.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/sock.h"

enum {
	/* Fewer retransmissions may be a mere hiccup. */
	STUCK_RETRIES = 3,
	/* Fewer segments that were sent again are normal on any network. */
	LOSSY_RESENT = 5,
	LOSSY_PERCENT = 3,
	/* Shorter packets fit every path (RFC 791). */
	SHORT_MAX = 576,
	/* The kernel counts quiet_ms in ticks. */
	TICK_MS = 20
};

int ddp__figures_read(int fd, struct ddp__figures *f)
{
	struct tcp_info i;
	socklen_t size = sizeof(i);
	int queued = 0;

	/* an older kernel fills less of it */
	memset(&i, 0, sizeof(i));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &size) ||
	    ioctl(fd, SIOCOUTQ, &queued))
		return -1;
	f->unsent = i.tcpi_notsent_bytes;
	f->unacked = (uint64_t)queued > f->unsent
			     ? (uint64_t)queued - f->unsent
			     : 0;
	f->retries = i.tcpi_retransmits;
	f->resent = i.tcpi_total_retrans;
	f->sent = i.tcpi_data_segs_out;
	f->stuck = i.tcpi_unacked > i.tcpi_sacked
			   ? i.tcpi_unacked - i.tcpi_sacked
			   : 0;
	f->beyond = i.tcpi_sacked;
	f->came = i.tcpi_segs_in;
	f->rtt_us = i.tcpi_rtt;
	f->mss = i.tcpi_snd_mss;
	f->mtu = i.tcpi_pmtu;
	f->window = i.tcpi_snd_wnd;
	f->quiet_ms = i.tcpi_last_ack_recv;
	return 0;
}

static int figures_are_stuck(const struct ddp__figures *f)
{
	return f->unacked && f->retries >= STUCK_RETRIES;
}

uint32_t ddp__figures_resent_stuck(const struct ddp__figures *f)
{
	uint64_t n = (uint64_t)f->stuck * (f->retries + 1) + f->retries;

	return n < f->resent ? (uint32_t)n : f->resent;
}

struct ddp__loss ddp__loss_since(const struct ddp__loss *before, uint32_t sent,
				 uint32_t resent, uint32_t stuck)
{
	uint64_t known = (uint64_t)before->lost + stuck;

	return (struct ddp__loss){
		.sent = sent - before->sent,
		.lost = resent > known ? (uint32_t)(resent - known) : 0};
}

static int loss_is_high(const struct ddp__loss *l)
{
	return l->lost >= LOSSY_RESENT &&
	       (uint64_t)l->lost * 100 >= (uint64_t)l->sent * LOSSY_PERCENT;
}

static int link_passes_small(const struct ddp__link_look *l)
{
	return l->small && !l->small->unacked && !l->small->unsent &&
	       l->small->quiet_ms <= l->between_ms + TICK_MS;
}

/* Earlier losses only explain data that is still under way. If data arrives
 * beyond data that is stuck, the path drops packets at random. */
static int link_is_lossy(const struct ddp__link_look *l)
{
	const struct ddp__figures *f = l->data;

	if (loss_is_high(&l->since) || (f->unacked && loss_is_high(&l->before)))
		return 1;
	return figures_are_stuck(f) && link_passes_small(l) &&
	       f->beyond >= LOSSY_RESENT && f->beyond >= f->stuck / 4;
}

enum ddp__verdict ddp__link_verdict(const struct ddp__link_look *l)
{
	const struct ddp__figures *f = l->data;

	if (link_is_lossy(l))
		return DDP__LINK_LOSSY;
	if (figures_are_stuck(f) && !link_passes_small(l))
		return l->came ? DDP__LINK_ONE_WAY : DDP__LINK_SILENT;
	if (figures_are_stuck(f) && f->unacked > SHORT_MAX &&
	    f->mss > SHORT_MAX)
		return DDP__LINK_MTU;
	if (f->unsent && !f->unacked && f->window < f->mss)
		return DDP__LINK_UNREAD;
	return !f->unacked && link_passes_small(l) ? DDP__LINK_WORKS
						   : DDP__LINK_UNKNOWN;
}

int ddp__link_is_bad(enum ddp__verdict v)
{
	return v >= DDP__LINK_MTU;
}

static void link_put_stuck(const struct ddp__figures *f, const char *meaning,
		      char *out, size_t size)
{
	snprintf(out, size,
		 "%llu bytes are not acknowledged after %u retransmissions, "
		 "%s (round trip %.1f ms before, MTU %u)",
		 (unsigned long long)f->unacked, f->retries, meaning,
		 f->rtt_us / 1e3, f->mtu);
}

static void link_put_mtu(const struct ddp__figures *f, char *out, size_t size)
{
	char meaning[256];

	snprintf(meaning, sizeof(meaning),
		 "while short packets pass: something between the hosts drops "
		 "packets of %u bytes; give both hosts the MTU of the network "
		 "between them",
		 f->mtu);
	link_put_stuck(f, meaning, out, size);
}

static void link_put_lossy(const struct ddp__link_look *l, char *out,
			   size_t size)
{
	const struct ddp__figures *f = l->data;
	struct ddp__loss sum = l->since;

	if (!loss_is_high(&sum)) {
		sum.sent += l->before.sent;
		sum.lost += l->before.lost;
	}
	if (!loss_is_high(&sum)) {
		sum.sent = f->stuck + f->beyond;
		sum.lost = f->stuck;
	}
	snprintf(out, size,
		 "the network loses packets: %u of %u segments were sent "
		 "again, and %llu bytes are not acknowledged (round trip %.1f "
		 "ms, MTU %u)",
		 sum.lost, sum.sent, (unsigned long long)f->unacked,
		 f->rtt_us / 1e3, f->mtu);
}

char *ddp__link_text(enum ddp__verdict v, const struct ddp__link_look *l,
		     char *out, size_t size)
{
	const struct ddp__figures *f = l->data;

	*out = '\0';
	if (v == DDP__LINK_SILENT)
		link_put_stuck(f,
			  "and no packet comes back: the host or the network "
			  "is down, or a firewall drops the packets",
			  out, size);
	else if (v == DDP__LINK_ONE_WAY)
		link_put_stuck(f,
			  "while packets from there still arrive: the network "
			  "loses those in this direction",
			  out, size);
	else if (v == DDP__LINK_MTU)
		link_put_mtu(f, out, size);
	else if (v == DDP__LINK_LOSSY)
		link_put_lossy(l, out, size);
	else if (v == DDP__LINK_UNREAD)
		snprintf(out, size,
			 "the network works (round trip %.1f ms), but the "
			 "process there does not read: %llu bytes wait here",
			 f->rtt_us / 1e3, (unsigned long long)f->unsent);
	else if (v == DDP__LINK_WORKS)
		snprintf(out, size,
			 "the network works: everything sent is acknowledged "
			 "(round trip %.1f ms)",
			 l->small->rtt_us / 1e3);
	return out;
}

char *ddp__link_ends(int fd, char *out, size_t size)
{
	struct sock_addr a[2] = {{.len = sizeof(a->ss)},
				 {.len = sizeof(a->ss)}};
	char text[2][SOCK_TEXT_MAX] = {"?", "?"};

	if (!getsockname(fd, (struct sockaddr *)&a[0].ss, &a[0].len))
		sock_addr_text(&a[0], text[0]);
	if (!getpeername(fd, (struct sockaddr *)&a[1].ss, &a[1].len))
		sock_addr_text(&a[1], text[1]);
	snprintf(out, size, "%s -> %s", text[0], text[1]);
	return out;
}
