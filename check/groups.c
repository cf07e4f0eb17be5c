/* SPDX-License-Identifier: Apache-2.0
 * The groups of rules, in the order in which they run. Constant. */
#include "rules.h"

/* clang-format off: one a line */
const struct rule_group fy_rule_groups[] = {
    {"load", fy_rules_load, LEVEL_LOAD, "the-plugin"},
    {"completion", fy_rules_completion, LEVEL_ORDER, "quiet"},
    {"data", fy_rules_data, LEVEL_DATA, "what-a-return-means"},
    {"atomics", fy_rules_atomics, LEVEL_ORDER, "atomics"},
    {"kinds", fy_rules_kinds, LEVEL_ORDER, "atomics"},
    {"sizes", fy_rules_sizes, LEVEL_DATA, "sizes-and-addresses"},
    {"places", fy_rules_places, LEVEL_DATA, "sizes-and-addresses"},
    {"order", fy_rules_order, LEVEL_ORDER, "order"},
    {"signals", fy_rules_signals, LEVEL_ORDER, "signals"},
    {"wait", fy_rules_wait, LEVEL_ORDER, "waiting"},
    {"programs", fy_rules_programs, LEVEL_ORDER, "order"},
    {"contexts", fy_rules_contexts, LEVEL_THREADS, "words"},
    {"life", fy_rules_life, LEVEL_FAULTS, "failure"},
    {"death", fy_rules_death, LEVEL_FAULTS, "failure"},
    {"faults", fy_rules_faults, LEVEL_FAULTS, "failure"},
    {"speed", fy_rules_speed, LEVEL_SPEED, "speed"},
    {NULL, NULL, LEVEL_LOAD, NULL},
};
/* clang-format on */
