/* resume.c: choosing a checkpoint, and writing the next. */
#include "trainers/train/resume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "trainers/train/keep.h"
#include "trainers/train/path.h"

static int check_place(const char *file, struct err *e)
{
	int r = path_can_write(file);

	if (r == 0)
		return 0;
	return err_set(e, r, "--checkpoint: cannot write %s: %s; nothing was "
		       "trained yet", file,
		       r == -EINVAL ? "it is a device, a pipe or a socket; "
				      "name a file" : strerror(-r));
}

/* A batch of another size may begin where none of its own does. */
static void align(struct run *x)
{
	struct train_position *at = &x->state.at;

	if (at->sample % x->world_size == 0)
		return;
	at->sample -= at->sample % x->world_size;
	progress_say(&x->progress, "the position in the epoch is no multiple "
		     "of %d ranks: some samples come twice", x->world_size);
}

/* 1: from file; 0: there is none. */
static int from_file(struct run *x, const char *file, struct err *e)
{
	const struct train_position *at = &x->state.at;
	struct train_about was;
	char changes[ERR_TEXT_MAX], where[64] = "";
	int r = train_state_load(&x->state, file, x->sampler.dataset_size,
				 &was, e);

	if (r != 1)
		return r;
	if (at->sample)
		snprintf(where, sizeof where, " and %lld samples",
			 (long long)at->sample);
	progress_say(&x->progress, "going on from %s after epoch %lld%s, step "
		     "%lld", file, (long long)at->epoch, where,
		     (long long)at->step);
	if (train_about_changes(&was, &x->state.about, changes,
				sizeof changes)[0])
		progress_say(&x->progress, "what changes: %s", changes);
	align(x);
	return 1;
}

/* FILE, FILE.1, ...: the first that is whole, and of this model. */
static int newest_whole(struct run *x, struct err *e)
{
	char name[KEEP_PATH_MAX];
	int r = 0, damaged = 0;

	for (int i = 0; i <= KEEP_MOST && r == 0; i++) {
		keep_name(x->o.checkpoint, i, name);
		r = from_file(x, name, e);
		if (r != ERR_DATA)
			continue;
		log_warn("%s", e->text);
		damaged = 1;
		r = 0;
	}
	if (r == 0 && damaged)
		return err_set(e, ERR_DATA, "--resume auto: no checkpoint %s "
			       "is whole; leave --resume out to begin anew",
			       x->o.checkpoint);
	return r;
}

/* --resume names another file than the one that will be written. */
static int is_other(const char *how, const char *file)
{
	return *how && strcmp(how, TRAINER_RESUME_AUTO) != 0 &&
	       strcmp(how, file) != 0;
}

static int choose(struct run *x, struct err *e)
{
	const char *how = x->o.resume;
	int r;

	if (how && *how && strcmp(how, TRAINER_RESUME_AUTO) != 0) {
		r = from_file(x, how, e);
		return r ? r : err_set(e, -ENOENT, "--resume: there is no "
				       "checkpoint %s", how);
	}
	if (how && !*how)
		return from_file(x, x->o.checkpoint, e);
	return newest_whole(x, e);
}

int resume_first_state(struct run *x, struct err *e)
{
	const char *file = x->o.checkpoint;
	int again = file && ddp_attempt(x->world) > 0;
	int r = file ? check_place(file, e) : 0;

	/* of a job that was restarted --resume FILE was for the first time */
	if (r == 0 && again && access(file, F_OK) == 0)
		x->o.resume = TRAINER_RESUME_AUTO;
	if (r == 0 && (x->o.resume || again))
		r = choose(x, e);
	if (r < 0)
		return r;
	if (r == 0 && x->o.resume)
		progress_say(&x->progress, "no checkpoint %s yet: starting "
			     "anew", file);
	if (file && !again && (r == 0 || is_other(x->o.resume, file)) &&
	    keep_aside(file))
		progress_say(&x->progress, "the checkpoint %s of another run "
			     "is now %s.before", file, file);
	if (r == 1)
		return 0;
	if (x->o.init_from)
		return net_load_raw(&x->net, x->o.init_from, e);
	return net_draw(&x->net, (uint64_t)x->o.seed, e);
}

void resume_save(struct run *x)
{
	const char *file = x->o.checkpoint;
	struct err e = ERR_INIT;
	int r;

	keep_begin(file, x->o.keep);
	r = train_state_save(&x->state, file, &e);
	keep_end(file, x->o.keep, r == 0);
	x->unsaved = r < 0;
	if (r < 0)
		log_warn("%s; training goes on, and the checkpoint before it "
			 "stays", e.text);
}
