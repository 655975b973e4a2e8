/* fuzz_stage: the list of files that another node's stage helper sends, an
 * agent's order to its helper, a helper's report, and the head of a frame. The
 * first byte chooses.
 * No path of a list that is accepted leads out of the copy. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/stage/stage_frame.h"
#include "launcher/stage/stage_list.h"
#include "launcher/stage/stage_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_path(const char *path)
{
	char text[1 << 16];

	require(*path != '/' && strlen(path) < sizeof(text) - 2);
	snprintf(text, sizeof(text), "/%s/", path);
	require(!strstr(text, "/../") && !strstr(text, "/./") &&
		!strstr(text, "//"));
}

static void check_list(struct slice in)
{
	struct stage_list l = {.text = BUF_INIT(STAGE_LIST_MAX)};
	struct err e = ERR_INIT;

	buf_put(&l.text, in.data, in.len);
	if (!l.text.failed && stage_list_read(&l, &e) == 0) {
		check_path(l.name);
		for (uint32_t i = 1; i < l.n; i++) {
			check_path(l.all[i].path);
			require(l.all[i].kind != STAGE_LINK ||
				l.all[l.all[i].link].kind == STAGE_FILE);
		}
		require(l.nfiles <= l.n && strlen(l.key) == STAGE_KEY_SIZE - 1);
	}
	stage_list_release(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stage_order o;
	struct stage_report r;
	struct stage_frame f;
	struct slice in;

	if (!size || size > 1 << 15)
		return 0;
	in = SLICE((const char *)data + 1, size - 1);
	if (data[0] % 4 == 0)
		check_list(in);
	else if (data[0] % 4 == 1 && stage_order_get(&o, in) == 0)
		require(o.source.len <= in.len && o.name.len <= in.len);
	else if (data[0] % 4 == 2 && stage_report_parse(&r, in) == 0)
		require(r.text.len <= in.len);
	else if (data[0] % 4 == 3 && stage_frame_read(&f, in) > 0)
		require(stage_frame_read(&f, in) <= STAGE_FRAME_MAX &&
			f.size <= STAGE_BLOCK);
	return 0;
}
