/* SPDX-License-Identifier: Apache-2.0
 * The groups of rules, in the order in which they run. Constant. */
#include "rules.h"

const struct rule_group fy_rule_groups[] = {
    {"completion", fy_rules_completion},
    {NULL, NULL},
};
