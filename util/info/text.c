/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Strings, lists, files of /sys and /proc, and libraries. See info.h. */
#include "info.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *root = "";

static void *text_need(void *memory)
{
	if (memory)
		return memory;
	perror("fi_p2p_info");
	exit(1);
}

/* All strings are in a list of their own. So nobody has to free them. */
struct text {
	struct text *next;
	char chars[];
};

static struct text *texts;

static char *text_format(const char *head, const char *fmt, va_list args)
{
	size_t front = strlen(head);
	struct text *text;
	va_list again;
	int len;

	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	text = text_need(len < 0 ? NULL : malloc(sizeof *text + front + (size_t) len + 1));
	text->next = texts;
	texts = text;
	memcpy(text->chars, head, front);
	vsnprintf(text->chars + front, (size_t) len + 1, fmt, args);
	return text->chars;
}

/* @text gets what the function's own format and arguments say */
#define TEXT_OF(text, head, fmt)                                                               \
	do {                                                                                   \
		va_list args_;                                                                 \
		va_start(args_, fmt);                                                          \
		text = text_format(head, fmt, args_);                                          \
		va_end(args_);                                                                 \
	} while (0)

char *info_text(const char *fmt, ...)
{
	char *text;

	TEXT_OF(text, "", fmt);
	return text;
}

void *info_append(void *list, size_t *count, size_t size)
{
	void **first = list;

	*first = text_need(realloc(*first, (*count + 1) * size));
	return memset((char *) *first + (*count)++ * size, 0, size);
}

void info_root_set(const char *dir)
{
	root = dir;
}

char *info_file(const char *fmt, ...)
{
	char *path;

	TEXT_OF(path, root, fmt);
	return path;
}

static char *text_line(const char *path)
{
	char *line = NULL, *text = NULL, *start, *end;
	size_t room = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	if (getline(&line, &room, file) >= 0) {
		start = line + strspn(line, " \t\n");
		for (end = start + strlen(start); end > start && strchr(" \t\n", end[-1]);
		     end--)
			;
		if (end > start)
			text = info_text("%.*s", (int) (end - start), start);
	}
	free(line);
	fclose(file);
	return text;
}

char *info_file_line(const char *fmt, ...)
{
	char *path;

	TEXT_OF(path, root, fmt);
	return text_line(path);
}

long info_file_number(long unknown, const char *fmt, ...)
{
	char *path, *line, *end;
	long number;

	TEXT_OF(path, root, fmt);
	line = text_line(path);
	if (!line)
		return unknown;
	number = strtol(line, &end, 0);
	if (*end)
		number = unknown;
	return number;
}

bool info_file_there(const char *fmt, ...)
{
	char *path;

	TEXT_OF(path, root, fmt);
	return !access(path, F_OK);
}

char *info_file_link(const char *fmt, ...)
{
	char target[PATH_MAX], *path, *last;
	ssize_t len;

	TEXT_OF(path, root, fmt);
	len = readlink(path, target, sizeof target - 1);
	if (len <= 0)
		return NULL;
	target[len] = '\0';
	last = strrchr(target, '/');
	return info_text("%s", last ? last + 1 : target);
}

static int text_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

size_t info_file_names(char ***names, const char *fmt, ...)
{
	struct dirent **entries;
	size_t count = 0;
	char *path;
	int found;

	TEXT_OF(path, root, fmt);
	found = scandir(path, &entries, text_visible, alphasort);
	*names = NULL;
	for (int i = 0; i < found; i++) {
		*(char **) info_append(names, &count, sizeof **names) =
			info_text("%s", entries[i]->d_name);
		free(entries[i]);
	}
	if (found >= 0)
		free(entries);
	return count;
}

bool info_load(const char *library, const struct info_symbol *symbols, size_t count,
	       const char **why)
{
	void *lib = dlopen(library, RTLD_LAZY | RTLD_LOCAL), *symbol;

	if (!lib) {
		*why = info_text("%s", dlerror());
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		symbol = dlsym(lib, symbols[i].name);
		if (!symbol && !symbols[i].optional) {
			*why = info_text("%s lacks %s", library, symbols[i].name);
			return false;
		}
		memcpy(symbols[i].slot, &symbol, sizeof symbol);
	}
	return true;
}
