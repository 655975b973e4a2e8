/* train.c: the training loop, from the command line to the last line of output.
 * All ranks run it in lockstep; rank 0 prints and writes files. */
#include "trainers/train/train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainers/models/safetensors.h"
#include "trainers/train/resume.h"
#include "trainers/train/run.h"

/* What shells and the launcher report for a process that SIGTERM ended. */
enum { EXIT_STOPPED = 128 + SIGTERM };
enum { GPU_LOG_EVERY = 50 };
#define STOP_CHECK_NS 50000000.0

/* ---- Stop requests ---- */

/* The world that train_on_sigterm asks to stop. */
static ddp_comm *volatile stoppable;

static void train_on_sigterm(int number)
{
	ddp_request_stop(stoppable);
}

/* Without --checkpoint there is no state to save, so SIGTERM keeps its default
 * action: it ends the process. */
static void train_handle_sigterm(struct run *run)
{
	struct sigaction act = {.sa_handler = train_on_sigterm,
				.sa_flags = SA_RESTART};

	run->stop.time = clock_ns();
	run->stop.step = run->state.position.step;
	if (!run->options.checkpoint)
		return;
	stoppable = run->world;
	sigaction(SIGTERM, &act, NULL);
}

/* Collective. Asking costs a message, which may take longer than a step, so the
 * ranks agree on how many steps to run before they ask again. */
static int train_should_stop(struct run *run, struct err *e)
{
	int64_t step = run->state.position.step;
	double ahead, elapsed;
	int32_t n;
	int r;

	if (!run->options.checkpoint || step < run->stop.check)
		return 0;
	elapsed = (double)(clock_ns() - run->stop.time) + 1;
	ahead = STOP_CHECK_NS / elapsed * (double)(step - run->stop.step);
	n = ahead < 1 ? 1 : ahead > 1000 ? 1000 : (int32_t)ahead;
	r = ddp_all_reduce(run->world, &n, &n, 1, DDP_I32, DDP_MIN);
	if (r == 0)
		r = ddp_should_stop(run->world);
	run->stop.check = step + n;
	run->stop.step = step;
	run->stop.time = clock_ns();
	return r < 0 ? run_from_ddp(r, e) : r;
}

/* Saves the state, so that --resume can continue from here. */
static int train_stop(struct run *run, struct err *e)
{
	int r;

	if (run->rank == 0) {
		resume_save(run);
		progress_print(&run->progress,
			       "stopped on request after step "
			       "%lld; --resume continues from %s%s",
			       (long long)run->state.position.step,
			       run->options.checkpoint,
			       run->unsaved ? ", which is older" : "");
	}
	r = run_agree(run, 0, e);
	return r < 0 ? r : RUN_STOPPED;
}

/* ---- Training ---- */

/* Gives the loader this rank's samples of the coming epoch. */
static int train_set_order(struct run *run, struct err *e)
{
	uint64_t epoch = (uint64_t)run->state.position.epoch;
	uint64_t size = ddp_sampler_size(&run->sampler);

	ddp_sampler_set_epoch(&run->sampler, epoch);
	for (uint64_t i = 0; i < size; i++)
		run->order[i] = ddp_sampler_index(&run->sampler, i);
	return run->ops->loader_order(run->loader, run->order, size, epoch, e);
}

/* Starts to measure throughput once the first steps have made and warmed
 * everything up. */
static int train_start_timing(struct run *run, uint64_t done, struct err *e)
{
	uint64_t warm = run->total_steps / 4 < 10 ? run->total_steps / 4 : 10;
	int r;

	if (!run->options.synthetic || run->steady.time || done < warm)
		return 0;
	r = run->ops->wait(run->device, e);
	run->steady.done = done;
	run->steady.time = clock_ns();
	return r;
}

/* Reads the loss if it is wanted in this step: on a GPU that waits for all
 * queued work. Sets *seen. All ranks decide alike. */
static int train_read_loss(struct run *run, uint64_t first, float *loss,
			   int *seen, struct err *e)
{
	int on_cpu = !strcmp(run->ops->kind, "cpu");
	int64_t every = run->options.log_every ? run->options.log_every
				       : on_cpu ? 1 : GPU_LOG_EVERY;

	*seen = on_cpu || run->state.position.step % every == 0;
	return *seen ? step_loss(run, first, loss, e) : 0;
}

/* Prints the steps without an update since the last call. */
static void train_report_skipped(struct run *run)
{
	const struct loss_scaler *s = &run->scaler;
	uint64_t n = s->skipped - run->skipped;

	if (n)
		progress_print(&run->progress,
			       "fp16: skipped %llu step%s, the last of them "
			       "step %llu: the gradients were not finite; the "
			       "loss scale is now %g",
			       (unsigned long long)n, n == 1 ? "" : "s",
			       (unsigned long long)s->last_step,
			       (double)s->scale);
	run->skipped = s->skipped;
}

static void train_report_step(struct run *run, uint64_t step_of_epoch,
			      float loss)
{
	const struct train_position *at = &run->state.position;
	struct metrics_step line = {
		.step = (uint64_t)at->step, .epoch = (long)at->epoch + 1,
		.lr = schedule_lr(&run->schedule, run_done(run) - 1),
		.loss = loss, .loss_scale = run->scaler.scale,
		.skipped = run->scaler.skipped,
	};

	if (!run->options.log_every || at->step % run->options.log_every == 0)
		metrics_step(&run->metrics, &line);
	train_report_skipped(run);
	progress_step(&run->progress, step_of_epoch, &loss, clock_ns());
}

/* Sums the loss over all ranks since the epoch started or the run resumed. */
static int train_sum_loss(struct run *run, uint64_t start, struct err *e)
{
	struct tally tally;
	int r = run->ops->wait(run->device, e);

	if (r < 0)
		return r;
	run->ops->get(run->device, &tally, run->net.tally, sizeof(tally));
	r = ddp_all_reduce(run->world, &tally.loss, &tally.loss, 1, DDP_F64,
			   DDP_SUM);
	run->state.position.loss += tally.loss;
	run->seconds = (double)(clock_ns() - start) / 1e9;
	return run_from_ddp(r, e);
}

/* Collective: compares the ranks' parameters, if this step is one for that. */
static int train_check_replicas(struct run *run, struct err *e)
{
	long every = run->options.check_every;

	if (!every || run->world_size == 1 || run->state.position.step % every)
		return 0;
	return run_agree(run, train_state_check(&run->state, run->world, e), e);
}

/* Runs the rest of the epoch's steps; sets *stop if the job was asked to
 * stop. */
static int train_steps(struct run *run, int *stop, struct err *e)
{
	uint64_t batch = (uint64_t)run->batch, first;
	uint64_t size = ddp_sampler_size(&run->sampler), done = run_done(run);
	uint64_t end =
		((uint64_t)run->state.position.epoch + 1) * run->epoch_steps;
	int r = 0, seen = 1;
	float loss;

	first = (uint64_t)(run->state.position.sample / run->world_size);
	while (r == 0 && !*stop && first < size && done < end &&
	       done < run->total_steps) {
		r = step_run(run, first, e);
		if (r == 0)
			r = train_read_loss(run, first, &loss, &seen, e);
		if (r == 0)
			r = train_check_replicas(run, e);
		if (r)
			return r;
		done++;
		run->steps++;
		r = run_from_ddp(ddp_step(run->world, (int64_t)done), e);
		if (seen)
			train_report_step(run, done + run->epoch_steps - end,
					  loss);
		if (r == 0)
			r = train_start_timing(run, done, e);
		if (r == 0)
			r = *stop = train_should_stop(run, e);
		r = r < 0 ? r : 0;
		first += batch;
	}
	return r == 0 && !seen ? step_loss(run, first - batch, &loss, e) : r;
}

static int train_epoch(struct run *run, struct err *e)
{
	uint64_t start = clock_ns();
	uint64_t begun = (uint64_t)run->state.position.epoch * run->epoch_steps;
	int r = train_set_order(run, e), stop = 0;
	int64_t sample;

	if (r < 0)
		return r;
	run->input_ns = run->steps = 0;
	run->ops->zero(run->device, run->net.tally, sizeof(*run->net.tally));
	progress_epoch(&run->progress, (long)run->state.position.epoch + 1,
		       run->options.epochs, run_done(run) - begun,
		       run->epoch_steps, run->total_steps - run_done(run),
		       (uint64_t)run->batch * (uint64_t)run->world_size);
	sample = run->state.position.sample;
	r = train_steps(run, &stop, e);
	run->samples = (double)(run->state.position.sample - sample);
	if (r == 0)
		r = train_sum_loss(run, start, e);
	return r == 0 && stop ? train_stop(run, e) : r;
}

static const char *train_result_text(const struct result *v, char *out,
				     size_t size)
{
	if (v->accuracy >= 0)
		snprintf(out, size, "test accuracy %.2f %%", v->accuracy);
	else if (isnan(v->loss))
		snprintf(out, size, "no test");
	else
		snprintf(out, size, "test loss %.5f", v->loss);
	return out;
}

/* Writes "2.11 ms a step, 30,000 samples/s a rank, input 0.4 %". */
static const char *train_pace_text(const struct run *run, double rate,
				   char *out, size_t size)
{
	double input = (double)run->input_ns / 1e9;
	double steps = (double)(run->steps ? run->steps : 1);
	char a_rank[32] = "", n[32], share[32] = "", scale[32] = "";

	if (run->world_size > 1)
		snprintf(a_rank, sizeof(a_rank), ", %s samples/s a rank",
			 progress_count((uint64_t)(rate / run->world_size), n));
	if (!strcmp(run->ops->kind, "cpu"))
		snprintf(share, sizeof(share), ", input %.1f %%",
			 100 * input / run->seconds);
	if (run->state.scaler)
		snprintf(scale, sizeof(scale), ", loss scale %g",
			 (double)run->scaler.scale);
	snprintf(out, size, "%.2f ms a step%s%s%s", 1e3 * run->seconds / steps,
		 a_rank, share, scale);
	return out;
}

/* Rank 0: prints and logs the results of an epoch. */
static void train_report_epoch(struct run *run, const struct result *v)
{
	const struct train_position *at = &run->state.position;
	double rate = run->samples / run->seconds;
	struct metrics_epoch line = {
		(long)at->epoch + 1, (uint64_t)at->step,
		at->loss / (double)at->sample, v->loss, v->accuracy,
		run->seconds, rate,
	};
	char text[64], per_second[32], pace[128];
	struct err e = ERR_INIT;

	progress_print(&run->progress, "epoch %ld/%ld: loss %.5f, %.2f s, %s "
		       "samples/s, %s (%s)", line.epoch, run->options.epochs,
		       line.train_loss, line.seconds,
		       progress_count((uint64_t)rate, per_second),
		       train_result_text(v, text, sizeof(text)),
		     train_pace_text(run, rate, pace, sizeof(pace)));
	if (metrics_epoch(&run->metrics, &line, &e) < 0)
		log_warn("%s", e.text);
}

/* 1 if the test set is evaluated after this epoch. */
static int train_is_test_due(const struct run *run)
{
	int64_t epoch = run->state.position.epoch + 1;

	if (run->options.synthetic)
		return 0;
	return run_done(run) >= run->total_steps ||
	       (run->options.eval_every &&
		epoch % run->options.eval_every == 0);
}

/* After the steps of an epoch: evaluation, report, checkpoint. */
static int train_end_epoch(struct run *run, struct result *v, struct err *e)
{
	struct train_position *at = &run->state.position;
	uint64_t whole = ((uint64_t)at->epoch + 1) * run->epoch_steps;
	struct err ignored = ERR_INIT;
	int r = 0;

	*v = (struct result){NAN, -1};
	if (train_is_test_due(run))
		r = evaluate(run, v, e);
	if (r == RUN_STOPPED)
		return train_stop(run, e);
	if (r < 0)
		return r;
	if (run->rank == 0 && run->options.save_images && !isnan(v->loss) &&
	    evaluate_preview(run, &ignored) < 0)
		log_warn("%s", ignored.text);
	if (run->rank == 0)
		train_report_epoch(run, v);
	/* an epoch that --steps cut short continues where it is */
	if (run_done(run) >= whole) {
		at->epoch++;
		at->sample = 0;
		at->loss = 0;
	}
	if (run->rank == 0 && run->options.checkpoint)
		resume_save(run);
	return run_agree(run, 0, e);
}

/* ---- The end ---- */

static void train_report_throughput(struct run *run)
{
	double seconds = (double)(clock_ns() - run->steady.time) / 1e9;
	double steps = (double)(run_done(run) - run->steady.done);
	double rate = steps * run->batch * run->world_size / seconds;
	char n[2][32];

	if (!run->steady.time || steps < 1)
		return;
	progress_print(&run->progress,
		       "%s images/s (%s a rank), %.2f ms a step",
		       progress_count((uint64_t)rate, n[0]),
		       progress_count((uint64_t)(rate / run->world_size), n[1]),
		       1e3 * seconds / steps);
}

static int train_export(struct run *run, struct err *e)
{
	const char *file = run->options.export;

	if (!file || run->rank != 0)
		return 0;
	return safetensors_save(&run->net, run->state.position.step, file, e);
}

static int train_report_end(struct run *run, long epochs,
			    const struct result *v, struct err *e)
{
	char text[64];

	progress_print(&run->progress, "%ld epoch%s in %.2f s", epochs,
		       epochs == 1 ? "" : "s",
		       (double)(clock_ns() - run->start) / 1e9);
	if (run->options.synthetic)
		train_report_throughput(run);
	else
		progress_print(&run->progress, "%s",
			       train_result_text(v, text, sizeof(text)));
	if (!run->unsaved)
		return train_export(run, e);
	return err_set(e, ERR_SYSTEM, "the last state is not in %s: it could "
		       "not be written", run->options.checkpoint);
}

static int train_loop(struct run *run, struct err *e)
{
	struct result v = {NAN, -1};
	long epochs = 0;
	int r = 0;

	train_handle_sigterm(run);
	if (run_done(run) >= run->total_steps && !run->options.synthetic)
		r = evaluate(run, &v, e);
	while (r == 0 && run_done(run) < run->total_steps) {
		r = train_epoch(run, e);
		if (r == 0)
			r = train_end_epoch(run, &v, e);
		epochs++;
	}
	return r < 0 ? r
		     : run_agree(run, train_report_end(run, epochs, &v, e), e);
}

/* ---- From main to exit ---- */

/* Runs after ddp_init: from here on a failure concerns all ranks. */
static int train_run(struct run *run, struct err *e)
{
	int r, closed;

	run->start = clock_ns();
	progress_init(&run->progress, run->rank != 0);
	if (run->rank == 0 && *ddp_warning(run->world))
		log_warn("%s", ddp_warning(run->world));
	r = run_set_up(run, e);
	if (r == 0)
		r = train_loop(run, e);
	closed = metrics_close(&run->metrics, r < 0 ? NULL : e);
	return r < 0 ? r : closed;
}

static int train_fail(const struct run *run, int r, const struct err *e)
{
	const char *rank = getenv("RANK");

	if (r == RUN_STOPPED)
		return EXIT_STOPPED;
	if (r == RUN_REPORTED_ELSEWHERE)
		return 1;
	ddp_record_error(e->text);
	if (run->world && run->world_size > 1)
		log_error("rank %d: %s", run->rank, e->text);
	else if (!run->world && rank && r != ERR_USAGE)
		log_error("rank %s: %s", rank, e->text);
	else
		log_error("%s", e->text);
	return r == ERR_USAGE ? 2 : 1;
}

/* Arrays in host memory can only be reduced by the cpu backend, so auto must
 * not pick nccl because the host has GPUs. */
static int train_choose_backend(struct run *run, struct err *e)
{
	const char *wish = run->options.backend ? run->options.backend : "auto";

	if (strcmp(run->ops->kind, "cpu"))
		return 0;
	if (!strcmp(wish, "nccl"))
		return err_set(e, ERR_USAGE, "--backend nccl cannot reduce "
			       "what --device cpu computes; use cpu or auto");
	if (!strcmp(wish, "auto"))
		run->options.backend = "cpu";
	return 0;
}

static int train_check_conv(const struct run *run, struct err *e)
{
	if (!run->options.direct || !strcmp(run->ops->kind, "cpu"))
		return 0;
	return err_set(e, ERR_USAGE,
		       "--conv direct only applies to CPUs: on a GPU "
		       "cuDNN chooses; add --device cpu, or leave it out");
}

int train_main(const struct trainer *t, int argc, char **argv)
{
	struct run run = {
		.trainer = t, .argc = argc, .argv = argv,
		.options = {TRAINER_OPTIONS_INIT, .epochs = t->epochs,
			    .batch = t->batch, .lr = t->recipes[0].lr},
	};
	struct trainer_options defaults = run.options;
	struct err e = ERR_INIT;
	int r;

	log_init(t->name);
	r = trainer_options_parse(&run.options, t->name, t->features, argc,
				  argv, &e);
	if (r == OPTION_WANT_HELP) {
		trainer_options_help(t->name, t->about, t->features, &defaults);
		return 0;
	}
	if (r == OPTION_WANT_VERSION) {
		printf("%s (ddprun) %s\n", t->name, DDP_VERSION);
		return 0;
	}
	run.ops = r < 0 ? NULL : ops_find(run.options.device, &e);
	if (!run.ops || train_check_conv(&run, &e) < 0 ||
	    train_choose_backend(&run, &e) < 0)
		return train_fail(&run, ERR_USAGE, &e);
	r = run_from_ddp(ddp_init(&run.world, &(struct ddp_options){
			.backend = run.options.backend}), &e);
	if (r < 0)
		return train_fail(&run, r, &e);
	run.rank = ddp_rank(run.world);
	run.world_size = ddp_world_size(run.world);
	r = train_run(&run, &e);
	if (r < 0)
		r = train_fail(&run, r, &e);
	run_release(&run);
	stoppable = NULL;
	ddp_finalize(run.world);
	return r;
}
