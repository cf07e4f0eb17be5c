/* SPDX-License-Identifier: Apache-2.0
 * The table of queue pairs and registrations, and the file that processes share it by. A process holds a lock on a byte
 * of the file, its slot, as long as it lives: so others see that it is gone, however it went. The last removes the
 * file. Any thread; see table.h. */
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC (0x46616b6556657262ull ^ sizeof(struct table)) /* another layout is another table */

static struct table own = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct {
    struct table *at; /* NULL: not attached */
    const char *path; /* NULL: `own` */
    unsigned users;
    uint32_t slot;
    int fd;
} table = {.fd = -1};

/* Byte 0 of the file is held while somebody comes or goes, byte 1 + n by slot n. These locks belong to the open file,
 * so the kernel drops them with its last descriptor. */
static int byte_lock(int command, short type, off_t start, off_t length, short *found)
{
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    int rc;

    do
        rc = fcntl(table.fd, command, &f);
    while (rc != 0 && errno == EINTR);
    if (found)
        *found = f.l_type;
    return rc ? errno : 0;
}

bool fv_table_alive(uint32_t slot)
{
    short found = F_UNLCK;

    if (slot == table.slot || !table.path)
        return true;
    return byte_lock(F_OFD_GETLK, F_WRLCK, 1 + (off_t)slot, 1, &found) == 0 && found != F_UNLCK;
}

static void clear_slot(uint32_t slot)
{
    for (uint32_t i = 0; i < TABLE_QPS; i++)
        if (table.at->qps[i].number && table.at->qps[i].slot == slot)
            table.at->qps[i].number = 0;
    for (uint32_t i = 0; i < TABLE_MRS; i++)
        if (table.at->mrs[i].number && table.at->mrs[i].slot == slot)
            table.at->mrs[i].number = 0;
    table.at->pids[slot] = 0;
}

/* A lock that survives its holder. */
static void fresh(struct table *t)
{
    pthread_mutexattr_t how;

    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&t->lock, &how);
    pthread_mutexattr_destroy(&how);
    t->magic = MAGIC;
}

/* Byte 0 is held. */
static int map_file(void)
{
    struct stat s;
    void *at;

    if (fstat(table.fd, &s) != 0)
        return errno;
    if (!s.st_nlink)
        return EAGAIN; /* the last one removed it meanwhile */
    if (!S_ISREG(s.st_mode) || s.st_uid != geteuid())
        return EPERM;
    if (s.st_size && s.st_size != (off_t)sizeof(struct table))
        return EPROTO;
    if (!s.st_size && ftruncate(table.fd, (off_t)sizeof(struct table)) != 0)
        return errno;
    at = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, table.fd, 0);
    if (at == MAP_FAILED)
        return errno;
    table.at = at;
    if (!table.at->magic)
        fresh(table.at);
    return table.at->magic == MAGIC ? 0 : EPROTO;
}

static int take_slot(void)
{
    for (uint32_t i = 0; i < TABLE_SLOTS; i++) {
        if (byte_lock(F_OFD_SETLK, F_WRLCK, 1 + (off_t)i, 1, NULL) != 0)
            continue;
        table.slot = i;
        fv_table_lock();
        clear_slot(i); /* of one that was killed */
        table.at->pids[i] = getpid();
        fv_table_unlock();
        return 0;
    }
    return EUSERS;
}

static void leave_file(void)
{
    if (table.at)
        munmap(table.at, sizeof(struct table));
    table.at = NULL;
    close(table.fd);
    table.fd = -1;
}

static int join_file(void)
{
    int error;

    do {
        table.fd = open(table.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (table.fd < 0)
            return errno;
        error = byte_lock(F_OFD_SETLKW, F_WRLCK, 0, 1, NULL);
        if (!error)
            error = map_file();
        if (!error)
            error = take_slot();
        if (error)
            leave_file();
    } while (error == EAGAIN);
    if (error)
        return error;
    byte_lock(F_OFD_SETLK, F_UNLCK, 0, 1, NULL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where only parents may, peers are to reach this memory, too */
    return 0;
}

int fv_table_attach(void)
{
    int error;

    if (table.users++)
        return 0;
    table.path = getenv("FAKEVERBS_SHARED");
    if (table.path && *table.path) {
        error = join_file();
        if (!error)
            return 0;
        fprintf(stderr, "fakeverbs: FAKEVERBS_SHARED=%s: %s\n", table.path, strerror(error));
        table.users = 0;
        return error;
    }
    table.path = NULL;
    table.at = &own;
    table.slot = 0;
    own.pids[0] = getpid();
    if (!own.generation)
        own.generation = (uint32_t)getpid(); /* so that numbers of processes that share nothing hardly agree */
    return 0;
}

bool fv_table_detach(void)
{
    short others = F_UNLCK;

    if (--table.users)
        return false;
    if (table.path) {
        byte_lock(F_OFD_SETLKW, F_WRLCK, 0, 1, NULL);
        fv_table_lock();
        clear_slot(table.slot);
        fv_reach_forget();
        fv_table_unlock();
        if (byte_lock(F_OFD_GETLK, F_WRLCK, 1, TABLE_SLOTS, &others) == 0 && others == F_UNLCK)
            unlink(table.path);
        leave_file(); /* with the locks */
    }
    table.at = NULL;
    table.path = NULL;
    return true;
}

struct table *fv_table_lock(void)
{
    if (pthread_mutex_lock(&table.at->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&table.at->lock); /* whoever was killed left whole words, or a copy half done */
    return table.at;
}

void fv_table_unlock(void)
{
    pthread_mutex_unlock(&table.at->lock);
}

uint32_t fv_table_slot(void)
{
    return table.slot;
}

pid_t fv_table_pid(uint32_t slot)
{
    return table.at->pids[slot];
}

bool fv_table_shared(void)
{
    return table.path != NULL;
}

struct entry_qp *fv_table_new_qp(void)
{
    struct table *t = table.at;

    for (uint32_t i = 0; i < TABLE_QPS; i++) {
        uint32_t at = t->next_qp++ % TABLE_QPS;
        if (t->qps[at].number)
            continue;
        t->generation++;
        t->qps[at] = (struct entry_qp){.number = (t->generation % 1023 + 1) * TABLE_QPS + at, .slot = table.slot};
        return &t->qps[at]; /* 24 bits, and never 0 or 1 */
    }
    return NULL;
}

struct entry_mr *fv_table_new_mr(void)
{
    struct table *t = table.at;

    for (uint32_t i = 0; i < TABLE_MRS; i++) {
        uint32_t at = t->next_mr++ % TABLE_MRS;
        if (t->mrs[at].number)
            continue;
        t->generation++;
        t->mrs[at] =
            (struct entry_mr){.number = (t->generation % 0xfffff + 1) * TABLE_MRS + at, .slot = table.slot, .fd = -1};
        return &t->mrs[at];
    }
    return NULL;
}

struct entry_qp *fv_table_qp(uint32_t number)
{
    struct entry_qp *e = &table.at->qps[fv_place_qp(number)];

    return number && e->number == number ? e : NULL;
}

struct entry_mr *fv_table_mr(uint32_t number)
{
    struct entry_mr *e = &table.at->mrs[number & (TABLE_MRS - 1)];

    return number && e->number == number ? e : NULL;
}
