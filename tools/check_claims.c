/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: what the plugin says of itself, what the library makes of the rest, and which file it is. Main thread;
 * the questions are asked in a child process. */
#include "check.h"

#include <ferry/ferry.h>

#include <limits.h>
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
    else if (strcmp(row->what, "finding") == 0 && strcmp(row->name, "core") != 0)
        json_array_append_new(
            json_object_get(claims, "devices"),
            json_pack("{so so so}", "what", text(row->value), "state", text(row->state), "found", text(row->doc)));
    else if (strcmp(row->what, "explain") == 0 && strcmp(row->state, "native") != 0)
        json_array_append_new(
            json_object_get(claims, "not claimed"),
            json_pack("{so so so}", "feature", text(row->value), "instead", text(row->doc), "state", text(row->state)));
}

static void answer(const char *transport, int fd)
{
    json_t *claims = json_pack("{s[] s{} s[] s[]}", "plugins", "capabilities", "not claimed", "devices");
    FILE *out = fdopen(fd, "w");
    int rc = claims && out ? ferry_info(transport, 0, take, claims) : -1;

    if (rc == FERRY_OK)
        rc = ferry_doctor(transport, take, claims);
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

/* Of a plugin that could be loaded, and was not chosen. */
static const char *why_not(const json_t *plugin)
{
    if (strcmp(json_string_value(json_object_get(plugin, "state")), "usable") == 0)
        return "it is a hook, which wraps a transport; name a transport, and the hook in FERRY_HOOKS";
    return json_string_value(json_object_get(plugin, "detail"));
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

/* How it ended, in words; the child that did not end is ended. */
static bool ended_well(pid_t pid, double deadline, char *how, size_t size)
{
    bool late;
    int status = fy_stage_end_of(pid, deadline, &late);

    if (late)
        snprintf(how, size, "it did not answer within %.0f s", deadline);
    else if (WIFSIGNALED(status))
        snprintf(how, size, "looking at it ended the process by signal %d", WTERMSIG(status));
    else
        snprintf(how, size, "looking at it ended with status %d", WEXITSTATUS(status));
    return !late && status == 0;
}

/* What the child wrote, or NULL, and why. */
static json_t *question(const struct check *check, char *how, size_t size)
{
    const char *transport = check->settings.transport;
    int fd = memfd_create("ferry-check", MFD_CLOEXEC);
    json_t *claims = NULL;
    pid_t pid;

    if (fd < 0)
        return NULL;
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        answer(transport, fd);
    if (pid > 0 && ended_well(pid, check->settings.deadline, how, size) && lseek(fd, 0, SEEK_SET) == 0)
        claims = json_loadfd(fd, 0, NULL); /* nothing, where the plugin ended the process as if all were well */
    close(fd);
    return claims;
}

/* What a transport asks of others is no ability that it could claim. */
static bool is_ability(const char *name)
{
    return strcmp(name, "must allocate") != 0 && strcmp(name, "target makes progress") != 0 &&
           strcmp(name, "initiator makes progress") != 0;
}

static bool listed(const json_t *rows, const char *name)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i,
                       row) if (strcmp(json_string_value(json_object_get(row, "feature")), name) == 0) return true;
    return false;
}

/* Abilities that are said not to be there; what the library makes instead is listed before, where it makes something.
 */
static void add_denied(json_t *claims)
{
    json_t *rows = json_object_get(claims, "not claimed"), *value;
    const char *name;

    json_object_foreach(json_object_get(claims, "capabilities"), name, value)
    {
        const char *text = json_string_value(value);

        if (text && (strcmp(text, "no") == 0 || strcmp(text, "none") == 0) && is_ability(name) && !listed(rows, name))
            json_array_append_new(rows, json_pack("{ss ss ss}", "feature", name, "instead",
                                                  "the library does without it", "state", "not there"));
    }
}

/* In a build folder, or where it was installed with the tool. */
int check_find(const char *name, char *path, size_t size)
{
    char self[PATH_MAX], whole[2 * PATH_MAX];
    const char *base = strrchr(name, '/');
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    *(strrchr(self, '/') ? strrchr(self, '/') : self) = '\0';
    for (int installed = 0; installed < 2; installed++) {
        if (installed)
            snprintf(whole, sizeof(whole), "%s/../" CHECK_LIBDIR "/ferry/check/%s", self, base ? base + 1 : name);
        else
            snprintf(whole, sizeof(whole), "%s/../check/%s", self, name);
        if (access(whole, R_OK) == 0 && snprintf(path, size, "%s", whole) < (int)size)
            return 0;
    }
    return -1;
}

int check_ask(struct check *check)
{
    char how[100] = "looking at it ended the process";
    json_t *plugin;

    check->claims = question(check, how, sizeof(how));
    if (!check->claims) {
        snprintf(how + strlen(how), sizeof(how) - strlen(how), "; ferry-info may say more");
        return complain(check, how);
    }
    plugin = plugin_of(check->claims);
    if (!plugin) {
        plugin = json_array_get(json_object_get(check->claims, "plugins"), 0);
        return complain(check, plugin ? why_not(plugin) : "there is no such plugin");
    }
    json_object_set(check->claims, "plugin", plugin);
    add_denied(check->claims);
    hash(check, json_string_value(json_object_get(plugin, "path")));
    return 0;
}
