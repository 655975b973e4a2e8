/* progress.c: the updating line, and plain lines. */
#include "trainers/report/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define SECOND 1000000000u
enum { MOVING_EVERY = SECOND / 10 };
#define PLAIN_EVERY (5ull * SECOND)

void progress_init(struct progress *p, int silent)
{
	const char *terminal = getenv("DDP_TERMINAL");

	memset(p, 0, sizeof(*p));
	p->silent = silent;
	p->moving = isatty(STDOUT_FILENO) || (terminal && *terminal);
	p->due = clock_ns() + (p->moving ? 0 : PLAIN_EVERY);
	/* lines are written at once, also to a pipe */
	setvbuf(stdout, NULL, _IOLBF, 0);
}

void progress_epoch(struct progress *p, long epoch, long epochs,
		    uint64_t first_step, uint64_t steps, uint64_t left,
		    uint64_t batch)
{
	p->start = clock_ns();
	p->epoch = epoch;
	p->epochs = epochs;
	p->steps = steps;
	p->batch = batch;
	p->first_step = first_step;
	p->left = left;
}

const char *progress_count(uint64_t n, char *out)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu",
			   (unsigned long long)n), k = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[k++] = ',';
		out[k++] = digits[i];
	}
	out[k] = 0;
	return out;
}

/* Overwrites the rest of a longer line with blanks. */
static void progress_clear(struct progress *p, int len)
{
	printf("%*s", p->shown > len ? p->shown - len : 0, "");
}

/* 1 if progress_step would print a line now. */
static int progress_due(const struct progress *p, uint64_t now)
{
	return !p->silent && now >= p->due;
}

void progress_step(struct progress *p, uint64_t step, const float *loss,
		   uint64_t now)
{
	char rate[32];
	double seconds, pace;
	uint64_t left;
	int len;

	if (!progress_due(p, now))
		return;
	p->due = now + (p->moving ? MOVING_EVERY : PLAIN_EVERY);
	seconds = (double)(now - p->start) / SECOND;
	pace = (double)(step - p->first_step) / (seconds > 0 ? seconds : 1);
	left = (uint64_t)((double)(p->left - (step - p->first_step)) /
			  (pace > 0 ? pace : 1));
	progress_count((uint64_t)(pace * (double)p->batch), rate);
	len = printf("epoch %ld/%ld step %llu/%llu loss %.4f %s samples/s "
		     "eta %llu:%02llu", p->epoch, p->epochs,
		     (unsigned long long)step, (unsigned long long)p->steps,
		     (double)*loss, rate, (unsigned long long)(left / 60),
		     (unsigned long long)(left % 60));
	if (p->moving) {
		progress_clear(p, len);
		p->shown = len;
	}
	putchar(p->moving ? '\r' : '\n');
	fflush(stdout);
}

void progress_print(struct progress *p, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (p->silent)
		return;
	va_start(ap, fmt);
	len = vprintf(fmt, ap);
	va_end(ap);
	progress_clear(p, len);
	p->shown = 0;
	putchar('\n');
	fflush(stdout);
}
