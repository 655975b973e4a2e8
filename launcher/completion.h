/* completion.h: shell completion for ddprun, made from its table of options.
 * Prints to stdout. */
#ifndef LAUNCHER_COMPLETION_H
#define LAUNCHER_COMPLETION_H

void completion_print_bash(void);
void completion_print_zsh(void);

#endif
