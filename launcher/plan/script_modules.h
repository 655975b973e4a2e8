/* script_modules.h: the text of a Python script, and of the modules beside it
 * that it imports. Reads files; starts nothing. */
#ifndef LAUNCHER_SCRIPT_MODULES_H
#define LAUNCHER_SCRIPT_MODULES_H

#include "base/buf.h"

/* Calls on_text with the text of the script, then of each module in its folder,
 * or in a package there, that an unindented `import` or `from` names, and so
 * on. An indented statement may not be executed. Each file once; files
 * that cannot be read, are larger than a script, or come after the first
 * SCRIPT_MODULES_MAX are left out. */
enum { SCRIPT_MODULES_MAX = 64 };

void script_modules_each(const char *script,
			 void (*on_text)(struct slice text, void *arg),
			 void *arg);

#endif
