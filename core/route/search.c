/* SPDX-License-Identifier: Apache-2.0
 * Where plugins are looked for: the folders in their order, and from a name to a file.
 * Setup thread. Reads folders and file names only; looks into no file. */
#include "internal.h"
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef FERRY_PLUGIN_DIR
#define FERRY_PLUGIN_DIR ""
#endif

bool fy_name_valid(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return n > 0 && n < sizeof(((struct fy_transport *)0)->name) && name[n] == '\0';
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;

    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A folder that is there already keeps its earlier place. Full: false, but not an error of memory. */
static int add_folder(struct fy_route *route, const char *folder, size_t length, size_t limit)
{
    size_t n = 0;
    char *copy;

    if (length == 0)
        return FERRY_OK;
    copy = strndup(folder, length);
    if (!copy)
        return FERRY_ERR_NOMEM;
    while (route->folders[n] && !same_folder(route->folders[n], copy))
        n++;
    if (route->folders[n] || n >= limit) {
        if (!route->folders[n])
            fy_log(route->log, FERRY_LOG_WARN, "plugin folder %s is left out: more than %zu folders", copy, limit);
        free(copy);
        return FERRY_OK;
    }
    route->folders[n] = copy;
    return FERRY_OK;
}

static int add_path_variable(struct fy_route *route)
{
    enum fy_origin origin = FY_ORIGIN_DEFAULT;
    const char *at = fy_source_get(route->source, "FERRY_PLUGIN_PATH", &origin);

    if (!at || !*at)
        return FERRY_OK;
    if (route->secure && origin != FY_ORIGIN_ATTRIBUTE) {
        fy_log(route->log, FERRY_LOG_WARN, "FERRY_PLUGIN_PATH is ignored: this program runs with raised privileges");
        return FERRY_OK;
    }
    while (*at) {
        size_t length = strcspn(at, ":");
        int status = add_folder(route, at, length, FY_COUNT(route->folders) - 3);

        if (status != FERRY_OK)
            return status;
        at += length + (at[length] == ':');
    }
    return FERRY_OK;
}

/* Folder of the object that holds this function: libferry.so, or the program when the core is linked into it. */
static bool own_folder(char *folder, size_t size)
{
    struct link_map *map = NULL;
    Dl_info info;
    char *real = NULL, *slash;
    bool ok = false;

    if (!dladdr1((void *)(uintptr_t)&fy_search_folders, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return false;
    /* The program itself has no name in the map. */
    real = realpath(map->l_name[0] ? map->l_name : "/proc/self/exe", NULL);
    slash = real ? strrchr(real, '/') : NULL;
    if (slash) {
        *slash = '\0';
        ok = snprintf(folder, size, "%s", real) < (int)size;
    }
    free(real);
    return ok;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* An installation has ferry/plugins-v1 beside the library, a build tree has plugins. Never both: /usr/lib/plugins
 * belongs to somebody else. */
bool fy_search_beside(const char *installed, const char *built, char *path, size_t size)
{
    char folder[400], other[sizeof(((struct fy_file *)0)->path)];

    if (!own_folder(folder, sizeof(folder)))
        return false;
    snprintf(path, size, "%s/%s", folder, installed);
    snprintf(other, sizeof(other), "%s/%s", folder, built);
    if (!is_folder(path) && is_folder(other))
        snprintf(path, size, "%s", other);
    return true;
}

static int add_beside(struct fy_route *route)
{
    char installed[40], path[sizeof(((struct fy_file *)0)->path)];

    snprintf(installed, sizeof(installed), "ferry/plugins-v%u", FERRY_TRANSPORT_ABI_MAJOR);
    if (!fy_search_beside(installed, "plugins", path, sizeof(path)))
        return FERRY_OK;
    return add_folder(route, path, strlen(path), FY_COUNT(route->folders) - 1);
}

int fy_search_folders(struct fy_route *route)
{
    int status = add_path_variable(route);

    if (status == FERRY_OK)
        status = add_beside(route);
    if (status == FERRY_OK)
        status = add_folder(route, FERRY_PLUGIN_DIR, strlen(FERRY_PLUGIN_DIR), FY_COUNT(route->folders) - 1);
    return status;
}

void fy_search_free(struct fy_route *route)
{
    for (size_t i = 0; route->folders[i]; i++) {
        free(route->folders[i]);
        route->folders[i] = NULL;
    }
}

bool fy_search_name(const struct fy_route *route, const char *name, char *path, size_t size)
{
    struct stat st;

    path[0] = '\0';
    if (!fy_name_valid(name))
        return false;
    for (size_t i = 0; route->folders[i]; i++) {
        int n = snprintf(path, size, "%s/%s.so", route->folders[i], name);

        /* lstat: a dangling link is a file that cannot be opened, not an absent one. */
        if (n < (int)size && lstat(path, &st) == 0)
            return true;
    }
    path[0] = '\0';
    return false;
}

/* NAME.so with a NAME that a plugin may have; anything else in the folder is not ours. */
static bool plugin_file(const char *entry, char *name, size_t size)
{
    size_t length = strlen(entry);

    if (length < 4 || length - 3 >= size || strcmp(entry + length - 3, ".so") != 0)
        return false;
    memcpy(name, entry, length - 3);
    name[length - 3] = '\0';
    return fy_name_valid(name);
}

static int append(struct fy_file **files, size_t *n, const char *folder, size_t index, const char *name)
{
    struct fy_file *file, *grown = realloc(*files, (*n + 1) * sizeof(**files));

    if (!grown)
        return FERRY_ERR_NOMEM;
    *files = grown;
    file = &grown[*n];
    memset(file, 0, sizeof(*file));
    if (snprintf(file->path, sizeof(file->path), "%s/%s.so", folder, name) >= (int)sizeof(file->path))
        return FERRY_OK; /* a path that fy_transport cannot hold */
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->folder = index;
    (*n)++;
    return FERRY_OK;
}

static int list_folder(const char *folder, size_t index, struct fy_file **files, size_t *n)
{
    char name[sizeof((*files)->name)];
    struct dirent *entry;
    int status = FERRY_OK;
    DIR *dir = opendir(folder);

    if (!dir)
        return FERRY_OK;
    while (status == FERRY_OK && (entry = readdir(dir)))
        if (plugin_file(entry->d_name, name, sizeof(name)))
            status = append(files, n, folder, index, name);
    closedir(dir);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct fy_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order != 0)
        return order;
    return x->folder < y->folder ? -1 : x->folder > y->folder;
}

int fy_search_list(const struct fy_route *route, struct fy_file **files, size_t *n)
{
    int status = FERRY_OK;

    *files = NULL;
    *n = 0;
    for (size_t i = 0; route->folders[i] && status == FERRY_OK; i++)
        status = list_folder(route->folders[i], i, files, n);
    if (status != FERRY_OK) {
        free(*files);
        *files = NULL;
        *n = 0;
        return status;
    }
    if (*n > 0)
        qsort(*files, *n, sizeof(**files), by_name);
    for (size_t i = 1; i < *n; i++)
        (*files)[i].shadowed = strcmp((*files)[i].name, (*files)[i - 1].name) == 0;
    return FERRY_OK;
}

bool fy_search_nearest(const struct fy_route *route, const char *name, char *nearest, size_t size)
{
    const char **names, *found = NULL;
    struct fy_file *files;
    size_t n;

    if (fy_search_list(route, &files, &n) != FERRY_OK)
        return false;
    names = calloc(n + 1, sizeof(*names));
    if (names) {
        for (size_t i = 0; i < n; i++)
            names[i] = files[i].name;
        names[n] = "auto";
        found = fy_nearest(name, names, n + 1);
    }
    if (found)
        snprintf(nearest, size, "%s", found);
    free(names);
    free(files);
    return found != NULL;
}
