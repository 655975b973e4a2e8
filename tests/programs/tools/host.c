/* host: a simulated host of a cluster, made of namespaces (network, host name,
 * processes, mounts, IPC), and commands that run in it.
 *
 *   host up NAME HOSTS_FILE   creates the host, prints the pid of its init, and
 *                             stays. When this process ends, so does the host;
 *                             when its parent ends, this process does
 *   host exec PID CMD ARG...  runs CMD in the host, with this process's working
 *                             folder, environment and stdio. Passes on signals
 *                             and the exit status; CMD dies with it */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EXIT_HOST = 125, /* our own failure, as for env and timeout */
	SPACES = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS |
		 CLONE_NEWPID,
};

static void die(const char *what)
{
	fprintf(stderr, "host: %s: %s\n", what, strerror(errno));
	exit(EXIT_HOST);
}

static void must(int rc, const char *what)
{
	if (rc < 0)
		die(what);
}

static void loopback_up(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(s, "socket");
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	must(ioctl(s, SIOCSIFFLAGS, &r), "loopback");
	close(s);
}

/* Process 1 of the host: reaps what is orphaned. */
static void init(const char *name, const char *hosts, int ready)
{
	const unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	sigset_t set;

	must(prctl(PR_SET_PDEATHSIG, SIGKILL), "parent-death signal");
	must(sethostname(name, strlen(name)), "host name");
	must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private /");
	must(mount("proc", "/proc", "proc", plain, NULL), "/proc");
	must(mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV,
		   "mode=1777"),
	     "/dev/shm");
	must(mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL), "/etc/hosts");
	loopback_up();

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	if (write(ready, "1", 1) != 1)
		die("ready");
	close(ready);
	for (;;) {
		sigwaitinfo(&set, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

static int up(const char *name, const char *hosts)
{
	int ready[2];
	char ok;

	must(prctl(PR_SET_PDEATHSIG, SIGKILL), "parent-death signal");
	must(pipe(ready), "pipe");
	must(unshare(SPACES), "namespaces are not allowed here");
	pid_t pid = fork();
	must(pid, "fork");
	if (pid == 0) {
		close(ready[0]);
		init(name, hosts, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &ok, 1) != 1)
		return EXIT_HOST; /* init has printed the reason */
	printf("%d\n", (int)pid);
	fflush(stdout);
	return waitpid(pid, NULL, 0) == pid ? 0 : EXIT_HOST;
}

/* The host's root is that of its init, not that of its mounts: all of this may
 * run in a chroot, where packages are built. */
static void enter(const char *pid)
{
	char cwd[4096], path[64];
	int fd = (int)syscall(SYS_pidfd_open, atol(pid), 0), root;

	if (!getcwd(cwd, sizeof(cwd)))
		die("working folder");
	must(fd, "no such host");
	snprintf(path, sizeof(path), "/proc/%s/root", pid);
	root = open(path, O_PATH | O_CLOEXEC);
	must(root, path);
	must(setns(fd, SPACES), "enter the host");
	must(fchdir(root), path);
	must(chroot("."), path);
	close(root);
	close(fd);
	must(chdir(cwd), cwd);
}

static int exec_in(const char *pid, char **argv)
{
	static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT,
					SIGUSR1, SIGUSR2, SIGCONT};
	sigset_t set, old;
	siginfo_t info;
	int status;

	enter(pid);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, &old);
	pid_t child = fork();
	must(child, "fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		execvp(argv[0], argv);
		fprintf(stderr, "host: %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	for (;;) {
		int sig = sigwaitinfo(&set, &info);
		if (sig == SIGCHLD && waitpid(child, &status, WNOHANG) == child)
			break;
		if (sig > 0 && sig != SIGCHLD)
			kill(child, sig);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	/* _exit: a sanitizer's leak checker, started at exit, would be born
	 * into the host, where it cannot see this process. */
	if (argc == 4 && !strcmp(argv[1], "up"))
		_exit(up(argv[2], argv[3]));
	if (argc >= 4 && !strcmp(argv[1], "exec"))
		_exit(exec_in(argv[2], argv + 3));
	fprintf(stderr, "usage: host up NAME HOSTS_FILE\n"
			"       host exec PID CMD ARG...\n");
	return 2;
}
