/* SPDX-License-Identifier: Apache-2.0
 * The thread that makes a report: asks all PEs, finds the culprit, writes text and JSON into the page and perhaps to the log.
 * It lives for one report, since asking waits, and the control thread must not. */
#include "job.h"
#include "report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_ALL     128u /* PEs; in larger jobs those are asked that somebody waits for */
#define FIRST_S     5.0  /* that a PE has to answer; */
#define LATER_S     1.0  /* once one did not */
#define ALTOGETHER  30.0

struct asking {
    struct ferry_job *job;
    struct fy_answer *answers;
    double patience;
    uint64_t deadline;
};

static void ask(struct asking *all, uint32_t pe)
{
    struct ferry_job *job = all->job;
    struct fy_answer *answer = &all->answers[pe];
    struct ferry_error unread = {.size = sizeof(unread)};
    size_t size = 0;
    int rc;
    if (answer->how != FY_NOT_ASKED || atomic_load(&job->report.stop) || fy_now_ns() > all->deadline)
        return;
    answer->state = malloc(sizeof(*answer->state));
    if (!answer->state)
        return;
    if (pe == job->world.my_pe) {
        fy_job_state(job, answer->state);
        answer->how = FY_ANSWERED;
        return;
    }
    answer->how = atomic_load(&job->world.peers[pe].dead) ? FY_DEAD : atomic_load(&job->world.peers[pe].gone) ? FY_GONE : FY_SILENT;
    if (answer->how != FY_SILENT)
        return;
    rc = fy_job_ask_state(job, pe, answer->state, &size, all->patience, &unread);
    if (rc == FERRY_OK && fy_state_good(answer->state, size, job->world.n_pes) && answer->state->pe == pe)
        answer->how = FY_ANSWERED;
    else
        all->patience = LATER_S;
}

/* Those that somebody who answered waits for, until nobody is new. */
static void ask_awaited(struct asking *all)
{
    uint32_t n = all->job->world.n_pes;
    bool found = true;
    while (found) {
        found = false;
        for (uint32_t pe = 0; pe < n; pe++) {
            const struct fy_answer *answer = &all->answers[pe];
            for (uint32_t i = 0; answer->how == FY_ANSWERED && i < answer->state->n_waits; i++) {
                int peer = answer->state->waits[i].peer;
                if (peer < 0 || all->answers[peer].how != FY_NOT_ASKED)
                    continue;
                ask(all, (uint32_t)peer);
                found |= all->answers[peer].how != FY_NOT_ASKED;
            }
        }
    }
}

static void print(const struct ferry_job *job, const struct fy_text *text, const struct fy_text *json)
{
    char *rest = text->data, *line;
    while ((line = strsep(&rest, "\n")))
        if (*line)
            fy_log(&job->log, FERRY_LOG_WARN, "%s", line);
    /* one line, which may be long: pieces that a reader joins are no help, so it is told only where it fits */
    if (json->n < 4000)
        fy_log(&job->log, FERRY_LOG_WARN, "%s", json->data);
}

/* Of those that wait too long, the lowest tells: all would tell the same. */
static bool told_by_another(const struct ferry_job *job, const struct fy_answer *answers)
{
    for (uint32_t pe = 0; pe < job->world.my_pe; pe++)
        for (uint32_t i = 0; answers[pe].how == FY_ANSWERED && i < answers[pe].state->n_waits; i++)
            if ((double)answers[pe].state->waits[i].age >= job->look.stall * 1e9)
                return true;
    return false;
}

static void publish(struct ferry_job *job, struct fy_account *account)
{
    struct fy_text text = {0}, json = {0};
    fy_report_text(&text, account);
    fy_report_json(&json, account);
    if (!text.failed && !json.failed && !atomic_load(&job->report.stop)) {
        fy_page_report(&job->world.page, text.data, text.n, json.data, json.n);
        if (job->report.print && !told_by_another(job, account->answers))
            print(job, &text, &json);
    }
    free(text.data);
    free(json.data);
}

static void make(struct ferry_job *job, struct fy_answer *answers)
{
    struct asking all = {job, answers, FIRST_S, fy_deadline(ALTOGETHER)};
    struct fy_account account = {.job = job->job_id, .n = job->world.n_pes, .answers = answers, .reason = job->report.reason};
    ask(&all, job->world.my_pe);
    for (uint32_t pe = 0; account.n <= ASK_ALL && pe < account.n; pe++)
        ask(&all, pe);
    ask_awaited(&all);
    account.culprit = fy_culprit(answers, account.n, account.why, sizeof(account.why));
    publish(job, &account);
}

static void *report_main(void *arg)
{
    struct ferry_job *job = arg;
    uint32_t *word = &job->world.page.head->report;
    struct fy_answer *answers = calloc(job->world.n_pes, sizeof(*answers));
    __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
    if (answers)
        make(job, answers);
    for (uint32_t i = 0; answers && i < job->world.n_pes; i++)
        free(answers[i].state);
    free(answers);
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); /* pairs with the look of whoever asked (C11 5.1.2.4) */
    atomic_store(&job->report.done, true);
    return NULL;
}

void fy_report_init(struct fy_report *report)
{
    pthread_mutex_init(&report->lock, NULL);
}

/* All signals are blocked in the thread: they are the application's. */
static bool start(struct ferry_job *job)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&job->report.thread, NULL, report_main, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

bool fy_report_begin(struct ferry_job *job, bool print, const char *reason)
{
    struct fy_report *report = &job->report;
    pthread_mutex_lock(&report->lock);
    bool free_ = !report->closed && (!report->running || atomic_load(&report->done));
    if (free_ && report->running)
        pthread_join(report->thread, NULL);
    if (free_) {
        report->print = print;
        snprintf(report->reason, sizeof(report->reason), "%s", reason);
        atomic_store(&report->done, false);
        report->running = start(job);
    }
    pthread_mutex_unlock(&report->lock);
    return free_;
}

void fy_report_close(struct fy_report *report)
{
    pthread_mutex_lock(&report->lock);
    report->closed = true;
    bool running = report->running;
    report->running = false;
    pthread_mutex_unlock(&report->lock);
    atomic_store(&report->stop, true);
    if (running)
        pthread_join(report->thread, NULL);
}
