/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: has a PE ask all others, and prints what they answer. If the first does not react, another one of this host is
 * asked. One thread. */
#include "top.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define TAKES 60.0 /* seconds that a report may take, once it was begun */

static pid_t parent_of(pid_t pid)
{
    char path[64], stat[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(stat, 1, sizeof stat - 1, file) : 0;
    if (file)
        fclose(file);
    stat[n] = '\0';
    const char *end = strrchr(stat, ')');
    return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* The process itself, or what it has started. */
static bool belongs(pid_t pid, pid_t to)
{
    for (int steps = 0; pid > 1 && steps < 64; steps++, pid = parent_of(pid))
        if (pid == to)
            return true;
    return false;
}

static bool read_head(int fd, struct ferry_page *head)
{
    return pread(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head;
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* Waits until a report is there that was begun after `before`, or until it takes too long. */
static bool await(int fd, uint32_t before, double patience, struct ferry_page *head)
{
    double begin = top_now();
    uint32_t wanted = before % 2 ? before + 1 : before + 2; /* one in the making is as good */
    while (read_head(fd, head)) {
        if ((int32_t)(head->report - wanted) >= 0 && head->report % 2 == 0)
            return true;
        double limit = head->report % 2 ? TAKES : patience;
        if (top_now() - begin > limit)
            return false;
        pause_a_little();
    }
    return false;
}

static bool print(int fd, const struct ferry_page *head, bool json)
{
    uint64_t at = head->report_at + (json ? head->text_size : 0), size = json ? head->json_size : head->text_size;
    char *text = size > 0 && size <= head->report_room ? malloc(size) : NULL;
    bool good = text && pread(fd, text, size, (off_t)at) == (ssize_t)size;
    if (good)
        fwrite(text, 1, size, stdout);
    free(text);
    return good;
}

static bool ask(const struct top_page *page, double patience, bool json)
{
    struct ferry_page head;
    int fd = open(page->path, O_RDWR | O_CLOEXEC);
    bool good = fd >= 0 && read_head(fd, &head);
    uint32_t asked = good ? head.asked + 1 : 0, before = good ? head.report : 0;
    good = good && pwrite(fd, &asked, sizeof asked, offsetof(struct ferry_page, asked)) == (ssize_t)sizeof asked;
    good = good && await(fd, before, patience, &head) && head.report_room == page->head.report_room &&
           head.report_at == page->head.report_at && print(fd, &head, json);
    if (fd >= 0)
        close(fd);
    return good;
}

/* One after the other, the given process first; once more with more patience, for a machine that is busy. */
static bool ask_any(const struct top_pages *pages, const struct top_page *first, bool json)
{
    for (double patience = 4; patience < 60; patience *= 5) {
        if (ask(first, patience, json))
            return true;
        for (size_t i = 0; i < pages->n; i++) {
            const struct top_page *page = &pages->pages[i];
            if (page != first && page->head.job == first->head.job && page->state != 'T' && ask(page, patience, json))
                return true;
        }
    }
    return false;
}

int top_dump(pid_t pid, bool json)
{
    struct top_pages pages;
    const struct top_page *first = NULL;
    top_pages_read(&pages);
    for (size_t i = 0; i < pages.n && !first; i++)
        if (belongs(pages.pages[i].pid, pid))
            first = &pages.pages[i];
    int status = EXIT_SUCCESS;
    if (!first) {
        warnx("process %d is no PE of a job, or its user is another one: ferry-top --once shows all", (int)pid);
        status = EX_UNAVAILABLE;
    } else if (!ask_any(&pages, first, json)) {
        warnx("no PE of the job of process %d makes a report: are all of them stopped? ferry-top --once shows what is known", (int)pid);
        status = EXIT_FAILURE;
    }
    top_pages_release(&pages);
    return status;
}
