/* pmix_fabric.h: the transports of Open MPI that this node cannot use. */
#ifndef LAUNCHER_PMIX_FABRIC_H
#define LAUNCHER_PMIX_FABRIC_H

/* The value of OMPI_MCA_mtl without the transports for high-speed fabrics
 * (libfabric, PSM, PSM2), or NULL: leave it as it is.
 *
 * Open MPI loads their libraries to ask whether there is hardware. libpsm2 and
 * libinfinipath each measure the CPU's clock for 100 ms when they are loaded,
 * which is most of the time of MPI_Init on a node without a fabric.
 *
 * NULL if the node has such hardware, if the environment has OMPI_MCA_mtl or
 * OMPI_MCA_pml, or if a parameter file of Open MPI names an MTL or a PML to use
 * (a list of those not to use is no reason). root is "", or in tests a folder
 * that stands for the root of the file system. */
const char *pmix_fabric_mtl(const char *root);

#endif
