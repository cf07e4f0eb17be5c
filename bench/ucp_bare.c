/* SPDX-License-Identifier: Apache-2.0
 * What ucp_put_nbx of 8 bytes costs by itself: two workers of one process, 32 puts at a time under callgrind.
 * One thread. usage: UCX_TLS=posix,self ucp_bare ITERATIONS */
#include <ucp/api/ucp.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

#define COUNTED 32u

struct bare {
    ucp_context_h context;
    ucp_worker_h from, to;
    ucp_ep_h ep;
    ucp_mem_h memory;
    ucp_rkey_h key;
    uint64_t remote, local;
};

static void check(const char *what, ucs_status_t status)
{
    if (status == UCS_OK)
        return;
    fprintf(stderr, "ucp_bare: %s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void finish(struct bare *b, const char *what, void *request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        check(what, UCS_PTR_STATUS(request));
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(b->from);
        ucp_worker_progress(b->to);
    }
    check(what, ucp_request_check_status(request));
    ucp_request_free(request);
}

static void flush(struct bare *b)
{
    static const ucp_request_param_t plain;

    finish(b, "flush", ucp_worker_flush_nbx(b->from, &plain));
}

static void open_workers(struct bare *b)
{
    ucp_params_t context = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t size;

    check("ucp_init", ucp_init(&context, NULL, &b->context));
    check("ucp_worker_create", ucp_worker_create(b->context, &worker, &b->from));
    check("ucp_worker_create", ucp_worker_create(b->context, &worker, &b->to));
    check("ucp_worker_get_address", ucp_worker_get_address(b->to, &address, &size));
    ep.address = address;
    check("ucp_ep_create", ucp_ep_create(b->from, &ep, &b->ep));
    ucp_worker_release_address(b->to, address);
}

/* Memory that UCX allocates: the only one that its shared-memory lanes reach by themselves. */
static void open_memory(struct bare *b)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS, .length = 1 << 16,
        .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    void *packed;
    size_t size;

    check("ucp_mem_map", ucp_mem_map(b->context, &map, &b->memory));
    check("ucp_mem_query", ucp_mem_query(b->memory, &attributes));
    b->remote = (uint64_t)(uintptr_t)attributes.address;
    check("ucp_rkey_pack", ucp_rkey_pack(b->context, b->memory, &packed, &size));
    check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(b->ep, packed, &b->key));
    ucp_rkey_buffer_release(packed);
}

int main(int argc, char **argv)
{
    static const ucp_request_param_t plain;
    static struct bare b;
    long n = argc > 1 ? atol(argv[1]) : COUNTED;

    open_workers(&b);
    open_memory(&b);
    finish(&b, "put", ucp_put_nbx(b.ep, &b.local, 8, b.remote, b.key, &plain));
    flush(&b);
    for (long left = n; left >= COUNTED; left -= COUNTED) {
        CALLGRIND_TOGGLE_COLLECT;
        for (unsigned i = 0; i < COUNTED; i++) {
            void *request = ucp_put_nbx(b.ep, &b.local, 8, b.remote, b.key, &plain);
            if (UCS_PTR_IS_PTR(request))
                ucp_request_free(request);
        }
        CALLGRIND_TOGGLE_COLLECT;
        flush(&b);
    }
    fflush(stdout);
    _Exit(0);
}
