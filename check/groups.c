/* SPDX-License-Identifier: Apache-2.0
 * The groups of rules, in the order in which they run. Constant. */
#include "rules.h"

/* clang-format off: one a line */
const struct rule_group fy_rule_groups[] = {
    {"completion", fy_rules_completion},
    {"data", fy_rules_data},
    {"atomics", fy_rules_atomics},
    {"kinds", fy_rules_kinds},
    {"sizes", fy_rules_sizes},
    {"places", fy_rules_places},
    {"order", fy_rules_order},
    {"signals", fy_rules_signals},
    {"wait", fy_rules_wait},
    {"contexts", fy_rules_contexts},
    {"life", fy_rules_life},
    {"death", fy_rules_death},
    {NULL, NULL},
};
/* clang-format on */
