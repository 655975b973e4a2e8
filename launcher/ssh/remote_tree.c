/* remote_tree.c: which host is reached through which link. */
#include "launcher/ssh/remote_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20, LINE_MAX_BYTES = 1024 };

/* ---- events ---- */

static void remote_tree_report(struct remote_tree *t, uint8_t type,
			       uint32_t host, struct slice body)
{
	const struct remote_frame f = {.type = type, .host = host,
				       .body = body};

	t->events->on_frame(t, &f);
}

static void remote_tree_on_open(struct remote_link *l)
{
	struct remote_tree *t = l->owner;
	size_t i = (size_t)(l - t->links);
	struct remote_branch b = t->branch;
	struct buf body = BUF_INIT(REMOTE_BODY_MAX);
	const char copied = (char)l->copied;

	b.hosts.texts = t->behind[i];
	if (b.hosts.texts.len) {
		remote_branch_put(&body, &b);
		remote_link_send_buf(l, REMOTE_BRANCH, l->host, &body);
	}
	buf_release(&body);
	remote_tree_report(t, REMOTE_OPEN, l->host, SLICE(&copied, 1));
}

static struct remote_link *remote_tree_find(const struct remote_tree *t,
					    uint32_t host);

static void remote_tree_on_link_frame(struct remote_link *l,
				      const struct remote_frame *f)
{
	struct remote_tree *t = l->owner;

	if (remote_tree_find(t, f->host) == l)
		t->events->on_frame(t, f);
	else
		remote_link_break(l, "it sent a message from a host that is "
				     "not connected through it");
}

static void remote_tree_on_line(struct remote_link *l, struct slice line)
{
	if (line.len > LINE_MAX_BYTES)
		line.len = LINE_MAX_BYTES;
	remote_tree_report(l->owner, REMOTE_SSH_LINE, l->host, line);
}

static void remote_tree_on_noise(struct remote_link *l, struct slice text)
{
	if (text.len > LINE_MAX_BYTES)
		text.len = LINE_MAX_BYTES;
	remote_tree_report(l->owner, REMOTE_NOISE, l->host, text);
}

/* The hosts behind a lost host are lost as well. */
static void remote_tree_report_lost(struct remote_tree *t, uint32_t link,
				    const char *text)
{
	struct remote_link *l = &t->links[link];
	char behind[ERR_TEXT_MAX];

	remote_tree_report(t, REMOTE_LOST, l->host, SLICE_STR(text));
	snprintf(behind, sizeof(behind), "it was reached through %s",
		 l->name);
	for (uint32_t i = 0; i < t->hosts; i++) {
		if (t->via[i] == link && t->numbers[i] != l->host)
			remote_tree_report(t, REMOTE_LOST, t->numbers[i],
					   SLICE_STR(behind));
	}
}

static void remote_tree_on_down(struct remote_link *l, const struct err *why)
{
	struct remote_tree *t = l->owner;

	/* the owner may release the tree in this call: report its end below */
	remote_tree_report_lost(t, (uint32_t)(l - t->links), why->text);
	t->live--;
	if (!t->live && t->releasing)
		t->events->on_gone(t);
}

static const struct remote_link_events link_events = {
	.on_open = remote_tree_on_open,
	.on_frame = remote_tree_on_link_frame,
	.on_line = remote_tree_on_line,
	.on_noise = remote_tree_on_noise,
	.on_down = remote_tree_on_down,
};

/* ---- starting ---- */

static int remote_tree_copy_branch(struct remote_tree *t,
				   const struct remote_branch *b)
{
	size_t args, hosts;

	buf_init(&t->ssh, TEXT_MAX);
	buf_put(&t->ssh, b->ssh.data, b->ssh.len);
	buf_put_u8(&t->ssh, 0);
	args = t->ssh.len;
	buf_put(&t->ssh, b->args.texts.data, b->args.texts.len);
	hosts = t->ssh.len;
	buf_put(&t->ssh, b->hosts.texts.data, b->hosts.texts.len);
	if (t->ssh.failed)
		return -ENOMEM;
	t->branch = *b;
	t->branch.ssh = SLICE(t->ssh.data, b->ssh.len);
	t->branch.args.texts = SLICE(t->ssh.data + args, b->args.texts.len);
	t->branch.hosts.texts = SLICE(t->ssh.data + hosts, b->hosts.texts.len);
	build_id_init(&t->build);
	t->how = (struct ssh_options){
		.program = t->ssh.data, .args = t->branch.args,
		/* our own timer fires first: it also covers the time after
		 * ssh has connected */
		.timeout_s = (b->timeout_ms + 999) / 1000 + 1,
		.build = &t->build,
	};
	return 0;
}

/* The first n hosts get a link each. The rest of the list is cut into n pieces
 * that differ in size by one at most; numbers stay sorted. */
static void remote_tree_partition(struct remote_tree *t)
{
	const struct remote_list *all = &t->branch.hosts;
	uint32_t rest = t->hosts - t->n, host = t->n;
	const char *text;
	size_t at = 0;

	for (uint32_t i = 0; i < t->hosts; i++) {
		text = remote_list_next(all, &at);
		t->names[i] = strchr(text, ' ') + 1;
		t->numbers[i] = (uint32_t)strtoul(text, NULL, 10);
		if (i < t->n)
			t->via[i] = i;
		if (i + 1 == t->n)
			break;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t share = rest / t->n + (i < rest % t->n);
		size_t from = at;

		for (uint32_t k = 0; k < share; k++, host++) {
			text = remote_list_next(all, &at);
			t->numbers[host] = (uint32_t)strtoul(text, NULL, 10);
			t->via[host] = i;
		}
		t->behind[i] = SLICE(all->texts.data + from, at - from);
	}
}

static int remote_tree_count_hosts(struct remote_tree *t)
{
	const struct remote_list *all = &t->branch.hosts;
	uint32_t hosts = 0, n;
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(all, &at))) {
		if (!strchr(text, ' '))
			return ERR_PROTOCOL;
		hosts++;
	}
	n = hosts < t->branch.width || !t->branch.width ? hosts
							: t->branch.width;
	t->links = calloc(n + 1, sizeof(*t->links));
	t->behind = calloc(n + 1, sizeof(*t->behind));
	t->names = calloc(n + 1, sizeof(*t->names));
	t->numbers = calloc(hosts + 1, sizeof(*t->numbers));
	t->via = calloc(hosts + 1, sizeof(*t->via));
	if (!t->links || !t->behind || !t->names || !t->numbers || !t->via)
		return -ENOMEM; /* still a tree without hosts */
	t->n = n;
	t->hosts = hosts;
	return 0;
}

void remote_tree_init(struct remote_tree *t,
		      const struct remote_tree_events *events, void *owner)
{
	*t = (struct remote_tree){.events = events, .owner = owner};
}

int remote_tree_start(struct remote_tree *t, uv_loop_t *loop,
		      const struct remote_branch *b, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = remote_tree_copy_branch(t, b);

	if (rc == 0)
		rc = remote_tree_count_hosts(t);
	if (rc < 0)
		return err_set(e, rc, "cannot use the list of hosts: %s",
			       err_name(rc));
	remote_tree_partition(t);
	/* the owner may release the tree when it hears of a failure */
	for (uint32_t i = 0; i < t->n && !t->releasing; i++) {
		struct remote_link *l = &t->links[i];

		*l = (struct remote_link){
			.owner = t, .events = &link_events,
			.host = t->numbers[i], .name = t->names[i]};
		rc = remote_link_start(l, loop, &t->how, b->timeout_ms,
				       b->silent_ms, &why);
		t->live += rc == 0;
		if (rc < 0)
			remote_tree_report_lost(t, i, why.text);
	}
	return 0;
}

void remote_tree_free(struct remote_tree *t)
{
	free(t->links);
	free(t->behind);
	free(t->names);
	free(t->numbers);
	free(t->via);
	buf_release(&t->ssh);
}

/* ---- while it runs ---- */

/* The link to a host; NULL: not in the tree. */
static struct remote_link *remote_tree_find(const struct remote_tree *t,
					    uint32_t host)
{
	uint32_t low = 0, high = t->hosts;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (t->numbers[mid] == host)
			return &t->links[t->via[mid]];
		if (t->numbers[mid] < host)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

void remote_tree_send(struct remote_tree *t, uint32_t host, uint8_t type,
		      struct slice body)
{
	struct remote_link *l = remote_tree_find(t, host);

	if (l && !l->released)
		remote_link_send(l, type, host, body);
}

void remote_tree_send_buf(struct remote_tree *t, uint32_t host, uint8_t type,
			  const struct buf *body)
{
	struct remote_link *l = remote_tree_find(t, host);

	if (l && !l->released)
		remote_link_send_buf(l, type, host, body);
}

void remote_tree_break(struct remote_tree *t, uint32_t host, const char *why)
{
	struct remote_link *l = remote_tree_find(t, host);

	if (l && !l->released)
		remote_link_break(l, why);
}

int remote_tree_has(const struct remote_tree *t, uint32_t host)
{
	return remote_tree_find(t, host) != NULL;
}

void remote_tree_pause(struct remote_tree *t, int paused)
{
	for (uint32_t i = 0; i < t->n; i++)
		remote_link_pause(&t->links[i], paused);
}

void remote_tree_release(struct remote_tree *t, uint64_t ms)
{
	if (t->releasing)
		return;
	t->releasing = 1;
	for (uint32_t i = 0; i < t->n; i++)
		remote_link_release(&t->links[i], ms);
	if (!t->live)
		t->events->on_gone(t);
}

int remote_tree_reaped(struct remote_tree *t, pid_t pid, int status)
{
	for (uint32_t i = 0; i < t->n; i++) {
		if (remote_link_reaped(&t->links[i], pid, status))
			return 1;
	}
	return 0;
}
