/* SPDX-License-Identifier: Apache-2.0
 * Reads a text and hashes its words. Main thread. */
#include "moe.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t text_bytes_max = (size_t)256 << 20;

static const char *read_all(const char *path, char **bytes, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return strerror(errno);
    const char *why = NULL;
    char *buffer = NULL;
    size_t used = 0, room = 0;
    while (!why && !feof(file)) {
        if (used == room) {
            room = room ? 2 * room : 65536;
            char *larger = room <= text_bytes_max ? realloc(buffer, room) : NULL;
            if (!larger) {
                why = room > text_bytes_max ? "larger than 128 MiB" : "no memory for it";
                break;
            }
            buffer = larger;
        }
        used += fread(buffer + used, 1, room - used, file);
        if (ferror(file))
            why = strerror(errno);
    }
    fclose(file);
    if (why) {
        free(buffer);
        return why;
    }
    *bytes = buffer;
    *n = used;
    return NULL;
}

/* Hashes the word at bytes[*at], or the next one; 0 when there is none. */
static int next_word(const char *bytes, size_t n, size_t *at, uint64_t *hash)
{
    size_t i = *at;
    while (i < n && isspace((unsigned char)bytes[i]))
        i++;
    if (i == n)
        return 0;
    uint64_t h = 0;
    for (; i < n && !isspace((unsigned char)bytes[i]); i++)
        h = mix64(h ^ (unsigned char)bytes[i]);
    *at = i;
    *hash = h;
    return 1;
}

const char *text_load(const char *path, struct text *text)
{
    char *bytes = NULL;
    size_t n = 0;
    const char *why = read_all(path, &bytes, &n);
    if (why)
        return why;

    size_t count = 0;
    uint64_t hash = 0;
    for (size_t at = 0; next_word(bytes, n, &at, &hash);)
        count++;
    text->words = count ? malloc(count * sizeof *text->words) : NULL;
    text->n_words = 0;
    if (text->words) {
        for (size_t at = 0; next_word(bytes, n, &at, &hash);)
            text->words[text->n_words++] = hash;
    }
    free(bytes);
    if (count == 0)
        return "holds no words";
    return text->words ? NULL : "no memory for its words";
}
