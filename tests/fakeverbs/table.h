/* SPDX-License-Identifier: Apache-2.0
 * What devices of one host know of each other: queue pairs and registrations by number, and who they belong to. It lies
 * in the process, or with FAKEVERBS_SHARED=PATH in a file that processes share.
 * Any thread, between fv_table_lock and fv_table_unlock, which is taken inside the stand-in's own lock. */
#ifndef TESTS_FAKEVERBS_TABLE_H
#define TESTS_FAKEVERBS_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TABLE_QPS   16384u
#define TABLE_MRS   4096u
#define TABLE_SLOTS 256u

/* Numbers are a place and a generation, so that a place that is used again has another number. 0: free. */
struct entry_qp {
    uint32_t number, slot, access;
    int state, device; /* state: enum ibv_qp_state */
};

struct entry_mr {
    uint32_t number, slot, access;
    int device;
    uint64_t address, length;
    int fd;        /* a file whose shared mapping it is, in its process; -1: other memory */
    uint64_t from; /* where in the file it begins */
};

struct table {
    uint64_t magic;
    pthread_mutex_t lock; /* also makes atomics atomic: the device's domain */
    uint32_t generation, next_qp, next_mr;
    pid_t pids[TABLE_SLOTS];
    struct entry_qp qps[TABLE_QPS];
    struct entry_mr mrs[TABLE_MRS];
};

/* Under the stand-in's lock. Each attach has its detach; 0 or an errno, and whether it was the last. */
int fv_table_attach(void);
bool fv_table_detach(void);
struct table *fv_table_lock(void);
void fv_table_unlock(void);
uint32_t fv_table_slot(void);
pid_t fv_table_pid(uint32_t slot);
bool fv_table_shared(void);
/* A process that ended, or was killed, answers no more. */
bool fv_table_alive(uint32_t slot);

/* A free place with a number; NULL: the table is full. */
struct entry_qp *fv_table_new_qp(void);
struct entry_mr *fv_table_new_mr(void);
struct entry_qp *fv_table_qp(uint32_t number); /* NULL: there is none */
struct entry_mr *fv_table_mr(uint32_t number);
static inline uint32_t fv_place_qp(uint32_t number)
{
    return number & (TABLE_QPS - 1);
}

#endif
