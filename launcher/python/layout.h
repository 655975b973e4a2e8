/* layout.h: where CPython keeps its threads, frames and code objects: offsets
 * for each version, or those that the interpreter states (from 3.13 on); and
 * the tables of its code objects' lines. Pure. */
#ifndef LAUNCHER_LAYOUT_H
#define LAUNCHER_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* ---- line tables ----
 *
 * The line of an instruction, in the three formats of a code object's table.
 * Pure; any bytes are allowed. */

enum line_table_kind {
	LINE_TABLE_LNOTAB,    /* 3.9: co_lnotab */
	LINE_TABLE_RANGES,    /* 3.10: co_linetable, PEP 626 */
	LINE_TABLE_LOCATIONS, /* 3.11 and later: PEP 657 */
};

/* at: the instruction's offset in bytes. 0: it has no line. */
int line_table_find(enum line_table_kind kind, const unsigned char *table,
		    size_t size, int first_line, uint64_t at);

/* ---- layouts ---- */

enum {
	PYTHON_OLDEST = 9, /* 3.9 */
	PYTHON_NEWEST = 14,
	PYTHON_STRUCT_MAX = 512,   /* a frame, or a code object */
	PYTHON_DEBUG_OFFSETS = 81, /* words at the start of _PyRuntime */
};

/* Offsets in bytes, in the struct that the first word of a name says. */
struct python_layout {
	unsigned minor; /* of 3.x */
	enum line_table_kind lines;
	uint64_t runtime_interpreters;
	uint64_t runtime_gil; /* the thread that holds it; 0: see interp_gil */
	uint64_t interp_next, interp_threads;
	uint64_t interp_gil; /* a pointer to it; 0: it is in the interp */
	uint64_t gil_holder, gil_locked; /* 0: there is none */
	uint64_t thread_next, thread_id;
	uint64_t thread_native_id; /* 0: only pthread_self's value */
	uint64_t thread_frame;
	uint64_t thread_cframe; /* a pointer, then cframe_frame; or 0 */
	uint64_t cframe_frame;
	uint64_t frame_back, frame_code, frame_at;
	uint64_t frame_owner; /* 0: none */
	uint64_t frame_size;  /* as far as it is read; so is code_size */
	uint64_t code_file, code_name, code_first_line, code_lines, code_bytes;
	uint64_t code_size;
	uint64_t object_type;
	uint64_t text_length, text_state, text_ascii, text_other;
	uint64_t bytes_size, bytes_data;
};

/* 0, or -1: this version is not known. 3.9 to 3.12. */
int python_layout_of(struct python_layout *l, unsigned minor);

/* The same from the words that _PyRuntime begins with, in 3.13 and 3.14. Sets
 * minor in any case if they begin as they should, else to 0. */
int python_layout_read(struct python_layout *l,
		       const uint64_t words[PYTHON_DEBUG_OFFSETS]);

#endif
