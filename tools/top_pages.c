/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: finds the pages among the open files of processes, reads and checks them. One thread. */
#include "top.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define CHANNELS_MOST 65536u

double top_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The beginning of a file of /proc/PID, as a string. */
static bool read_file(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number that the process itself sees: the last of NSpid, where the kernel tells. */
static unsigned long own_number(pid_t pid)
{
    char status[4096];
    unsigned long number = (unsigned long)pid;
    if (!read_file(pid, "status", status, sizeof status))
        return 0;
    const char *at = strstr(status, "\nNSpid:");
    for (at = at ? at + 7 : ""; *at && *at != '\n';) {
        char *end;
        unsigned long next = strtoul(at, &end, 10);
        if (end == at)
            break;
        number = next;
        at = end;
    }
    return number;
}

/* "PID (name) S ...": the name may hold anything. */
static void read_process(struct top_page *page)
{
    char stat[512];
    const char *open = NULL, *close = NULL;
    if (read_file(page->pid, "stat", stat, sizeof stat)) {
        open = strchr(stat, '(');
        close = strrchr(stat, ')');
    }
    if (!open || !close || close[1] != ' ')
        return;
    page->state = close[2];
    snprintf(page->program, sizeof page->program, "%.*s", (int)(close - open - 1), open + 1);
    for (char *c = page->program; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static bool makes_sense(const struct ferry_page *head, uint64_t bytes)
{
    if (head->magic != FERRY_PAGE_MAGIC || head->layout != FERRY_PAGE_LAYOUT || head->size != sizeof *head)
        return false;
    if (head->n_pes == 0 || head->pe < 0 || (uint32_t)head->pe >= head->n_pes || head->n_channels > CHANNELS_MOST + 2)
        return false;
    if (head->channel_stride < sizeof(struct ferry_page_channel) || head->channel_stride > bytes || head->channels_at > bytes)
        return false;
    if (head->n_channels > (bytes - head->channels_at) / head->channel_stride)
        return false;
    return head->report_at <= bytes && head->report_room <= bytes - head->report_at;
}

/* Channels that are in use. Holes of the file, of those that never were, are skipped. */
static bool read_channels(int fd, struct top_page *page)
{
    const struct ferry_page *head = &page->head;
    for (uint64_t i = 0; i < head->n_channels; i++) {
        uint64_t at = head->channels_at + i * head->channel_stride;
        off_t next = lseek(fd, (off_t)at, SEEK_DATA);
        if (next < 0)
            return true;
        if ((uint64_t)next >= at + head->channel_stride) {
            i = ((uint64_t)next - head->channels_at) / head->channel_stride - 1;
            continue;
        }
        struct ferry_page_channel channel;
        if (pread(fd, &channel, sizeof channel, (off_t)at) != (ssize_t)sizeof channel)
            return false;
        if (channel.kind == FERRY_PAGE_FREE)
            continue;
        struct top_channel *more = realloc(page->channels, (page->n_channels + 1) * sizeof *more);
        if (!more)
            err(EX_OSERR, "no memory for the channels of process %d", (int)page->pid);
        page->channels = more;
        more[page->n_channels++] = (struct top_channel){(uint32_t)i, channel};
    }
    return true;
}

/* Text from another process: printable, and ended. */
static void clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static bool read_open(int fd, struct top_page *page)
{
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < 0)
        return false;
    if (pread(fd, &page->head, sizeof page->head, 0) != (ssize_t)sizeof page->head || !makes_sense(&page->head, (uint64_t)file.st_size))
        return false;
    if (page->head.pid != own_number(page->pid))
        return false; /* a child that was forked has it, too */
    clean(page->head.transports, sizeof page->head.transports);
    for (int i = 0; i < FERRY_PAGE_WAITS; i++) {
        struct ferry_page_wait *wait = &page->head.waits[i];
        clean((char *)wait->doing, sizeof wait->doing);
        if (wait->peer < -1 || (wait->peer >= 0 && (uint32_t)wait->peer >= page->head.n_pes))
            wait->peer = -1;
    }
    return read_channels(fd, page);
}

bool top_page_read(const char *path, pid_t pid, struct top_page *page)
{
    *page = (struct top_page){.pid = pid, .state = '?'};
    snprintf(page->path, sizeof page->path, "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    page->at = top_now();
    bool good = read_open(fd, page);
    close(fd);
    read_process(page);
    if (!good)
        top_page_release(page);
    return good;
}

void top_page_release(struct top_page *page)
{
    free(page->channels);
    page->channels = NULL;
    page->n_channels = 0;
}

void top_pages_release(struct top_pages *pages)
{
    for (size_t i = 0; i < pages->n; i++)
        top_page_release(&pages->pages[i]);
    free(pages->pages);
    *pages = (struct top_pages){0};
}

static void read_link(struct top_pages *pages, pid_t pid, const char *number)
{
    char path[64], link[64];
    struct top_page page;
    snprintf(path, sizeof path, "/proc/%d/fd/%.16s", (int)pid, number);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n != (ssize_t)strlen(FERRY_PAGE_LINK) || memcmp(link, FERRY_PAGE_LINK, (size_t)n) != 0 || !top_page_read(path, pid, &page))
        return;
    struct top_page *more = realloc(pages->pages, (pages->n + 1) * sizeof *more);
    if (!more)
        err(EX_OSERR, "no memory for %zu pages", pages->n + 1);
    pages->pages = more;
    more[pages->n++] = page;
}

static void read_process_files(struct top_pages *pages, pid_t pid)
{
    char path[64];
    struct stat who;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &who) != 0 || (geteuid() != 0 && who.st_uid != geteuid()))
        return;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    while (files && (entry = readdir(files)))
        if (isdigit((unsigned char)entry->d_name[0]))
            read_link(pages, pid, entry->d_name);
    if (files)
        closedir(files);
}

static int in_order(const void *a, const void *b)
{
    const struct top_page *one = a, *other = b;
    if (one->head.job != other->head.job)
        return one->head.job < other->head.job ? -1 : 1;
    return one->head.pe - other->head.pe;
}

void top_pages_read(struct top_pages *pages)
{
    struct dirent *entry;
    *pages = (struct top_pages){0};
    DIR *processes = opendir("/proc");
    if (!processes)
        err(EX_OSERR, "/proc cannot be read");
    while ((entry = readdir(processes)))
        if (isdigit((unsigned char)entry->d_name[0]))
            read_process_files(pages, (pid_t)strtol(entry->d_name, NULL, 10));
    closedir(processes);
    if (pages->n)
        qsort(pages->pages, pages->n, sizeof *pages->pages, in_order);
}
