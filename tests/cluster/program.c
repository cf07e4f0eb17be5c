/* SPDX-License-Identifier: Apache-2.0
 * A PE of a job that a cluster's launcher started. hello: who is there, and a word from everybody to everybody; again: the same in two
 * jobs, one after the other; die: RANK is killed, the others say what they are told; late: RANK comes SECONDS later; quit: RANK ends
 * when it has found its launcher, before the PEs meet; after: works on when the file FOLDER/go is there. One thread.
 * usage: cluster_program hello | again | die RANK | late RANK SECONDS | quit RANK | after FOLDER */
#include <ferry/ferry.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ferry_error error = {.size = sizeof(error)};

/* A line by one write: launchers pass on what they read, and mix it. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    char line[700];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (n > 0 && write(STDOUT_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
        return; /* who launched this is gone */
}

/* The line that says which bootstrap was chosen comes between the launcher's server and the meeting of the PEs. */
static void quit_log(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    if (!strstr(line, "bootstrap pmix"))
        return;
    usleep(500000); /* the others are likely to wait by then; either is a case */
    _exit(0);
}

static int begin(ferry_job_t **job, int quits)
{
    static const char *const options[] = {"FERRY_LOG=info", NULL};
    ferry_attr_t attr = {.size = sizeof(attr), .error = &error, .log = quits ? quit_log : NULL, .options = quits ? options : NULL};
    int rc = ferry_init(&attr, job);
    if (rc != FERRY_OK)
        say("refused %s peer %d: %s (%s)\n", ferry_status_string(rc), error.peer, error.message, error.hint);
    return rc;
}

static int hello(ferry_job_t *job)
{
    int me = ferry_my_pe(job), n = ferry_n_pes(job), good = 1;
    uint64_t *words = ferry_calloc(job, (size_t)n, sizeof(*words));
    if (!words)
        return 1;
    for (int pe = 0; pe < n; pe++)
        ferry_p(ferry_ctx_default(job), &words[me], (uint64_t)(100 + me), pe);
    ferry_barrier(job);
    for (int pe = 0; pe < n; pe++)
        good = good && words[pe] == (uint64_t)(100 + pe);
    for (int pe = 0; pe < n; pe++) {
        ferry_path_t path = {.size = sizeof(path)};
        if (ferry_path_get(job, pe, &path) == FERRY_OK && pe != me)
            say("path %d %d %s %s\n", me, pe, path.data, path.same_host ? "near" : "far");
    }
    say("pe %d of %d: %s\n", me, n, good ? "all words right" : "wrong words");
    return ferry_finalize(job) == FERRY_OK && good ? 0 : 1;
}

static int die(ferry_job_t *job, int who)
{
    uint64_t *never = ferry_calloc(job, 1, sizeof(*never));
    int me = ferry_my_pe(job);
    if (!never)
        return 1;
    ferry_barrier(job);
    if (me == who)
        raise(SIGKILL);
    int rc = ferry_wait_until(job, never, FERRY_CMP_NE, 0);
    ferry_last_error(job, &error);
    say("survivor %d: %s peer %d: %s\n", me, ferry_status_string(rc), error.peer, error.message);
    ferry_finalize(job);
    return rc == FERRY_ERR_PEER && error.peer == who ? 0 : 1;
}

/* The rank that the launcher gave, before there is a job. */
static int launcher_rank(void)
{
    const char *text = getenv("PMIX_RANK");
    text = text ? text : getenv("OMPI_COMM_WORLD_RANK");
    text = text ? text : getenv("PMI_RANK");
    return text ? atoi(text) : -1;
}

static int touch(const char *folder, const char *name, int me)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%d", folder, name, me);
    FILE *file = fopen(path, "w");
    return file ? fclose(file) : 1;
}

/* The launcher may be gone by then, and with it who reads what this PE prints. */
static int after(ferry_job_t *job, const char *folder)
{
    char path[512];
    int me = ferry_my_pe(job);
    signal(SIGPIPE, SIG_IGN);
    snprintf(path, sizeof(path), "%s/go", folder);
    if (touch(folder, "ready", me) != 0)
        return 1;
    for (int i = 0; access(path, F_OK) != 0; i++) {
        if (i == 6000)
            return 1;
        usleep(20000);
    }
    return hello(job) == 0 ? touch(folder, "done", me) : 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "hello";
    ferry_job_t *job;
    if (strcmp(what, "late") == 0 && argc > 3 && launcher_rank() == atoi(argv[2]))
        sleep((unsigned)atoi(argv[3]));
    for (int i = 0; i < (strcmp(what, "again") == 0 ? 1 : 0); i++)
        if (ferry_init(NULL, NULL) != FERRY_OK || hello(NULL) != 0)
            return 1;
    int quits = strcmp(what, "quit") == 0 && argc > 2 && launcher_rank() == atoi(argv[2]);
    if (begin(&job, quits) != FERRY_OK)
        return 3;
    if (strcmp(what, "after") == 0 && argc > 2)
        return after(job, argv[2]);
    if (strcmp(what, "die") == 0 && argc > 2)
        return die(job, atoi(argv[2]));
    return hello(job);
}
