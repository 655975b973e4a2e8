/* gpu_record.h: what NVML reports about a GPU, and the lines in which the
 * helper sends it to the agent. Pure. */
#ifndef LAUNCHER_GPU_RECORD_H
#define LAUNCHER_GPU_RECORD_H

#include <stdint.h>

#include "rendezvous/wire.h"

enum {
	GPU_UUID_MAX = 96,
	GPU_NAME_MAX = 96,
	GPU_LINE_MAX = 1024,
	GPU_WATCHED_MAX = 64, /* GPUs of a node; further ones are ignored */
};

#define GPU_NO_INSTANCE UINT32_MAX

/* The same as on the wire. */
#define GPU_NUMBERS WIRE_GPU_NUMBERS

/* One GPU; under MIG the whole one, however many instances it has. */
struct gpu_record {
	uint32_t index; /* NVML's: in the order of PCI addresses */
	char uuid[GPU_UUID_MAX], name[GPU_NAME_MAX];
#define F(field) int64_t field;
	GPU_NUMBERS(F)
#undef F
};

enum gpu_line_kind {
	GPU_LINE_RECORD,
	GPU_LINE_XID,
	GPU_LINE_END,  /* all GPUs have been read once more */
	GPU_LINE_NOTE, /* something is not watched */
	GPU_LINE_FAIL, /* nothing is; the helper exits */
};

struct gpu_line {
	enum gpu_line_kind kind;
	struct gpu_record record;
	uint32_t index, xid, instance; /* an Xid's */
	char text[GPU_LINE_MAX];       /* a note or a failure */
};

/* A GPU of which nothing is known yet. */
void gpu_record_init(struct gpu_record *r, uint32_t index);
void gpu_record_put(struct buf *out, const struct gpu_record *r);
void gpu_record_put_xid(struct buf *out, uint32_t index, uint32_t xid,
			uint32_t instance);
void gpu_record_put_end(struct buf *out);
/* is_failure: the helper exits. Line breaks in text become spaces. */
void gpu_record_put_text(struct buf *out, int is_failure, const char *text);

/* Parses a line without its line break. Returns -1 if it is no such line. */
int gpu_line_parse(struct slice line, struct gpu_line *l);

#endif
