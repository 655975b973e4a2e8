/* test_provenance.c: config.json describes a run, and contains no secrets. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/run_case.h"
#include "trainers/train/provenance.h"

static char folder[] = "/tmp/test_provenance.XXXXXX", path[128];
static struct trainer_options o = {
	TRAINER_OPTIONS_INIT, .epochs = 3, .lr = 0.5,
};
static char *argv[] = {"resnet", "--arch", "resnet18 \"x\"", NULL};
static const struct provenance_fact facts[] = {{"device", "cpu"}};

static cJSON *read_back(const char *name)
{
	char text[65536];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_int_gt(file_read_text(path, text, sizeof(text)), 0);
	ck_assert_int_eq(unlink(path), 0);
	return cJSON_Parse(text);
}

static const char *text_at(const cJSON *o_, const char *a, const char *b)
{
	return cJSON_GetStringValue(
		cJSON_GetObjectItem(cJSON_GetObjectItem(o_, a), b));
}

START_TEST(a_run_is_described)
{
	struct err e = ERR_INIT;
	char here[4096];
	cJSON *all;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("DDP_TOKEN", "hush", 1);
	setenv("NCCL_DEBUG", "WARN", 1);
	ck_assert_int_eq(provenance_write(folder, 0, 3, argv, &o, facts, 1, &e),
			 0);
	all = read_back("config.json");
	ck_assert_ptr_nonnull(all);
	ck_assert_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(all, "command"),
					    2)->valuestring, "resnet18 \"x\"");
	ck_assert_str_eq(text_at(all, "run", "device"), "cpu");
	ck_assert_str_eq(text_at(all, "options", "arch"), "resnet18");
	ck_assert_str_eq(text_at(all, "environment", "NCCL_DEBUG"), "WARN");
	ck_assert_ptr_null(text_at(all, "environment", "DDP_TOKEN"));
	ck_assert_ptr_nonnull(cJSON_GetObjectItem(all, "started"));
	ck_assert_ptr_nonnull(cJSON_GetObjectItem(all, "version"));
	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	ck_assert_str_eq(cJSON_GetStringValue(
				 cJSON_GetObjectItem(all, "folder")), here);
	ck_assert_int_eq(gethostname(here, sizeof(here)), 0);
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(all, "host")),
			 here);
	cJSON_Delete(all);
	ck_assert_int_eq(provenance_write(folder, 12, 3, argv, &o, facts, 1,
					  &e), 0);
	cJSON_Delete(read_back("config.from_12.json"));
	ck_assert_int_eq(rmdir(folder), 0);
	ck_assert_int_lt(provenance_write(folder, 0, 3, argv, &o, facts, 1, &e),
			 0);
	ck_assert_ptr_nonnull(strstr(e.text, "config.json: No such file"));
}
END_TEST

START_TEST(secrets_are_not_recorded)
{
	static const char *const hidden[] = {
		"DDP_TOKEN", "DDP_TOKEN_FILE", "SLURM_JWT_KEY", "HOME",
		"DDP_SECRET", "NCCL_AUTH", "AWS_ACCESS_KEY_ID", "LS_COLORS",
	};
	static const char *const told[] = {
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS",
		"CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "DDP_JOB_ID",
	};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
		if (provenance_is_recorded(hidden[i]))
			ck_abort_msg("%s is recorded", hidden[i]);
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		if (!provenance_is_recorded(told[i]))
			ck_abort_msg("%s is not told", told[i]);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("provenance");

	tcase_add_test(t, a_run_is_described);
	tcase_add_test(t, secrets_are_not_recorded);
	return run_case(t);
}
