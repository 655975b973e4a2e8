/* remote_end.h: the far side of an ssh: takes a job over stdin, looks whether
 * it can run here, runs the ordinary ddprun for it, and ends all that when its
 * stdin ends or says nothing for too long. Reaches further hosts if it is told
 * to, and passes on what goes to and comes from them. */
#ifndef LAUNCHER_REMOTE_END_H
#define LAUNCHER_REMOTE_END_H

/* ddprun --remote-end BUILD [check]: exits with REMOTE_END_OTHER if this is
 * another build; with check, does no more than that. */
int remote_end_main(int argc, char **argv);

enum { REMOTE_END_OTHER = 3 };

#endif
