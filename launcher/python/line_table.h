/* line_table.h: the line of an instruction, in the three formats of a code
 * object's table. Pure; any bytes are allowed. */
#ifndef LAUNCHER_LINE_TABLE_H
#define LAUNCHER_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum line_table_kind {
	LINE_TABLE_LNOTAB,    /* 3.9: co_lnotab */
	LINE_TABLE_RANGES,    /* 3.10: co_linetable, PEP 626 */
	LINE_TABLE_LOCATIONS, /* 3.11 and later: PEP 657 */
};

/* at: the instruction's offset in bytes. 0: it has no line. */
int line_table_find(enum line_table_kind kind, const unsigned char *table,
		    size_t size, int first_line, uint64_t at);

#endif
