/* seeds_journal.c: saved jobs in each state, and batches of records. */
#include "rendezvous/journal/journal.h"
#include "rendezvous/journal/journal_writer.h"
#include "rendezvous/round/job.h"
#include "tests/fuzz/seeds.h"

enum { NODES = 3 };

static struct job *job;
static struct job_node *nodes[NODES];

static void seeds_job_drain(void)
{
	while (job_next_action(job))
		;
}

static void seeds_job_join(int i, uint32_t min, uint32_t max)
{
	static const char *const names[NODES] = {"a", "b", "c"};
	struct wire_join m = {
		.node_id = SLICE_STR(names[i]), .host = SLICE_STR(names[i]),
		.addr = SLICE_STR("10.0.0.1"), .master_port = 29500,
		.node_rank = -1, .min_nodes = min, .max_nodes = max, .nproc = 2,
		.max_restarts = 1, .role = SLICE_STR("r"),
		.last_call_ms = min < max ? 1000 : 0};
	struct err e = ERR_INIT;

	seeds_require(job_join(job, &m, &nodes[i], "h:1", &nodes[i], &e) == 0,
		      "a job: its node does not join");
	seeds_job_drain();
}

static void seeds_job_exit(int i, int code)
{
	struct wire_start start;
	struct wire_exited m = {.pid = 7, .code = code, .ran_ms = 5,
				.tail = SLICE_STR("the end")};
	struct err e = ERR_INIT;

	job_start_for(job, nodes[i], &start);
	m.round = start.round;
	m.rank = start.base_rank;
	seeds_require(job_exited(job, nodes[i], &m, &e) == 0,
		      "a job: its rank does not exit");
	seeds_job_drain();
}

static void seeds_job_save(const char *name)
{
	struct buf b = BUF_INIT(SEED_MAX);

	job_save(job, &b);
	seeds_write("journal", name, &b);
}

/* Two nodes and a spare. */
static void seeds_job_static(void)
{
	struct wire_stop stop = {.level = WIRE_STOPPED, .whole = 1,
				 .signal = 15, .grace_ms = 1000};

	seeds_job_save("new");
	seeds_job_join(0, 2, 2);
	seeds_job_save("gathering");
	seeds_job_join(1, 2, 2);
	seeds_job_join(2, 2, 2);
	seeds_job_save("running");
	seeds_job_exit(0, 0);
	seeds_job_save("one_done");
	seeds_job_exit(1, 3);
	seeds_job_save("failed");
	for (int i = 0; i < 2; i++)
		seeds_job_join(i, 2, 2);
	seeds_job_save("again");
	job_request_stop(job, nodes[0], &stop);
	seeds_job_drain();
	seeds_job_save("stopping");
	job_stop(job, "the server stops");
	seeds_job_drain();
	seeds_job_save("over");
}

static void seeds_job_elastic(void)
{
	seeds_job_join(0, 1, 3);
	seeds_job_save("last_call");
	job_last_call(job);
	seeds_job_drain();
	seeds_job_join(1, 1, 3);
	seeds_job_save("regroup");
	job_lost(job, nodes[0], "its connection closed");
	seeds_job_drain();
	seeds_job_save("lost");
}

static void seeds_job(void (*live)(void))
{
	job = job_new(SLICE_STR("j"), 2);
	seeds_require(job != NULL, "a job");
	live();
	job_free(job);
}

static void seeds_record(struct buf *b, uint8_t type)
{
	size_t mark = journal_begin(b, type);

	buf_put_u64(b, 1);
	buf_put_slice(b, SLICE_STR("key"));
	buf_put_slice(b, SLICE_STR("value"));
	journal_end(b, mark);
}

/* Two batches, sealed as fuzz_journal reads them. */
static void seeds_batches(struct slice records)
{
	struct buf b = BUF_INIT(SEED_MAX);
	char head[JOURNAL_HEAD];

	for (uint64_t number = 1; number <= 2; number++) {
		journal_seal(head, 1, number, records);
		buf_put(&b, head, sizeof(head));
		buf_put(&b, records.data, records.len);
	}
	seeds_write("journal", "batches", &b);
}

void seeds_journal(void)
{
	struct buf b = BUF_INIT(SEED_MAX);

	seeds_job(seeds_job_static);
	seeds_job(seeds_job_elastic);
	for (uint8_t type = RECORD_RESET; type <= RECORD_WAS_LOST; type++)
		seeds_record(&b, type);
	seeds_batches(SLICE(b.data, b.len));
	seeds_write("journal", "records", &b);
}
