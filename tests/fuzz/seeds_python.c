/* seeds_python.c: processes of each version of CPython with one thread and two
 * frames, and an ELF module that exports _PyRuntime. */
#include <elf.h>
#include <stdio.h>

#include "launcher/python/layout.h"
#include "tests/fuzz/python_image.h"
#include "tests/fuzz/seeds.h"

enum {
	INTERPRETER = 0x400,
	THREAD = 0x800,
	CFRAME = 0xa00,
	FRAME = 0xb00, /* then the next */
	FRAME_SIZE = 0x200,
	CODE = 0xf00,
	FILE_NAME = 0x1100,
	FUNCTION = 0x1200,
	TABLE = 0x1300,
	IMAGE_SIZE = 0x1400,
};

static unsigned char image[IMAGE_SIZE];

static void seeds_python_word(uint64_t at, uint64_t word)
{
	seeds_require(at <= sizeof(image) - sizeof(word), "a word of Python");
	memcpy(image + at, &word, sizeof(word));
}

static void seeds_python_pointer(uint64_t at, uint64_t to)
{
	seeds_python_word(at, PYTHON_IMAGE_AT + to);
}

static void seeds_python_text(const struct python_layout *l, uint64_t at,
			      const char *text)
{
	enum { KIND_1 = 1 << 2, COMPACT = 1 << 5, ASCII = 1 << 6 };

	seeds_python_word(at + l->text_length, strlen(text));
	seeds_python_word(at + l->text_state, KIND_1 | COMPACT | ASCII);
	memcpy(image + at + l->text_ascii, text, strlen(text));
}

static void seeds_python_frame(const struct python_layout *l, uint64_t at,
			       uint64_t back)
{
	if (back)
		seeds_python_pointer(at + l->frame_back, back);
	seeds_python_pointer(at + l->frame_code, CODE);
	if (l->code_bytes)
		seeds_python_pointer(at + l->frame_at,
				     CODE + l->code_bytes + 2);
	else
		seeds_python_word(at + l->frame_at, 1);
}

static void seeds_python_code(const struct python_layout *l)
{
	static const unsigned char table[] = {
		0x80, 0, 0xd8, 1, 2, 0xe0, 4, 0, 8, 2, 1,
	};

	seeds_python_word(CODE + l->code_first_line, 88);
	seeds_python_pointer(CODE + l->code_file, FILE_NAME);
	seeds_python_pointer(CODE + l->code_name, FUNCTION);
	seeds_python_pointer(CODE + l->code_lines, TABLE);
	seeds_python_text(l, FILE_NAME, "/home/u/train.py");
	seeds_python_text(l, FUNCTION, "Trainer.step");
	seeds_python_word(TABLE + l->bytes_size, sizeof(table));
	memcpy(image + TABLE + l->bytes_data, table, sizeof(table));
}

static void seeds_python_image(const struct python_layout *l)
{
	uint64_t frame = THREAD + l->thread_frame;

	seeds_python_pointer(l->runtime_interpreters, INTERPRETER);
	seeds_python_pointer(INTERPRETER + l->interp_threads, THREAD);
	seeds_python_word(THREAD + l->thread_native_id, 4711);
	if (l->thread_cframe) {
		seeds_python_pointer(THREAD + l->thread_cframe, CFRAME);
		frame = CFRAME + l->cframe_frame;
	}
	seeds_python_pointer(frame, FRAME);
	seeds_python_frame(l, FRAME, FRAME + FRAME_SIZE);
	seeds_python_frame(l, FRAME + FRAME_SIZE, 0);
	seeds_python_code(l);
}

static void seeds_python_write(unsigned version, const char *name)
{
	struct buf out = BUF_INIT(SEED_MAX);

	buf_put_u8(&out, (uint8_t)version);
	buf_put(&out, image, sizeof(image));
	seeds_write("python", name, &out);
	memset(image, 0, sizeof(image));
}

/* As in CPython 3.13 and 3.14. The offsets are where layout.c looks for them,
 * which it reveals when all words differ. */
static void seeds_python_stated(unsigned minor)
{
	uint64_t words[PYTHON_DEBUG_OFFSETS];
	struct python_layout l;
	char name[32];

	for (unsigned i = 0; i < PYTHON_DEBUG_OFFSETS; i++)
		words[i] = 8 * (uint64_t)(i % 24) + 16;
	memcpy(words, "xdebugpy", sizeof(*words));
	words[1] = 3u << 24 | minor << 16 | 0xf0;
	words[5] = PYTHON_DEBUG_OFFSETS * sizeof(*words); /* interpreters */
	seeds_require(python_layout_read(&l, words) == 0, "a stated layout");
	memcpy(image, words, sizeof(words));
	seeds_python_image(&l);
	snprintf(name, sizeof(name), "stated_%u", minor);
	seeds_python_write(PYTHON_IMAGE_STATES, name);
}

static void seeds_python_module(void)
{
	enum { PARTS = 0x40, DYNAMIC = 0x100, SYMBOLS = 0x200, NAMES = 0x300,
	       HASH = 0x400 };
	static const char names[] = "\0_PyRuntime";
	const Elf64_Ehdr head = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
		.e_phoff = PARTS, .e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
	};
	const Elf64_Phdr parts[] = {
		{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC},
	};
	const Elf64_Dyn dynamic[] = {
		{DT_SYMTAB, {SYMBOLS}}, {DT_STRTAB, {NAMES}},
		{DT_GNU_HASH, {HASH}}, {DT_NULL, {0}},
	};
	const Elf64_Sym symbols[] = {
		{0}, {.st_name = 1, .st_shndx = 1, .st_value = 0x80},
	};
	uint32_t hash[] = {1, 1, 1, 0, 0, 0, 1, 5381};

	for (const char *p = names + 1; *p; p++)
		hash[7] = hash[7] * 33 + (unsigned char)*p;
	hash[7] |= 1; /* the end of its chain */
	memcpy(image, &head, sizeof(head));
	memcpy(image + PARTS, parts, sizeof(parts));
	memcpy(image + DYNAMIC, dynamic, sizeof(dynamic));
	memcpy(image + SYMBOLS, symbols, sizeof(symbols));
	memcpy(image + NAMES, names, sizeof(names));
	memcpy(image + HASH, hash, sizeof(hash));
	seeds_python_write(0, "module");
}

void seeds_python(void)
{
	struct python_layout l;
	char name[32];

	for (unsigned minor = PYTHON_OLDEST; minor <= 12; minor++) {
		seeds_require(python_layout_of(&l, minor) == 0, "a layout");
		seeds_python_image(&l);
		snprintf(name, sizeof(name), "3_%u", minor);
		seeds_python_write(minor, name);
	}
	seeds_python_stated(13);
	seeds_python_stated(14);
	seeds_python_module();
}
