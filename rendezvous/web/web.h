/* web.h: the page of a running server (--web): one HTML file with its script
 * and its style, the JSON that it draws, and dumps of jobs. Only reads: no
 * request changes a job.
 *
 *   GET /?token=T            303 to /, with the session's cookie
 *   GET /                    page.html; /page.js, /page.css
 *   GET /api/state[?job=ID]  all jobs in short, and one in full (docs/web.md)
 *   GET /api/dump?job=ID&id=N  202 while the dump N is under way, then its text
 *
 * Access. The page shows every job of the server, so by default it
 * listens on loopback, and each request needs the token: in the URL once, which
 * sets a cookie (HttpOnly, SameSite=Strict), or as "Authorization: Bearer T".
 * The token is random, and new at each start. The server refuses a Host that is
 * neither a number, localhost, nor its own name (DNS rebinding), and requests
 * for data that another origin's page makes (Sec-Fetch-Site). The CSP allows
 * the page's own files and nothing else. HTTP is not encrypted: reach another
 * host's page through an ssh tunnel.
 *
 * Limits. http_server.h has those of connections; a client that does not read
 * holds one reply. A state of a job is made at most once a second, takes at
 * most a fiftieth of the server's time, and has at most WEB_STATE_MAX bytes;
 * WEB_STATES are kept. One dump runs at a time, and the last one is kept, up to
 * WEB_DUMP_MAX bytes. The server keeps the last ROUND_LOG_MAX rounds of up to
 * WEB_JOBS_MAX jobs. */
#ifndef RENDEZVOUS_WEB_H
#define RENDEZVOUS_WEB_H

#include "base/error.h"

struct hosted_job;
struct server;

/* text: PORT (on loopback) or ADDRESS:PORT. Logs the URL. ERR_USAGE,
 * ERR_SYSTEM (no libmicrohttpd), or what sock_listen returns. */
int web_open(struct server *s, const char *text, struct err *e);
void web_close(struct server *s);

/* A round of the job begins; it has ended; the job is being freed. */
void web_on_round(struct hosted_job *h);
void web_on_round_end(struct hosted_job *h);
void web_on_job_closed(struct hosted_job *h);

#endif
