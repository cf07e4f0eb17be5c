/* SPDX-License-Identifier: Apache-2.0
 * Which ports there are, how far they are, and which of them a PE uses: scan.c, names.c, locality.c, choose.c.
 * Setup thread. */
#ifndef FY_IBRC_DEVICES_H
#define FY_IBRC_DEVICES_H

#include "ibrc.h"

#define FY_IB_PORTS 64 /* of one host, that are looked at */

/* A port that was looked at. */
struct fy_ib_port {
    struct ibv_device *device; /* while the list of devices lives */
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port, link_layer;
    const char *refused; /* why it cannot be used; NULL: it can */
    uint64_t subnet;     /* equal: they reach each other without a router; 0: not known */
};

/* What there is; setup thread. `list` is to be freed by fy_ib_scan_end. */
struct fy_ib_scan {
    const struct ferry_core *core;
    const struct fy_ib_options *o;
    struct ibv_device **list;
    int n_devices;
    int level; /* of what is logged */
    uint32_t n, n_usable;
    struct fy_ib_port ports[FY_IB_PORTS]; /* usable ones and others */
};

/* How far a port is from where a PE works, in the order of preference. */
enum fy_ib_level {
    FY_IB_SWITCH,  /* below one PCIe switch with its GPU */
    FY_IB_NODE,    /* on a NUMA node of its cores, or of its GPU */
    FY_IB_PACKAGE, /* in the same processor package */
    FY_IB_UNKNOWN, /* the machine does not say */
    FY_IB_FAR
};

/* The ports of one PE, as indices into a scan. */
struct fy_ib_choice {
    uint32_t n;
    uint8_t ports[FY_IB_RAILS];
    uint8_t mapped; /* by FERRY_IBRC_MAP */
    uint8_t only;   /* there was nothing to choose, so no distance either */
    uint8_t level;  /* of the nearest */
    uint8_t by_gpu; /* from its GPU, not from its cores */
    uint32_t equal; /* ports as near as the first one, and as good */
    uint32_t other; /* ports as near, but in other subnets, that were left alone */
};

/* names.c: setup thread; the texts of users. `why`: what is wrong with it. */
/* 1: the list of devices names this port, 0: it does not, -1: it excludes it. An empty list names all. */
int fy_ib_listed(const char *list, const char *device, unsigned port);
int fy_ib_list_check(const char *list, char *why, size_t why_size);
int fy_ib_map_check(const char *map, char *why, size_t why_size);
/* The ports "A:1+B" of the PE with that number on this host: their length, 0: the map has none. */
size_t fy_ib_map_find(const char *map, uint32_t local, const char **ports);
/* The next "NAME" or "NAME:PORT" of ports, which ends at `end`; port 0: any. false: no more. */
int fy_ib_map_next(const char **at, const char *end, char *name, unsigned *port);
/* ", did you mean X?" for a name that no device has, or an empty text. */
void fy_ib_suggest(const struct fy_ib_scan *s, const char *name, char *out, size_t size);
/* A device that the list names and that is not here, into `why`; 0: there is none. */
int fy_ib_list_missing(const struct fy_ib_scan *s, char *why, size_t why_size);

/* scan.c: setup thread. Opens each device for a moment and keeps none open. */
/* What is skipped is logged at that level, with the reason. */
void fy_ib_scan(struct fy_ib_scan *s, const struct ferry_core *core, const struct fy_ib_options *o, int level);
void fy_ib_scan_end(struct fy_ib_scan *s);
/* Why no port can be used, where to look, and what to do. */
void fy_ib_scan_none(const struct fy_ib_scan *s, char *why, size_t why_size);
int fy_ib_probe(const struct ferry_core *core, struct ferry_probe *out);

/* locality.c: setup thread. NULL: nothing is known, all ports are FY_IB_UNKNOWN. */
struct fy_ib_locality;
struct fy_ib_locality *fy_ib_locality_open(void);
void fy_ib_locality_close(struct fy_ib_locality *l);
enum fy_ib_level fy_ib_distance(struct fy_ib_locality *l, const struct ferry_place *place, const char *device,
                                uint8_t *by_gpu);
const char *fy_ib_level_string(enum fy_ib_level level, int by_gpu);

/* choose.c: setup thread. The ports of the first n of these PEs of one host, the same whoever asks. FERRY_OK, or what
 * is wrong. */
int fy_ib_choose(const struct fy_ib_scan *s, const struct ferry_place *places, uint32_t n, struct fy_ib_choice *choices,
                 char *why, size_t why_size);
const struct ferry_place *fy_ib_place(const struct ferry_place *places, uint32_t i);
/* Why a PE uses what it uses, in words. */
void fy_ib_choice_text(const struct fy_ib_choice *c, char *out, size_t size);

/* gid.c: setup thread. */
/* A number of the port's subnet, 0: not known. */
uint64_t fy_ib_subnet(struct ibv_context *context, uint8_t port, const struct ibv_port_attr *attr,
                      const struct fy_ib_options *o);

#endif
