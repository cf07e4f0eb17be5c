/* SPDX-License-Identifier: Apache-2.0
 * The page that shows a PE's counters to other processes of the user. Seals keep its size, so that nobody can take memory away
 * from under the counters. Setup thread; fy_page_wait and fy_page_wait_over: any thread. */
#include "page.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int open_file(size_t bytes)
{
    int fd = memfd_create(FERRY_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (fchmod(fd, S_IRUSR | S_IWUSR) == 0 && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

static void *map(int fd, size_t bytes)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool fy_page_create(struct fy_page *page, uint32_t n_channels, bool shared)
{
    size_t unit = (size_t)sysconf(_SC_PAGESIZE), first = round_up(sizeof(struct ferry_page), unit);
    size_t blocks = first + n_channels * unit;
    *page = (struct fy_page){.fd = -1, .unit = unit, .head_bytes = first};
    if (shared)
        page->fd = open_file(blocks + FY_PAGE_REPORT_ROOM);
    if (page->fd >= 0)
        page->head_bytes = blocks;
    page->head = map(page->fd, page->head_bytes);
    if (!page->head)
        return false;
    *page->head = (struct ferry_page){.layout = FERRY_PAGE_LAYOUT,
                                      .size = sizeof(struct ferry_page),
                                      .pid = (uint32_t)getpid(),
                                      .n_channels = n_channels,
                                      .channels_at = first,
                                      .channel_stride = unit,
                                      .report_at = blocks,
                                      .report_room = FY_PAGE_REPORT_ROOM};
    return true;
}

void fy_page_destroy(struct fy_page *page)
{
    if (page->head)
        munmap(page->head, page->head_bytes);
    if (page->head && page->fd >= 0)
        close(page->fd);
    *page = (struct fy_page){.fd = -1};
}

/* The object ends a page early enough for its last member to begin the next one. */
void *fy_page_object(const struct fy_page *page, size_t counters)
{
    size_t front = round_up(counters, page->unit);
    char *at = mmap(NULL, front + page->unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at + front - counters;
}

void fy_page_share(const struct fy_page *page, void *object, size_t counters, uint32_t id)
{
    char *at = (char *)object + counters;
    off_t offset = (off_t)(page->head->channels_at + id * page->unit);
    if (page->fd < 0 || mmap(at, page->unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, page->fd, offset) == MAP_FAILED)
        return;
    memset(at, 0, sizeof(struct ferry_page_channel)); /* of the last channel with this number */
    __atomic_store_n(&((struct ferry_page_channel *)(void *)at)->kind, FERRY_PAGE_CONTEXT, __ATOMIC_RELEASE); /* until the next look */
}

void fy_page_release(const struct fy_page *page, void *object, size_t counters)
{
    size_t front = round_up(counters, page->unit);
    munmap((char *)object + counters - front, front + page->unit);
}

struct ferry_page_channel *fy_page_channel(const struct fy_page *page, uint32_t id)
{
    if (page->fd < 0)
        return NULL;
    return (struct ferry_page_channel *)(void *)((char *)page->head + page->head->channels_at + id * page->unit);
}

uint32_t fy_page_wait(struct fy_page *page, int peer, int channel, const char *doing)
{
    uint64_t text[sizeof(page->head->waits[0].doing) / 8] = {0};
    memcpy(text, doing, strnlen(doing, sizeof(text)));
    for (uint32_t i = 0; i < FERRY_PAGE_WAITS; i++) {
        struct ferry_page_wait *wait = &page->head->waits[i];
        uint32_t idle = 0;
        if (!__atomic_compare_exchange_n(&wait->state, &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&wait->peer, peer, __ATOMIC_RELAXED);
        __atomic_store_n(&wait->channel, channel, __ATOMIC_RELAXED);
        __atomic_store_n(&wait->thread, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
        __atomic_store_n(&wait->since, fy_now_ns(), __ATOMIC_RELAXED);
        for (size_t w = 0; w < sizeof(text) / 8; w++)
            __atomic_store_n(&wait->doing[w], text[w], __ATOMIC_RELAXED);
        __atomic_store_n(&wait->state, 2, __ATOMIC_RELEASE); /* pairs with fy_page_wait_read (C11 5.1.2.4) */
        return i + 1;
    }
    return 0;
}

void fy_page_wait_over(struct fy_page *page, uint32_t slot)
{
    if (slot)
        __atomic_store_n(&page->head->waits[slot - 1].state, 0, __ATOMIC_RELEASE);
}

/* A wait that ends meanwhile, and another that begins, may mix: they are words about the same moment. */
bool fy_page_wait_read(const struct fy_page *page, unsigned i, struct ferry_page_wait *out)
{
    const struct ferry_page_wait *wait = &page->head->waits[i];
    if (__atomic_load_n(&wait->state, __ATOMIC_ACQUIRE) != 2)
        return false;
    out->state = 2;
    out->peer = __atomic_load_n(&wait->peer, __ATOMIC_RELAXED);
    out->channel = __atomic_load_n(&wait->channel, __ATOMIC_RELAXED);
    out->thread = __atomic_load_n(&wait->thread, __ATOMIC_RELAXED);
    out->since = __atomic_load_n(&wait->since, __ATOMIC_RELAXED);
    for (size_t w = 0; w < sizeof(out->doing) / 8; w++)
        out->doing[w] = __atomic_load_n(&wait->doing[w], __ATOMIC_RELAXED);
    return true;
}

static void write_at(const struct fy_page *page, uint64_t at, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = pwrite(page->fd, bytes, n, (off_t)at);
        if (done <= 0)
            return; /* no memory for it: the sizes then tell of zeros */
        bytes += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
}

void fy_page_report(struct fy_page *page, const char *text, size_t text_size, const char *json, size_t json_size)
{
    struct ferry_page *head = page->head;
    bool fits = text_size <= FY_PAGE_REPORT_ROOM && json_size <= FY_PAGE_REPORT_ROOM - text_size;
    if (page->fd >= 0 && fits) {
        write_at(page, head->report_at, text, text_size);
        write_at(page, head->report_at + text_size, json, json_size);
    }
    __atomic_store_n(&head->text_size, fits ? (uint32_t)text_size : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&head->json_size, fits ? (uint32_t)json_size : 0, __ATOMIC_RELAXED);
}
