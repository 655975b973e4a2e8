# jpeg.sh: how many JPEGs a second of CPU time become training images of 224 x 224: ours,
# which pack_data does once, and torchvision's, which its loader does in every epoch. In
# each round both take the same files. Then how fast packed images become batches, beside
# a copy of memory.

jpeg_images=${BENCH_IMAGES:-400}

jpeg_draw() {
	mkdir -p "$work/images/train/a" "$work/images/val/a"
	i=0
	while [ $i -lt "$jpeg_images" ]; do
		size='500 375'
		[ $((i % 4)) != 0 ] || size='375 500'
		"$O/tests/draw_image" "$work/images/train/a/$i.jpg" $size noise $i
		i=$((i + 1))
	done
	cp "$work/images/train/a/0.jpg" "$work/images/val/a"
}

# images per second of CPU time, with the start of the program and the files it writes
jpeg_ours() {
	rm -rf "$work/packed"
	bash -c 'TIMEFORMAT="%U %S"; time "$0" "$@" >/dev/null' "$O/pack_data" --size 224 \
		--threads 1 "$work/images" "$work/packed" 2>&1 |
		awk -v n="$jpeg_images" '{ printf "%.1f\n", (n + 1) / ($1 + $2) }'
}

jpeg_torch() {
	"$python" "$here/jpeg_torch.py" "$work/images/train" "$1" 2>/dev/null
}

# torchvision beside torch
jpeg_python() {
	p=$(torch_python)
	[ -z "$p" ] || "$p" -c 'import torchvision' 2>/dev/null || p=
	[ -n "$p" ] || echo "not installed, left out: torchvision (set PYTHON)" >&2
	echo "$p"
}

bench_jpeg() {
	python=$(jpeg_python)
	jpeg_draw
	jpeg_ours >/dev/null
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		jpeg_ours >>"$work/ours"
		for how in ${python:+pil tensor pil-train tensor-train}; do
			jpeg_torch $how >>"$work/torch.$how"
		done
		"$B/bench_batches" "$work/packed" >>"$work/batches"
		r=$((r + 1))
	done
	say "$jpeg_images JPEGs of 500 x 375, $(du -sk "$work/images/train" | cut -f 1) KiB; images per second of CPU time, medians of $ROUNDS"
	ours=$(median <"$work/ours")
	echo "pack_data --size 224 --threads 1       $ours"
	for how in ${python:+pil tensor pil-train tensor-train}; do
		theirs=$(median <"$work/torch.$how")
		printf 'torchvision, %-25s %s, ratio %s\n' $how "$theirs" "$(ratio "$ours" "$theirs")"
	done
	say "packed images into batches in random order, GB/s of one core, medians of $ROUNDS"
	echo "batches             $(cut -d ' ' -f 1 "$work/batches" | median)"
	echo "memcpy of the same  $(cut -d ' ' -f 2 "$work/batches" | median)"
}
if [ -x "$O/pack_data" ] && [ -x "$O/tests/draw_image" ]; then
	bench_jpeg
else
	echo "built without libjpeg, left out: jpeg"
fi
