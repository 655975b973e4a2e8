/* top_terminal.c: ANSI control sequences, which all current terminals
 * understand. */
#include "launcher/top/top_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/file.h"

enum { ESCAPE_MS = 25 }; /* after this time ESC was the Escape key */

static void top_terminal_put(const char *text)
{
	/* if the terminal is gone, the next read reports it */
	if (file_write_all(STDOUT_FILENO, text, strlen(text)) < 0)
		return;
}

static void top_terminal_measure(struct top_terminal *t)
{
	struct winsize w;

	t->columns = 80;
	t->lines = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_col || !w.ws_row)
		return;
	t->columns = w.ws_col;
	t->lines = w.ws_row;
}

void top_terminal_enter(struct top_terminal *t)
{
	struct termios raw = t->before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	/* the other screen, without wrapping and without a cursor */
	top_terminal_put("\033[?1049h\033[?7l\033[?25l");
	top_terminal_measure(t);
	t->is_entered = 1;
}

void top_terminal_leave(struct top_terminal *t)
{
	if (!t->is_entered)
		return;
	top_terminal_put("\033[?25h\033[?7h\033[?1049l");
	tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
	t->is_entered = 0;
}

static void top_terminal_signals(sigset_t *set)
{
	static const int signals[] = {SIGWINCH, SIGINT,	 SIGTERM,
				      SIGHUP,	SIGTSTP, SIGCONT};

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(set, signals[i]);
}

int top_terminal_init(struct top_terminal *t, struct err *e)
{
	sigset_t set;

	*t = (struct top_terminal){.signals = -1};
	if (tcgetattr(STDIN_FILENO, &t->before) < 0)
		return err_set(e, -errno, "stdin is not a terminal: %s; use "
			       "--once", err_name(-errno));
	top_terminal_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &t->mask_before);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (t->signals < 0) {
		int rc = -errno;

		sigprocmask(SIG_SETMASK, &t->mask_before, NULL);
		return err_set(e, rc, "cannot receive signals: %s",
			       err_name(rc));
	}
	top_terminal_enter(t);
	return 0;
}

void top_terminal_release(struct top_terminal *t)
{
	top_terminal_leave(t);
	close(t->signals);
	sigprocmask(SIG_SETMASK, &t->mask_before, NULL);
}

/* ---- keys ---- */

static int top_terminal_wait(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* The byte that a sequence continues with, or 0. */
static char top_terminal_next(void)
{
	char c;

	if (!top_terminal_wait(STDIN_FILENO, ESCAPE_MS) ||
	    read(STDIN_FILENO, &c, 1) != 1)
		return 0;
	return c;
}

/* After ESC [ or ESC O: parameters, then a final byte. */
static int top_terminal_sequence(void)
{
	char first = 0, c;

	for (int i = 0; i < 16; i++) {
		c = top_terminal_next();
		if (c >= 0x40 || !c)
			break;
		if (!first)
			first = c;
	}
	switch (c) {
	case 'A':
		return KEY_UP;
	case 'B':
		return KEY_DOWN;
	case 'H':
		return KEY_HOME;
	case 'F':
		return KEY_END;
	case '~':
		return first == '5'   ? KEY_PAGE_UP
		       : first == '6' ? KEY_PAGE_DOWN
		       : first == '1' ? KEY_HOME
		       : first == '4' ? KEY_END
				      : KEY_NOTHING;
	default:
		return KEY_NOTHING;
	}
}

static int top_terminal_read_key(void)
{
	unsigned char c;
	ssize_t n = read(STDIN_FILENO, &c, 1);
	char next;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return KEY_NOTHING;
	if (n != 1)
		return KEY_QUIT;
	if (c != KEY_ESCAPE)
		return c;
	next = top_terminal_next();
	return next == '[' || next == 'O' ? top_terminal_sequence()
					  : KEY_ESCAPE;
}

/* Stops like any other program, with the terminal as it was. */
static int top_terminal_stop(struct top_terminal *t)
{
	top_terminal_leave(t);
	kill(getpid(), SIGSTOP);
	top_terminal_enter(t);
	return KEY_REDRAW;
}

static int top_terminal_read_signal(struct top_terminal *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != sizeof(info))
		return KEY_NOTHING;
	switch (info.ssi_signo) {
	case SIGTSTP:
		return top_terminal_stop(t);
	case SIGWINCH:
	case SIGCONT:
		top_terminal_measure(t);
		return KEY_REDRAW;
	default:
		t->signal = (int)info.ssi_signo;
		return KEY_QUIT;
	}
}

int top_terminal_key(struct top_terminal *t, int ms)
{
	struct pollfd p[2] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = t->signals, .events = POLLIN},
	};

	if (poll(p, 2, ms) <= 0)
		return KEY_NOTHING;
	if (p[1].revents)
		return top_terminal_read_signal(t);
	return top_terminal_read_key();
}
