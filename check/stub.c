/* SPDX-License-Identifier: Apache-2.0
 * Loads a plugin and opens an instance without the library. Called by bodies of rules, one thread. */
#include "stub.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 66

static struct stub *of(const struct ferry_core *core)
{
    return (struct stub *)(uintptr_t)core;
}

static void hear(const struct ferry_core *core, int level, const char *format, ...)
{
    va_list args;

    (void)core;
    if (level > FERRY_LOG_WARN)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* What the user set, or the initial value. */
static const char *text_of(const struct ferry_plugin *plugin, const struct ferry_option *row)
{
    char name[200];
    size_t n = (size_t)snprintf(name, sizeof(name), "FERRY_%s_%s", plugin->name, row->name);
    const char *text;

    for (size_t i = 0; i < n && i < sizeof(name); i++)
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    text = getenv(name);
    return text ? text : row->initial;
}

static int64_t size_of(const char *text)
{
    char *end;
    int64_t n = strtoll(text, &end, 0);
    const char *suffix = *end ? strchr("KMGTPE", toupper((unsigned char)*end)) : NULL;

    return suffix ? n << (10 * (suffix - "KMGTPE" + 1)) : n;
}

static int64_t index_of(const char *text, const char *choices)
{
    size_t n = strlen(text);

    for (int64_t i = 0; choices; i++) {
        if (strncmp(choices, text, n) == 0 && (choices[n] == '|' || choices[n] == '\0'))
            return i;
        choices = strchr(choices, '|');
        choices += choices != NULL;
    }
    return 0;
}

static void read_value(const struct ferry_option *row, const char *text, struct ferry_value *value)
{
    char *end;

    *value = (struct ferry_value){.string = text};
    switch (row->type) {
    case FERRY_OPTION_BOOL:
        value->number = strchr("1yoYO", text[0]) && strcmp(text, "off") != 0;
        break;
    case FERRY_OPTION_INT:
        value->number = strtoll(text, NULL, 0);
        break;
    case FERRY_OPTION_SIZE:
        value->number = size_of(text);
        break;
    case FERRY_OPTION_SECONDS:
        value->seconds = strtod(text, &end);
        value->seconds *= strcmp(end, "ms") == 0 ? 1e-3 : 1;
        break;
    case FERRY_OPTION_CHOICE:
        value->number = index_of(text, row->choices);
        break;
    default:
        break;
    }
}

static int option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct ferry_plugin *plugin = of(core)->plugin;

    for (const struct ferry_option *row = plugin->options; row && row->name; row++)
        if (strcmp(row->name, name) == 0) {
            read_value(row, text_of(plugin, row), value);
            return FERRY_OK;
        }
    return FERRY_ERR_NOT_FOUND;
}

static int watch_fd(const struct ferry_core *core, int fd, void (*fn)(void *arg), void *arg)
{
    (void)core, (void)fd, (void)fn, (void)arg;
    return FERRY_OK;
}

static void unwatch_fd(const struct ferry_core *core, int fd)
{
    (void)core, (void)fd;
}

static void error(const struct ferry_core *core, const struct ferry_error *record)
{
    snprintf(of(core)->said, sizeof(of(core)->said), "%s", record->message);
}

static void deliver(const struct ferry_core *core, uint32_t from_pe, uint64_t data)
{
    (void)core, (void)from_pe, (void)data;
}

const struct ferry_plugin *stub_load(struct stub *stub, const char *path)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    *stub = (struct stub){.core = {.abi = FERRY_TRANSPORT_ABI,
                                   .size = sizeof(struct ferry_core),
                                   .log = hear,
                                   .option = option,
                                   .watch_fd = watch_fd,
                                   .unwatch_fd = unwatch_fd,
                                   .error = error,
                                   .deliver = deliver}};
    if (file)
        stub->plugin = dlsym(file, FERRY_PLUGIN_SYMBOL);
    if (!stub->plugin)
        snprintf(stub->said, sizeof(stub->said), "%s", file ? "it has no symbol " FERRY_PLUGIN_SYMBOL : dlerror());
    return stub->plugin;
}

struct ferry_transport *stub_open(struct stub *stub)
{
    struct ferry_open how = {
        .size = sizeof(how), .n_pes = 1, .max_channels = CHANNELS, .job_id = 0x5eed0001, .secret = {1, 2, 3}};
    struct ferry_transport *t = NULL;
    int rc = stub->plugin->open(&stub->core, &how, &t);

    if (rc == FERRY_OK && t)
        return t;
    if (!stub->said[0])
        snprintf(stub->said, sizeof(stub->said), "open gave %d", rc);
    return NULL;
}
