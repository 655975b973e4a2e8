/* train.c: the one training loop, from the command line to the last line. Every
 * rank of the job walks through it in step; rank 0 speaks and writes. */
#include "trainers/train/train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainers/train/evaluate.h"
#include "trainers/train/resume.h"
#include "trainers/train/run.h"
#include "trainers/train/step.h"

/* As a shell and the launcher say that SIGTERM ended a process. */
enum { EXIT_STOPPED = 128 + SIGTERM };
enum { GPU_LOG_EVERY = 50 };
#define STOP_CHECK_NS 50000000.0

/* ---- Being asked to stop ---- */

/* The only one that the signal's handler can ask. */
static ddp_comm *volatile stoppable;

static void on_signal(int number)
{
	ddp_request_stop(stoppable);
}

/* Without a checkpoint there is nothing to keep: SIGTERM ends the process. */
static void listen_for_stop(struct run *x)
{
	struct sigaction act = {.sa_handler = on_signal,
				.sa_flags = SA_RESTART};

	x->stop.time = clock_ns();
	x->stop.step = x->state.at.step;
	if (!x->o.checkpoint)
		return;
	stoppable = x->world;
	sigaction(SIGTERM, &act, NULL);
}

/* Collective. Asking costs a message, and steps may be shorter than one: so
 * ranks agree how many of them to wait until the next time. */
static int must_stop(struct run *x, struct err *e)
{
	int64_t step = x->state.at.step;
	double ahead, elapsed;
	int32_t n;
	int r;

	if (!x->o.checkpoint || step < x->stop.check)
		return 0;
	elapsed = (double)(clock_ns() - x->stop.time) + 1;
	ahead = STOP_CHECK_NS / elapsed * (double)(step - x->stop.step);
	n = ahead < 1 ? 1 : ahead > 1000 ? 1000 : (int32_t)ahead;
	r = ddp_all_reduce(x->world, &n, &n, 1, DDP_I32, DDP_MIN);
	if (r == 0)
		r = ddp_should_stop(x->world);
	x->stop.check = step + n;
	x->stop.step = step;
	x->stop.time = clock_ns();
	return r < 0 ? run_from_ddp(r, e) : r;
}

/* The state of a run that ends here, to go on from. */
static int stop_here(struct run *x, struct err *e)
{
	int r;

	if (x->rank == 0) {
		resume_save(x);
		progress_say(&x->progress, "asked to stop: ended after step "
			     "%lld; --resume goes on from %s%s",
			     (long long)x->state.at.step, x->o.checkpoint,
			     x->unsaved ? ", which is older" : "");
	}
	r = run_together(x, 0, e);
	return r < 0 ? r : RUN_STOPPED;
}

/* ---- Training ---- */

/* This rank's samples of the epoch that comes. */
static int set_order(struct run *x, struct err *e)
{
	uint64_t epoch = (uint64_t)x->state.at.epoch;
	uint64_t size = ddp_sampler_size(&x->sampler);

	ddp_sampler_set_epoch(&x->sampler, epoch);
	for (uint64_t i = 0; i < size; i++)
		x->order[i] = ddp_sampler_index(&x->sampler, i);
	return x->ops->feed_order(x->feed, x->order, size, epoch, e);
}

/* Throughput is that of steps for which all is made and warm. */
static int note_steady(struct run *x, uint64_t done, struct err *e)
{
	uint64_t warm = x->total_steps / 4 < 10 ? x->total_steps / 4 : 10;
	int r;

	if (!x->o.synthetic || x->steady.time || done < warm)
		return 0;
	r = x->ops->wait(x->device, e);
	x->steady.done = done;
	x->steady.time = clock_ns();
	return r;
}

/* A loss is read only where somebody wants it: on a GPU that waits for all that
 * is queued. *seen: it was. All ranks take the same way. */
static int look(struct run *x, uint64_t first, float *loss, int *seen,
		struct err *e)
{
	int on_cpu = !strcmp(x->ops->kind, "cpu");
	int64_t every = x->o.log_every ? x->o.log_every
				       : on_cpu ? 1 : GPU_LOG_EVERY;

	*seen = on_cpu || x->state.at.step % every == 0;
	return *seen ? step_result(x, first, loss, e) : 0;
}

static void show(struct run *x, uint64_t step_of_epoch, float loss)
{
	const struct train_position *at = &x->state.at;

	if (!x->o.log_every || at->step % x->o.log_every == 0)
		metrics_step(&x->metrics, (uint64_t)at->step,
			     (long)at->epoch + 1,
			     schedule_lr(&x->schedule, run_done(x) - 1), loss);
	progress_step(&x->progress, step_of_epoch, &loss, clock_ns());
}

/* What the ranks saw since the epoch began, or the run was resumed. */
static int collect(struct run *x, uint64_t start, struct err *e)
{
	struct tally tally;
	int r = x->ops->wait(x->device, e);

	if (r < 0)
		return r;
	x->ops->get(x->device, &tally, x->net.tally, sizeof tally);
	r = ddp_all_reduce(x->world, &tally.loss, &tally.loss, 1, DDP_F64,
			   DDP_SUM);
	x->state.at.loss += tally.loss;
	x->seconds = (double)(clock_ns() - start) / 1e9;
	return run_from_ddp(r, e);
}

/* The steps of an epoch that are left. *stop: it was asked to stop. */
static int do_steps(struct run *x, int *stop, struct err *e)
{
	uint64_t batch = (uint64_t)x->batch, first;
	uint64_t size = ddp_sampler_size(&x->sampler), done = run_done(x);
	uint64_t end = ((uint64_t)x->state.at.epoch + 1) * x->epoch_steps;
	int r = 0, seen = 1;
	float loss;

	first = (uint64_t)(x->state.at.sample / x->world_size);
	while (r == 0 && !*stop && first < size && done < end &&
	       done < x->total_steps) {
		r = step_do(x, first, e);
		if (r == 0)
			r = look(x, first, &loss, &seen, e);
		if (r)
			return r;
		done++;
		x->steps++;
		if (seen)
			show(x, done + x->epoch_steps - end, loss);
		r = note_steady(x, done, e);
		if (r == 0)
			r = *stop = must_stop(x, e);
		r = r < 0 ? r : 0;
		first += batch;
	}
	return r == 0 && !seen ? step_result(x, first - batch, &loss, e) : r;
}

static int train_epoch(struct run *x, struct err *e)
{
	uint64_t start = clock_ns();
	uint64_t begun = (uint64_t)x->state.at.epoch * x->epoch_steps;
	int r = set_order(x, e), stop = 0;
	int64_t sample;

	if (r < 0)
		return r;
	x->input_ns = x->steps = 0;
	x->ops->zero(x->device, x->net.tally, sizeof *x->net.tally);
	progress_epoch(&x->progress, (long)x->state.at.epoch + 1, x->o.epochs,
		       run_done(x) - begun, x->epoch_steps,
		       x->total_steps - run_done(x),
		       (uint64_t)x->batch * (uint64_t)x->world_size);
	sample = x->state.at.sample;
	r = do_steps(x, &stop, e);
	x->samples = (double)(x->state.at.sample - sample);
	if (r == 0)
		r = collect(x, start, e);
	return r == 0 && stop ? stop_here(x, e) : r;
}

static const char *result_text(const struct result *v, char *out, size_t size)
{
	if (v->accuracy >= 0)
		snprintf(out, size, "test accuracy %.2f %%", v->accuracy);
	else if (isnan(v->loss))
		snprintf(out, size, "no test");
	else
		snprintf(out, size, "test loss %.5f", v->loss);
	return out;
}

/* "2.11 ms a step, 30,000 samples/s a rank, input 0.4 %" */
static const char *pace_text(const struct run *x, double rate, char *out,
			     size_t size)
{
	double input = (double)x->input_ns / 1e9;
	double steps = (double)(x->steps ? x->steps : 1);
	char a_rank[32] = "", n[32], share[32] = "";

	if (x->world_size > 1)
		snprintf(a_rank, sizeof a_rank, ", %s samples/s a rank",
			 progress_count((uint64_t)(rate / x->world_size), n));
	if (!strcmp(x->ops->kind, "cpu"))
		snprintf(share, sizeof share, ", input %.1f %%",
			 100 * input / x->seconds);
	snprintf(out, size, "%.2f ms a step%s%s", 1e3 * x->seconds / steps,
		 a_rank, share);
	return out;
}

/* Rank 0: says and logs what an epoch came to. */
static void tell_epoch(struct run *x, const struct result *v)
{
	const struct train_position *at = &x->state.at;
	double rate = x->samples / x->seconds;
	struct metrics_epoch line = {
		(long)at->epoch + 1, (uint64_t)at->step,
		at->loss / (double)at->sample, v->loss, v->accuracy,
		x->seconds, rate,
	};
	char text[64], per_second[32], pace[128];
	struct err e = ERR_INIT;

	progress_say(&x->progress, "epoch %ld/%ld: loss %.5f, %.2f s, %s "
		     "samples/s, %s (%s)", line.epoch, x->o.epochs,
		     line.train_loss, line.seconds,
		     progress_count((uint64_t)rate, per_second),
		     result_text(v, text, sizeof text),
		     pace_text(x, rate, pace, sizeof pace));
	if (metrics_epoch(&x->metrics, &line, &e) < 0)
		log_warn("%s", e.text);
}

/* Whether this epoch ends with a test. */
static int test_is_due(const struct run *x)
{
	int64_t epoch = x->state.at.epoch + 1;

	if (x->o.synthetic)
		return 0;
	return run_done(x) >= x->total_steps ||
	       (x->o.eval_every && epoch % x->o.eval_every == 0);
}

/* What comes after an epoch's steps. */
static int close_epoch(struct run *x, struct result *v, struct err *e)
{
	struct train_position *at = &x->state.at;
	uint64_t whole = ((uint64_t)at->epoch + 1) * x->epoch_steps;
	struct err ignored = ERR_INIT;
	int r = 0;

	*v = (struct result){NAN, -1};
	if (test_is_due(x))
		r = evaluate(x, v, e);
	if (r == RUN_STOPPED)
		return stop_here(x, e);
	if (r < 0)
		return r;
	if (x->rank == 0 && x->o.save_images && !isnan(v->loss) &&
	    evaluate_preview(x, &ignored) < 0)
		log_warn("%s", ignored.text);
	if (x->rank == 0)
		tell_epoch(x, v);
	/* one that --steps ended goes on where it is */
	if (run_done(x) >= whole) {
		at->epoch++;
		at->sample = 0;
		at->loss = 0;
	}
	if (x->rank == 0 && x->o.checkpoint)
		resume_save(x);
	return run_together(x, 0, e);
}

/* ---- The end ---- */

static void tell_throughput(struct run *x)
{
	double seconds = (double)(clock_ns() - x->steady.time) / 1e9;
	double steps = (double)(run_done(x) - x->steady.done);
	double rate = steps * x->batch * x->world_size / seconds;
	char n[2][32];

	if (!x->steady.time || steps < 1)
		return;
	progress_say(&x->progress, "%s images/s (%s a rank), %.2f ms a step",
		     progress_count((uint64_t)rate, n[0]),
		     progress_count((uint64_t)(rate / x->world_size), n[1]),
		     1e3 * seconds / steps);
}

static int tell_end(struct run *x, long epochs, const struct result *v,
		    struct err *e)
{
	char text[64];

	progress_say(&x->progress, "%ld epoch%s in %.2f s", epochs,
		     epochs == 1 ? "" : "s",
		     (double)(clock_ns() - x->start) / 1e9);
	if (x->o.synthetic)
		tell_throughput(x);
	else
		progress_say(&x->progress, "%s",
			     result_text(v, text, sizeof text));
	if (!x->unsaved)
		return 0;
	return err_set(e, ERR_SYSTEM, "the last state is not in %s: it could "
		       "not be written", x->o.checkpoint);
}

static int train(struct run *x, struct err *e)
{
	struct result v = {NAN, -1};
	long epochs = 0;
	int r = 0;

	listen_for_stop(x);
	if (run_done(x) >= x->total_steps && !x->o.synthetic)
		r = evaluate(x, &v, e);
	while (r == 0 && run_done(x) < x->total_steps) {
		r = train_epoch(x, e);
		if (r == 0)
			r = close_epoch(x, &v, e);
		epochs++;
	}
	return r < 0 ? r : run_together(x, tell_end(x, epochs, &v, e), e);
}

/* ---- From main to exit ---- */

/* ddp_init has happened; what fails from here on concerns all ranks. */
static int run(struct run *x, struct err *e)
{
	int r, closed;

	x->start = clock_ns();
	progress_init(&x->progress, x->rank != 0);
	r = run_set_up(x, e);
	if (r == 0)
		r = train(x, e);
	closed = metrics_close(&x->metrics, r < 0 ? NULL : e);
	return r < 0 ? r : closed;
}

static int complain(const struct run *x, int r, const struct err *e)
{
	const char *rank = getenv("RANK");

	if (r == RUN_STOPPED)
		return EXIT_STOPPED;
	if (r == RUN_SAID_ELSEWHERE)
		return 1;
	ddp_record_error(e->text);
	if (x->world && x->world_size > 1)
		log_error("rank %d: %s", x->rank, e->text);
	else if (!x->world && rank && r != ERR_USAGE)
		log_error("rank %s: %s", rank, e->text);
	else
		log_error("%s", e->text);
	return r == ERR_USAGE ? 2 : 1;
}

/* Where arrays lie in the host's memory, only cpu reaches them: it is not left
 * to what GPUs there are. */
static int choose_backend(struct run *x, struct err *e)
{
	const char *wish = x->o.backend ? x->o.backend : "auto";

	if (strcmp(x->ops->kind, "cpu"))
		return 0;
	if (!strcmp(wish, "nccl"))
		return err_set(e, ERR_USAGE, "--backend nccl does not reach "
			       "what --device cpu computes; use cpu or auto");
	if (!strcmp(wish, "auto"))
		x->o.backend = "cpu";
	return 0;
}

static int check_conv(const struct run *x, struct err *e)
{
	if (!x->o.direct || !strcmp(x->ops->kind, "cpu"))
		return 0;
	return err_set(e, ERR_USAGE, "--conv direct is of CPUs: on a GPU cuDNN "
		       "chooses; give --device cpu with it, or leave it out");
}

int train_main(const struct trainer *t, int argc, char **argv)
{
	struct run x = {
		.t = t, .argc = argc, .argv = argv,
		.o = {TRAINER_OPTIONS_INIT, .epochs = t->epochs,
		      .batch = t->batch, .lr = t->recipes[0].lr},
	};
	struct trainer_options defaults = x.o;
	struct err e = ERR_INIT;
	int r;

	log_init(t->name);
	r = trainer_options_parse(&x.o, t->name, t->features, argc, argv, &e);
	if (r == OPTION_WANT_HELP) {
		trainer_options_help(t->name, t->about, t->features, &defaults);
		return 0;
	}
	if (r == OPTION_WANT_VERSION) {
		printf("%s (ddprun) %s\n", t->name, DDP_VERSION);
		return 0;
	}
	x.ops = r < 0 ? NULL : ops_find(x.o.device, &e);
	if (!x.ops || check_conv(&x, &e) < 0 || choose_backend(&x, &e) < 0)
		return complain(&x, ERR_USAGE, &e);
	r = run_from_ddp(ddp_init(&x.world, &(struct ddp_options){
			.backend = x.o.backend}), &e);
	if (r < 0)
		return complain(&x, r, &e);
	x.rank = ddp_rank(x.world);
	x.world_size = ddp_world_size(x.world);
	r = run(&x, &e);
	if (r < 0)
		r = complain(&x, r, &e);
	run_release(&x);
	stoppable = NULL;
	ddp_finalize(x.world);
	return r;
}
