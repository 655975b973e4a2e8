/* credential.c: calls into libmunge; AuthType and AuthInfo in slurm.conf. */
#include "rendezvous/auth/credential.h"

#include <errno.h>
#include <munge.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/dynlib.h"
#include "base/file.h"
#include "base/sock.h"

/* ---- slurm.conf: its text ---- */

enum { TEXT_MAX = 1 << 20 };

static struct slurm_conf loaded;

static const char blanks[] = " \t\r";

/* The line's value if it has that key. Keys ignore case, and blanks may
 * surround the equals sign. */
static int slurm_conf_value_of(struct slice line, const char *key,
			       struct slice *value)
{
	size_t n = strlen(key), at = 0, end;

	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (line.len - at < n || strncasecmp(line.data + at, key, n) != 0)
		return 0;
	at += n;
	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (at == line.len || line.data[at] != '=')
		return 0;
	at++;
	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (at < line.len && line.data[at] == '"')
		at++;
	end = at;
	while (end < line.len && !strchr(" \t\r\"#", line.data[end]))
		end++;
	*value = SLICE(line.data + at, end - at);
	return 1;
}

/* "socket=/run/munge/munge.socket.2,ttl=60" */
static void slurm_conf_parse_socket(struct slurm_conf *c, struct slice info)
{
	static const char word[] = "socket=";
	size_t n = sizeof(word) - 1, len;

	for (size_t at = 0; at < info.len; at += len + 1) {
		const char *item = info.data + at;
		const char *end = memchr(item, ',', info.len - at);

		len = end ? (size_t)(end - item) : info.len - at;
		if (len > n && strncasecmp(item, word, n) == 0 &&
		    len - n < sizeof(c->munge_socket))
			snprintf(c->munge_socket, sizeof(c->munge_socket),
				 "%.*s", (int)(len - n), item + n);
	}
}

static int slurm_conf_is_munge(struct slice plugin)
{
	static const char name[] = "auth/munge";

	return plugin.len == sizeof(name) - 1 &&
	       strncasecmp(plugin.data, name, plugin.len) == 0;
}

void slurm_conf_parse(struct slurm_conf *c, struct slice text)
{
	struct slice value;
	size_t len;

	*c = (struct slurm_conf){0};
	for (size_t at = 0; at < text.len; at += len + 1) {
		const char *line = text.data + at;
		const char *end = memchr(line, '\n', text.len - at);

		len = end ? (size_t)(end - line) : text.len - at;
		if (slurm_conf_value_of(SLICE(line, len), "AuthType", &value))
			c->without_munge = !slurm_conf_is_munge(value);
		else if (slurm_conf_value_of(SLICE(line, len), "AuthInfo",
					     &value))
			slurm_conf_parse_socket(c, value);
	}
	if (c->without_munge)
		c->munge_socket[0] = '\0';
}

/* ---- slurm.conf: the file ---- */

static int slurm_conf_read_file(const char *path, char *text)
{
	long len = file_read_text(path, text, TEXT_MAX);

	if (len <= 0)
		return 0;
	slurm_conf_parse(&loaded, SLICE(text, (size_t)len));
	return 1;
}

static void slurm_conf_load_once(void)
{
	/* the last: slurmd's copy of what slurmctld sent */
	static const char *const usual[] = {
		"/etc/slurm/slurm.conf", "/usr/local/etc/slurm.conf",
		"/run/slurm/conf/slurm.conf",
	};
	const char *given = getenv("SLURM_CONF");
	char *text = malloc(TEXT_MAX);

	if (text && given && *given) {
		slurm_conf_read_file(given, text);
	} else if (text) {
		for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
			if (slurm_conf_read_file(usual[i], text))
				break;
		}
	}
	free(text);
}

const struct slurm_conf *slurm_conf_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, slurm_conf_load_once);
	return &loaded;
}

#define USUAL_SOCKET "/run/munge/munge.socket.2"
#define USUAL_KEY "/etc/munge/munge.key"

enum { PAYLOAD_MAX = 128 };

struct munge_calls {
	__typeof__(munge_encode) *encode;
	__typeof__(munge_decode) *decode;
	__typeof__(munge_ctx_create) *create;
	__typeof__(munge_ctx_destroy) *destroy;
	__typeof__(munge_ctx_set) *set;
	__typeof__(munge_ctx_strerror) *why;
};

static struct munge_calls calls;
static int load_rc;
static struct err load_why;

static const struct dynlib_symbol rows[] = {
	DYNLIB_SYMBOL(struct munge_calls, encode, "munge_encode"),
	DYNLIB_SYMBOL(struct munge_calls, decode, "munge_decode"),
	DYNLIB_SYMBOL(struct munge_calls, create, "munge_ctx_create"),
	DYNLIB_SYMBOL(struct munge_calls, destroy, "munge_ctx_destroy"),
	DYNLIB_SYMBOL(struct munge_calls, set, "munge_ctx_set"),
	DYNLIB_SYMBOL(struct munge_calls, why, "munge_ctx_strerror"),
};

static void credential_load_once(void)
{
	char host[SOCK_HOST_MAX], without[SOCK_HOST_MAX + 32];
	const struct dynlib libmunge = {
		.soname = "libmunge.so.2",
		.without = without,
		.remedy = "package libmunge2 on Debian",
		.rows = rows,
		.n = sizeof(rows) / sizeof(*rows),
	};

	sock_host_name(host);
	snprintf(without, sizeof(without), "cannot use munge on %s", host);
	if (!dynlib_load(&libmunge, &calls, &load_why))
		load_rc = load_why.code = ERR_PROOF;
}

int credential_load(struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, credential_load_once);
	if (load_rc)
		return err_set(e, load_rc, "%s", load_why.text);
	return 0;
}

/* Munge is required: the error gives the remedy. */
static int credential_require_library(struct err *e)
{
	struct err why = ERR_INIT;
	int rc = credential_load(&why);

	if (rc < 0)
		err_set(e, rc, "%.900s; install it there, or give all nodes "
			"the same --token-file FILE", why.text);
	return rc;
}

/* ---- munged ---- */

static const char *credential_named_socket(void)
{
	const char *path = getenv("DDP_MUNGE_SOCKET");

	return path && *path ? path : NULL;
}

static const char *credential_socket_path(void)
{
	const struct slurm_conf *site = slurm_conf_load();
	const char *named = credential_named_socket();

	if (named)
		return named;
	return site->munge_socket[0] ? site->munge_socket : USUAL_SOCKET;
}

/* A munged that Slurm does not use: Debian's slurmd package installs one, whose
 * key no other host has. */
static int credential_is_foreign_socket(void)
{
	return !credential_named_socket() && slurm_conf_load()->without_munge;
}

int credential_is_offered(void)
{
	struct stat st;

	return !credential_is_foreign_socket() &&
	       stat(credential_socket_path(), &st) == 0 && S_ISSOCK(st.st_mode);
}

int credential_is_named(void)
{
	return credential_named_socket() != NULL;
}

int credential_is_expected(void)
{
	if (credential_named_socket() || slurm_conf_load()->munge_socket[0])
		return 1;
	/* EACCES: the key's folder, which only munge can read, exists */
	return !credential_is_foreign_socket() &&
	       (access(USUAL_KEY, F_OK) == 0 || errno == EACCES);
}

static int credential_is_down(const char *why, struct err *e)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	return err_set(e, ERR_PROOF,
		       "munged does not answer on %s (%s: %s); "
		       "start it there (systemctl start munge), or give all "
		       "nodes the same secret with --token-file FILE, or with "
		       "--auth secret where they share your home directory",
		       host, credential_socket_path(), why);
}

/* 0 if munged accepts connections, else errno; libmunge itself would retry for
 * seconds. */
static int credential_probe_socket(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd, rc = 0;

	if (strlen(credential_socket_path()) >= sizeof(a.sun_path))
		return ENAMETOOLONG;
	strcpy(a.sun_path, credential_socket_path());
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* EAGAIN: munged is there, but its queue is full */
	if (fd < 0 || (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
		       errno != EAGAIN))
		rc = errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

int credential_try(struct err *e)
{
	int down = credential_probe_socket();
	char host[SOCK_HOST_MAX];

	if (!down)
		return credential_load(e);
	sock_host_name(host);
	return err_set(e, ERR_PROOF, "munged does not answer on %s (%s: %s)",
		       host, credential_socket_path(), strerror(down));
}

int credential_check(struct err *e)
{
	int down = credential_probe_socket();

	return down ? credential_is_down(strerror(down), e)
		    : credential_require_library(e);
}

/* ---- credentials ---- */

static munge_ctx_t credential_open_context(struct err *e)
{
	munge_ctx_t c;

	if (credential_require_library(e) < 0)
		return NULL;
	c = calls.create();
	if (c && strcmp(credential_socket_path(), USUAL_SOCKET) != 0 &&
	    calls.set(c, MUNGE_OPT_SOCKET, credential_socket_path()) !=
		    EMUNGE_SUCCESS) {
		calls.destroy(c);
		c = NULL;
	}
	if (!c)
		err_set(e, -ENOMEM, "out of memory for munge");
	return c;
}

static int credential_fail(munge_ctx_t c, munge_err_t code, const char *what,
			   struct err *e)
{
	const char *why = calls.why(c), *help = "";
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (code == EMUNGE_SOCKET || code == EMUNGE_TIMEOUT)
		return credential_is_down(why ? why : "no answer", e);
	if (code == EMUNGE_CRED_EXPIRED || code == EMUNGE_CRED_REWOUND)
		help = "; do the clocks of both hosts agree?";
	else if (code == EMUNGE_CRED_INVALID || code == EMUNGE_BAD_CRED)
		help = "; do both hosts have the same munge key?";
	return err_set(e, ERR_PROOF, "munge on %s %s: %s%s", host, what,
		       why ? why : "no reason given", help);
}

int credential_make(char *out, struct slice payload, uid_t uid, struct err *e)
{
	munge_ctx_t c = credential_open_context(e);
	munge_err_t code;
	char *text = NULL;
	int rc = 0;

	if (!c)
		return e ? e->code : ERR_PROOF;
	/* the payload may be a key: always encrypt it */
	calls.set(c, MUNGE_OPT_CIPHER_TYPE, (int)MUNGE_CIPHER_AES128);
	calls.set(c, MUNGE_OPT_UID_RESTRICTION, uid);
	code = calls.encode(&text, c, payload.data, (int)payload.len);
	if (code != EMUNGE_SUCCESS)
		rc = credential_fail(c, code, "did not make a credential", e);
	else if (snprintf(out, CREDENTIAL_MAX, "%s", text) >= CREDENTIAL_MAX)
		rc = err_set(e, ERR_PROOF, "munge's credential is too long");
	free(text);
	calls.destroy(c);
	return rc;
}

/* Munge has decoded the credential; these errors do not matter for a stored
 * one. */
static int credential_is_expired_only(munge_err_t code)
{
	return code == EMUNGE_CRED_EXPIRED || code == EMUNGE_CRED_REWOUND ||
	       code == EMUNGE_CRED_REPLAYED;
}

static int credential_decode(struct slice text, int kept, uid_t *uid,
			     void *payload, struct err *e)
{
	char copy[CREDENTIAL_MAX];
	munge_ctx_t c;
	munge_err_t code;
	void *got = NULL;
	int size = 0;
	gid_t gid;

	if (text.len >= sizeof(copy))
		return err_set(e, ERR_PROOF, "this credential is too long");
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	c = credential_open_context(e);
	if (!c)
		return e ? e->code : ERR_PROOF;
	code = calls.decode(copy, c, &got, &size, uid, &gid);
	if (code != EMUNGE_SUCCESS &&
	    !(kept && credential_is_expired_only(code)))
		size = credential_fail(c, code, "rejected the credential", e);
	else if (size < 0 || size > PAYLOAD_MAX)
		size = err_set(e, ERR_PROOF,
			       "this credential belongs to another program");
	else
		memcpy(payload, got, (size_t)size);
	free(got);
	calls.destroy(c);
	return size;
}

int credential_read(struct slice text, uid_t *uid, void *payload, struct err *e)
{
	return credential_decode(text, 0, uid, payload, e);
}

int credential_open(struct slice text, uid_t *uid, void *payload, struct err *e)
{
	return credential_decode(text, 1, uid, payload, e);
}

/* ---- for another thread ---- */

void credential_to_make(struct credential_question *q, struct slice payload,
			uid_t uid)
{
	*q = (struct credential_question){.uid = uid, .why = ERR_INIT};
	q->size = (int)payload.len;
	memcpy(q->payload, payload.data, payload.len);
}

int credential_to_read(struct credential_question *q, struct slice text,
		       struct err *e)
{
	*q = (struct credential_question){.reads = 1, .why = ERR_INIT};
	if (text.len >= sizeof(q->text))
		return err_set(e, ERR_PROOF, "this credential is too long");
	memcpy(q->text, text.data, text.len);
	return 0;
}

void credential_ask(struct credential_question *q)
{
	if (q->reads) {
		q->rc = credential_read(SLICE_STR(q->text), &q->uid,
					q->payload, &q->why);
		q->size = q->rc < 0 ? 0 : q->rc;
	} else {
		q->rc = credential_make(q->text,
					SLICE((char *)q->payload, q->size),
					q->uid, &q->why);
	}
}

int credential_is_late(struct err *e)
{
	return credential_is_down("no answer yet", e);
}
