/* SPDX-License-Identifier: Apache-2.0
 * Why UCX refuses something is only in its log: for as long as a call into it lasts, we listen there.
 * Setup or control thread of any instance. */
#include "ucx.h"

#include <stdio.h>
#include <string.h>
#include <ucs/debug/log_def.h>

/* The one thing in this plugin that the process has once: UCX keeps its log handlers in one list of the process, and hands
 * them no argument. Ours is in the list only between listen and listened; the lock lets one thread at a time do so. */
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    struct fy_ux_heard *heard;
} listener = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ucs_log_func_rc_t hear(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                              const ucs_log_component_config_t *config, const char *format, va_list args)
{
    struct fy_ux_heard *heard = listener.heard;
    size_t used;

    (void)file, (void)line, (void)function, (void)config;
    if (level > UCS_LOG_LEVEL_WARN || !heard || !pthread_equal(listener.thread, pthread_self()))
        return UCS_LOG_FUNC_RC_CONTINUE; /* others' messages, and what the user asked to see, are not ours */
    used = strlen(heard->text);
    if (used && used + 3 < sizeof heard->text)
        used += (size_t)snprintf(heard->text + used, sizeof heard->text - used, "; ");
    vsnprintf(heard->text + used, sizeof heard->text - used, format, args);
    return UCS_LOG_FUNC_RC_STOP;
}

void fy_ux_listen(struct fy_ux_heard *heard)
{
    heard->text[0] = '\0';
    pthread_mutex_lock(&listener.lock);
    listener.thread = pthread_self();
    listener.heard = heard;
    ucs_log_push_handler(hear);
}

void fy_ux_listened(void)
{
    ucs_log_pop_handler();
    listener.heard = NULL;
    pthread_mutex_unlock(&listener.lock);
}
