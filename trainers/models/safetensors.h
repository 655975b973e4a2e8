/* safetensors.h: a net's weights in Hugging Face's safetensors format, under
 * the names and in the layout of PyTorch's state_dict, so that
 * model.load_state_dict(safetensors.torch.load_file(path)) takes them. The
 * format: github.com/huggingface/safetensors, "Format". Blocks. */
#ifndef TRAINERS_SAFETENSORS_H
#define TRAINERS_SAFETENSORS_H

#include "trainers/models/net.h"

/* Replaces the file at path, as a whole, by the net's parameters and running
 * statistics, as F32. steps becomes each batch normalisation's
 * num_batches_tracked. 0 or -errno; the text names the file. */
int safetensors_save(const struct net *net, int64_t steps, const char *path,
		     struct err *e);

/* Sets the net's parameters and running statistics from the file at path, which
 * must have each of them, in its shape, as F32, F16 or BF16, and no others but
 * num_batches_tracked. The net is unchanged after an error: ERR_DATA if the
 * file is damaged or of another model, -errno if it cannot be read; the text
 * names the file, and the tensor. */
int safetensors_load(struct net *net, const char *path, struct err *e);

/* Whether the name ends with ".safetensors". */
int safetensors_is_name(const char *path);

#endif
