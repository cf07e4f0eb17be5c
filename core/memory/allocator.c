/* SPDX-License-Identifier: Apache-2.0
 * Deterministic allocator of heap offsets: address-ordered first fit, neighbours joined when freed.
 * Setup thread only. Blocks, used and free, form one treap by offset; each subtree knows its largest free block, and
 * the priorities are a hash of the offset, so equal calls give equal answers on every PE. */
#include "internal.h"
#include <stdlib.h>

#define NIL        0u /* blocks[0] is never used: it reads as an empty subtree */
#define SPARE_NEED 2u /* taking a piece out of the middle of a free block makes two new ones */

struct block {
    uint64_t offset, length;
    uint64_t largest; /* free block in this subtree */
    uint32_t left, right;
    uint32_t previous, next; /* by address; next also chains unused entries */
    uint32_t priority;
    uint32_t chunk;
    bool used;
};

struct fy_allocator {
    struct block *blocks;
    uint32_t n, capacity; /* entries ever used, entries there are */
    uint32_t unused, n_unused;
    uint32_t root, last;
    uint32_t chunks;
};

static uint32_t hash(uint64_t offset)
{
    uint64_t h = offset / FY_ALIGN + 1;

    h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32);
}

/* ------------------------------------------------------------------ tree */

static void refresh(struct fy_allocator *a, uint32_t i)
{
    struct block *b = &a->blocks[i];
    uint64_t largest = b->used ? 0 : b->length;

    if (a->blocks[b->left].largest > largest)
        largest = a->blocks[b->left].largest;
    if (a->blocks[b->right].largest > largest)
        largest = a->blocks[b->right].largest;
    b->largest = largest;
}

/* Recomputes what the subtrees above (and of) the block at `offset` know. */
static void refresh_path(struct fy_allocator *a, uint32_t i, uint64_t offset)
{
    struct block *b = &a->blocks[i];

    if (offset < b->offset)
        refresh_path(a, b->left, offset);
    else if (offset > b->offset)
        refresh_path(a, b->right, offset);
    refresh(a, i);
}

static uint32_t rotate_right(struct fy_allocator *a, uint32_t i)
{
    uint32_t up = a->blocks[i].left;

    a->blocks[i].left = a->blocks[up].right;
    a->blocks[up].right = i;
    refresh(a, i);
    return up;
}

static uint32_t rotate_left(struct fy_allocator *a, uint32_t i)
{
    uint32_t up = a->blocks[i].right;

    a->blocks[i].right = a->blocks[up].left;
    a->blocks[up].left = i;
    refresh(a, i);
    return up;
}

static uint32_t insert(struct fy_allocator *a, uint32_t root, uint32_t added)
{
    struct block *b = &a->blocks[root];

    if (root == NIL)
        return added;
    if (a->blocks[added].offset < b->offset) {
        b->left = insert(a, b->left, added);
        if (a->blocks[b->left].priority > b->priority)
            root = rotate_right(a, root);
    } else {
        b->right = insert(a, b->right, added);
        if (a->blocks[b->right].priority > b->priority)
            root = rotate_left(a, root);
    }
    refresh(a, root);
    return root;
}

static uint32_t join(struct fy_allocator *a, uint32_t low, uint32_t high)
{
    if (low == NIL)
        return high;
    if (high == NIL)
        return low;
    if (a->blocks[low].priority > a->blocks[high].priority) {
        a->blocks[low].right = join(a, a->blocks[low].right, high);
        refresh(a, low);
        return low;
    }
    a->blocks[high].left = join(a, low, a->blocks[high].left);
    refresh(a, high);
    return high;
}

static uint32_t extract(struct fy_allocator *a, uint32_t root, uint64_t offset)
{
    struct block *b = &a->blocks[root];

    if (b->offset == offset)
        return join(a, b->left, b->right);
    if (offset < b->offset)
        b->left = extract(a, b->left, offset);
    else
        b->right = extract(a, b->right, offset);
    refresh(a, root);
    return root;
}

/* The block that contains `offset`; NIL if it lies behind all chunks. */
static uint32_t containing(const struct fy_allocator *a, uint64_t offset)
{
    uint32_t found = NIL;

    for (uint32_t i = a->root; i != NIL;) {
        const struct block *b = &a->blocks[i];

        if (b->offset <= offset) {
            found = i;
            i = b->right;
        } else {
            i = b->left;
        }
    }
    if (found != NIL && offset - a->blocks[found].offset >= a->blocks[found].length)
        return NIL;
    return found;
}

/* ------------------------------------------------------------------ blocks */

static uint32_t new_block(struct fy_allocator *a, uint64_t offset, uint64_t length, uint32_t chunk)
{
    uint32_t i = a->unused;

    if (i != NIL) {
        a->unused = a->blocks[i].next;
        a->n_unused--;
    } else {
        i = a->n++;
    }
    a->blocks[i] =
        (struct block){.offset = offset, .length = length, .largest = length, .priority = hash(offset), .chunk = chunk};
    return i;
}

static void drop_block(struct fy_allocator *a, uint32_t i)
{
    struct block *b = &a->blocks[i];

    a->root = extract(a, a->root, b->offset);
    a->blocks[b->previous].next = b->next;
    if (b->next != NIL)
        a->blocks[b->next].previous = b->previous;
    else
        a->last = b->previous;
    b->next = a->unused;
    a->unused = i;
    a->n_unused++;
}

static void link_after(struct fy_allocator *a, uint32_t i, uint32_t previous)
{
    struct block *b = &a->blocks[i];

    b->previous = previous;
    b->next = previous != NIL ? a->blocks[previous].next : NIL;
    if (previous != NIL)
        a->blocks[previous].next = i;
    if (b->next != NIL)
        a->blocks[b->next].previous = i;
    else
        a->last = i;
    a->root = insert(a, a->root, i);
}

/* Cuts block i at `offset`; returns the upper part, which is free. */
static uint32_t cut(struct fy_allocator *a, uint32_t i, uint64_t offset)
{
    struct block *b = &a->blocks[i];
    uint64_t rest = b->offset + b->length - offset;

    b->length -= rest;
    refresh_path(a, a->root, b->offset);
    uint32_t upper = new_block(a, offset, rest, b->chunk);
    link_after(a, upper, i);
    return upper;
}

/* Joins block i with the one behind it, if both are free and of one chunk. */
static void join_next(struct fy_allocator *a, uint32_t i)
{
    struct block *b = &a->blocks[i];
    const struct block *next = &a->blocks[b->next];

    if (i == NIL || b->next == NIL || b->used || next->used || next->chunk != b->chunk)
        return;
    b->length += next->length;
    drop_block(a, b->next);
    refresh_path(a, a->root, b->offset);
}

/* ------------------------------------------------------------------ search */

static bool fits(const struct block *b, uint64_t size, uint64_t alignment)
{
    uint64_t skipped = (alignment - b->offset % alignment) % alignment;

    return !b->used && b->length >= size && b->length - size >= skipped;
}

/* Lowest block in the subtree that fits. With alignment FY_ALIGN, which every block has, it never turns back. */
static uint32_t first_fit(const struct fy_allocator *a, uint32_t root, uint64_t size, uint64_t alignment)
{
    while (root != NIL && a->blocks[root].largest >= size) {
        const struct block *b = &a->blocks[root];
        uint32_t found = first_fit(a, b->left, size, alignment);

        if (found != NIL)
            return found;
        if (fits(b, size, alignment))
            return root;
        root = b->right;
    }
    return NIL;
}

/* ------------------------------------------------------------------ interface */

struct fy_allocator *fy_allocator_create(void)
{
    struct fy_allocator *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->n = 1;
    if (fy_allocator_prepare(a)) {
        a->blocks[NIL] = (struct block){.used = true};
        return a;
    }
    free(a);
    return NULL;
}

void fy_allocator_destroy(struct fy_allocator *a)
{
    if (!a)
        return;
    free(a->blocks);
    free(a);
}

bool fy_allocator_prepare(struct fy_allocator *a)
{
    if (a->n_unused + (a->capacity - a->n) >= SPARE_NEED && a->capacity)
        return true;
    if (a->capacity > UINT32_MAX / 2)
        return false;
    uint32_t capacity = a->capacity ? a->capacity * 2 : 64;
    struct block *blocks = realloc(a->blocks, capacity * sizeof(*blocks));
    if (!blocks)
        return false;
    a->blocks = blocks;
    a->capacity = capacity;
    return true;
}

void fy_allocator_add(struct fy_allocator *a, uint64_t start, size_t length)
{
    uint32_t i = new_block(a, start, length, a->chunks++);

    link_after(a, i, a->last);
}

uint64_t fy_allocator_find(const struct fy_allocator *a, size_t size, size_t alignment)
{
    uint32_t found = NIL;

    /* A block with room to spare for the alignment is found at once. Only when there is none are blocks tried singly:
     * one that happens to be aligned serves, too. */
    if (size <= SIZE_MAX - (alignment - FY_ALIGN))
        found = first_fit(a, a->root, size + (alignment - FY_ALIGN), FY_ALIGN);
    if (found == NIL && alignment > FY_ALIGN)
        found = first_fit(a, a->root, size, alignment);
    if (found == NIL)
        return FY_OFFSET_NONE;
    return fy_round_up(a->blocks[found].offset, alignment);
}

void fy_allocator_take(struct fy_allocator *a, uint64_t offset, size_t size)
{
    uint32_t i = containing(a, offset);

    if (a->blocks[i].offset < offset)
        i = cut(a, i, offset);
    if (a->blocks[i].length > size)
        cut(a, i, offset + size);
    a->blocks[i].used = true;
    refresh_path(a, a->root, offset);
}

size_t fy_allocator_size(const struct fy_allocator *a, uint64_t offset)
{
    uint32_t i = containing(a, offset);

    return i != NIL && a->blocks[i].used && a->blocks[i].offset == offset ? a->blocks[i].length : 0;
}

bool fy_allocator_fits(const struct fy_allocator *a, uint64_t offset, size_t size)
{
    const struct block *b = &a->blocks[containing(a, offset)];
    const struct block *next = &a->blocks[b->next];

    if (size <= b->length)
        return true;
    return b->next != NIL && !next->used && next->chunk == b->chunk && next->length >= size - b->length;
}

void fy_allocator_resize(struct fy_allocator *a, uint64_t offset, size_t size)
{
    uint32_t i = containing(a, offset), next = a->blocks[i].next;

    if (size < a->blocks[i].length) {
        join_next(a, cut(a, i, offset + size));
        return;
    }
    if (size == a->blocks[i].length)
        return;
    if (a->blocks[next].length > size - a->blocks[i].length)
        cut(a, next, offset + size);
    a->blocks[i].length = size;
    drop_block(a, next);
    refresh_path(a, a->root, offset);
}

void fy_allocator_release(struct fy_allocator *a, uint64_t offset)
{
    uint32_t i = containing(a, offset);

    a->blocks[i].used = false;
    refresh_path(a, a->root, offset);
    join_next(a, i);
    join_next(a, a->blocks[i].previous);
}
