/* SPDX-License-Identifier: Apache-2.0
 * A core that is just enough to open an instance of a plugin by itself: options, and nothing else. One thread. */
#ifndef CHECK_STUB_H
#define CHECK_STUB_H

#include <ferry/transport.h>

struct stub {
    struct ferry_core core; /* first */
    const struct ferry_plugin *plugin;
    char said[320]; /* the latest failure that the plugin described */
};

/* The plugin of this file, or NULL with the reason in stub->said. It stays loaded. */
const struct ferry_plugin *stub_load(struct stub *stub, const char *path);
/* An instance of PE 0 of 1, or NULL with the reason in stub->said. */
struct ferry_transport *stub_open(struct stub *stub);

#endif
