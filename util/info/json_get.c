/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For the tests: reads one JSON value from stdin, strictly. Prints the part that the pointer
 * (RFC 6901) in its argument leads to. A string is printed as it is, all else as JSON.
 *
 * Exit status: 1 if there is no such part, 2 if the input is no JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <json.h>
#include <json_pointer.h>

int main(int argc, char **argv)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *whole, *value;
	enum json_tokener_error error;
	int missing;
	char *text = NULL;
	size_t room = 0;
	ssize_t len = getdelim(&text, &room, '\0', stdin);

	if (argc != 2 || !tokener || len <= 0)
		return 2;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	/* the length includes the zero, which ends the input */
	whole = json_tokener_parse_ex(tokener, text, (int) len + 1);
	error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	free(text);
	if (error != json_tokener_success)
		return 2;
	missing = json_pointer_get(whole, argv[1], &value);
	if (!missing)
		puts(json_object_is_type(value, json_type_string)
			     ? json_object_get_string(value)
			     : json_object_to_json_string(value));
	json_object_put(whole);
	return missing ? 1 : 0;
}
