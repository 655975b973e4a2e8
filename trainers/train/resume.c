/* resume.c: chooses a checkpoint to load, writes the next one, and renames the
 * earlier ones. */
#include "trainers/train/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "trainers/models/safetensors.h"

/* ---- the names of checkpoints ---- */

void checkpoint_rotate_name(const char *file, int i,
			    char out[CHECKPOINT_PATH_MAX])
{
	if (i)
		snprintf(out, CHECKPOINT_PATH_MAX, "%.4080s.%d", file, i);
	else
		snprintf(out, CHECKPOINT_PATH_MAX, "%s", file);
}

static void checkpoint_old_name(const char *file, char out[CHECKPOINT_PATH_MAX])
{
	snprintf(out, CHECKPOINT_PATH_MAX, "%s.old", file);
}

void checkpoint_rotate_begin(const char *file, long keep)
{
	char old[CHECKPOINT_PATH_MAX];

	if (keep < 2)
		return;
	checkpoint_old_name(file, old);
	unlink(old);
	/* the write replaces the target of a symbolic link */
	if (linkat(AT_FDCWD, file, AT_FDCWD, old, AT_SYMLINK_FOLLOW) < 0 &&
	    errno != ENOENT)
		rename(file, old); /* the file system has no hard links */
}

void checkpoint_rotate_end(const char *file, long keep, int ok)
{
	char old[CHECKPOINT_PATH_MAX], from[CHECKPOINT_PATH_MAX],
		to[CHECKPOINT_PATH_MAX];

	if (keep < 2)
		return;
	checkpoint_old_name(file, old);
	if (!ok) {
		if (access(file, F_OK) < 0)
			rename(old, file);
		else
			unlink(old);
		return;
	}
	if (access(old, F_OK) < 0)
		return;
	for (int i = (int)keep - 1; i > 1; i--) {
		checkpoint_rotate_name(file, i - 1, from);
		checkpoint_rotate_name(file, i, to);
		rename(from, to);
	}
	checkpoint_rotate_name(file, 1, to);
	rename(old, to);
}

int checkpoint_rotate_aside(const char *file)
{
	char before[CHECKPOINT_PATH_MAX], from[CHECKPOINT_PATH_MAX],
		to[CHECKPOINT_PATH_MAX];
	char *real = realpath(file, NULL); /* a symbolic link stays in place */
	int n = 0;

	if (real && snprintf(before, sizeof(before), "%s.before", real) <
			    (int)sizeof(before))
		n += rename(real, before) == 0;
	free(real);
	snprintf(before, sizeof(before), "%s.before", file);
	for (int i = 1; i <= CHECKPOINT_KEEP_MAX; i++) {
		checkpoint_rotate_name(file, i, from);
		checkpoint_rotate_name(before, i, to);
		n += rename(from, to) == 0;
	}
	return n;
}

static int resume_check_file(const char *file, struct err *e)
{
	int r = file_can_write(file);

	if (r == 0)
		return 0;
	return err_set(e, r, "--checkpoint: cannot write %s: %s; training "
		       "has not started", file,
		       r == -EINVAL ? "it is a device, a pipe or a socket; "
				      "name a file" : strerror(-r));
}

/* With another number of ranks the position may lie inside a round of the
 * sampler: go back to where the round starts. */
static void resume_align(struct run *run)
{
	struct train_position *at = &run->state.position;

	if (at->sample % run->world_size == 0)
		return;
	at->sample -= at->sample % run->world_size;
	progress_print(&run->progress,
		       "the position in the epoch is not a multiple "
		       "of %d ranks: some samples are used twice",
		       run->world_size);
}

/* Loads file. Returns 1, or 0 if it does not exist. */
static int resume_from_file(struct run *run, const char *file, struct err *e)
{
	const struct train_position *at = &run->state.position;
	struct train_about was;
	char changes[ERR_TEXT_MAX], where[64] = "";
	int r = train_state_load(&run->state, file, run->sampler.dataset_size,
				 &was, e);

	if (r != 1)
		return r;
	if (at->sample)
		snprintf(where, sizeof(where), " and %lld samples",
			 (long long)at->sample);
	progress_print(&run->progress,
		       "resuming from %s after epoch %lld%s, step %lld",
		       file, (long long)at->epoch, where, (long long)at->step);
	if (train_about_changes(&was, &run->state.about, changes,
				sizeof(changes))[0])
		progress_print(&run->progress, "what changes: %s", changes);
	resume_align(run);
	return 1;
}

/* Loads the first of FILE, FILE.1, ... that is complete and belongs to this
 * model. */
static int resume_newest(struct run *run, struct err *e)
{
	char name[CHECKPOINT_PATH_MAX];
	int r = 0, damaged = 0;

	for (int i = 0; i <= CHECKPOINT_KEEP_MAX && r == 0; i++) {
		checkpoint_rotate_name(run->options.checkpoint, i, name);
		r = resume_from_file(run, name, e);
		if (r != ERR_DATA)
			continue;
		log_warn("%s", e->text);
		damaged = 1;
		r = 0;
	}
	if (r == 0 && damaged)
		return err_set(e, ERR_DATA,
			       "--resume auto: no checkpoint %s is intact; "
			       "leave out --resume to start from scratch",
			       run->options.checkpoint);
	return r;
}

/* 1 if --resume names a file other than --checkpoint's. */
static int resume_is_other_file(const char *how, const char *file)
{
	return *how && strcmp(how, TRAINER_RESUME_AUTO) != 0 &&
	       strcmp(how, file) != 0;
}

static int resume_choose(struct run *run, struct err *e)
{
	const char *how = run->options.resume;
	int r;

	if (how && *how && strcmp(how, TRAINER_RESUME_AUTO) != 0) {
		r = resume_from_file(run, how, e);
		return r ? r : err_set(e, -ENOENT, "--resume: there is no "
				       "checkpoint %s", how);
	}
	if (how && !*how)
		return resume_from_file(run, run->options.checkpoint, e);
	return resume_newest(run, e);
}

int resume_first_state(struct run *run, struct err *e)
{
	const char *file = run->options.checkpoint;
	int again = file && ddp_attempt(run->world) > 0;
	int r = file ? resume_check_file(file, e) : 0;

	/* in a restarted job --resume FILE was for the first attempt only */
	if (r == 0 && again && access(file, F_OK) == 0)
		run->options.resume = TRAINER_RESUME_AUTO;
	if (r == 0 && (run->options.resume || again))
		r = resume_choose(run, e);
	if (r < 0)
		return r;
	if (r == 0 && run->options.resume)
		progress_print(&run->progress, "no checkpoint %s yet: starting "
			       "from scratch", file);
	if (file && !again &&
	    (r == 0 || resume_is_other_file(run->options.resume, file)) &&
	    checkpoint_rotate_aside(file))
		progress_print(
			&run->progress,
			"renamed the checkpoint %s of another run to %s.before",
			file, file);
	if (r == 1)
		return 0;
	if (run->options.init_from)
		return safetensors_is_name(run->options.init_from)
			       ? safetensors_load(&run->net,
						  run->options.init_from, e)
			       : net_load_raw(&run->net,
					      run->options.init_from, e);
	return net_init_weights(&run->net, (uint64_t)run->options.seed, e);
}

void resume_save(struct run *run)
{
	const char *file = run->options.checkpoint;
	struct err e = ERR_INIT;
	int r;

	checkpoint_rotate_begin(file, run->options.keep);
	r = train_state_save(&run->state, file, &e);
	checkpoint_rotate_end(file, run->options.keep, r == 0);
	run->unsaved = r < 0;
	if (r < 0)
		log_warn("%s; training continues, and the previous checkpoint "
			 "remains",
			 e.text);
}
