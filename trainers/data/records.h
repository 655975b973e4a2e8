/* records.h: a packed data set, mapped from its files: nothing is copied but
 * the labels, and the ranks of a host share the memory, which may be smaller
 * than the data set. */
#ifndef TRAINERS_RECORDS_H
#define TRAINERS_RECORDS_H

#include "trainers/data/records_format.h"

struct records {
	struct dataset set; /* borrows from the rest */
	void *map[RECORDS_PARTS];
	size_t map_size[RECORDS_PARTS];
	uint32_t *labels[RECORDS_PARTS];
};

/* 1 if dir has the first file of a packed data set. */
int records_exist(const char *dir);

/* Maps all files of dir and checks all but the pixels: heads, sizes, that they
 * belong together, labels. ERR_DATA or -errno: the text names the file and the
 * fault. Files may not be changed while they are mapped: a cut ends the
 * process by SIGBUS. The caller releases r, also after an error. */
int records_open(struct records *r, const char *dir, struct err *e);
void records_release(struct records *r);

/* Reads every file of dir, and compares the pixels' checksums as well. *files
 * is their number. */
int records_verify(const char *dir, uint32_t *files, struct err *e);

#endif
