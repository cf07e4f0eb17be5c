/* SPDX-License-Identifier: Apache-2.0
 * What ferry-run starts in its tests, where a shell would not do: lines written in odd pieces, raw bytes, signals. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_all(const char *bytes, size_t length, size_t piece)
{
    while (length > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, length < piece ? length : piece);
        if (n < 0)
            exit(3);
        bytes += n;
        length -= (size_t)n;
    }
}

/* COUNT lines "RANK INDEX payload" of LENGTH payload bytes; pieces do not fit lines. */
static int lines(int rank, unsigned long count, unsigned long length, unsigned long piece)
{
    size_t capacity = count * (length + 32), end = 0;
    char *text = malloc(capacity);
    if (!text)
        return 2;
    for (unsigned long i = 0; i < count; i++) {
        end += (size_t)snprintf(text + end, capacity - end, "%d %lu ", rank, i);
        for (unsigned long k = 0; k < length; k++)
            text[end++] = (char)('a' + ((unsigned long)rank + i + k) % 26);
        text[end++] = '\n';
    }
    write_all(text, end, piece);
    free(text);
    return 0;
}

/* Every byte value, with and without newline neighbours; no newline at the end. */
static int binary(void)
{
    char bytes[4 * 256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    bytes[sizeof bytes - 1] = 'x';
    write_all(bytes, sizeof bytes, 100);
    return 0;
}

/* Prints the number of each signal that comes; SIGUSR2 is the last. */
static int signals(void)
{
    sigset_t all;
    int number = 0;
    sigfillset(&all);
    sigdelset(&all, SIGTSTP);
    sigprocmask(SIG_SETMASK, &all, NULL);
    printf("ready\n");
    fflush(stdout);
    while (number != SIGUSR2) {
        if (sigwait(&all, &number) != 0)
            return 2;
        printf("signal %d\n", number);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("FERRY_RANK");
    if (argc == 5 && strcmp(argv[1], "lines") == 0)
        return lines(rank ? atoi(rank) : 0, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                     strtoul(argv[4], NULL, 10));
    if (argc == 2 && strcmp(argv[1], "binary") == 0)
        return binary();
    if (argc == 2 && strcmp(argv[1], "signals") == 0)
        return signals();
    return 64;
}
