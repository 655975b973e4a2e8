/* completion.h: prints completion scripts for ddprun to stdout, made from its
 * option tables. */
#ifndef LAUNCHER_COMPLETION_H
#define LAUNCHER_COMPLETION_H

/* shell: "bash" or "zsh". */
void completion_print(const char *shell);

#endif
