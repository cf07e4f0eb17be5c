/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: the table. One thread. */
#include "top.h"

#include <math.h>
#include <string.h>

/* Three digits and a letter: 12.3M. */
static const char *short_number(double value, char out[16])
{
    static const char units[] = " KMGTPE";
    int unit = 0;
    for (; value >= 999.5 && unit < 6; unit++)
        value /= 1000;
    if (unit == 0)
        snprintf(out, 16, "%.0f", value);
    else
        snprintf(out, 16, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return out;
}

static void describe_wait(const struct top_page *page, char *out, size_t size)
{
    struct ferry_page_wait wait;
    out[0] = '\0';
    if (page->state == 'T' || page->state == 't') {
        snprintf(out, size, "the process is stopped");
        return;
    }
    if (!top_longest_wait(page, &wait))
        return;
    double age = page->at - (double)wait.since * 1e-9;
    if (wait.peer >= 0)
        snprintf(out, size, "%.39s: pe %d, %.1f s", (const char *)wait.doing, wait.peer, age > 0 ? age : 0);
    else
        snprintf(out, size, "%.39s, %.1f s", (const char *)wait.doing, age > 0 ? age : 0);
}

static void print_channel(const struct top_page *page, const struct top_channel *channel, const struct top_rates *rates)
{
    char numbers[6][16], oldest[16] = "-";
    if (rates->oldest >= 0)
        snprintf(oldest, sizeof oldest, "%.1f s", rates->oldest);
    printf("%5d %7d  %3u %-8s %7s %7s %7s %7s %7s %8s %8s\n", page->head.pe, (int)page->pid, channel->number,
           top_kind(channel->is.kind), short_number(rates->operations, numbers[0]), short_number(rates->signals, numbers[1]),
           short_number(rates->bytes_put, numbers[2]), short_number(rates->bytes_got, numbers[3]),
           short_number(rates->retries, numbers[4]), short_number((double)rates->outstanding, numbers[5]), oldest);
}

static void print_process(const struct top_pages *before, const struct top_page *page)
{
    const struct top_page *old = top_before(before, page);
    double load = top_proxy_load(old, page);
    char wait[96];
    for (size_t i = 0; i < page->n_channels; i++) {
        struct top_rates rates;
        top_rates(old, page, &page->channels[i], &rates);
        uint32_t kind = page->channels[i].is.kind;
        if (rates.operations > 0 || (rates.outstanding > 0 && !top_internal(kind)) || kind == FERRY_PAGE_DEFAULT || i == 0)
            print_channel(page, &page->channels[i], &rates);
    }
    describe_wait(page, wait, sizeof wait);
    if (wait[0])
        printf("%14s waits: %s\n", "", wait);
    if (load >= 0)
        printf("%14s proxy: %.0f %% of its looks found work\n", "", 100 * load);
    if (page->head.errors)
        printf("%14s errors: %llu\n", "", (unsigned long long)page->head.errors);
}

void top_table(const struct top_pages *before, const struct top_pages *after)
{
    if (!after->n)
        printf("no Ferry job of this user runs here\n");
    for (size_t i = 0; i < after->n; i++) {
        const struct top_page *page = &after->pages[i];
        const struct ferry_page *head = &page->head;
        if (i == 0 || after->pages[i - 1].head.job != head->job) {
            printf("%sjob %016llx: %u pes, %s, transport %s", i ? "\n" : "", (unsigned long long)head->job, head->n_pes,
                   page->program, head->transports);
            if (head->dead)
                printf(", %u dead", head->dead);
            printf("%s\n%5s %7s  %3s %-8s %7s %7s %7s %7s %7s %8s %8s\n", head->aborted ? ", aborted" : "", "pe", "pid", "ch",
                   "kind", "op/s", "sig/s", "put B/s", "get B/s", "retry/s", "open ops", "oldest");
        }
        print_process(before, page);
    }
}
