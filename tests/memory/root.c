/* SPDX-License-Identifier: Apache-2.0
 * A folder that stands for "/" with a /proc and /sys of the test's making.
 * Main thread. */
#include "root.h"
#include "team.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int root_make(struct root *root)
{
    strcpy(root->path, "/tmp/ferry-root-XXXXXX");
    return mkdtemp(root->path) ? 0 : -1;
}

int root_remove(struct root *root)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", root->path);
    return system(command);
}

void root_put(const struct root *root, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root->path, name);
    for (char *slash = strchr(path + strlen(root->path) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}
