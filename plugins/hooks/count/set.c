/* SPDX-License-Identifier: Apache-2.0
 * Sets of what was handed out and not yet taken back: regions, allocations, keys.
 * Called under the instance's lock. */
#include "count.h"

#include <stdlib.h>

bool count_made(struct count_set *set, const void *item, size_t length)
{
    if (set->n == set->room) {
        size_t room = set->room ? set->room * 2 : 16;
        struct count_item *items = realloc(set->items, room * sizeof *items);

        if (!items)
            return false;
        set->items = items;
        set->room = room;
    }
    set->items[set->n++] = (struct count_item){item, length};
    set->made++;
    set->bytes_made += length;
    return true;
}

/* From the end: what was made last is mostly taken back first. */
void count_ended(struct count_set *set, const void *item)
{
    for (size_t i = set->n; i-- > 0;) {
        if (set->items[i].item != item)
            continue;
        set->ended++;
        set->bytes_ended += set->items[i].length;
        set->items[i] = set->items[--set->n];
        return;
    }
    set->strange++;
}
