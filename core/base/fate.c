/* SPDX-License-Identifier: Apache-2.0
 * Which PE's failure stands for all, and how it is told. Records of other PEs are ended before they are read as text.
 * Pure functions over the caller's records; any thread. */
#include "fate.h"
#include "log.h"
#include <stdio.h>
#include <string.h>

void fy_fate_set(struct fy_fate *fate, uint32_t pe, int status, const struct ferry_error *error)
{
    memset(fate, 0, sizeof(*fate));
    fate->pe = pe;
    fate->status = status;
    if (status == FERRY_OK)
        return;
    fate->library_status = error->library_status;
    snprintf(fate->message, sizeof(fate->message), "%s", error->message);
    snprintf(fate->hint, sizeof(fate->hint), "%s", error->hint);
}

void fy_fate_combine(void *a, const void *b)
{
    struct fy_fate *into = a;
    const struct fy_fate *other = b;
    if (other->status != FERRY_OK && (into->status == FERRY_OK || other->pe < into->pe))
        *into = *other;
}

int fy_fate_tell(struct fy_fate *fate, const char *what, struct ferry_error *error)
{
    if (fate->status == FERRY_OK)
        return FERRY_OK;
    fate->message[sizeof(fate->message) - 1] = fate->hint[sizeof(fate->hint) - 1] = '\0';
    fy_error_set(error, fate->status, fate->hint[0] ? fate->hint : NULL, "pe %u%s: %.280s", fate->pe, what, fate->message);
    error->library_status = fate->library_status;
    error->peer = (int32_t)fate->pe;
    return fate->status;
}
