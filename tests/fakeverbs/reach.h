/* SPDX-License-Identifier: Apache-2.0
 * How the stand-in's devices reach memory: words as a whole, of this process and of others.
 * Any thread, under the table's lock. */
#ifndef TESTS_FAKEVERBS_REACH_H
#define TESTS_FAKEVERBS_REACH_H

#include "table.h"

#include <stddef.h>

/* What is an aligned word at its destination is written as a whole; the reader may be looking. */
void fv_copy(void *to, const void *from, size_t length);
/* Notes the file behind a new registration, so that other processes can map it; fv_reach_close ends that. */
void fv_reach_open(struct entry_mr *mr);
void fv_reach_close(struct entry_mr *mr);
/* Bytes of a registration, to or from memory of this process. 0 or an errno; ESRCH: its process is gone. */
int fv_reach_write(const struct entry_mr *mr, uint64_t at, const void *from, size_t length);
int fv_reach_read(const struct entry_mr *mr, uint64_t at, void *to, size_t length);
/* Gives back the mappings of others' memory. */
void fv_reach_forget(void);

#endif
