/* SPDX-License-Identifier: Apache-2.0
 * Protection, thread and parent domains of the stand-in. Objects of a thread domain have no lock of their own: two
 * threads in one of them at once end the program, as with mlx5.
 * Any thread. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct pd *pd = fv_begin("alloc_pd", sizeof *pd);
    int error;

    if (!pd)
        return NULL;
    error = fv_table_attach();
    if (error) {
        pthread_mutex_unlock(&fv.lock);
        free(pd);
        errno = error;
        return NULL;
    }
    pd->v.context = context;
    fv.counts.pds++;
    pthread_mutex_unlock(&fv.lock);
    return &pd->v;
}

struct ibv_pd *fv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
    struct pd *pd = fv.offers & FAKEVERBS_TD ? fv_begin("alloc_parent_domain", sizeof *pd) : NULL;

    if (!pd) {
        errno = fv.offers & FAKEVERBS_TD ? errno : EOPNOTSUPP;
        return NULL;
    }
    pd->v.context = context;
    pd->of = (struct pd *)attr->pd;
    pd->of->users++;
    pd->td = (struct td *)attr->td;
    if (pd->td)
        pd->td->users++;
    fv.counts.pds++;
    pthread_mutex_unlock(&fv.lock);
    return &pd->v;
}

int ibv_dealloc_pd(struct ibv_pd *v)
{
    struct pd *pd = (struct pd *)v;
    bool last;

    pthread_mutex_lock(&fv.lock);
    if (pd->users) {
        pthread_mutex_unlock(&fv.lock);
        return EBUSY;
    }
    if (pd->of)
        pd->of->users--;
    if (pd->td)
        pd->td->users--;
    last = !pd->of && fv_table_detach();
    pthread_mutex_unlock(&fv.lock);
    if (last)
        fv_delay_stop();
    return fv_end(&fv.counts.pds, pd);
}

struct ibv_td *fv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct td *td = fv.offers & FAKEVERBS_TD ? fv_begin("alloc_td", sizeof *td) : NULL;

    (void)attr;
    if (!td) {
        errno = fv.offers & FAKEVERBS_TD ? errno : EOPNOTSUPP;
        return NULL;
    }
    td->v.context = context;
    fv.counts.tds++;
    pthread_mutex_unlock(&fv.lock);
    return &td->v;
}

int fv_dealloc_td(struct ibv_td *v)
{
    struct td *td = (struct td *)v;

    if (td->users)
        return EBUSY;
    return fv_end(&fv.counts.tds, td);
}

void fv_enter(struct td *td)
{
    if (td && __atomic_fetch_add(&td->inside, 1, __ATOMIC_ACQUIRE) != 0) {
        fprintf(stderr, "fakeverbs: two threads are in one thread domain\n");
        abort();
    }
}

void fv_leave(struct td *td)
{
    if (td)
        __atomic_fetch_sub(&td->inside, 1, __ATOMIC_RELEASE);
}
