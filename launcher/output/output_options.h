/* output_options.h: the user's options for the workers' output: which lines go
 * to files, which to the console, and with which prefix. */
#ifndef LAUNCHER_OUTPUT_OPTIONS_H
#define LAUNCHER_OUTPUT_OPTIONS_H

/* The options' texts, NULL if not given; config_parse sets redirects and tee to
 * their defaults. */
struct output_options {
	const char *log_dir, *redirects, *tee, *log_prefix;
	const char *ranks_filter, *local_ranks_filter;
	const char *stdout_filters, *stderr_filters;
	int collapse;
};

#endif
