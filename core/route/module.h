/* SPDX-License-Identifier: Apache-2.0
 * Shared objects that the library loads, transports and bootstraps alike: checked before they are loaded, kept loaded.
 * Setup thread. */
#ifndef FY_ROUTE_MODULE_H
#define FY_ROUTE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* RTLD_NOW | RTLD_LOCAL. NULL: `why` says what is missing, and which package has it. */
void *fy_module_open(const char *path, char *why, size_t size);
/* The library's own data of that name, not that of what it depends on. NULL: it has none. */
const void *fy_module_symbol(void *library, const char *name);
/* Size of the object at `address` as its file states it; 0: not stated. */
size_t fy_module_symbol_size(const void *address);
/* The folder of plugins that belongs to the library: `installed` beside it, or, in a build tree, `built`. */
bool fy_module_folder(const char *installed, const char *built, char *folder, size_t size);
/* 1 to 31 characters of a-z 0-9 _ - */
bool fy_module_name(const char *name);
/* A complete shared object of this machine that defines `symbol`? *word: its first four bytes. Loads nothing. NULL: yes; else why
 * not; in `why`, or constant. */
const char *fy_module_check(const char *path, const char *symbol, uint32_t *word, char *why, size_t size);

#endif
