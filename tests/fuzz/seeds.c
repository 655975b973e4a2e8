/* seeds.c: writes the fuzzers' first inputs into the folder argv[1]. */
#include "tests/fuzz/seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *folder;

void seeds_require(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "seeds: cannot write %s\n", what);
	exit(1);
}

void seeds_write(const char *noun, const char *name, struct buf *b)
{
	char path[4096];
	struct slice bytes;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, noun);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%s", folder, noun, name);
	seeds_require(buf_bytes(b, &bytes) == 0, path);
	f = fopen(path, "wb");
	seeds_require(f && fwrite(bytes.data, 1, bytes.len, f) == bytes.len,
		      path);
	seeds_require(fclose(f) == 0, path);
	buf_release(b);
}

int main(int argc, char **argv)
{
	seeds_require(argc == 2, "inputs without a folder");
	folder = argv[1];
	seeds_wire();
	seeds_server();
	seeds_journal();
	seeds_pmi();
	seeds_pmix();
	seeds_config();
	seeds_python();
	return 0;
}
