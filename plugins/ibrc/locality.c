/* SPDX-License-Identifier: Apache-2.0
 * How far a device is from the cores and the GPU of a PE, by hwloc; without it by the NUMA node that sysfs gives.
 * Setup thread; a topology is loaded where there is something to choose, and dropped after it. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fy_ib_level_string(enum fy_ib_level level, int gpu)
{
    switch (level) {
    case FY_IB_SWITCH:
        return "on a PCIe switch with its GPU";
    case FY_IB_NODE:
        return gpu ? "on the NUMA node of its GPU" : "on a NUMA node of its cores";
    case FY_IB_PACKAGE:
        return gpu ? "in the package of its GPU" : "in the package of its cores";
    case FY_IB_UNKNOWN:
        return "distance not known";
    default:
        return gpu ? "in another package than its GPU" : "in another package than its cores";
    }
}

#ifdef FY_IB_HWLOC
#include <hwloc.h>

struct fy_ib_locality {
    hwloc_topology_t topology;
};

/* What is not looked at is not loaded: components that open displays and drivers stay out, and so do caches. */
struct fy_ib_locality *fy_ib_locality_open(void)
{
    static const char *const needless[] = {"cuda", "nvml", "rsmi", "levelzero", "opencl", "gl", "pci"};
    struct fy_ib_locality *l = calloc(1, sizeof *l);

    if (!l || hwloc_topology_init(&l->topology)) {
        free(l);
        return NULL;
    }
    for (size_t i = 0; i < sizeof needless / sizeof needless[0]; i++) /* one that is not there is no matter */
        hwloc_topology_set_components(l->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, needless[i]);
    hwloc_topology_set_all_types_filter(l->topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(l->topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(l->topology, HWLOC_OBJ_GROUP,
                                   HWLOC_TYPE_FILTER_KEEP_STRUCTURE); /* nodes of a package */
    hwloc_topology_set_io_types_filter(l->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(l->topology)) {
        fy_ib_locality_close(l);
        return NULL;
    }
    return l;
}

void fy_ib_locality_close(struct fy_ib_locality *l)
{
    if (!l)
        return;
    hwloc_topology_destroy(l->topology);
    free(l);
}

static hwloc_obj_t find_device(hwloc_topology_t topology, const char *name)
{
    hwloc_obj_t o = NULL;

    while ((o = hwloc_get_next_osdev(topology, o)) != NULL)
        if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && o->name && strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

/* Do two places of the tree meet in a bridge below the processors' own? */
static int share_switch(hwloc_obj_t a, hwloc_obj_t b)
{
    for (hwloc_obj_t up = a->parent; up && hwloc_obj_type_is_io(up->type); up = up->parent) {
        if (up->type != HWLOC_OBJ_BRIDGE || up->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI)
            continue;
        for (hwloc_obj_t other = b->parent; other; other = other->parent)
            if (other == up)
                return 1;
    }
    return 0;
}

/* A device that hangs on the whole machine of several nodes is at no known place. */
static int placed(hwloc_topology_t topology, hwloc_obj_t at)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) == 1 ||
           !hwloc_bitmap_isequal(at->nodeset, hwloc_topology_get_topology_nodeset(topology));
}

static enum fy_ib_level between(hwloc_topology_t topology, hwloc_obj_t at, hwloc_const_nodeset_t nodes)
{
    hwloc_obj_t package = NULL;

    if (hwloc_bitmap_iszero(nodes) || !placed(topology, at))
        return FY_IB_UNKNOWN;
    if (hwloc_bitmap_intersects(at->nodeset, nodes))
        return FY_IB_NODE;
    while ((package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package)) != NULL)
        if (hwloc_bitmap_intersects(package->nodeset, at->nodeset) && hwloc_bitmap_intersects(package->nodeset, nodes))
            return FY_IB_PACKAGE;
    return FY_IB_FAR;
}

enum fy_ib_level fy_ib_distance(struct fy_ib_locality *l, const struct ferry_place *place, const char *device,
                                uint8_t *by_gpu)
{
    hwloc_obj_t nic = l ? find_device(l->topology, device) : NULL, gpu = NULL, at;
    hwloc_nodeset_t nodes;
    enum fy_ib_level level;

    if (!nic)
        return FY_IB_UNKNOWN;
    at = hwloc_get_non_io_ancestor_obj(l->topology, nic);
    if (place->gpu[0])
        gpu = hwloc_get_pcidev_by_busidstring(l->topology, place->gpu);
    *by_gpu = gpu != NULL;
    if (gpu && share_switch(gpu, nic))
        return FY_IB_SWITCH;
    if (gpu)
        return between(l->topology, at, hwloc_get_non_io_ancestor_obj(l->topology, gpu)->nodeset);
    nodes = hwloc_bitmap_alloc();
    if (!nodes)
        return FY_IB_UNKNOWN;
    for (unsigned i = 0; i < 64; i++)
        if (place->nodes >> i & 1)
            hwloc_bitmap_set(nodes, i);
    level = between(l->topology, at, nodes);
    hwloc_bitmap_free(nodes);
    return level;
}

#else /* without hwloc: the node alone */

struct fy_ib_locality {
    char unused;
};

struct fy_ib_locality *fy_ib_locality_open(void)
{
    return NULL;
}

void fy_ib_locality_close(struct fy_ib_locality *l)
{
    (void)l;
}

enum fy_ib_level fy_ib_distance(struct fy_ib_locality *l, const struct ferry_place *place, const char *device,
                                uint8_t *by_gpu)
{
    char path[160];
    int node = -1;
    FILE *file;

    (void)l;
    *by_gpu = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.63s/device/numa_node", device);
    file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%d", &node) != 1)
            node = -1;
        fclose(file);
    }
    if (node < 0 || node > 63 || !place->nodes)
        return FY_IB_UNKNOWN;
    return place->nodes >> node & 1 ? FY_IB_NODE : FY_IB_FAR;
}
#endif
