/* Finds the route that takes a request, given where the parts of its head are. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_ROUTES_H
#define CARRICK_HTTP_ROUTES_H

#include "head.h"

/* A word of the path: whether a segment begins in it, and whether parameters do. */
JUDGE_FUNCTION int find_file_in_word(struct judgement *judged, __u32 at)
{
	__u64 word, slash, semicolon;
	__u32 left, bytes;

	if (!judged)
		return 0;
	word = word_at(head_at(judged, at));
	left = judged->path_end - at;
	/* What is behind the path is made 0. */
	if (left < 8)
		word &= (1ULL << (8 * left)) - 1;
	slash = equal(word, '/');
	semicolon = equal(word, ';');
	if (slash) {
		bytes = up_to_last(slash);
		judged->file_at = at + bytes;
		judged->file_end = judged->path_end;
		/* Those before it are of another segment. (All eight are, if it is the last byte.) */
		semicolon = bytes < 8 ? semicolon >> (8 * bytes) << (8 * bytes) : 0;
	}
	if (semicolon && judged->file_end == judged->path_end)
		judged->file_end = at + before_first(semicolon);
	return 0;
}

/* The last segment of the path, without parameters: extensions are looked for at its end. */
JUDGE_FUNCTION int find_file(struct judgement *judged)
{
	__u32 at, i;

	if (!judged)
		return 0;
	at = judged->path_at;
	judged->file_at = at;
	judged->file_end = judged->path_end;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		/* Not in the loop's condition, where the verifier would see more in it than there is. */
		if (at >= judged->path_end)
			break;
		find_file_in_word(judged, at);
		at += 8;
	}
	return 0;
}

/* Whether /cgi-bin/ begins in a word of the path. It cannot go on behind the path, where there is a space or a question mark. */
JUDGE_FUNCTION int has_cgi_in_word(const struct judgement *judged, __u32 at)
{
	__u32 i;

	if (!judged || !equal(word_at(head_at(judged, at)) & ~HIGH_BITS, '/'))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < 8; i++) {
		if (word_at(head_at(judged, at + i)) == WORD('/', 'c', 'g', 'i', '-', 'b', 'i', 'n') &&
		    *head_at(judged, at + i + 8) == '/')
			return 1;
	}
	return 0;
}

/* A path with /cgi-bin/, or a query. */
JUDGE_FUNCTION int is_cgi(const struct judgement *judged)
{
	__u32 at, i;

	if (!judged)
		return 0;
	if (judged->path_end != judged->target_end)
		return 1;
	at = judged->path_at;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		if (at >= judged->path_end)
			break;
		if (has_cgi_in_word(judged, at))
			return 1;
		at += 8;
	}
	return 0;
}

/* Compares a text of the table with its part of the head. */
JUDGE_FUNCTION int judge_text(struct judgement *judged, const struct request_text *text)
{
	__u32 bytes, at, room, kind, i;

	if (!judged || !text)
		return 0;
	bytes = text->bytes;
	kind = text->kind & (REQUEST_TEXT_KINDS - 1);
	if (kind == REQUEST_PATH) {
		at = judged->path_at;
		room = judged->path_end - at;
	} else if (kind == REQUEST_EXTENSION) {
		at = judged->file_end - bytes;
		room = judged->file_end - judged->file_at;
	} else {
		at = judged->host_end - bytes;
		room = judged->host_end - judged->host_at;
	}
	if (room < bytes || (kind == REQUEST_HOST && room != bytes) || (kind == REQUEST_HOST_BELOW && room == bytes))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_TEXT_WORDS; i++, at += 8) {
		__u64 mask = text->masks[i];

		if (!mask)
			break;
		if (((word_at(head_at(judged, at)) | text->folds[i]) ^ text->words[i]) & mask)
			return 0;
	}
	judged->met[kind] |= text->routes;
	return 0;
}

/* Which route takes the request. */
JUDGE_FUNCTION int choose_route(struct judgement *judged, const struct request_table *table)
{
	__u32 left, cgi, i;

	if (!judged || !table)
		return UP_TABLE;
	left = table->routes & table->by_method[judged->method & (REQUEST_METHODS - 1)];
	if (table->asks_for_cgi) {
		cgi = is_cgi(judged);
		FORGET(cgi);
		left &= table->by_cgi[cgi & 1];
	}
	if (table->with_extension)
		find_file(judged);
	for (i = 0; i < REQUEST_TEXT_KINDS; i++)
		judged->met[i] = 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_TEXTS_MAX && i < table->texts_count; i++)
		judge_text(judged, &table->texts[i]);
	left &= judged->met[REQUEST_PATH] | ~table->with_path;
	left &= judged->met[REQUEST_EXTENSION] | ~table->with_extension;
	left &= judged->met[REQUEST_HOST] | judged->met[REQUEST_HOST_BELOW] | ~table->with_host;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_COOKIES_MAX && i < table->cookies_count; i++)
		left &= ~(judged->cookies & (1U << i) ? table->cookies[i].absent : table->cookies[i].present);
	if (!left)
		return UP_NO_ROUTE;
	/* The lowest bit is the first route. */
	left &= -left;
	if (!(left & table->in_kernel))
		return UP_ROUTE;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_ROUTES_MAX - 1 && !(left & 1); i++)
		left >>= 1;
	judged->route = i;
	judged->upstream = table->upstreams[i & (REQUEST_ROUTES_MAX - 1)];
	return 0;
}

#endif
