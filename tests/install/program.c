/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/ferry.h>
#include <stdio.h>

int main(void)
{
    int status = ferry_init(NULL, NULL);

    printf("%s %d of %d: %s\n", ferry_version(), ferry_my_pe(NULL), ferry_n_pes(NULL), ferry_status_string(status));
    return status != FERRY_OK || ferry_finalize(NULL) != FERRY_OK;
}
