# pack.mk: the packer of data sets and its tests, which alone need libjpeg; part of
# the Makefile.
pack_objs := $(call objs,$(wildcard trainers/pack/*.c))
has_jpeg := $(shell printf '\043include <stdio.h>\n\043include <jpeglib.h>\n' | $(CC) $(CFLAGS) -E -x c - >/dev/null 2>&1 && echo 1)
packer := $(if $(has_jpeg),$(O)/pack_data)

no-packer:
	@echo "no libjpeg (libjpeg-dev): pack_data is left out"

$(O)/pack_data: $(call objs,trainers/pack_data.c $(wildcard trainers/data/records*.c)) $(pack_objs) $(base_objs)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ljpeg -lpng -lz -lm -lpthread -ldl

# It reads packed files.
$(O)/bench/bench_batches: $(call objs,$(wildcard trainers/data/records*.c))

$(O)/tests/test_image: private extra_libs = -ljpeg
$(O)/tests/draw_image: private extra_libs = -ljpeg -lpng
