/* web.c: the routes, and the headers that all replies have. */
#include "rendezvous/web/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "rendezvous/web/web_internal.h"

/* The files are in ddprdzv itself. */
#define WEB_FILE(symbol, name)                                               \
	__asm__(".pushsection .rodata\n" symbol ":\n"                        \
		".incbin \"rendezvous/web/" name "\"\n" symbol "_end:\n"     \
		".byte 0\n.popsection\n")

WEB_FILE("web_page_html", "page.html");
WEB_FILE("web_page_css", "page.css");
WEB_FILE("web_page_js", "page.js");
#define HIDDEN __attribute__((visibility("hidden")))
extern const char web_page_html[] HIDDEN, web_page_html_end[] HIDDEN;
extern const char web_page_css[] HIDDEN, web_page_css_end[] HIDDEN;
extern const char web_page_js[] HIDDEN, web_page_js_end[] HIDDEN;

struct web {
	struct server *server;
	struct http_server *http;
	struct web_access access;
	struct web_states states;
	struct web_dump dump;
	struct web_outputs outputs;
	unsigned jobs; /* that have a round_log */
	int handles;   /* that are closing */
};

struct web_route {
	const char *path;
	int (*reply)(struct web *w, const struct http_get *q,
		     struct http_reply *r);
	int is_data; /* for the page's own script, or for a program */
};

static int web_reply_page(struct web *w, const struct http_get *q,
			  struct http_reply *r)
{
	r->type = "text/html; charset=utf-8";
	buf_put(&r->text, web_page_html,
		(size_t)(web_page_html_end - web_page_html));
	return 200;
}

static int web_reply_style(struct web *w, const struct http_get *q,
			   struct http_reply *r)
{
	r->type = "text/css; charset=utf-8";
	buf_put(&r->text, web_page_css,
		(size_t)(web_page_css_end - web_page_css));
	return 200;
}

static int web_reply_script(struct web *w, const struct http_get *q,
			    struct http_reply *r)
{
	r->type = "text/javascript; charset=utf-8";
	buf_put(&r->text, web_page_js,
		(size_t)(web_page_js_end - web_page_js));
	return 200;
}

static int web_reply_state(struct web *w, const struct http_get *q,
			   struct http_reply *r)
{
	const char *job = http_get_argument(q, "job");
	const char *known = http_get_header(q, "If-None-Match");
	const struct web_state *x;
	struct err e = ERR_INIT;
	char tag[32];

	x = web_states_get(&w->states, w->server, job ? job : "", &e);
	if (!x) {
		buf_printf(&r->text, "%s\n", e.text);
		return 503;
	}
	snprintf(tag, sizeof(tag), "\"%llu\"", (unsigned long long)x->number);
	http_reply_add_header(r, "ETag", "%s", tag);
	if (known && strcmp(known, tag) == 0)
		return 304;
	r->type = "application/json";
	buf_put(&r->text, x->text.data, x->text.len);
	return 200;
}

static int web_reply_dump(struct web *w, const struct http_get *q,
			  struct http_reply *r)
{
	const char *job = http_get_argument(q, "job");
	const char *id = http_get_argument(q, "id");

	if (!job || !id || strlen(id) > 64) {
		buf_printf(&r->text, "a dump needs ?job=ID&id=N\n");
		return 400;
	}
	return web_dump_reply(&w->dump, job, id, r);
}

static int web_reply_output(struct web *w, const struct http_get *q,
			    struct http_reply *r)
{
	const char *job = http_get_argument(q, "job");
	const char *text = http_get_argument(q, "rank");
	char *end = NULL;
	unsigned long rank = 0;

	if (text && text[0] >= '0' && text[0] <= '9' && strlen(text) < 10)
		rank = strtoul(text, &end, 10);
	if (!job || !end || *end) {
		buf_printf(&r->text, "the last lines of a rank need ?job=ID&"
			   "rank=N\n");
		return 400;
	}
	return web_outputs_reply(&w->outputs, job, (uint32_t)rank, r);
}

static const struct web_route routes[] = {
	{"/", web_reply_page, 0},
	{"/page.css", web_reply_style, 0},
	{"/page.js", web_reply_script, 0},
	{"/api/state", web_reply_state, 1},
	{"/api/dump", web_reply_dump, 1},
	{"/api/output", web_reply_output, 1},
};

/* ---- a request ---- */

static void web_add_headers(struct http_reply *r)
{
	http_reply_add_header(r, "Content-Security-Policy", "default-src "
			      "'none'; script-src 'self'; style-src 'self'; "
			      "connect-src 'self'; img-src data:; base-uri "
			      "'none'; form-action 'none'; frame-ancestors "
			      "'none'");
	http_reply_add_header(r, "X-Content-Type-Options", "nosniff");
	http_reply_add_header(r, "X-Frame-Options", "DENY");
	http_reply_add_header(r, "Referrer-Policy", "no-referrer");
	http_reply_add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	http_reply_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
	http_reply_add_header(r, "Cache-Control", "no-store");
}

/* The URL that was logged: trades its token for the cookie. */
static int web_reply_login(struct web *w, const char *token,
			   struct http_reply *r)
{
	if (!web_access_is_token(token, w->access.token)) {
		buf_printf(&r->text, "wrong token: open the URL that ddprdzv "
			   "or ddprun logged when it started; each start has "
			   "a new one\n");
		return 403;
	}
	http_reply_add_header(r, "Set-Cookie", "%s=%s; Path=/; HttpOnly; "
			      "SameSite=Strict", w->access.cookie_name,
			      w->access.cookie);
	http_reply_add_header(r, "Location", "/");
	return 303;
}

/* Browsers say which page made a request. */
static int web_is_foreign(const struct http_get *q)
{
	const char *site = http_get_header(q, "Sec-Fetch-Site");

	return site && strcmp(site, "same-origin") != 0 &&
	       strcmp(site, "none") != 0;
}

static int web_serve(struct web *w, const struct web_route *route,
		     const struct http_get *q, struct http_reply *r)
{
	const char *token = http_get_argument(q, "token");

	if (!route->is_data && token)
		return web_reply_login(w, token, r);
	if (!web_access_is_granted(&w->access,
				   http_get_header(q, "Cookie"),
				   http_get_header(q, "Authorization"))) {
		buf_printf(&r->text, "no session: open the URL with ?token= "
			   "that ddprdzv or ddprun logged when it started\n");
		return 401;
	}
	if (route->is_data && web_is_foreign(q)) {
		buf_printf(&r->text, "another site's page may not read this\n");
		return 403;
	}
	return route->reply(w, q, r);
}

static int web_on_request(void *arg, const struct http_get *q,
			  struct http_reply *r)
{
	const struct web_route *route = routes,
			       *end = routes + sizeof(routes) / sizeof(*routes);
	struct web *w = arg;

	web_add_headers(r);
	if (!web_access_is_host(&w->access, http_get_header(q, "Host"))) {
		buf_printf(&r->text, "this server is not the Host of the "
			   "request: use localhost, an address, or the host "
			   "name that --web has\n");
		return 421;
	}
	while (route < end && strcmp(q->path, route->path) != 0)
		route++;
	if (route < end)
		return web_serve(w, route, q, r);
	buf_printf(&r->text, "not found: the page is at /\n");
	return 404;
}

/* ---- its start and end ---- */

static int web_make_access(struct web_access *a, const struct endpoint *where,
			   uint16_t port, struct err *e)
{
	int rc = random_hex(a->token, WEB_TOKEN_BYTES, e);

	if (rc == 0)
		rc = random_hex(a->cookie, WEB_TOKEN_BYTES, e);
	snprintf(a->cookie_name, sizeof(a->cookie_name), "ddprun-%u", port);
	snprintf(a->host, sizeof(a->host), "%s", where->host);
	sock_host_name(a->own_name);
	return rc;
}

static void web_log_url(const struct web *w, const struct sock_addr *at)
{
	char text[SOCK_TEXT_MAX];
	struct endpoint shown = {.port = sock_addr_port(at)};

	if (sock_addr_is_any(at)) {
		memcpy(shown.host, w->access.own_name, sizeof(shown.host));
		endpoint_text(&shown, text);
	} else {
		sock_addr_text(at, text);
	}
	log_info("the page is at http://%s/?token=%s", text, w->access.token);
	if (!sock_addr_is_loopback(at))
		log_warn("--web %s: HTTP is not encrypted, so the network can "
			 "read the token and the page; an ssh tunnel to a "
			 "loopback address is safer", text);
}

int web_open(struct server *s, const char *text, struct err *e)
{
	struct web *w = calloc(1, sizeof(*w));
	struct endpoint where;
	struct sock_addr at;
	int rc, fd;

	if (!w)
		return err_no_memory(e, "the page");
	fd = http_server_listen("--web", text, &where, &at, e);
	rc = fd < 0 ? fd : web_make_access(&w->access, &where,
					   sock_addr_port(&at), e);
	if (fd >= 0 && rc < 0)
		close(fd);
	if (rc == 0)
		rc = http_server_open(&w->http, s->loop, fd, web_on_request, w,
				      e);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->server = s;
	web_dump_init(&w->dump, s);
	web_outputs_init(&w->outputs, s);
	s->web = w;
	web_log_url(w, &at);
	return 0;
}

static void web_release(struct web *w)
{
	if (--w->handles == 0)
		free(w);
}

static void web_on_dump_closed(uv_handle_t *h)
{
	struct web_dump *d = h->data;

	web_release((struct web *)((char *)d - offsetof(struct web, dump)));
}

static void web_on_outputs_closed(uv_handle_t *h)
{
	struct web_outputs *o = h->data;

	web_release((struct web *)((char *)o - offsetof(struct web, outputs)));
}

void web_close(struct server *s)
{
	struct web *w = s->web;

	if (!w)
		return;
	s->web = NULL;
	http_server_close(w->http);
	web_states_release(&w->states);
	w->handles = 2;
	web_dump_close(&w->dump, web_on_dump_closed);
	web_outputs_close(&w->outputs, web_on_outputs_closed);
}

/* ---- rounds ---- */

void web_on_round(struct hosted_job *h)
{
	struct web *w = h->server->web;
	struct wire_job m;

	if (w && !h->rounds && w->jobs < WEB_JOBS_MAX &&
	    (h->rounds = round_log_new()))
		w->jobs++;
	if (!w || !h->rounds)
		return;
	job_status(h->job, &m);
	round_log_begin(h->rounds, &m, uv_now(h->server->loop));
}

void web_on_round_end(struct hosted_job *h)
{
	const struct wire_end *end = job_end(h->job);

	if (h->rounds)
		round_log_end(h->rounds, end->verdict, end->text,
			      uv_now(h->server->loop));
}

void web_on_job_closed(struct hosted_job *h)
{
	if (h->rounds && h->server->web)
		h->server->web->jobs--;
	round_log_free(h->rounds);
	h->rounds = NULL;
}
