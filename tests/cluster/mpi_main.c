/* SPDX-License-Identifier: Apache-2.0
 * Makes an MPI program of one that is none: its main is called cluster_main, and its ferry_init cluster_init. One thread.
 * CLUSTER_SPLIT: the job is the half of the ranks that this one belongs to. */
#include <ferry/mpi.h>
#include <unistd.h>

int cluster_main(int argc, char **argv);
int cluster_init(const ferry_attr_t *attr, ferry_job_t **job);

int cluster_init(const ferry_attr_t *attr, ferry_job_t **job)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (getenv("CLUSTER_SPLIT"))
        MPI_Comm_split(MPI_COMM_WORLD, rank & 1, -rank, &comm);
    int rc = ferry_mpi_init(comm, attr, job);
    if (rc != FERRY_OK)
        _exit(3); /* other ranks may not be there to finalize with */
    return rc;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "early") == 0)
        return ferry_mpi_init(MPI_COMM_WORLD, NULL, NULL) == FERRY_ERR_STATE ? 0 : 1;
    MPI_Init(&argc, &argv);
    int rc = cluster_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        _exit(rc); /* one rank is gone: MPI would wait for it */
    MPI_Finalize();
    return rc;
}
