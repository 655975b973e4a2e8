/* image_jpeg.c: JPEG by libjpeg, whose errors are jumps out of its calls. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <jerror.h>

#include "trainers/pack/image.h"

struct jpeg {
	struct jpeg_decompress_struct d; /* first: libjpeg's callbacks get it */
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	char fault[JMSG_LENGTH_MAX];
};

/* An error: libjpeg cannot continue. */
static void image_jpeg_on_error(j_common_ptr d)
{
	struct jpeg *j = (struct jpeg *)d;

	d->err->format_message(d, j->fault);
	longjmp(j->back, 1);
}

/* Extra bytes before a marker, and unknown versions, change no pixel. */
static int image_jpeg_is_harmless(int code)
{
	return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
	       code == JWRN_ADOBE_XFORM;
}

/* A warning: libjpeg would continue with grey pixels. */
static void image_jpeg_on_message(j_common_ptr d, int level)
{
	if (level < 0 && !image_jpeg_is_harmless(d->err->msg_code))
		image_jpeg_on_error(d);
}

static void image_jpeg_on_progress(j_common_ptr d)
{
	struct jpeg *j = (struct jpeg *)d;

	if (j->d.input_scan_number <= IMAGE_SCANS_MAX)
		return;
	snprintf(j->fault, sizeof(j->fault), "more than %d scans",
		 IMAGE_SCANS_MAX);
	longjmp(j->back, 1);
}

static int image_jpeg_check_colours(const struct jpeg *j, struct err *e)
{
	J_COLOR_SPACE s = j->d.jpeg_color_space;

	if (s == JCS_CMYK || s == JCS_YCCK)
		return err_set(e, ERR_DATA, "it is a CMYK JPEG, whose colours "
			       "depend on a printer: convert it to RGB");
	if (s != JCS_GRAYSCALE && s != JCS_RGB && s != JCS_YCbCr)
		return err_set(e, ERR_DATA,
			       "it is a JPEG of %d unknown colours: convert it "
			       "to RGB", j->d.num_components);
	return 0;
}

/* The smallest of 1/8, 1/4, 1/2 and 1 that leaves the shorter side `least`
 * pixels. libjpeg-turbo has fast code for these. */
static unsigned image_jpeg_scale(const struct jpeg *j, int least)
{
	unsigned w = j->d.image_width, h = j->d.image_height;
	unsigned shorter = w < h ? w : h, eighths = 1;

	while (eighths < 8 && (shorter * eighths + 7) / 8 < (unsigned)least)
		eighths *= 2;
	return eighths;
}

/* Called between setjmp and its jumps: the image is the caller's. */
static int image_jpeg_read(struct jpeg *j, struct image *i, int least,
			   struct err *e)
{
	struct jpeg_decompress_struct *d = &j->d;
	size_t row;
	int r;

	jpeg_read_header(d, TRUE);
	r = image_jpeg_check_colours(j, e);
	if (r == 0) /* count the full size: decoding at an eighth takes as
		     * long */
		r = image_alloc(i, d->image_width, d->image_height, e);
	if (r < 0)
		return r;
	d->out_color_space = JCS_RGB;
	d->scale_num = image_jpeg_scale(j, least);
	d->scale_denom = 8;
	jpeg_start_decompress(d);
	i->width = (int)d->output_width;
	i->height = (int)d->output_height;
	row = (size_t)i->width * 3;
	while (d->output_scanline < d->output_height) {
		JSAMPROW to = i->pixels + d->output_scanline * row;

		jpeg_read_scanlines(d, &to, 1);
	}
	jpeg_finish_decompress(d);
	return 0;
}

int image_decode_jpeg(struct image *i, const void *bytes, size_t n, int least,
		      struct err *e)
{
	/* in memory, as a jump leaves variables in registers undefined */
	struct jpeg *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return err_no_memory(e, "an image");
	j->d.err = jpeg_std_error(&j->errors);
	j->errors.error_exit = image_jpeg_on_error;
	j->errors.emit_message = image_jpeg_on_message;
	if (setjmp(j->back)) {
		r = err_set(e, ERR_DATA, "it is a broken JPEG: %s", j->fault);
	} else {
		jpeg_create_decompress(&j->d);
		j->progress.progress_monitor = image_jpeg_on_progress;
		j->d.progress = &j->progress;
		jpeg_mem_src(&j->d, bytes, (unsigned long)n);
		r = image_jpeg_read(j, i, least, e);
	}
	jpeg_destroy_decompress(&j->d);
	free(j);
	return r;
}
