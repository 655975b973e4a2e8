/* requeue.c: runs scontrol, and parses its output. */
#include "launcher/env/requeue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "launcher/env/launch_env_internal.h"
#include "launcher/env/tool.h"

enum {
	PAGE_MAX = 64 << 10,
	ID_MAX = 64,
	SCONTROL_MS = 60000, /* it retries while the controller restarts */
};

static int requeue_scontrol(const char *a, const char *b, const char *c,
			    char *out, size_t size, struct err *e)
{
	const char *const words[] = {a, b, c, NULL};

	return scontrol_run(words, SCONTROL_MS, out, size, e);
}

/* ---- scontrol's output ---- */

/* Copies the value of field `name` on the line that begins with field `line`.
 * That skips the lines with the job's name and comment, which may contain
 * anything. */
static int requeue_field(const char *text, const char *line, const char *name,
			 char *out, size_t size)
{
	char start[48];
	const char *at, *end;
	size_t n = strlen(name);

	snprintf(start, sizeof(start), "\n   %s=", line);
	at = strstr(text, start);
	end = at ? strchr(at + 1, '\n') : NULL;
	for (at = at ? at + 4 : NULL; at; at = strchr(at, ' ')) {
		at += *at == ' ';
		if (end && at >= end)
			break;
		if (strncmp(at, name, n) == 0 && at[n] == '=') {
			snprintf(out, size, "%.*s",
				 (int)strcspn(at + n + 1, " \n"), at + n + 1);
			return 1;
		}
	}
	out[0] = '\0';
	return 0;
}

/* "1795308847"; 0 for None, N/A, or a time in another format. */
static uint64_t requeue_seconds(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end ? n : 0;
}

int requeue_parse(struct requeue_job *j, const char *text, struct err *e)
{
	char word[32];

	*j = (struct requeue_job){.batch = 0};
	if (!requeue_field(text, "JobState", "JobState", j->state,
			   sizeof(j->state)))
		return err_set(e, ERR_DATA, "scontrol does not show the state "
			       "of the job: '%.200s'", text);
	requeue_field(text, "JobState", "Reason", j->reason, sizeof(j->reason));
	requeue_field(text, "Requeue", "BatchFlag", word, sizeof(word));
	j->batch = strcmp(word, "1") == 0;
	requeue_field(text, "Requeue", "Restarts", word, sizeof(word));
	j->restarts = (uint32_t)strtoul(word, NULL, 10);
	requeue_field(text, "StartTime", "EndTime", word, sizeof(word));
	j->end_time = requeue_seconds(word);
	/* present in any time format */
	requeue_field(text, "PreemptEligibleTime", "PreemptTime", word,
		      sizeof(word));
	j->preempted = word[0] >= '0' && word[0] <= '9' &&
		       strcmp(word, "0") != 0;
	return 0;
}

enum requeue_phase { PHASE_RUNNING, PHASE_WAITING, PHASE_ENDING };

/* scontrol may print a flag instead of the state: while slurmctld signals a
 * running job, the job is SIGNALING until the last slurmd has answered. Unknown
 * words count as running, so that a job that was warned is requeued and not
 * lost. */
static enum requeue_phase requeue_phase(const char *state)
{
	static const struct {
		const char *state;
		enum requeue_phase phase;
	} rows[] = {
		{"PENDING", PHASE_WAITING},
		{"REQUEUED", PHASE_WAITING},
		{"REQUEUE_FED", PHASE_WAITING},
		{"REQUEUE_HOLD", PHASE_WAITING},
		{"RESV_DEL_HOLD", PHASE_WAITING},
		{"SPECIAL_EXIT", PHASE_WAITING},
		{"BOOT_FAIL", PHASE_ENDING},
		{"CANCELLED", PHASE_ENDING},
		{"COMPLETED", PHASE_ENDING},
		{"COMPLETING", PHASE_ENDING},
		{"DEADLINE", PHASE_ENDING},
		{"FAILED", PHASE_ENDING},
		{"LAUNCH_FAILED", PHASE_ENDING},
		{"NODE_FAIL", PHASE_ENDING},
		{"OUT_OF_MEMORY", PHASE_ENDING},
		{"PREEMPTED", PHASE_ENDING},
		{"RECONFIG_FAIL", PHASE_ENDING},
		{"REVOKED", PHASE_ENDING},
		{"STAGE_OUT", PHASE_ENDING},
		{"TIMEOUT", PHASE_ENDING},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcmp(state, rows[i].state) == 0)
			return rows[i].phase;
	}
	return PHASE_RUNNING;
}

enum requeue_why requeue_decide(const struct requeue_job *j,
				const struct requeue_notice *n)
{
	enum requeue_phase phase = requeue_phase(j->state);
	int ending = phase == PHASE_ENDING;

	if (!j->batch)
		return REQUEUE_NO_BATCH;
	if (j->restarts > n->restarts || phase == PHASE_WAITING)
		return REQUEUE_DONE;
	if (strcmp(j->state, "CANCELLED") == 0)
		return REQUEUE_CANCELLED;
	/* Slurm signals a preempted job once. A second signal is the end of its
	 * grace time, or scancel: the two look the same */
	if (j->preempted || strcmp(j->state, "PREEMPTED") == 0)
		return ending && n->cut ? REQUEUE_CANCELLED
					   : REQUEUE_PREEMPTED;
	if (strcmp(j->reason, "TimeLimit") == 0 ||
	    strcmp(j->state, "TIMEOUT") == 0)
		return REQUEUE_TIMED_OUT;
	if (ending)
		return REQUEUE_CANCELLED;
	return n->warned ? REQUEUE_TIMED_OUT : REQUEUE_BY_HAND;
}

static const char *requeue_variable(allocation_get *get, const char *name)
{
	const char *text = get(name);

	return text && *text ? text : NULL;
}

/* The job id of an array's last task is that of the whole array, so a task
 * needs both numbers. */
const char *requeue_id(allocation_get *get, char *out)
{
	const char *array = requeue_variable(get, "SLURM_ARRAY_JOB_ID");
	const char *task = requeue_variable(get, "SLURM_ARRAY_TASK_ID");
	const char *whole = requeue_variable(get, "SLURM_HET_JOB_ID");
	const char *job = requeue_variable(get, "SLURM_JOB_ID");

	if (array && task)
		snprintf(out, ID_MAX, "%.30s_%.30s", array, task);
	else
		snprintf(out, ID_MAX, "%.60s", whole ? whole : job ? job : "");
	return out;
}

/* ---- running it ---- */

static int requeue_show(const char *id, struct requeue_job *j, struct err *e)
{
	char *page = malloc(PAGE_MAX);
	int rc;

	if (!page)
		return err_no_memory(e, "scontrol's output");
	setenv("SLURM_TIME_FORMAT", "%s", 1);
	rc = requeue_scontrol("show", "job", id, page, PAGE_MAX, e);
	unsetenv("SLURM_TIME_FORMAT");
	if (rc == 0)
		rc = requeue_parse(j, page, e);
	free(page);
	return rc;
}

static int requeue_is_on(const struct requeue_options *o)
{
	return o->on_preempt || o->on_timeout;
}

int requeue_prepare(const struct requeue_options *o, struct err *e)
{
	const char *format = getenv("SLURM_TIME_FORMAT");
	struct requeue_job j;
	struct err why = ERR_INIT;
	char id[ID_MAX], text[32];
	int rc;

	if (!requeue_is_on(o))
		return 0;
	rc = requeue_show(requeue_id(launch_env_getenv, id), &j, &why);
	if (format)
		setenv("SLURM_TIME_FORMAT", format, 1);
	if (rc) {
		log_warn("--requeue-on %s: the job cannot be requeued from "
			 "here: %s", o->on, why.text);
		return 0;
	}
	if (!j.batch)
		return err_set(e, ERR_USAGE,
			       "--requeue-on %s: Slurm's job %s has no script "
			       "to restart with; omit the option, or start "
			       "ddprun in a batch script",
			       o->on, id);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)j.end_time);
	if (j.end_time)
		setenv("SLURM_JOB_END_TIME", text, 0);
	return 0;
}

/* ---- the decision ---- */

static void requeue_do(const char *id, const char *why)
{
	char out[512];
	struct err e = ERR_INIT;

	if (requeue_scontrol("requeue", id, NULL, out, sizeof(out), &e) == 0)
		log_info("Slurm's job %s %s: it is requeued", id, why);
	else
		log_warn("Slurm's job %s %s, but cannot be requeued: %s; to "
			 "requeue it later, run scontrol requeue %s",
			 id, why, e.text, id);
}

/* Quotes Slurm's own words, so that the user can check the decision. */
static void requeue_decline(const char *id, const struct requeue_job *j,
			    const char *why)
{
	log_info("Slurm's job %s %s (JobState=%s Reason=%s): it is not "
		 "requeued", id, why, j->state, j->reason);
}

static void requeue_act(const struct requeue_options *o, const char *id,
			const struct requeue_job *j, enum requeue_why why)
{
	switch (why) {
	case REQUEUE_PREEMPTED:
		if (o->on_preempt)
			requeue_do(id, "was preempted");
		break;
	case REQUEUE_TIMED_OUT:
		if (o->on_timeout)
			requeue_do(id, "has used up its time");
		break;
	case REQUEUE_DONE:
		log_info("Slurm has already requeued job %s", id);
		break;
	case REQUEUE_CANCELLED:
		requeue_decline(id, j, "was cancelled");
		break;
	case REQUEUE_BY_HAND:
		requeue_decline(id, j, "was neither preempted nor out of time");
		break;
	case REQUEUE_NO_BATCH:
		log_info("Slurm's job %s has no script to restart with: it is "
			 "not requeued",
			 id);
		break;
	}
}

void requeue_run(const struct requeue_options *o,
		 const struct requeue_notice *n)
{
	struct requeue_job j;
	struct err e = ERR_INIT;
	char id[ID_MAX];

	if (!requeue_is_on(o) || !o->is_first_node)
		return;
	requeue_id(launch_env_getenv, id);
	if (requeue_show(id, &j, &e)) {
		log_warn("--requeue-on %s: cannot find out why Slurm's job %s "
			 "was stopped: %s; to requeue it, run scontrol requeue "
			 "%s",
			 o->on, id, e.text, id);
		return;
	}
	requeue_act(o, id, &j, requeue_decide(&j, n));
}
