/* SPDX-License-Identifier: Apache-2.0
 * PEs of a job that does nothing but begin, pass a barrier and end: one, or with an argument N, N in this process, a thread each.
 * Says when they did, and what the process held in between, before any peer was addressed. A thread per PE. */
#include <dirent.h>
#include <ferry/ferry.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pe {
    ferry_attr_t attr;
    pthread_t thread;
    uint64_t begin, initialised, passed, end;
    int rank, status;
};

static pthread_barrier_t all_there, all_counted;

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Memory that is this process's own, in KiB: pages without a file behind them. Pages of programs and libraries come and go
 * with what the kernel maps around a fault, and have nothing to do with peers. */
static unsigned long resident_kib(void)
{
    char line[128];
    unsigned long sum = 0, value;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %lu", &value) == 1 || sscanf(line, "RssShmem: %lu", &value) == 1)
            sum += value;
    if (status)
        fclose(status);
    return sum;
}

static unsigned entries(const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static unsigned lines(const char *path)
{
    unsigned n = 0;
    FILE *file = fopen(path, "r");
    for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file))
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

/* One write per line, so that lines of many processes do not mix. */
static void say(const char *line, int length)
{
    fwrite(line, 1, (size_t)length, stdout);
    fflush(stdout);
}

static void *pe_main(void *arg)
{
    struct pe *pe = arg;
    ferry_job_t *job;
    pe->begin = now_us();
    pe->status = ferry_init(&pe->attr, &job);
    pe->initialised = now_us();
    if (pe->status != FERRY_OK)
        exit(1); /* the library said why; other threads would wait for this one */
    pe->rank = ferry_my_pe(job);
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_counted);
    pe->status = ferry_barrier(job);
    pe->passed = now_us();
    int closed = ferry_finalize(job);
    pe->end = now_us();
    pe->status = pe->status == FERRY_OK ? closed : pe->status;
    return NULL;
}

static void number_pes(struct pe *pes, int n, ferry_uniqueid_t *id)
{
    const char *rank = getenv("FERRY_RANK"), *size = getenv("FERRY_SIZE"), *text = getenv("FERRY_ID");
    if (!rank || !size || !text || ferry_uniqueid_from_text(text, id) != FERRY_OK)
        exit(2); /* ferry-run sets them */
    for (int i = 0; i < n; i++) {
        pes[i].attr.bootstrap = FERRY_BOOTSTRAP_UNIQUEID;
        pes[i].attr.rank = atoi(rank) * n + i;
        pes[i].attr.n_pes = atoi(size) * n;
        pes[i].attr.id = id;
    }
}

static int run(struct pe *pes, int n)
{
    char line[160];
    int status = 0;
    for (int i = 0; i < n; i++) {
        pes[i].attr.size = sizeof pes[i].attr;
        if (pthread_create(&pes[i].thread, NULL, pe_main, &pes[i]) != 0)
            return 1;
    }
    pthread_barrier_wait(&all_there);
    unsigned long kib = resident_kib();
    unsigned fds = entries("/proc/self/fd"), threads = entries("/proc/self/task"), maps = lines("/proc/self/maps");
    pthread_barrier_wait(&all_counted);
    for (int i = 0; i < n; i++) {
        const struct pe *pe = &pes[i];
        pthread_join(pe->thread, NULL);
        say(line, snprintf(line, sizeof line, "pe %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pe->rank, pe->begin,
                           pe->initialised, pe->passed, pe->end));
        status |= pe->status != FERRY_OK;
    }
    say(line, snprintf(line, sizeof line, "process %d %lu %u %u %u\n", pes[0].rank, kib, fds, threads, maps));
    return status;
}

int main(int argc, char **argv)
{
    ferry_uniqueid_t id;
    int n = argc > 1 ? atoi(argv[1]) : 1;
    struct pe *pes = n > 0 ? calloc((size_t)n, sizeof *pes) : NULL;
    if (!pes)
        return 2;
    pthread_barrier_init(&all_there, NULL, (unsigned)n + 1);
    pthread_barrier_init(&all_counted, NULL, (unsigned)n + 1);
    if (argc > 1)
        number_pes(pes, n, &id);
    int status = run(pes, n);
    free(pes);
    return status;
}
