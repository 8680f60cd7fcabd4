/* Finds the route that takes a request, given where the parts of its head are. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_ROUTES_H
#define CARRICK_HTTP_ROUTES_H

#include "head.h"

/* A word of the path: whether a segment begins in it, and whether parameters do. */
GLOBAL_FUNCTION int find_file_in_word(struct parsed_head *parsed, __u32 at)
{
	__u64 word, slash, semicolon;
	__u32 left, bytes;

	if (!parsed)
		return 0;
	word = word_at(head_at(parsed, at));
	left = parsed->path_end - at;
	/* What is behind the path is made 0. */
	if (left < 8)
		word &= (1ULL << (8 * left)) - 1;
	slash = equal(word, '/');
	semicolon = equal(word, ';');
	if (slash) {
		bytes = up_to_last(slash);
		parsed->file_at = at + bytes;
		parsed->file_end = parsed->path_end;
		/* Those before it are of another segment. (All eight are, if it is the last byte.) */
		semicolon = bytes < 8 ? semicolon >> (8 * bytes) << (8 * bytes) : 0;
	}
	if (semicolon && parsed->file_end == parsed->path_end)
		parsed->file_end = at + before_first(semicolon);
	return 0;
}

/* The last segment of the path, without parameters: extensions are looked for at its end. */
GLOBAL_FUNCTION int find_file(struct parsed_head *parsed)
{
	__u32 at, i;

	if (!parsed)
		return 0;
	at = parsed->path_at;
	parsed->file_at = at;
	parsed->file_end = parsed->path_end;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		/* Not in the loop's condition, where the verifier would see more in it than there is. */
		if (at >= parsed->path_end)
			break;
		find_file_in_word(parsed, at);
		at += 8;
	}
	return 0;
}

/* Whether /cgi-bin/ begins in a word of the path. It cannot go on behind the path, where there is a space or a question mark. */
GLOBAL_FUNCTION int has_cgi_in_word(const struct parsed_head *parsed, __u32 at)
{
	__u32 i;

	if (!parsed || !equal(word_at(head_at(parsed, at)) & ~HIGH_BITS, '/'))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < 8; i++) {
		if (word_at(head_at(parsed, at + i)) == WORD('/', 'c', 'g', 'i', '-', 'b', 'i', 'n') &&
		    *head_at(parsed, at + i + 8) == '/')
			return 1;
	}
	return 0;
}

/* A path with /cgi-bin/, or a query. */
GLOBAL_FUNCTION int is_cgi(const struct parsed_head *parsed)
{
	__u32 at, i;

	if (!parsed)
		return 0;
	if (parsed->path_end != parsed->target_end)
		return 1;
	at = parsed->path_at;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		if (at >= parsed->path_end)
			break;
		if (has_cgi_in_word(parsed, at))
			return 1;
		at += 8;
	}
	return 0;
}

/* Compares a text of the table with its part of the head. */
GLOBAL_FUNCTION int match_text(struct parsed_head *parsed, const struct request_text *text)
{
	__u32 bytes, at, room, kind, i;

	if (!parsed || !text)
		return 0;
	bytes = text->bytes;
	kind = text->kind & (REQUEST_TEXT_KINDS - 1);
	if (kind == REQUEST_PATH) {
		at = parsed->path_at;
		room = parsed->path_end - at;
	} else if (kind == REQUEST_EXTENSION) {
		at = parsed->file_end - bytes;
		room = parsed->file_end - parsed->file_at;
	} else {
		at = parsed->host_end - bytes;
		room = parsed->host_end - parsed->host_at;
	}
	if (room < bytes || (kind == REQUEST_HOST && room != bytes) || (kind == REQUEST_HOST_BELOW && room == bytes))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_TEXT_WORDS; i++, at += 8) {
		__u64 mask = text->masks[i];

		if (!mask)
			break;
		if (((word_at(head_at(parsed, at)) | text->folds[i]) ^ text->words[i]) & mask)
			return 0;
	}
	parsed->met[kind] |= text->routes;
	return 0;
}

/* Whether the request is for the host that the appended lines name. */
GLOBAL_FUNCTION int is_for_host(const struct parsed_head *parsed, const struct request_fields *fields)
{
	__u32 left, at, i;

	if (!parsed || !fields)
		return 0;
	left = fields->host_bytes;
	if (!left)
		return 1;
	at = parsed->host_at;
	if (parsed->host_value_end - at != left)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_HOST_WORDS; i++) {
		__u64 other = word_at(head_at(parsed, at)) ^ fields->host[i];

		if (left <= 8)
			return !(other << (64 - 8 * left));
		if (other)
			return 0;
		at += 8;
		left -= 8;
	}
	return 0;
}

/* Which route takes the request. */
GLOBAL_FUNCTION int choose_route(struct parsed_head *parsed, const struct request_table *table)
{
	__u32 left, cgi, i;

	if (!parsed || !table)
		return UP_TABLE;
	left = table->routes & table->by_method[parsed->method & (REQUEST_METHODS - 1)];
	if (table->asks_for_cgi) {
		cgi = is_cgi(parsed);
		FORGET(cgi);
		left &= table->by_cgi[cgi & 1];
	}
	if (table->with_extension)
		find_file(parsed);
	for (i = 0; i < REQUEST_TEXT_KINDS; i++)
		parsed->met[i] = 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_TEXTS_MAX && i < table->texts_count; i++)
		match_text(parsed, &table->texts[i]);
	left &= parsed->met[REQUEST_PATH] | ~table->with_path;
	left &= parsed->met[REQUEST_EXTENSION] | ~table->with_extension;
	left &= parsed->met[REQUEST_HOST] | parsed->met[REQUEST_HOST_BELOW] | ~table->with_host;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_COOKIES_MAX && i < table->cookies_count; i++)
		left &= ~(parsed->cookies & (1U << i) ? table->cookies[i].absent : table->cookies[i].present);
	if (!left)
		return UP_NO_ROUTE;
	/* The lowest bit is the first route. */
	left &= -left;
	if (!(left & table->in_kernel))
		return UP_ROUTE;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_ROUTES_MAX - 1 && !(left & 1); i++)
		left >>= 1;
	parsed->route = i;
	parsed->upstream = table->upstreams[i & (REQUEST_ROUTES_MAX - 1)];
	return 0;
}

#endif
