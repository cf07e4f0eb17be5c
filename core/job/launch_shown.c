/* SPDX-License-Identifier: Apache-2.0
 * Launchers that the environment shows, whoever brought the PEs together: a launcher and a library that do not belong together
 * give many jobs of one PE, without an error anywhere. Setup thread, in init only. */
#include "launch.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *rank, *size, *what;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"},
    {"PMI_RANK", "PMI_SIZE", "MPICH's mpiexec (or another launcher with PMI)"},
};

static long number(const struct fy_launch *launch, const char *variable)
{
    const char *text = fy_source_get(launch->source, variable, NULL);
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    return text && end != text && !*end ? value : -1;
}

static const char *advice(const struct fy_launch *launch)
{
    if (launch->plugin == &fy_launch_functions || launch->plugin == &fy_launch_uid)
        return "the program's MPI library, or what else it takes ranks from, does not belong to that launcher";
    return "for one job of them use a launcher that speaks pmix (srun --mpi=pmix, mpirun of open mpi), or ferry/mpi.h in an mpi program";
}

void fy_launch_compare(const struct fy_launch *launch)
{
    bool by_program = launch->plugin == &fy_launch_functions || launch->plugin == &fy_launch_uid;
    long told = launch->place.n_pes;
    if (launch->plugin == &fy_launch_env && number(launch, "FERRY_SIZE") > 0)
        return; /* its launcher has counted */
    if (by_program && told > 1)
        return; /* some of a program's processes may be a job */
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        long shown = number(launch, launchers[i].size);
        if (shown <= told || number(launch, launchers[i].rank) != 0)
            continue;
        fy_log(launch->log, FERRY_LOG_WARN, "this job has %ld pe%s, but %s started %ld processes (%s), so they are in several jobs: %s", told,
               told == 1 ? "" : "s", launchers[i].what, shown, launchers[i].size, advice(launch));
        return;
    }
}
