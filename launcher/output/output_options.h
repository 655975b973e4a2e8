/* output_options.h: what the user asked for the workers' output: which lines go
 * to files, which to the console, and what is put before them. */
#ifndef LAUNCHER_OUTPUT_OPTIONS_H
#define LAUNCHER_OUTPUT_OPTIONS_H

/* Texts as given, NULL where not; config_parse sets redirects and tee to their
 * defaults. */
struct output_options {
	const char *log_dir, *redirects, *tee, *log_prefix;
	const char *ranks_filter, *local_ranks_filter;
	const char *stdout_filters, *stderr_filters;
	int collapse;
};

#endif
