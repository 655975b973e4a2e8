/* config_internal.h: the steps of config_parse that have files of their own.
 * Each fills struct config; none starts anything. Errors are ERR_USAGE, or
 * -ENOMEM. Other rooms include config.h. */
#ifndef LAUNCHER_CONFIG_INTERNAL_H
#define LAUNCHER_CONFIG_INTERNAL_H

#include "launcher/config/config.h"

/* 1 if the text has 1 to 256 printable bytes. */
int config_is_name(const char *text);

/* ---- config_programs.c: the programs of a job, and how many workers ---- */

/* --multi-prog. Call it when c->words is set, before the hosts are chosen:
 * fills c->roles, and c->world_size if only the programs determine it. */
int config_programs_init(struct config *c, struct err *e);
void config_programs_release(struct config *c);

/* Call it when c->nproc is known: checks a job on one node. */
int config_programs_check(const struct config *c, struct err *e);

/* -n, the number of workers of the whole job. Over ssh: gives each of c->hosts
 * its workers, in order, up to the slots that are listed for it or
 * --nproc-per-node; if there are none, shares them evenly. Removes the hosts
 * that get none. Fails if there are too few slots. */
int world_size_place(struct config *c, struct err *e);

/* Otherwise, when the number of nodes is decided: sets --nproc-per-node, the
 * same for each. Fails if that is impossible, or contradicts the user's. */
int world_size_split(struct config *c, struct err *e);

/* ---- config_rdzv.c: where and how the nodes meet ---- */

/* torchrun's --rdzv-conf, "key=value,key=value": sets the options that the keys
 * name, unless an option on the command line does. Logs that it ignores an
 * unknown key, since users may have one for a plug-in of torchrun's. Refuses a
 * value that ddprun cannot honour. */
int rdzv_conf_apply(struct config *c, const char *text, struct err *e);

/* Call it before any default is derived: refuses an unknown backend, and
 * options that are incompatible with etcd. */
int config_rdzv_backend(struct config *c, struct err *e);

/* Call it after rdzv_conf_apply: decides where the job's nodes meet, as this
 * node sees it. */
int config_rdzv_decide(struct config *c, struct err *e);

/* Checks that hold whether or not a worker will run here. */
int config_rdzv_check(const struct config *c, struct err *e);

/* ---- config_input.c: --stdin and --tty ---- */

/* Call it last. is_remote: no worker will run on this node. */
int config_decide_input(struct config *c, int is_remote, struct err *e);

#endif
