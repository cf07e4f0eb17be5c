/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: what the plugin says of itself, what the library makes of the rest, and which file it is. Main thread;
 * the questions are asked in a child process. */
#include "check.h"

#include <ferry/ferry.h>

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* JSON is UTF-8; what is not, is left out. */
static json_t *text(const char *value)
{
    json_t *string = json_string(value);

    return string ? string : json_string("(not UTF-8)");
}

static void take(void *arg, const ferry_info_row_t *row)
{
    json_t *claims = arg;

    if (strcmp(row->what, "plugin") == 0)
        json_array_append_new(json_object_get(claims, "plugins"),
                              json_pack("{so so so so so}", "name", text(row->name), "path", text(row->value),
                                        "version", text(row->origin), "state", text(row->state), "detail",
                                        text(row->doc)));
    else if (strcmp(row->what, "capability") == 0)
        json_object_set_new(json_object_get(claims, "capabilities"), row->state, text(row->value));
    else if (strcmp(row->what, "explain") == 0 && strcmp(row->state, "native") != 0)
        json_array_append_new(
            json_object_get(claims, "not claimed"),
            json_pack("{so so so}", "feature", text(row->value), "instead", text(row->doc), "state", text(row->state)));
}

static void answer(const char *transport, int fd)
{
    json_t *claims = json_pack("{s[] s{} s[]}", "plugins", "capabilities", "not claimed");
    FILE *out = fdopen(fd, "w");
    int rc = claims && out ? ferry_info(transport, 0, take, claims) : -1;

    if (rc == FERRY_OK)
        rc = json_dumpf(claims, out, 0) == 0 && fflush(out) == 0 ? 0 : 1;
    _exit(rc == 0 ? 0 : 1);
}

/* The plugin in question, of several candidates. */
static json_t *plugin_of(const json_t *claims)
{
    json_t *plugin, *plugins = json_object_get(claims, "plugins");
    size_t i;

    json_array_foreach(plugins, i, plugin) if (strcmp(json_string_value(json_object_get(plugin, "state")), "chosen") ==
                                               0) return plugin;
    return NULL;
}

static int complain(const struct check *check, const char *why)
{
    fprintf(stderr, "ferry-check: transport %s cannot be used: %s\n", check->settings.transport, why);
    return -1;
}

static void hash(struct check *check, const char *path)
{
    unsigned char digest[crypto_hash_sha256_BYTES], buffer[4096];
    crypto_hash_sha256_state state;
    FILE *file = fopen(path, "re");
    size_t n;

    if (!file)
        return;
    crypto_hash_sha256_init(&state);
    while ((n = fread(buffer, 1, sizeof(buffer), file)) > 0)
        crypto_hash_sha256_update(&state, buffer, n);
    crypto_hash_sha256_final(&state, digest);
    if (!ferror(file))
        sodium_bin2hex(check->sha256, sizeof(check->sha256), digest, sizeof(digest));
    fclose(file);
}

/* What the child wrote, or NULL. */
static json_t *question(const char *transport)
{
    int fd = memfd_create("ferry-check", MFD_CLOEXEC), status = 1;
    json_t *claims = NULL;
    pid_t pid;

    if (fd < 0)
        return NULL;
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        answer(transport, fd);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && lseek(fd, 0, SEEK_SET) == 0)
        claims = json_loadfd(fd, 0, NULL);
    close(fd);
    return claims;
}

int check_ask(struct check *check)
{
    json_t *plugin;

    check->claims = question(check->settings.transport);
    if (!check->claims)
        return complain(check, "its plugin ended the process that looked at it, or ferry-info fails too and says why");
    plugin = plugin_of(check->claims);
    if (!plugin) {
        plugin = json_array_get(json_object_get(check->claims, "plugins"), 0);
        return complain(check,
                        plugin ? json_string_value(json_object_get(plugin, "detail")) : "there is no such plugin");
    }
    json_object_set(check->claims, "plugin", plugin);
    hash(check, json_string_value(json_object_get(plugin, "path")));
    return 0;
}
