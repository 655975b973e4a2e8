/* cloud_spec.c: the rows of cloud_place.c whose platforms describe a job in
 * JSON: SageMaker's lists of hosts, and TensorFlow's clusters. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "launcher/env/cloud_place.h"
#include "rendezvous/wire.h"

enum { CONFIG_FILE_MAX = 64 << 10 };

#define TO_WRITE ": correct or unset it, or write ddprun --nnodes N " \
	"--rdzv-endpoint FIRST_NODE:29400, or --standalone for a job on this " \
	"node"

/* 1: *all is the parsed text, to be released. 0: it is not set, or not of this
 * kind, which `mark` would show (NULL: it always is). Or an error that names
 * it. */
static int cloud_spec_parse(const char *text, const char *mark,
			    const char *name, const struct json **j,
			    cJSON **all, struct err *e)
{
	struct err why = ERR_INIT;

	if (!text || (mark && !strstr(text, mark)))
		return 0;
	*j = json_load(&why);
	if (!*j)
		return err_set(e, ERR_USAGE, "%s describes this job, but "
			       "cannot be read: %.700s", name, why.text);
	*all = (*j)->parse(text, strlen(text));
	if (!*all)
		return err_set(e, ERR_USAGE, "%s is not JSON" TO_WRITE, name);
	return 1;
}

static const char *cloud_spec_text(const struct json *j, const cJSON *item)
{
	return item && j->is_string(item) ? item->valuestring : NULL;
}

/* ---- SageMaker ---- */

static int cloud_spec_find_host(struct cloud_place *p, const struct json *j,
				const cJSON *hosts, const char *own,
				const char *name, struct err *e)
{
	const char *text;

	for (const cJSON *h = hosts ? hosts->child : NULL; h; h = h->next) {
		text = cloud_spec_text(j, h);
		if (!text || p->nodes == WIRE_NODES_MAX)
			return err_set(e, ERR_USAGE,
				       "%s is not a list of host names"
				       TO_WRITE, name);
		if (!p->nodes && cloud_place_set_first(p, name, text, e) < 0)
			return ERR_USAGE;
		if (own && strcmp(text, own) == 0)
			p->rank = (long)p->nodes;
		p->nodes++;
	}
	if (!p->nodes)
		return err_set(e, ERR_USAGE, "%s lists no hosts" TO_WRITE,
			       name);
	if (p->rank < 0)
		return err_set(e, ERR_USAGE, "%s does not list this host, '%s' "
			       "(SM_CURRENT_HOST)" TO_WRITE,
			       name, own ? own : "");
	p->is_first = p->rank == 0;
	snprintf(p->evidence, sizeof(p->evidence), "%s lists %u hosts", name,
		 p->nodes);
	return 1;
}

static void cloud_spec_gpus(struct cloud_place *p, const char *text)
{
	long n;

	if (text && parse_long(text, 0, WIRE_NPROC_MAX, "", &n, NULL) == 0)
		p->gpus = (uint32_t)n;
}

/* SM_HOSTS is from the training toolkit; every container has the file. */
int cloud_spec_sagemaker(struct cloud_place *p, const struct cloud_view *v,
			 struct err *e)
{
	const char *name = "SM_HOSTS", *text = cloud_place_get(v, name);
	const char *own = cloud_place_get(v, "SM_CURRENT_HOST");
	char file[CONFIG_FILE_MAX];
	const struct json *j;
	cJSON *all, *hosts;
	int rc;

	if (!text && file_read_text(v->resource_config, file,
				    sizeof(file)) > 0) {
		text = file;
		name = v->resource_config;
	}
	if (!text && own)
		return err_set(e, ERR_USAGE, "SM_CURRENT_HOST is set, but "
			       "SM_HOSTS is not" TO_WRITE);
	rc = cloud_spec_parse(text, NULL, name, &j, &all, e);
	if (rc <= 0)
		return rc;
	hosts = all;
	if (j->is_object(all)) {
		hosts = j->get(all, "hosts");
		own = cloud_spec_text(j, j->get(all, "current_host"));
	}
	rc = cloud_spec_find_host(p, j, hosts, own, name, e);
	if (rc > 0)
		cloud_spec_gpus(p, cloud_place_get(v, "SM_NUM_GPUS"));
	j->release(all);
	return rc;
}

/* ---- TensorFlow's clusters ---- */

/* The members of one kind follow those before them. */
static int cloud_spec_add_kind(struct cloud_place *p, const struct json *j,
			       const cJSON *members, const char *name,
			       int is_ours, double index, struct err *e)
{
	double i = 0;

	if (members && (cloud_spec_text(j, members) || j->is_object(members)))
		return err_set(e, ERR_USAGE, "%s: the members of a kind are "
			       "not a list" TO_WRITE, name);
	for (const cJSON *m = members ? members->child : NULL; m;
	     m = m->next, i++) {
		const char *text = cloud_spec_text(j, m);

		if (!text || p->nodes == WIRE_NODES_MAX)
			return err_set(e, ERR_USAGE,
				       "%s: a member is not HOST:PORT"
				       TO_WRITE, name);
		if (!p->nodes && cloud_place_set_first(p, name, text, e) < 0)
			return ERR_USAGE;
		if (is_ours && i == index)
			p->rank = (long)p->nodes;
		p->nodes++;
	}
	return 0;
}

/* Ranks the members of the kinds, in their order. Other kinds (parameter
 * servers, evaluators) have no rank. */
static int cloud_spec_rank(struct cloud_place *p, const struct json *j,
			   const cJSON *all, const char *const *kinds,
			   const char *name, struct err *e)
{
	const cJSON *cluster = j->get(all, "cluster"),
		    *task = j->get(all, "task"),
		    *index = task ? j->get(task, "index") : NULL;
	const char *type = task ? cloud_spec_text(j, j->get(task, "type"))
				: NULL;
	/* in TF_CONFIG it may be a text */
	const char *digits = cloud_spec_text(j, index);
	long i = -1;

	if (!cluster || !j->is_object(cluster))
		return 0;
	if (digits && parse_long(digits, 0, WIRE_NODES_MAX, "", &i, NULL) < 0)
		i = -1;
	else if (!digits && index && j->is_number(index) &&
		 index->valuedouble >= 0 && index->valuedouble < WIRE_NODES_MAX)
		i = (long)index->valuedouble;
	for (; *kinds; kinds++) {
		if (cloud_spec_add_kind(p, j, j->get(cluster, *kinds), name,
					type && strcmp(type, *kinds) == 0,
					(double)i, e) < 0)
			return ERR_USAGE;
	}
	if (p->nodes > 1 && p->rank < 0)
		return err_set(e, ERR_USAGE, "%s: this node, %.100s %ld, is "
			       "not among the cluster's workers: write ddprun "
			       "--nnodes, --node-rank and --rdzv-endpoint, or "
			       "--standalone for a job on this node",
			       name, type ? type : "of no type", i);
	p->is_first = p->rank == 0;
	snprintf(p->evidence, sizeof(p->evidence), "%s has %u workers", name,
		 p->nodes);
	return p->nodes > 0;
}

int cloud_spec_vertex(struct cloud_place *p, const struct cloud_view *v,
		      struct err *e)
{
	static const char *const pools[] = {"workerpool0", "workerpool1", NULL};
	const char *name = "CLUSTER_SPEC", *text = cloud_place_get(v, name);
	const struct json *j;
	cJSON *all;
	int rc = cloud_spec_parse(text, text && strstr(text, "\"task\"")
						? "\"task\"" : "\"cluster\"",
				  name, &j, &all, e);

	if (rc <= 0)
		return rc;
	rc = cloud_spec_rank(p, j, all, pools, name, e);
	j->release(all);
	return rc ? rc : err_set(e, ERR_USAGE, "%s has no cluster with a "
				 "workerpool0" TO_WRITE, name);
}

/* Set by TFJob and by Vertex AI, once in a container. */
int cloud_spec_tensorflow(struct cloud_place *p, const struct cloud_view *v,
			  struct err *e)
{
	static const char *const kinds[] = {"chief", "master", "worker", NULL};
	const struct json *j;
	cJSON *all;
	int rc = cloud_spec_parse(cloud_place_get(v, "TF_CONFIG"),
				  "\"cluster\"", "TF_CONFIG", &j, &all, e);

	if (rc <= 0)
		return rc;
	rc = cloud_spec_rank(p, j, all, kinds, "TF_CONFIG", e);
	j->release(all);
	/* several processes on this host, for a test */
	if (rc > 0 && (strcmp(p->first, "localhost") == 0 ||
		       strncmp(p->first, "127.", 4) == 0))
		return 0;
	/* the port is the program's own */
	p->port = 0;
	return rc;
}
