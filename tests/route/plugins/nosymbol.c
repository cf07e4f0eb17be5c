/* SPDX-License-Identifier: Apache-2.0
 * A shared object that is no plugin. */

__attribute__((visibility("default"))) const int somebody_elses_symbol = 1;
