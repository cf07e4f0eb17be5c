/* SPDX-License-Identifier: Apache-2.0
 * Status codes, the error record and kinds of memory. Shared by applications (ferry.h) and plugins (transport.h).
 * Pure declarations: no state, any thread. */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Negative values are errors, grouped by what is lost. A caller that does not know a code may act on its
 * group: FERRY_STATUS_GROUP(code). Positive values occur only between the core and a plugin. */
enum ferry_status {
    FERRY_OK = 0,
    FERRY_AGAIN = 1, /* nothing was done: make progress, come back (plugins only) */
    FERRY_DONE = 2,  /* accepted, and already complete locally (plugins only) */

    /* the call: nothing happened, the object is as before */
    FERRY_ERR_ARG = -1,         /* an argument is out of its range */
    FERRY_ERR_UNSUPPORTED = -2, /* this transport or build cannot do it */
    FERRY_ERR_STATE = -3,       /* not now: not initialised, already finalised, still in use */
    FERRY_ERR_CONFIG = -4,      /* an option or environment variable has a bad value */
    FERRY_ERR_NOT_FOUND = -5,   /* a name was given that nothing answers to */

    /* a resource: the call failed, the job goes on */
    FERRY_ERR_NOMEM = -20,  /* memory, host or device */
    FERRY_ERR_LIMIT = -21,  /* a limit of this build, machine or option is reached */
    FERRY_ERR_SYSTEM = -22, /* the operating system refused; the record has errno */

    /* the peer: operations with this PE fail from now on, others go on */
    FERRY_ERR_PEER = -40,        /* the PE is dead or does not answer */
    FERRY_ERR_UNREACHABLE = -41, /* no chosen transport reaches the PE */
    FERRY_ERR_ACCESS = -42,      /* the target refused: key or bounds */

    /* the transport: this (channel, peer), device or plugin is unusable */
    FERRY_ERR_TRANSPORT = -60, /* the transport's library reported a failure */
    FERRY_ERR_DEVICE = -61,    /* no usable device, or it was lost */
    FERRY_ERR_ABI = -62,       /* the plugin speaks another ABI, or is no plugin */

    /* the job: nothing more can be done in it but finalize */
    FERRY_ERR_TIMEOUT = -80,   /* a bounded step (init, connect, posted operation) ran out of time */
    FERRY_ERR_ABORTED = -81,   /* some PE called ferry_abort */
    FERRY_ERR_MISMATCH = -82,  /* PEs disagree: version, transport, arguments of a collective call */
    FERRY_ERR_BOOTSTRAP = -83  /* the PEs could not be brought together */
};

/* 0: the call, 1: a resource, 2: the peer, 3: the transport, 4: the job. Undefined for code >= 0. */
#define FERRY_STATUS_GROUP(code) (-(code) / 20)

/* Where memory is: the CPU may not touch a GPU's. */
enum ferry_memory_kind { FERRY_MEMORY_HOST = 0, FERRY_MEMORY_GPU = 1 };

/* What went wrong, in full. Strings are always terminated. */
struct ferry_error {
    uint32_t size;          /* sizeof(struct ferry_error) of whoever allocated it */
    int32_t status;         /* enum ferry_status; FERRY_OK: nothing recorded */
    int32_t peer;           /* PE concerned, -1: none */
    int32_t channel;        /* channel concerned, -1: none */
    int32_t operation;      /* enum ferry_op_kind of transport.h, -1: none */
    uint32_t vendor;        /* the device's own code, 0: none */
    int64_t library_status; /* status of the library below (errno, ibv_wc_status, fi_errno, …), 0: none */
    char device[64];        /* device or file concerned, may be empty */
    char message[320];      /* what, on which object, why; one sentence, no newline */
    char hint[192];         /* what to do; may be empty */
};

#ifdef __cplusplus
}
#endif
#endif
