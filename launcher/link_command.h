/* link_command.h: `ddprun install-mpiexec DIR` and `ddprun install-torchrun
 * DIR`: links of those names that are ddprun. */
#ifndef LAUNCHER_LINK_COMMAND_H
#define LAUNCHER_LINK_COMMAND_H

/* Whether that is the command line of one of them. */
int link_command_is(int argc, char **argv);

/* For --version: a line for a Python whose torch.distributed.run is this ddprun
 * (`python -m ddprun install-torchrun`), if that is known. */
void link_command_print_python(void);

/* Makes the folder and the links; replaces those to a ddprun, and no other
 * file. Prints a line for each. Returns the exit code. */
int link_command_main(int argc, char **argv);

#endif
