/* ddprdzv.c: the rendezvous server's main: options, listening sockets, the
 * loop. ddprun passes it sockets and a pipe; started alone, it prints where it
 * listens. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/local_addrs.h"
#include "base/log.h"
#include "base/option.h"
#include "base/random.h"
#include "base/sock.h"
#include "rendezvous/daemon/daemon.h"
#include "rendezvous/election/leadership.h"
#include "rendezvous/net/systemd.h"

enum {
	DEFAULT_PORT = 29400,
	FD_MAX = 1 << 20,
	ETCD_BYTES_MAX = 128 << 20, /* a job's store, so that etcd can hold
				     * it */
	USER_MAX = 512,
	MEMORY_MORE = 256 << 20, /* besides stores: a job's client buffers */
};
#define LEASE_MAX (INT64_C(1) << 62)

struct options {
	const char *listen;
	long listen_fd, listen_fds, parent_fd;
	double heartbeat_timeout, hello_timeout, silent_timeout;
	long guests;
	const char *job, *torch_job;
	long max_jobs, max_connections, max_keys, max_bytes, max_memory;
	long tenant_jobs, tenant_connections, tenant_memory;
	double idle_timeout;
	const char *token_dir;
	const char *metrics, *web;
	const char *auth, *token_file;
	const char *journal;
	long journal_fd;
	const char *etcd, *etcd_cacert, *etcd_cert, *etcd_key;
	int etcd_https;
	long etcd_lease, etcd_ttl, etcd_keep;
};

#define FIELD(name) offsetof(struct options, name), 0
static const struct option_spec table[] = {
	{"listen", 0, OPTION_STRING, FIELD(listen), 0, 0, "HOST:PORT", NULL,
	 "Listen on this address; port 0 selects a free port (29400)."},
	{"listen-fd", 0, OPTION_INT, FIELD(listen_fd), 0, FD_MAX, "N", NULL,
	 "Accept connections on this inherited, listening socket."},
	{"listen-fds", 0, OPTION_INT, FIELD(listen_fds), 1, SOCK_LISTEN_MAX,
	 "N", NULL,
	 "The number of such sockets, with consecutive descriptors (1)."},
	{"parent-fd", 0, OPTION_INT, FIELD(parent_fd), 0, FD_MAX, "N", NULL,
	 "Stop when the other end of this inherited pipe is closed."},
	{"heartbeat-timeout", 0, OPTION_DOUBLE, FIELD(heartbeat_timeout), 0.1,
	 86400, "SECONDS", NULL,
	 "A node that is silent for this long is lost (5)."},
	{"hello-timeout", 0, OPTION_DOUBLE, FIELD(hello_timeout), 0.01, 86400,
	 "SECONDS", NULL,
	 "Disconnect a client that has not authenticated within this time "
	 "(5)."},
	{"silent-timeout", 0, OPTION_DOUBLE, FIELD(silent_timeout), 1, 86400,
	 "SECONDS", NULL,
	 "Disconnect a client whose host does not answer for this long (60)."},
	{"auth", 0, OPTION_STRING, FIELD(auth), 0, 0,
	 "auto|secret|munge|none", NULL,
	 "How clients authenticate (auto: with DDP_TOKEN or --token-file, else "
	 "munge if it runs, else the user's key file); none: any process that "
	 "reaches the port can join and read every job."},
	{"token-file", 0, OPTION_STRING, FIELD(token_file), 0, 0, "FILE", NULL,
	 "The secret that all nodes share, in a file that only its owner can "
	 "read."},
	{"guests", 0, OPTION_INT, FIELD(guests), 1, 65536, "N", NULL,
	 "Serve one job of N workers that no ddprun started; needs --job."},
	{"job", 0, OPTION_STRING, FIELD(job), 0, 0, "ID", NULL,
	 "Serve only the job of this name."},
	{"torch-job", 0, OPTION_STRING, FIELD(torch_job), 0, 0, "ID", NULL,
	 "Serve the store of this job to PyTorch's clients at the same port."},
	{"max-jobs", 0, OPTION_INT, FIELD(max_jobs), 1, INT32_MAX, "N", NULL,
	 "Maximum number of jobs at a time (65536)."},
	{"max-connections", 0, OPTION_INT, FIELD(max_connections), 1,
	 INT32_MAX, "N", NULL,
	 "Maximum number of agents and workers of a job (262144)."},
	{"max-keys", 0, OPTION_INT, FIELD(max_keys), 1, INT32_MAX, "N", NULL,
	 "Maximum number of keys in a job's store (1048576)."},
	{"max-bytes", 0, OPTION_INT, FIELD(max_bytes), 1024, 1e15, "N", NULL,
	 "Maximum size of a job's store: bytes of keys and values "
	 "(1073741824)."},
	{"max-memory", 0, OPTION_INT, FIELD(max_memory), 65536, 1e15, "N", NULL,
	 "Maximum memory of a job in bytes: its store, waiting requests, "
	 "clients, and replies that they have not read (twice --max-bytes, "
	 "plus 256 MiB)."},
	{"tenant-jobs", 0, OPTION_INT, FIELD(tenant_jobs), 1, INT32_MAX, "N",
	 NULL, "Maximum number of jobs of a tenant (--token-dir) at a time "
	       "(4096)."},
	{"tenant-connections", 0, OPTION_INT, FIELD(tenant_connections), 1,
	 INT32_MAX, "N", NULL,
	 "Maximum number of clients of a tenant's jobs, including tools "
	 "(262144)."},
	{"tenant-memory", 0, OPTION_INT, FIELD(tenant_memory), 65536, 1e15, "N",
	 NULL, "Maximum memory of a tenant's jobs in bytes (four times "
	       "--max-memory)."},
	{"idle-timeout", 0, OPTION_DOUBLE, FIELD(idle_timeout), 0.1, 1e9,
	 "SECONDS", NULL,
	 "End a job that is not running and has been idle for this long "
	 "(3600)."},
	{"token-dir", 0, OPTION_STRING, FIELD(token_dir), 0, 0, "DIR", NULL,
	 "Jobs called NAME/... belong to the holder of the token in DIR/NAME; "
	 "without --auth, --token-file and DDP_TOKEN no other jobs are "
	 "served."},
	{"metrics-listen", 0, OPTION_STRING, FIELD(metrics), 0, 0,
	 "[HOST:]PORT", NULL,
	 "Serve /health and /metrics over HTTP; without HOST on loopback."},
	{"web", 0, OPTION_STRING, FIELD(web), 0, 0, "[HOST:]PORT", NULL,
	 "Serve a page about the jobs over HTTP, without HOST on loopback; its "
	 "URL, with a token, is logged."},
	{"journal", 0, OPTION_STRING, FIELD(journal), 0, 0, "FILE", NULL,
	 "Keep the journal here, so that a restarted server can continue."},
	{"journal-fd", 0, OPTION_INT, FIELD(journal_fd), 3, FD_MAX, "N", NULL,
	 "Keep the journal in this inherited file or memory."},
	{"etcd", 0, OPTION_STRING, FIELD(etcd), 0, 0, "HOST:PORT,...", NULL,
	 "Stand for election in etcd: the leader serves --job and keeps its "
	 "journal there; the others refer clients to it."},
	{"etcd-lease", 0, OPTION_INT, FIELD(etcd_lease), 1, LEASE_MAX, "N",
	 NULL, "The lease to use, also by each ddprdzv that replaces this one "
	       "(random)."},
	{"etcd-ttl", 0, OPTION_INT, FIELD(etcd_ttl), 1, 3600, "SECONDS", NULL,
	 "A leader that is silent for this long is replaced (10)."},
	{"etcd-keep", 0, OPTION_INT, FIELD(etcd_keep), 1, 1e9, "SECONDS", NULL,
	 "How long etcd keeps a job without any ddprdzv (3600)."},
	{"etcd-https", 0, OPTION_FLAG, FIELD(etcd_https), 0, 0, NULL, NULL,
	 "Connect to etcd over TLS."},
	{"etcd-cacert", 0, OPTION_STRING, FIELD(etcd_cacert), 0, 0, "FILE",
	 NULL, "The CA of etcd's certificates."},
	{"etcd-cert", 0, OPTION_STRING, FIELD(etcd_cert), 0, 0, "FILE", NULL,
	 "The client certificate for etcd."},
	{"etcd-key", 0, OPTION_STRING, FIELD(etcd_key), 0, 0, "FILE", NULL,
	 "The client certificate's private key."},
	{"help", 'h', OPTION_HELP, 0, 0, 0, 0, NULL, NULL, "Print this."},
	{"version", 0, OPTION_VERSION, 0, 0, 0, 0, NULL, NULL,
	 "Print the version."},
	{NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL},
};

static void ddprdzv_print_help(void)
{
	printf("usage: ddprdzv --listen HOST:PORT [options]\nThe rendezvous "
	       "server of ddprun. ddprun starts one itself if none runs.\n\n");
	option_print_help(table);
}

/* A connection for each worker of a large job needs more than the usual 1024
 * descriptors. */
static void ddprdzv_raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* Returns the number of listening descriptors; a[i].len is 0 for an inherited
 * one. */
static int ddprdzv_open_listeners(const struct options *o, struct sock_addr *a,
				  int *fds, struct err *e)
{
	struct endpoint ep;
	int rc, n;

	if (o->listen && o->listen_fd >= 0)
		return err_set(e, ERR_USAGE,
			       "--listen and --listen-fd are mutually "
			       "exclusive");
	for (n = 0; o->listen_fd >= 0 && n < o->listen_fds; n++)
		fds[n] = (int)o->listen_fd + n;
	if (n)
		return n;
	rc = o->listen ? -1 : systemd_listen_fd(e);
	if (rc >= 0)
		fds[0] = rc;
	if (rc >= 0 || rc == ERR_USAGE)
		return rc >= 0 ? 1 : rc;
	if (!o->listen)
		return err_set(e, ERR_USAGE,
			       "no address to listen on: give --listen "
			       "HOST:PORT (0.0.0.0:29400 is every interface)");
	rc = endpoint_parse(&ep, o->listen, DEFAULT_PORT, e);
	if (rc == 0)
		rc = n = local_addrs_of(&ep, a, SOCK_LISTEN_MAX, e);
	if (rc == 0) /* not an address of this host: bind reports it */
		rc = n = sock_resolve(&ep, a, 1, e);
	if (rc >= 0)
		rc = sock_listen_all(a, n, fds, e);
	return rc < 0 ? rc : n;
}

/* Call it when signals are handled: scripts rely on this line. */
static void ddprdzv_print_endpoints(const struct options *o,
				    const struct sock_addr *a, int n)
{
	char text[SOCK_TEXT_MAX];

	if (o->parent_fd >= 0)
		return;
	for (int i = 0; i < n && a[i].len; i++)
		log_info("listening on %s", sock_addr_text(&a[i], text));
}

/* With --token-dir alone all jobs belong to tenants, so the server needs no
 * secret of its own from this host. */
static int ddprdzv_is_for_tenants(const struct options *o)
{
	const char *token = getenv("DDP_TOKEN");

	return o->token_dir && auth_is_free(o->auth, o->token_file) &&
	       !(token && *token);
}

/* With --auth parent, the parent passes the secret through --parent-fd. */
static int ddprdzv_read_auth(const struct options *o, struct auth *a,
			     struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	struct auth own;
	int rc;

	if (ddprdzv_is_for_tenants(o))
		return auth_random(a, "this ddprdzv", e);
	if (!o->auth || strcmp(o->auth, "parent") != 0) {
		rc = auth_choose(&own, o->auth, o->token_file, e);
		if (rc == 0 && own.without_munge)
			log_info("joining nodes authenticate with %s",
				 own.from);
		rc = rc < 0 ? rc : auth_for_server(a, &own, e);
		auth_wipe(&own);
		if (rc == 0)
			auth_keep(a);
		return rc;
	}
	rc = o->parent_fd < 0 ? -EBADF
			      : file_read_all((int)o->parent_fd, bytes,
					      sizeof(bytes));
	if (rc < 0)
		return err_set(e, rc, "--auth parent: no secret comes from "
			       "--parent-fd: %s", strerror(-rc));
	auth_from_bytes(a, bytes);
	proof_wipe(bytes, sizeof(bytes));
	return 0;
}

/* ---- etcd ---- */

static int ddprdzv_check_etcd(struct options *o, struct err *e)
{
	if (!o->etcd && (o->etcd_lease || o->etcd_https || o->etcd_cacert ||
			 o->etcd_cert || o->etcd_key))
		return err_set(e, ERR_USAGE, "--etcd-... options need --etcd "
			       "HOST:PORT");
	if (!o->etcd)
		return 0;
	if (!o->job)
		return err_set(e, ERR_USAGE, "--etcd needs --job, the name of "
			       "the job to keep there");
	if (o->journal || o->journal_fd || o->guests || o->token_dir)
		return err_set(e, ERR_USAGE, "--etcd cannot be combined with "
			       "--journal, --journal-fd, --guests or "
			       "--token-dir");
	if (o->etcd_keep <= o->etcd_ttl)
		return err_set(e, ERR_USAGE, "--etcd-keep must be greater than "
			       "--etcd-ttl (%ld)", o->etcd_ttl);
	if (o->max_bytes > ETCD_BYTES_MAX)
		o->max_bytes = ETCD_BYTES_MAX;
	if (o->etcd_lease)
		return 0;
	if (random_bytes(&o->etcd_lease, sizeof(o->etcd_lease), e) < 0)
		return e->code;
	o->etcd_lease = (o->etcd_lease & (LEASE_MAX - 1)) | 1;
	return 0;
}

/* As etcdctl reads them: name:password, or the password in a variable of its
 * own. */
static void ddprdzv_read_etcd_user(struct etcd_options *o)
{
	static char user[USER_MAX];
	const char *text = getenv("ETCDCTL_USER");
	char *colon;

	if (!text || !*text)
		return;
	snprintf(user, sizeof(user), "%s", text);
	colon = strchr(user, ':');
	if (colon)
		*colon++ = '\0';
	o->user = user;
	o->password = colon ? colon : getenv("ETCDCTL_PASSWORD");
}

static struct leadership_options ddprdzv_leadership_options(
	const struct options *o)
{
	struct leadership_options place = {
		.etcd = {.endpoints = o->etcd,
			 .https = o->etcd_https,
			 .tls = {o->etcd_cacert, o->etcd_cert, o->etcd_key}},
		.lease = o->etcd_lease,
		.ttl_s = (uint32_t)o->etcd_ttl,
		.keep_s = (uint32_t)o->etcd_keep,
	};

	ddprdzv_read_etcd_user(&place.etcd);
	return place;
}

static struct account_limits ddprdzv_account_limits(const struct options *o)
{
	struct account_limits l = {
		.job_bytes = (size_t)o->max_memory,
		.tenant_bytes = (size_t)o->tenant_memory,
		.tenant_jobs = (uint32_t)o->tenant_jobs,
		.tenant_connections = (uint32_t)o->tenant_connections,
	};

	if (!l.job_bytes)
		l.job_bytes = 2 * (size_t)o->max_bytes + MEMORY_MORE;
	if (!l.tenant_bytes)
		l.tenant_bytes = 4 * l.job_bytes;
	return l;
}

static int ddprdzv_serve(const struct options *o, const struct auth *auth,
			 struct err *e)
{
	const struct leadership_options place = ddprdzv_leadership_options(o);
	struct daemon_options so = {
		.auth = auth,
		.parent_fd = (int)o->parent_fd,
		.lease_ms = (uint64_t)(o->heartbeat_timeout * 1e3),
		.hello_ms = (uint64_t)(o->hello_timeout * 1e3),
		.silent_ms = (uint64_t)(o->silent_timeout * 1e3),
		.guests = (uint32_t)o->guests,
		.job = o->job,
		.torch_job = o->torch_job,
		.max_jobs = (uint32_t)o->max_jobs,
		.max_connections = (uint32_t)o->max_connections,
		.max_keys = (size_t)o->max_keys,
		.max_bytes = (size_t)o->max_bytes,
		.accounts = ddprdzv_account_limits(o),
		.idle_ms = (uint64_t)(o->idle_timeout * 1e3),
		.token_dir = o->token_dir,
		.metrics = o->metrics,
		.web = o->web,
		.journal = o->journal,
		.journal_fd = (int)o->journal_fd,
		.leadership = o->etcd ? &place : NULL,
	};
	struct sock_addr at[SOCK_LISTEN_MAX] = {{.len = 0}};
	struct server *server;
	uv_loop_t loop;
	int fds[SOCK_LISTEN_MAX], rc = ddprdzv_open_listeners(o, at, fds, e);

	if (rc < 0)
		return rc;
	so.listen_fds = fds;
	so.listeners = rc;
	rc = loop_init(&loop);
	if (rc < 0)
		return err_set(e, rc, "cannot start: %s", uv_strerror(rc));
	rc = daemon_new(&server, &loop, &so, e);
	if (rc == 0) {
		ddprdzv_print_endpoints(o, at, so.listeners);
		daemon_run(server);
		daemon_free(server);
	}
	uv_loop_close(&loop);
	return rc;
}

/* ddprun itself warns about a server that it starts. */
static void ddprdzv_warn_open(const struct options *o, const struct auth *auth)
{
	if (auth->methods == WIRE_NO_PROOF && o->parent_fd < 0)
		log_warn("--auth none: any process that reaches this port can "
			 "join any "
			 "job here, read what it stores and end it");
}

static int ddprdzv_print_info(int what)
{
	int rc;

	file_buffer_stdout();
	if (what == OPTION_WANT_HELP)
		ddprdzv_print_help();
	else
		printf("ddprdzv %s\n", DDP_VERSION);
	rc = file_flush_stdout();
	if (rc < 0)
		log_error("error: cannot write to stdout: %s", err_name(rc));
	return rc < 0 ? EX_OSERR : 0;
}

int main(int argc, char **argv)
{
	struct options o = {.listen_fd = -1, .listen_fds = 1, .parent_fd = -1,
			    .heartbeat_timeout = 5, .hello_timeout = 5,
			    .silent_timeout = 60,
			    .max_jobs = 65536, .max_connections = 262144,
			    .max_keys = 1 << 20, .max_bytes = 1 << 30,
			    .tenant_jobs = 4096,
			    .tenant_connections = 262144,
			    .idle_timeout = 3600,
			    .etcd_ttl = 10, .etcd_keep = 3600};
	struct err e = ERR_INIT;
	struct auth auth;
	int rc;

	log_init("ddprdzv");
	log_report_crashes();
	rc = option_parse(table, &o, argc, argv, 0, &e);
	if (rc == OPTION_WANT_HELP || rc == OPTION_WANT_VERSION)
		return ddprdzv_print_info(rc);
	if (rc >= 0 && rc < argc)
		rc = err_set(&e, ERR_USAGE, "'%s' is not an option", argv[rc]);
	if (rc >= 0 && o.guests && !o.job)
		rc = err_set(&e, ERR_USAGE,
			     "--guests needs --job, the name of the workers' "
			     "job");
	if (rc >= 0)
		rc = ddprdzv_check_etcd(&o, &e);
	if (rc >= 0)
		rc = ddprdzv_read_auth(&o, &auth, &e);
	if (rc >= 0) {
		ddprdzv_warn_open(&o, &auth);
		ddprdzv_raise_fd_limit();
		rc = ddprdzv_serve(&o, &auth, &e);
	}
	if (rc < 0)
		log_error("%s", e.text);
	return rc == ERR_USAGE ? 2 : rc == ERR_PROOF ? 77 : rc < 0 ? 71 : 0;
}
