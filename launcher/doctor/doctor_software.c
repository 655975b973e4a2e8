/* doctor_software.c: runs programs for their versions, and loads libraries. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/doctor/doctor_internal.h"
#include "launcher/env/tool.h"
#include "launcher/plan/program.h"

enum { TOOL_MS = 5000, PYTHON_MS = 10000, TOOL_TEXT_MAX = 4096 };

/* ---- ddprun itself ---- */

/* Programs that ddprun starts are beside it. */
static void doctor_software_beside(struct buf *b, const char *self,
				   const char *name)
{
	const char *slash = strrchr(self, '/');
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%.*s/%s",
		 slash ? (int)(slash - self) : 0, self, name);
	if (access(path, X_OK) == 0)
		doctor_put(b, DOCTOR_FINE, name, NULL, "%s", path);
	else
		doctor_put(b, DOCTOR_ERROR, name,
			   "install it into the same folder as ddprun",
			   "not found at %s", path);
}

/* Which ddprun a shell of this user, or of ssh, would start. */
static void doctor_software_path(struct buf *b, const char *self)
{
	char *words[] = {"ddprun", NULL};
	const struct program_how how = {.no_python = 1};
	char real[PATH_MAX] = "";
	struct program p;

	if (program_find(&p, words, &how, NULL) < 0) {
		doctor_put(b, DOCTOR_FINE, "ddprun in $PATH", NULL, "none");
		return;
	}
	if (realpath(p.path, real) && strcmp(real, self) != 0)
		doctor_put(b, DOCTOR_WARNING, "ddprun in $PATH",
			   "remove one of them, or put the right one's folder "
			   "first in $PATH",
			   "another ddprun: %s", p.path);
	program_release(&p);
}

/* ---- programs and libraries ---- */

static void doctor_software_tool(struct buf *b, const char *const *words,
				 const char *without)
{
	char text[TOOL_TEXT_MAX];
	struct err e = ERR_INIT;
	int rc = tool_run(words, TOOL_MS, text, sizeof(text), &e);

	if (rc == -ENOENT)
		doctor_put(b, DOCTOR_FINE, words[0], NULL, "not found; %s",
			   without);
	else if (rc < 0 && rc == -ETIMEDOUT)
		doctor_put(b, DOCTOR_WARNING, words[0], "run it by hand, and "
			   "mend it or take it out of $PATH", "%s", e.text);
	else if (rc < 0)
		doctor_put(b, DOCTOR_FINE, words[0], NULL,
			   "found, but it fails: %s", e.text);
	else
		doctor_put(b, DOCTOR_FINE, words[0], NULL, "%.*s",
			   (int)strcspn(text, "\n"), text);
}

static void doctor_software_library(struct buf *b, const char *soname,
				    const char *without)
{
	if (dlopen(soname, RTLD_LAZY | RTLD_LOCAL))
		doctor_put(b, DOCTOR_FINE, soname, NULL, "found");
	else
		doctor_put(b, DOCTOR_FINE, soname, NULL, "not found; %s",
			   without);
}

static void doctor_software_munge(struct buf *b)
{
	const char *given = getenv("DDP_MUNGE_SOCKET");
	const char *path = given ? given : "/run/munge/munge.socket.2";
	int has_socket = access(path, F_OK) == 0;

	if (has_socket && !dlopen("libmunge.so.2", RTLD_LAZY | RTLD_LOCAL))
		doctor_put(b, DOCTOR_WARNING, "munge",
			   "install it to let nodes prove themselves by munge "
			   "(Debian: libmunge2)",
			   "munged's socket is there, but libmunge.so.2 is "
			   "not");
	else
		doctor_put(b, given && !has_socket ? DOCTOR_ERROR : DOCTOR_FINE,
			   "munge",
			   given && !has_socket
				   ? "start munged, or unset DDP_MUNGE_SOCKET"
				   : NULL,
			   has_socket ? "munged's socket is %s"
				      : "no munged here (no %s)", path);
}

void doctor_probe_programs(struct buf *b, const struct doctor_options *o)
{
	static const char *const tools[][3] = {
		{"ssh", "-V"}, {"srun", "--version"}, {"mpirun", "--version"}};
	static const char *const without[] = {
		"-H needs it (Debian: openssh-client)", "no Slurm here",
		("only MPI's own launcher is missing: ddprun starts MPI "
		 "programs without it")};
	static const char *const libraries[][2] = {
		{"libcjson.so.1", "--json, report.json and etcd need it "
		 "(Debian: libcjson1)"},
		{"libdw.so.1", "stacks in dumps and failure pages need it "
		 "(Debian: libdw1)"},
		{"libhwloc.so.15", "--cpu-bind needs it (Debian: libhwloc15)"},
		{"libpmix.so.2", "Open MPI's programs need it (Debian: "
		 "libpmix2)"},
		{"libcurl.so.4", "--rdzv-backend etcd needs it (Debian: "
		 "libcurl4)"},
		{"libmicrohttpd.so.12", "ddprdzv --metrics-listen needs it "
		 "(Debian: libmicrohttpd12)"}};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	doctor_put(b, DOCTOR_FINE, "ddprun", NULL, "%s%s%s", DDP_VERSION,
		   n > 0 ? ", " : "", self);
	if (n > 0) { /* with /proc */
		doctor_software_beside(b, self, "ddprdzv");
		doctor_software_beside(b, self, "ddprun-check");
		doctor_software_path(b, self);
	}
	for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++)
		doctor_software_tool(b, tools[i], without[i]);
	doctor_software_munge(b);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		doctor_software_library(b, libraries[i][0], libraries[i][1]);
}

/* ---- Python ---- */

/* Reads versions from files: to import torch takes seconds, and may hang. */
static const char python_script[] =
	"import os, sys, importlib.metadata as m, importlib.util as u\n"
	"print('python', '%d.%d.%d' % sys.version_info[:3], sys.executable)\n"
	"for n in ('torch', 'numpy', 'jax', 'tensorflow', 'mpi4py',"
	" 'nvidia-nccl-cu12', 'nvidia-nccl-cu13', 'ddprun'):\n"
	"    try:\n"
	"        v = m.version(n)\n"
	"    except Exception:\n"
	"        continue\n"
	"    if n == 'torch':\n"
	"        d = {}\n"
	"        try:\n"
	"            s = u.find_spec('torch').submodule_search_locations[0]\n"
	"            exec(open(os.path.join(s, 'version.py')).read(), d)\n"
	"        except Exception:\n"
	"            pass\n"
	"        v += ', for ' + ('CUDA ' + d['cuda'] if d.get('cuda') else"
	" 'ROCm ' + d['hip'] if d.get('hip') else 'CPUs')\n"
	"    print(n, v)\n";

static void doctor_software_package(struct buf *b, struct slice line)
{
	char text[TOOL_TEXT_MAX], *value;
	int is_cpu;

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(line));
	value = strchr(text, ' ');
	if (!value)
		return;
	*value++ = '\0';
	is_cpu = strcmp(text, "torch") == 0 && strstr(value, ", for CPUs") &&
		 doctor_gpus_on_bus();
	doctor_put(b, is_cpu ? DOCTOR_WARNING : DOCTOR_FINE, text,
		   is_cpu ? "this host has GPUs: install the build for CUDA "
			    "(pytorch.org/get-started)"
			  : NULL, "%s", value);
}

void doctor_probe_python(struct buf *b, const struct doctor_options *o)
{
	const char *given = getenv("PYTHON_EXEC");
	const char *words[] = {given ? given : "python3", "-c", python_script,
			       NULL};
	char text[TOOL_TEXT_MAX];
	struct err e = ERR_INIT;
	int rc = tool_run(words, PYTHON_MS, text, sizeof(text), &e);
	struct slice rest = SLICE_STR(text);

	if (rc < 0) {
		doctor_put(b, given ? DOCTOR_ERROR
				    : rc == -ENOENT ? DOCTOR_FINE
						    : DOCTOR_WARNING,
			   "python",
			   given ? "set PYTHON_EXEC to a Python that works, or "
				   "unset it"
				 : rc == -ENOENT ? NULL
						 : "put a Python that works "
						   "first in $PATH, or set "
						   "PYTHON_EXEC",
			   "%s", e.text[0] ? e.text : "not found");
		return;
	}
	while (rest.len)
		doctor_software_package(b, slice_next_line(&rest));
}
