/* SPDX-License-Identifier: Apache-2.0
 * PEs as threads or as child processes. The main thread starts and joins them.
 * See pes.h. */
#include "pes.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *pes_transport(void)
{
    const char *name = getenv("TEST_TRANSPORT");
    return name && *name ? name : "loopback";
}

unsigned long pes_scaled(unsigned long full)
{
    const char *scale = getenv("TEST_SCALE");
    unsigned long percent = scale ? strtoul(scale, NULL, 10) : 100;
    unsigned long n = full * percent / 100;
    return n ? n : 1;
}

double pes_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void note(struct pe *pe, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the first few failures, and keeps the very first. */
static void note(struct pe *pe, const char *format, ...)
{
    char line[sizeof(pe->run->seen) + 400];
    int before = atomic_fetch_add(&pe->run->failures, 1);
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (before == 0 && !pe->run->seen[0])
        snprintf(pe->run->seen, sizeof(pe->run->seen), "%.*s", (int)sizeof(pe->run->seen) - 1, line);
    if (before < 10)
        fprintf(stderr, "%s\n", line);
}

bool pes_expect(struct pe *pe, bool good, const char *what, const char *file, int line)
{
    if (!good)
        note(pe, "%s:%d: pe %d: failed: %s", basename(file), line, pe->rank, what);
    return good;
}

bool pes_expect_ok(struct pe *pe, int status, const char *what, const char *file, int line)
{
    struct ferry_error error = {.size = sizeof(error)};

    if (status == FERRY_OK)
        return true;
    ferry_last_error(pe->job, &error);
    note(pe, "%s:%d: pe %d: %s gave %s: %s", basename(file), line, pe->rank, what, ferry_status_string(status),
         error.message);
    return false;
}

double pes_share(long busy, long cores)
{
    if (cores < 1 || busy <= 4 * cores)
        return 1;
    return busy < 40 * cores ? 4.0 * (double)cores / (double)busy : 0.1;
}

/* Threads that run or could; 0: not known. */
static long busy_threads(void)
{
    FILE *file = fopen("/proc/loadavg", "re");
    long busy = 0;

    if (file && fscanf(file, "%*f %*f %*f %ld/", &busy) != 1)
        busy = 0;
    if (file)
        fclose(file);
    return busy;
}

struct pes_limit pes_limit(double seconds)
{
    return (struct pes_limit){seconds, pes_now()};
}

bool pes_in_time(struct pes_limit *limit)
{
    double now = pes_now();

    if (now - limit->looked < 1 && now - limit->looked < limit->left)
        return true;
    limit->left -= (now - limit->looked) * pes_share(busy_threads(), sysconf(_SC_NPROCESSORS_ONLN));
    limit->looked = now;
    return limit->left > 0;
}

struct start {
    struct run *run;
    int rank;
    const ferry_uniqueid_t *id;
};

static int options_with_transport(const struct run *run, const char **out, char *transport, size_t size)
{
    int n = 0;
    snprintf(transport, size, "FERRY_TRANSPORT=%s", pes_transport());
    out[n++] = transport;
    for (int i = 0; run->options && run->options[i] && n < 31; i++)
        out[n++] = run->options[i]; /* later ones win */
    out[n] = NULL;
    return n;
}

static void *pe_main(void *arg)
{
    struct start *start = arg;
    struct run *run = start->run;
    struct pe pe = {.rank = start->rank, .n = run->n, .arg = run->arg, .run = run};
    const char *options[32];
    char transport[600];
    options_with_transport(run, options, transport, sizeof(transport));
    run->init_error[pe.rank].size = sizeof(struct ferry_error);
    ferry_attr_t attr = {.size = sizeof(attr),
                         .bootstrap = start->id ? FERRY_BOOTSTRAP_UNIQUEID : FERRY_BOOTSTRAP_ENV,
                         .rank = pe.rank,
                         .n_pes = run->n,
                         .id = start->id,
                         .options = options,
                         .log = run->log,
                         .log_arg = run->arg,
                         .error = &run->init_error[pe.rank]};
    run->init_status[pe.rank] = ferry_init(&attr, &pe.job);
    if (run->init_status[pe.rank] != FERRY_OK)
        return NULL;
    pe.ctx = ferry_ctx_default(pe.job);
    run->body(&pe);
    if (pe.job)
        run->final_status[pe.rank] = ferry_finalize(pe.job);
    return NULL;
}

static int count_bad(const struct run *run)
{
    int bad = atomic_load(&run->failures);
    for (int i = 0; i < run->n; i++)
        bad += (run->init_status[i] != FERRY_OK) + (run->final_status[i] != FERRY_OK);
    return bad;
}

int pes_run_tolerant(struct run *run)
{
    ferry_uniqueid_t id;
    pthread_t threads[64];
    struct start starts[64];
    if (ferry_uniqueid_create(&id) != FERRY_OK)
        return -1;
    for (int i = 0; i < run->n; i++) {
        starts[i] = (struct start){run, i, &id};
        if (pthread_create(&threads[i], NULL, pe_main, &starts[i]) != 0)
            return -1;
    }
    for (int i = 0; i < run->n; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&run->failures);
}

int pes_run(struct run *run)
{
    int rc = pes_run_tolerant(run);
    return rc < 0 ? rc : count_bad(run);
}

int pes_one(struct run *run, int rank, const ferry_uniqueid_t *id)
{
    struct start start = {run, rank, id};
    pe_main(&start);
    return atomic_load(&run->failures) + (run->init_status[rank] != FERRY_OK) + (run->final_status[rank] != FERRY_OK);
}

void *pes_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int reap(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count_dir(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

/* The runtimes of the sanitizers map anonymous memory as they please: under them only mappings with a file behind them
 * count, which all shared memory has. */
static bool counts(const char *line)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return strchr(line, '/') != NULL;
#else
    return line[0] != '\0';
#endif
}

static int count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    int n = 0;
    if (!file)
        return -1;
    while (getline(&line, &size, file) > 0)
        n += counts(line);
    free(line);
    fclose(file);
    return n;
}

int pes_alone(void)
{
#ifdef __SANITIZE_THREAD__
    return 2; /* the thread sanitizer has a thread of its own */
#else
    return 1;
#endif
}

struct pes_usage pes_usage(void)
{
    return (struct pes_usage){count_dir("/proc/self/fd") - 1, count_maps(), count_dir("/proc/self/task")};
}

struct pes_usage pes_usage_after(const struct pes_usage *before)
{
    double end = pes_now() + 3;
    struct pes_usage now = pes_usage();

    while (now.threads > before->threads && pes_now() < end) {
        usleep(1000);
        now = pes_usage();
    }
    return now;
}

/* What parent and children share. */
struct family {
    struct run run;
    ferry_uniqueid_t id;
    _Atomic int born; /* 1: the id is there, -1: there is none */
};

/* TEST_HOSTS: descriptors of namespaces, those of a host joined by '.', the hosts by ','. PE after PE they take turns. False:
 * there is no way in. */
static bool enter_host(int rank)
{
    const char *at = getenv("TEST_HOSTS");
    int hosts = 1;
    if (!at)
        return true;
    for (const char *c = at; *c; c++)
        hosts += *c == ',';
    for (int skip = rank % hosts; skip > 0; at++)
        skip -= *at == ',';
    while (*at && *at != ',') {
        char *end;
        if (setns((int)strtol(at, &end, 10), 0) != 0 || end == at)
            return false;
        at = end + (*end == '.');
    }
    return true;
}

static void child_main(struct family *family, int rank)
{
    double end = pes_now() + 60;
    if (!enter_host(rank)) {
        fprintf(stderr, "pe %d cannot enter its host of TEST_HOSTS\n", rank);
        _exit(1);
    }
    while (atomic_load(&family->born) == 0 && pes_now() < end)
        usleep(200);
    if (atomic_load(&family->born) != 1)
        _exit(1);
    struct start start = {&family->run, rank, &family->id};
    pe_main(&start);
    _exit(0);
}

/* A fork while another thread holds a lock of the allocator leaves the child with a lock that nobody opens; so fork
 * when there is one thread, that is when the meetings of earlier jobs have ended, and make the id afterwards. */
static void wait_until_alone(void)
{
    double end = pes_now() + 60;
    while (pes_usage().threads > pes_alone() && pes_now() < end)
        usleep(1000);
}

int pes_fork(struct run *run)
{
    struct family *shared = pes_shared(sizeof(*shared));
    pid_t pids[64];
    if (!shared)
        return -1;
    memcpy(&shared->run, run, sizeof(*run));
    for (int i = 0; i < run->n; i++)
        shared->run.init_status[i] = FERRY_ERR_BOOTSTRAP; /* until it says otherwise */
    wait_until_alone();
    fflush(NULL);
    for (int i = 0; i < run->n; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            child_main(shared, i);
    }
    atomic_store(&shared->born, ferry_uniqueid_create(&shared->id) == FERRY_OK ? 1 : -1);
    for (int i = 0; i < run->n; i++)
        if (pids[i] > 0)
            reap(pids[i]);
    memcpy(run, &shared->run, sizeof(*run));
    munmap(shared, sizeof(*shared));
    return count_bad(run);
}
