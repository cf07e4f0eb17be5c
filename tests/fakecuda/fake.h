/* SPDX-License-Identifier: Apache-2.0
 * The stand-in libcuda's own: one lock over all of it, the script that tests set by the environment, and who knows
 * which memory. Any thread. */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Codes of the driver API (cuda.h). */
enum {
    FAKE_OK = 0,
    FAKE_INVALID_VALUE = 1,
    FAKE_OUT_OF_MEMORY = 2,
    FAKE_NOT_INITIALIZED = 3,
    FAKE_NO_DEVICE = 100,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_READY = 600,
    FAKE_ALREADY_REGISTERED = 712,
    FAKE_NOT_REGISTERED = 713,
    FAKE_NOT_SUPPORTED = 801
};

#define FAKE_API __attribute__((visibility("default")))

extern pthread_mutex_t fake_lock;

/* script.c: a number of the environment; the code that FAKECUDA_FAIL=function:code[:nth] gives this call, 0: it goes
 * on. */
uint64_t fake_number(const char *name, uint64_t otherwise);
int fake_fails(const char *function);

/* device.c: devices there are; the one of the thread's context, negative: it has none. */
int fake_devices(void);
int fake_current(void);

/* memory.c, with the lock held: where the CPU finds what lies at an address, itself if it is no device memory; NULL: no
 * mapped memory that the current device may use. Bytes of device memory in use. */
void *fake_reach(uint64_t address, size_t bytes);
uint64_t fake_used(void);

#endif
