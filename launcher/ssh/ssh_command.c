/* ssh_command.c: ssh's argv, the script that it runs, and advice; our own ELF
 * notes and /proc/self/exe. */
#include "launcher/ssh/ssh_command.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/plan/shell_words.h"

/* ---- the identity of this build ---- */

#define ALIGN4(n) (((n) + 3u) & ~(size_t)3u)

static void build_id_put_hex(const unsigned char *p, size_t n, char *out)
{
	if (n > (BUILD_ID_MAX - 1) / 2)
		n = (BUILD_ID_MAX - 1) / 2;
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
}

static void build_id_scan_notes(const char *p, size_t left, char *out)
{
	ElfW(Nhdr) note;

	while (left >= sizeof(note)) {
		size_t name, desc;

		memcpy(&note, p, sizeof(note));
		name = ALIGN4(note.n_namesz);
		desc = ALIGN4(note.n_descsz);
		if (name + desc > left - sizeof(note))
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(p + sizeof(note), "GNU", 4) == 0)
			build_id_put_hex((const unsigned char *)p +
						 sizeof(note) + name,
					 note.n_descsz, out);
		p += sizeof(note) + name + desc;
		left -= sizeof(note) + name + desc;
	}
}

/* The first object is the program itself. */
static int build_id_on_object(struct dl_phdr_info *info, size_t size, void *out)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_NOTE)
			build_id_scan_notes(
				(const char *)(info->dlpi_addr + h->p_vaddr),
				h->p_memsz, out);
	}
	return 1;
}

static unsigned long long build_id_file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (unsigned long long)st.st_size;
}

static void build_id_find_files(struct build_id *b)
{
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	char *slash;

	if (n <= 0)
		return;
	b->self[n] = '\0';
	b->self_size = build_id_file_size("/proc/self/exe");
	slash = strrchr(b->self, '/');
	if (!slash || snprintf(b->server, sizeof(b->server), "%.*s/ddprdzv",
			       (int)(slash - b->self), b->self) >=
			      (int)sizeof(b->server))
		b->server[0] = '\0';
	b->server_size = build_id_file_size(b->server);
	if (!b->server_size)
		b->server[0] = '\0';
}

void build_id_init(struct build_id *b)
{
	struct utsname u;

	memset(b, 0, sizeof(*b));
	build_id_find_files(b);
	dl_iterate_phdr(build_id_on_object, b->id);
	if (!b->id[0])
		snprintf(b->id, sizeof(b->id), "%.40s-%llu", DDP_VERSION,
			 b->self_size);
	if (uname(&u) == 0)
		snprintf(b->machine, sizeof(b->machine), "%s", u.machine);
}

int build_id_read(const char *path, struct buf *out, struct err *e)
{
	struct stat st;
	char *to;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, &st) < 0 ? err_negative(-errno) : 0;

	if (rc == 0) {
		to = buf_reserve(out, (size_t)st.st_size);
		rc = to ? file_read_all(fd, to, (size_t)st.st_size) : -ENOMEM;
		if (rc == 0)
			out->len += (size_t)st.st_size;
	}
	if (fd >= 0)
		close(fd);
	return rc < 0 ? err_set(e, rc, "cannot read '%s': %s", path,
				strerror(-rc)) : 0;
}

enum { TEXTS_MAX = 1 << 20, ARGS_MAX = 4096, WORDS_SHOWN = 600 };

/* Any login shell runs it, as sh -c '...' ddprun SELF ID SIZE SIZE MACHINE, so
 * it must not contain a single quote, a newline or an exclamation mark. Finds a
 * ddprun of this build, or else receives one on stdin. Its answers are the
 * records of remote_frame.h. */
static const char script[] =
	/* o FILE: succeeds if only this user and root can change FILE and the
	 * folders above it; else q names what others can change. This user's
	 * own group does not count, nor does a sticky folder, where only
	 * owners can rename. */
	"u=$(id -u); g=none; "
	"[ \"$(id -un)\" = \"$(id -gn)\" ] && g=$(id -g); "
	"o() { q=$1; while :; do set -- $(ls -ldn \"$q\"); "
	"case $3 in 0|$u) ;; *) return 1;; esac; "
	"case $1 in d????????[tT]*) ;; ????????w*) return 1;; "
	"?????w*) [ \"$4\" = $g ] || return 1;; esac; "
	"[ \"$q\" = / ] && return 0; q=${q%/*}; q=${q:-/}; done; }; "
	"s() { printf \"\\002ddprun %s\\003\" \"$1\"; }; "
	"c=\"${XDG_CACHE_HOME:-$HOME/.cache}/ddprun/$2\"; "
	"for p in \"$1\" \"$(command -v ddprun)\" \"$c/ddprun\"; do "
	"p=$(readlink -f \"$p\") && [ -x \"$p\" ] && o \"$p\" && "
	"\"$p\" --remote-end \"$2\" check </dev/null >/dev/null 2>&1 && "
	"exec \"$p\" --remote-end \"$2\"; done; "
	"m=$(uname -m); [ \"$m\" = \"$5\" ] || { s \"machine $m\"; exit 1; }; "
	"e=$(LC_ALL=C; export LC_ALL; umask 077; mkdir -p \"$c\" 2>&1) || "
	"{ s \"fail $c: $e\"; exit 1; }; "
	"c=$(readlink -f \"$c\"); o \"$c\" || "
	"{ s \"fail $c: other users can change $q\"; exit 1; }; "
	/* renames the file only once it is complete */
	"g() { s \"need $1\"; e=$(LC_ALL=C; export LC_ALL; umask 077; "
	"{ head -c \"$2\" >\"$c/$1.$$\" && "
	"[ \"$(wc -c <\"$c/$1.$$\")\" -eq \"$2\" ] && "
	"chmod 700 \"$c/$1.$$\" && mv -f \"$c/$1.$$\" \"$c/$1\"; } 2>&1) || "
	"{ rm -f \"$c/$1.$$\"; s \"fail $c: $e\"; exit 1; }; }; "
	"g ddprdzv \"$4\"; g ddprun \"$3\"; "
	"e=$(\"$c/ddprun\" --remote-end \"$2\" check </dev/null 2>&1) || "
	"{ s \"fail $c/ddprun: $e\"; exit 1; }; "
	"s copied; exec \"$c/ddprun\" --remote-end \"$2\"";

static void ssh_command_put_script(struct buf *b, const struct build_id *build)
{
	struct buf word = BUF_INIT(2 * PATH_MAX);
	struct slice self;
	char numbers[64];
	int rc;

	snprintf(numbers, sizeof(numbers), "%llu %llu", build->self_size,
		 build->server_size);
	shell_words_quote(&word, build->self);
	rc = buf_bytes(&word, &self);
	buf_printf(b, "exec /bin/sh -c '%s' ddprun %.*s %s %s %s", script,
		   SLICE_FMT(self), build->id, numbers, build->machine);
	buf_put_u8(b, 0);
	if (rc < 0)
		b->failed = rc;
	buf_release(&word);
}

static int ssh_command_is(const char *program, const char *name)
{
	const char *slash = strrchr(program, '/');

	return strcmp(slash ? slash + 1 : program, name) == 0;
}

int ssh_command_is_openssh(const char *program)
{
	return ssh_command_is(program, "ssh");
}

/* A task with all that the job has on that node. Its stdout is a raw terminal:
 * through a pipe Slurm passes on whole lines only. */
static void ssh_command_put_srun(struct buf *b, const struct ssh_options *how,
				 const char *host)
{
	static const char *const options[] = {
		"--nodes=1", "--ntasks=1", "--overlap", "--unbuffered",
		"--cpu-bind=none", "--mem=0", "--mpi=none", "--export=ALL",
		"--quiet",
	};
	const char *arg;
	size_t at = 0;

	remote_list_add(b, how->program);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		remote_list_add(b, options[i]);
	while ((arg = remote_list_next(&how->args, &at)))
		remote_list_add(b, arg);
	remote_list_add(b, "--nodelist");
	remote_list_add(b, host);
	remote_list_add(b, "sh");
	remote_list_add(b, "-c");
	ssh_command_put_script(b, how->build);
}

static void ssh_command_put_argv(struct buf *b, const struct ssh_options *how,
				 const char *host)
{
	const char *arg;
	size_t at = 0;

	if (ssh_command_is(how->program, "srun")) {
		ssh_command_put_srun(b, how, host);
		return;
	}
	remote_list_add(b, how->program);
	while ((arg = remote_list_next(&how->args, &at)))
		remote_list_add(b, arg);
	if (ssh_command_is_openssh(how->program)) {
		remote_list_add(b, "-T");
		remote_list_add(b, "-oBatchMode=yes");
		buf_printf(b, "-oConnectTimeout=%u", how->timeout_s);
		buf_put_u8(b, 0);
		remote_list_add(b, "--");
	}
	remote_list_add(b, host);
	ssh_command_put_script(b, how->build);
}

int ssh_command_init(struct ssh_command *c, const struct ssh_options *how,
		     const char *host, struct err *e)
{
	struct remote_list words;
	const char *word;
	size_t n = 0, at = 0;

	buf_init(&c->texts, TEXTS_MAX);
	ssh_command_put_argv(&c->texts, how, host);
	c->argv = calloc(ARGS_MAX + 1, sizeof(*c->argv));
	if (!c->argv || c->texts.failed) {
		ssh_command_release(c);
		return err_no_memory(e, "the ssh command");
	}
	words = (struct remote_list){SLICE(c->texts.data, c->texts.len)};
	while (n < ARGS_MAX && (word = remote_list_next(&words, &at)))
		c->argv[n++] = (char *)word;
	return 0;
}

void ssh_command_release(struct ssh_command *c)
{
	free(c->argv);
	buf_release(&c->texts);
	c->argv = NULL;
}

/* ---- why it failed ---- */

/* ssh's messages, which are in English in any locale, and what helps. */
static const struct {
	const char *part, *advice;
} known[] = {
	{"HOST IDENTIFICATION HAS CHANGED",
	 "the key of this host differs from the one in ~/.ssh/known_hosts: if "
	 "that is expected (the host was reinstalled), remove the old one with "
	 "ssh-keygen -R HOST"},
	{"Host key verification failed",
	 "the key of this host is not known "
	 "here: connect once by hand and compare it, or, if you trust the "
	 "network: ssh-keyscan HOST >>~/.ssh/known_hosts"},
	{"Too many authentication failures",
	 "the ssh-agent offers too many "
	 "keys: name one, --ssh-args '-o IdentitiesOnly=yes -i KEYFILE'"},
	{"Permission denied",
	 "it asks for a password, which ddprun cannot give: set up a key with "
	 "ssh-keygen and ssh-copy-id HOST; a key with a passphrase needs "
	 "ssh-agent and ssh-add"},
	{"Could not resolve", "check the name; an alias must be in this "
			      "machine's ~/.ssh/config"},
	{"Connection refused", "no sshd runs there; for another port use "
			       "--ssh-args '-p PORT'"},
	{"timed out", "is it down, or behind a firewall?"},
	{"No route to host", "is it down?"},
	{"kex_exchange_identification",
	 "its sshd accepts no more connections "
	 "now (MaxStartups); try again, or use a smaller --ssh-width"},
	{"Bad configuration option", "see --ssh-args"},
	{"unknown option", "see --ssh-args"},
};

static const char *ssh_command_advice(struct slice words)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (slice_has(words, known[i].part))
			return known[i].advice;
	}
	return "";
}

/* Puts them on one line, without control characters. */
static void ssh_command_put_stderr(struct buf *b, struct slice words)
{
	size_t from = words.len > WORDS_SHOWN ? words.len - WORDS_SHOWN : 0;
	int blank = 1;

	for (size_t i = from; i < words.len; i++) {
		unsigned char c = (unsigned char)words.data[i];

		if (c == '\n' && !blank && i + 1 < words.len)
			buf_put(b, " | ", 3);
		else if (c >= 0x80 || isprint(c) || c == '\t')
			buf_put_u8(b, c);
		blank = c == '\n' || c == '\r';
	}
}

static void ssh_command_put_status(struct buf *b, const struct ssh_end *n)
{
	char name[SIGNAL_NAME_MAX];

	if (n->timeout_s > 0)
		buf_printf(b, "no answer within %g s (--ssh-timeout)",
			   n->timeout_s);
	else if (WIFSIGNALED(n->status))
		buf_printf(b, "%s was killed by %s", n->program,
			   signal_name(WTERMSIG(n->status), name));
	else if (WEXITSTATUS(n->status) == 255)
		buf_printf(b, n->opened ? "the connection is lost"
					: "%s cannot connect", n->program);
	else if (n->opened)
		buf_printf(b, "ddprun there has ended (exit code %d)",
			   WEXITSTATUS(n->status));
	else
		buf_printf(b, "cannot start ddprun there (exit code %d)",
			   WEXITSTATUS(n->status));
}

int ssh_command_explain(const struct ssh_end *n, struct err *e)
{
	struct buf b = BUF_INIT(ERR_TEXT_MAX);
	const char *what = n->opened ? "" : ssh_command_advice(n->lines);

	ssh_command_put_status(&b, n);
	if (n->lines.len) {
		buf_printf(&b, ": ");
		ssh_command_put_stderr(&b, n->lines);
	}
	if (*what)
		buf_printf(&b, "; %s", what);
	else if (n->timeout_s > 0)
		buf_printf(&b, "; is it down, or behind a firewall?");
	err_set(e, ERR_REMOTE, "%.*s", (int)b.len, b.data ? b.data : "");
	buf_release(&b);
	return ERR_REMOTE;
}
