/* pack_data.c: packs folders of JPEG and PNG files for the trainers. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "trainers/data/records.h"
#include "trainers/pack/packer.h"

struct pack_options {
	long side, shard_mib, threads;
	int skip_bad, verify, threads_given;
};

#define AT(field) .offset = offsetof(struct pack_options, field)

static const struct option_spec pack_option_table[] = {
	{.name = "size", .kind = OPTION_INT, AT(side), .min = 8,
	 .max = IMAGE_SIDE_MAX, .arg = "N", .def = "224",
	 .help = "height and width of the packed images ({})"},
	{.name = "shard-mib", .kind = OPTION_INT, AT(shard_mib), .min = 1,
	 .max = 1 << 20, .arg = "N", .def = "1024",
	 .help = "approximate size of each file, in MiB ({})"},
	{.name = "threads", .kind = OPTION_INT, AT(threads),
	 .given_offset = offsetof(struct pack_options, threads_given),
	 .min = 1, .max = 256, .arg = "N",
	 .help = "number of threads that decode (one for each core)"},
	{.name = "skip-bad", .kind = OPTION_FLAG, AT(skip_bad),
	 .help = "skip files that cannot be decoded, with a warning for each"},
	{.name = "verify", .kind = OPTION_FLAG, AT(verify),
	 .help = "pack nothing: read the packed data set FOLDER and compare "
		 "all checksums"},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "print this"},
	{.name = "version", .kind = OPTION_VERSION,
	 .help = "print the version"},
	{.name = NULL},
};

static void pack_note(const char *line)
{
	log_warn("%s; skipped", line);
}

static double pack_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int pack_verify(const char *folder, struct err *e)
{
	uint32_t files;
	int r = records_verify(folder, &files, e);

	if (r == 0)
		printf("%s: %u files, all intact\n", folder, files);
	return r;
}

static int pack_run(const struct pack_options *o, char **folders,
		    struct err *e)
{
	struct packer_options p = {
		.from = folders[0], .to = folders[1], .side = (int)o->side,
		.shard_bytes = (uint64_t)o->shard_mib << 20,
		.threads = (int)o->threads, .skip_bad = o->skip_bad,
		.note = pack_note};
	double start = pack_seconds(), seconds;
	struct packer_result done;
	uint64_t images;
	cpu_set_t set;
	int r;

	if (!o->threads_given)
		p.threads = sched_getaffinity(0, sizeof(set), &set) == 0 &&
					    CPU_COUNT(&set) <= 256
				    ? CPU_COUNT(&set)
				    : 1;
	r = packer_run(&p, &done, e);
	if (r < 0)
		return r;
	seconds = pack_seconds() - start;
	images = done.images[0] + done.images[1];
	if (done.ignored)
		log_warn("%llu files are not .jpg, .jpeg or .png: skipped",
			 (unsigned long long)done.ignored);
	if (done.left_out)
		log_warn("%llu files could not be decoded: skipped",
			 (unsigned long long)done.left_out);
	printf("%s: %llu + %llu images of 3 x %d x %d in %u classes, %u files, "
	       "%llu MiB; %.1f s, %.0f images/s on %d thread%s\n", p.to,
	       (unsigned long long)done.images[0],
	       (unsigned long long)done.images[1], p.side, p.side,
	       done.classes, done.files, (unsigned long long)(done.bytes >> 20),
	       seconds, (double)images / seconds, p.threads,
	       p.threads == 1 ? "" : "s");
	return 0;
}

static int pack_help(void)
{
	printf("usage: pack_data [options] FROM TO\n"
	       "       pack_data --verify FOLDER\n\n"
	       "Packs the JPEG and PNG files FROM/train/CLASS/FILE and "
	       "FROM/val/CLASS/FILE\ninto the new folder TO, for the trainers' "
	       "--data.\n\n");
	option_print_help(pack_option_table);
	return file_flush_stdout() < 0;
}

int main(int argc, char **argv)
{
	struct pack_options o = {.threads = 1};
	struct err e = ERR_INIT;
	int r;

	log_init("pack_data");
	signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
	file_buffer_stdout();
	r = option_parse(pack_option_table, &o, argc, argv, 1, &e);
	if (r == OPTION_WANT_HELP)
		return pack_help();
	if (r == OPTION_WANT_VERSION) {
		printf("pack_data %s\n", DDP_VERSION);
		return file_flush_stdout() < 0;
	}
	if (r >= 0 && argc - r != (o.verify ? 1 : 2))
		r = err_set(&e, ERR_USAGE, "%s, see --help",
			    o.verify ? "--verify takes one folder"
				     : "give two folders, FROM and TO");
	if (r >= 0)
		r = o.verify ? pack_verify(argv[r], &e)
			     : pack_run(&o, argv + r, &e);
	if (r >= 0) {
		r = file_flush_stdout();
		if (r < 0)
			err_set(&e, r, "stdout: %s", err_name(r));
	}
	if (r < 0)
		log_error("error: %s", e.text);
	return r >= 0 ? 0 : r == ERR_USAGE ? 2 : 1;
}
