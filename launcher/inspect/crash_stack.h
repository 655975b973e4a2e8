/* crash_stack.h: `ddprun --crash-stack N`, a child of an agent: unwinds the
 * stack in the crash record at offset N of the file on its stdin, and prints
 * it. A process of its own, so that the agent can give it up. */
#ifndef LAUNCHER_CRASH_STACK_H
#define LAUNCHER_CRASH_STACK_H

/* Not an option for users. */
#define CRASH_STACK_COMMAND "--crash-stack"

/* Prints a line for each frame at once, "#0 step at train.c:120 (train)"; for
 * code without a name "#0 ? (train+0x1139)", which addr2line takes. After an
 * error prints what is missing as a line without '#'. Returns the exit code. */
int crash_stack_main(int argc, char **argv);

#endif
