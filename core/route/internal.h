/* SPDX-License-Identifier: Apache-2.0
 * What the files of core/route share among themselves; nobody else includes it.
 * Setup thread, except fy_services_fill's functions, which plugins call from any thread. */
#ifndef FY_ROUTE_INTERNAL_H
#define FY_ROUTE_INTERNAL_H

#include "route.h"

#define FY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- search.c: folders and names */
struct fy_file {
    char name[32];
    char path[512];
    size_t folder; /* index into route->folders */
    int shadowed;  /* 1: an earlier folder has the same name */
};
int fy_search_folders(struct fy_route *route);
void fy_search_free(struct fy_route *route);
/* First NAME.so in the folders; false: none. */
bool fy_search_name(const struct fy_route *route, const char *name, char *path, size_t size);
/* Every NAME.so in the folders, by name, then by folder. *files is freed by the caller. */
int fy_search_list(const struct fy_route *route, struct fy_file **files, size_t *n);
/* Nearest name in the folders; false: none is near. */
bool fy_search_nearest(const struct fy_route *route, const char *name, char *nearest, size_t size);
bool fy_name_valid(const char *name);
/* The folder `installed` beside the library, or, if that is absent and this is a build tree, `built`. */
bool fy_search_beside(const char *installed, const char *built, char *path, size_t size);

/* ---- elf.c: is the file at `path` a complete shared object of this machine? Opened and closed here. */
#define FY_ELF_SEGMENTS 256 /* a file with more program headers is refused */
enum fy_outcome fy_elf_check(const char *path, char *reason, size_t size);
/* Exactly `size` bytes, or false. */
bool fy_elf_read(int fd, void *buffer, size_t size, uint64_t offset);

/* ---- symbol.c: the first four bytes of the data that the file itself defines as `name`, of at most 30 characters,
 * read without loading it. false: it defines no such thing. For a file that fy_elf_check accepted, though a damaged one
 * does no harm. */
bool fy_elf_symbol(const char *path, const char *name, uint32_t *word);

/* ---- load.c: from t->path to t->plugin; sets outcome and reason. Calls nothing of the plugin. */
enum fy_outcome fy_load(struct fy_transport *t);

/* ---- check.c: malformed plugins. `available`: bytes of the symbol, 0: not known. false: reason is set. */
bool fy_plugin_check(const struct ferry_plugin *plugin, size_t available, char *reason, size_t size);

/* ---- defaults.c */
void fy_ops_overlay(struct ferry_host_ops *ops, const struct ferry_host_ops *theirs);

/* ---- candidate.c: one candidate, from file to probe */
struct fy_transport *fy_candidate_add(struct fy_route *route, const char *name, const char *path);
/* What `item` (name or path) of `variable` stands for; found among the candidates, or added. NULL: out of memory. */
struct fy_transport *fy_candidate_find(struct fy_route *route, const char *item, const char *variable);
/* Loads, reads options, probes: outcome USABLE, or why not. Once per candidate. */
void fy_candidate_examine(struct fy_transport *t);
void fy_candidate_refuse(struct fy_transport *t, enum fy_outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fy_candidate_free(struct fy_transport *t);
/* Record for a candidate that is not usable; `what`: "transport" or "hook". Returns its status. */
int fy_candidate_error(const struct fy_transport *t, const char *what, struct ferry_error *error);
/* Files of the folders that are no candidates yet, as FY_FOUND; with `shadowed`, the hidden ones too. */
int fy_candidate_add_found(struct fy_route *route, int shadowed);

/* ---- spec.c: comma lists of names and paths */
struct fy_list {
    char *text; /* one allocation that the items point into */
    char **items;
    size_t n;
};
/* `variable`: for messages. FERRY_ERR_CONFIG: an empty or repeated item, or auto beside others. */
int fy_list_parse(struct fy_list *list, const char *spec, const char *variable, struct ferry_error *error);
void fy_list_free(struct fy_list *list);

/* ---- services.c: struct ferry_core */
enum fy_phase { FY_PHASE_IDLE, FY_PHASE_PROBE, FY_PHASE_OPEN, FY_PHASE_OPENED };
void fy_services_fill(struct fy_transport *t);
void fy_services_phase(struct fy_transport *t, enum fy_phase phase);
/* Forgets, or copies, what the plugin reported while it was probed or opened. */
void fy_services_forget(struct fy_transport *t);
void fy_services_reported(struct fy_transport *t, struct ferry_error *out);
/* Sets the status of what was reported: the one that counts is what open returned. */
void fy_services_failed(struct fy_transport *t, int status);
/* Bounded copy of a record of any minor; strings end, out->size is this library's. */
void fy_record_copy(struct ferry_error *out, const struct ferry_error *record);

/* ---- table.c */
/* Logged beside the record that route->told speaks of: what is in it is not said again. */
void fy_route_log_table(const struct fy_route *route, int level);

/* ---- open.c */
void fy_close_chosen(struct fy_route *route);

/* services_gpu.c: struct ferry_core.gpu_ops, where the job has a GPU. */
extern const struct ferry_gpu_ops fy_services_gpu;

#endif
