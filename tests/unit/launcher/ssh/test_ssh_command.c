/* test_ssh_command.c: the command line of ssh, the explanation of its failures,
 * and the variables that are passed on. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/shell_words.h"
#include "launcher/ssh/remote_env.h"
#include "launcher/ssh/ssh_command.h"
#include "tests/unit/run_case.h"

static struct build_id build = {
	.id = "abc123", .machine = "x86_64", .self = "/opt/it's/ddprun",
	.server = "/opt/it's/ddprdzv", .self_size = 100, .server_size = 200,
};

/* The words before the command, and the command. */
static const char *command(const char *program, const char *args, size_t n,
			   struct shell_words *remote)
{
	static char out[1024];
	const struct ssh_options how = {
		.program = program, .args.texts = SLICE(args, n),
		.timeout_s = 30, .build = &build,
	};
	struct ssh_command c;
	struct err e = ERR_INIT;
	size_t len = 0, i;

	out[0] = '\0';
	ck_assert_int_eq(ssh_command_init(&c, &how, "me@h1", &e), 0);
	for (i = 0; c.argv[i + 1]; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s",
					i ? " " : "", c.argv[i]);
	ck_assert_int_eq(shell_words_split(remote, c.argv[i], "", &e), 0);
	ck_assert_ptr_null(strpbrk(c.argv[i], "\n!"));
	ssh_command_release(&c);
	return out;
}

START_TEST(ssh_gets_the_users_arguments_before_ours)
{
	struct shell_words w;

	ck_assert_str_eq(command("ssh", "-p\0" "2222", 8, &w),
			 "ssh -p 2222 -T -oBatchMode=yes -oConnectTimeout=30 "
			 "-- me@h1");
	/* exec /bin/sh -c SCRIPT ddprun SELF ID SIZES MACHINE */
	ck_assert_uint_eq(w.n, 10);
	ck_assert_str_eq(w.list[0], "exec");
	ck_assert_str_eq(w.list[1], "/bin/sh");
	ck_assert_ptr_null(strchr(w.list[3], '\''));
	ck_assert_str_eq(w.list[5], "/opt/it's/ddprun");
	ck_assert_str_eq(w.list[6], "abc123");
	ck_assert_str_eq(w.list[7], "100");
	ck_assert_str_eq(w.list[8], "200");
	ck_assert_str_eq(w.list[9], "x86_64");
	shell_words_release(&w);
}
END_TEST

START_TEST(another_program_gets_no_option_of_ours)
{
	struct shell_words w;

	ck_assert_str_eq(command("blaunch", "", 0, &w), "blaunch me@h1");
	shell_words_release(&w);
	ck_assert_str_eq(command("/usr/bin/ssh", "", 0, &w),
			 "/usr/bin/ssh -T -oBatchMode=yes -oConnectTimeout=30 "
			 "-- me@h1");
	shell_words_release(&w);
}
END_TEST

static const char *explain(const struct ssh_end *n)
{
	static struct err e;

	ck_assert_int_eq(ssh_command_explain(n, &e), ERR_REMOTE);
	ck_assert_ptr_null(strchr(e.text, '\n'));
	return e.text;
}

#define SAYS(text, part) ck_assert_msg(strstr(text, part), "%s", text)

START_TEST(srun_starts_a_task_with_all_of_the_job_on_that_node)
{
	struct shell_words w;

	ck_assert_str_eq(command("srun", "--gpus-per-node=4", 18, &w),
			 "srun --nodes=1 --ntasks=1 --overlap --unbuffered "
			 "--cpu-bind=none --mem=0 --mpi=none --export=ALL "
			 "--quiet --gpus-per-node=4 --nodelist me@h1 sh -c");
	ck_assert_uint_eq(w.n, 10);
	shell_words_release(&w);
}
END_TEST

START_TEST(errors_of_ssh_come_with_a_remedy)
{
	static const struct {
		const char *words, *advice;
	} rows[] = {
		{"me@h1: Permission denied (publickey,password).\r\n",
		 "ssh-copy-id"},
		{"No ED25519 host key is known for h1 and you have requested "
		 "strict checking.\r\nHost key verification failed.\r\n",
		 "ssh-keyscan"},
		{"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost "
		 "key verification failed.\n", "ssh-keygen -R"},
		{"ssh: Could not resolve hostname h9: Name or service not "
		 "known\n", "check the name"},
		{"ssh: connect to host h1 port 22: Connection refused\n",
		 "no sshd"},
		{"ssh: connect to host h1 port 22: Connection timed out\n",
		 "is it down"},
		{"kex_exchange_identification: Connection closed by remote "
		 "host\n", "MaxStartups"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct ssh_end n = {.program = "ssh", .status = 255 << 8,
					  .lines = SLICE_STR(rows[i].words)};
		const char *text = explain(&n);

		SAYS(text, "ssh cannot connect: ");
		SAYS(text, rows[i].advice);
		ck_assert_ptr_null(strchr(text, '\r'));
	}
}
END_TEST

START_TEST(codes_of_ssh_and_of_its_command_are_distinguished)
{
	struct ssh_end n = {.program = "ssh", .status = 127 << 8,
			    .lines = SLICE_STR("sh: exec: not found\n")};

	SAYS(explain(&n),
	     "cannot start ddprun there (exit code 127): sh: exec");
	n.opened = 1;
	n.lines = SLICE("", 0);
	SAYS(explain(&n), "ddprun there has ended (exit code 127)");
	n.status = 255 << 8;
	SAYS(explain(&n), "the connection is lost");
	n.status = 9;
	SAYS(explain(&n), "ssh was killed by SIGKILL");
	n.timeout_s = 2.5;
	SAYS(explain(&n), "no answer within 2.5 s");
}
END_TEST

START_TEST(variables_of_this_host_stay)
{
	static const char *const stays[] = {
		"HOME=/root", "SSH_CONNECTION=a", "SSH_AUTH_SOCK=x",
		"XDG_RUNTIME_DIR=/run/user/0", "DISPLAY=:0", "TMPDIR=/t",
		"SLURM_JOB_ID=7", "RANK=0", "PET_NNODES=2", "PET_HOSTS=a",
		"BASH_FUNC_module%%=() { :; }", "_=/usr/bin/env", "noequals",
		"CUDA_VISIBLE_DEVICES=GPU-7f3a", "HOSTNAME=h1",
		"DDP_AGENT_ID=0123", "TF_CONFIG={}", "PADDLE_TRAINERS_NUM=4",
	};
	static const char *const travels[] = {
		"PATH=/usr/bin", "LD_LIBRARY_PATH=/opt/lib", "PYTHONPATH=.",
		"CUDA_VISIBLE_DEVICES=0,1", "NCCL_DEBUG=INFO", "LANG=C",
		"OMP_NUM_THREADS=4", "PET_MAX_RESTARTS=3", "DDP_LOG=debug",
		"HOMEPAGE=x", "RANKS=3", "A=", "WANDB_API_KEY=secret",
		"PBS_JOBID=7", "VIRTUAL_ENV=/v", "HOROVOD_TIMELINE=f",
	};

	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++)
		ck_assert_msg(!remote_env_travels(stays[i]), "%s", stays[i]);
	for (size_t i = 0; i < sizeof(travels) / sizeof(*travels); i++)
		ck_assert_msg(remote_env_travels(travels[i]), "%s", travels[i]);
}
END_TEST

START_TEST(a_path_is_the_heads_and_then_the_hosts_own)
{
	static const struct {
		const char *head, *own, *both;
	} rows[] = {
		{"/a:/b", "/usr/bin:/b:/bin", "/a:/b:/usr/bin:/bin"},
		{"", "/bin", "/bin"},
		{"/a", "", "/a"},
		{"/a:/bin", "/bin", "/a:/bin"},
		{"/a", "/a/b::/c", "/a:/a/b:/c"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *path = remote_env_path(rows[i].head, rows[i].own);

		ck_assert_str_eq(path, rows[i].both);
		free(path);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("ssh_command");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, ssh_gets_the_users_arguments_before_ours);
	tcase_add_test(c, another_program_gets_no_option_of_ours);
	tcase_add_test(c, srun_starts_a_task_with_all_of_the_job_on_that_node);
	tcase_add_test(c, errors_of_ssh_come_with_a_remedy);
	tcase_add_test(c, codes_of_ssh_and_of_its_command_are_distinguished);
	tcase_add_test(c, variables_of_this_host_stay);
	tcase_add_test(c, a_path_is_the_heads_and_then_the_hosts_own);
	return run_case(c);
}
