/* Takes a request's head apart, as far as the classifier needs it: in one pass, eight bytes at a time. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_HEAD_H
#define CARRICK_HTTP_HEAD_H

#include "../common/bounds.h"
#include "tables.h"
#include "words.h"

/* The head's room: an index that is cut to HEAD_INDEX, and the longest text behind it, are inside, which is all that the verifier
 * wants to know. What is behind the head is of some earlier one, and never matters: each search ends at the head's end. */
#define HEAD_INDEX 2047
#define HEAD_ROOM (2048 + 256)
#define HEAD_WORDS_MAX (REQUEST_HEAD_MAX / 8 + 1)

/* Searches for the end of the target or of a value go chunk by chunk: the first, where most of them end, in place, the others in a
 * function. So the verifier follows 16 + 16 + 11 turns, not 183. */
#define HEAD_CHUNK_WORDS 16
#define HEAD_CHUNK_BYTES (8 * HEAD_CHUNK_WORDS)
#define HEAD_CHUNKS_MAX (HEAD_WORDS_MAX / HEAD_CHUNK_WORDS + 1)

#define CRLF 0x0a0d

/* The shortest one: `GET / HTTP/1.1`, and a host of one letter. */
#define HEAD_MIN 27

/* Field lines, cookies and the end, as steps of one loop. */
#define STEPS_MAX 96

/* A name of a field has at most so many bytes, its colon included; a host likewise, up to its end or colon. */
#define NAME_WORDS 4
#define HOST_WORDS 8

/* A request that is classified, and what was found in it. Places are counted from the head's first byte. It stands in a map, so
 * that the verifier need not follow what is in it. */
struct parsed_head {
	__u8 head[HEAD_ROOM];
	__u32 table;
	__u32 generation;
	__u32 sample_every;
	__u32 end; /* behind the head's last byte */
	__u32 at;  /* where the next line begins */
	__u32 method;
	__u32 path_at;
	__u32 path_end;
	__u32 target_end;
	__u32 file_at; /* of the path's last segment */
	__u32 file_end; /* without its parameters */
	__u32 host_at;
	__u32 host_end; /* 0: there was none yet */
	__u32 host_value_end; /* with the port */
	__u32 connection_at; /* the line `Connection: keep-alive`; 0: there is none */
	__u32 fields;
	__u32 is_whole;
	__u32 is_in_cookies;
	__u32 cookies; /* bits of those that are there */
	__u32 met[REQUEST_TEXT_KINDS]; /* the routes that are content with a path, extension, host */
	__u32 route;
	__u32 upstream; /* of that route */
	__u64 response_bytes; /* of a response: see response.h */
	__u32 interim_bytes;  /* likewise */
};

#define RESPONSE_UNKNOWN (~0ULL)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct parsed_head);
} parsed_heads SEC(".maps");

/* Makes the compiler forget what it knows of a number, where the verifier does not know it: a bound would be left out. */
#define FORGET(number) asm volatile("" : "+r"(number))

static __always_inline const __u8 *head_at(const struct parsed_head *parsed, __u32 at)
{
	return parsed->head + (at & HEAD_INDEX);
}

/* There is no target: a byte is in it that does not belong there. */
#define NO_TARGET (~0U)

/* Where the target ends, and in it the path, if it does in this chunk of the head; else 0, or `NO_TARGET`. */
static __always_inline __u32 find_target_end_in_chunk(struct parsed_head *parsed, __u32 at)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_CHUNK_WORDS; i++) {
		__u64 word = word_at(head_at(parsed, at)), stop, question;

		/* Bytes behind the target may be looked at, too: those of the version, which are below 0x80. */
		if (word & HIGH_BITS)
			return NO_TARGET;
		stop = below(word, '!') | equal(word, 0x7f) | equal(word, '#');
		question = those_before(equal(word, '?'), stop);
		if (question && !parsed->path_end)
			parsed->path_end = at + before_first(question);
		if (!stop) {
			at += 8;
			continue;
		}
		at += before_first(stop);
		if (!parsed->path_end)
			parsed->path_end = at;
		return *head_at(parsed, at) == ' ' ? at : NO_TARGET;
	}
	return 0;
}

/* The same, of a chunk that is not the first. */
GLOBAL_FUNCTION __u32 find_target_end_in_another(struct parsed_head *parsed, __u32 at)
{
	return parsed ? find_target_end_in_chunk(parsed, at) : NO_TARGET;
}

/* Where it ends behind the first chunk; or `NO_TARGET`. */
GLOBAL_FUNCTION __u32 find_target_end_behind(struct parsed_head *parsed, __u32 at)
{
	__u32 end = 0, i;

	if (!parsed)
		return NO_TARGET;
#pragma clang loop unroll(disable)
	for (i = 1; i < HEAD_CHUNKS_MAX && !end; i++) {
		at += HEAD_CHUNK_BYTES;
		end = find_target_end_in_another(parsed, at);
	}
	return end ? end : NO_TARGET;
}

/* Where the target ends, and in it the path; or `NO_TARGET`. */
GLOBAL_FUNCTION __u32 find_target_end(struct parsed_head *parsed, __u32 at)
{
	__u32 end;

	if (!parsed)
		return NO_TARGET;
	parsed->path_end = 0;
	end = find_target_end_in_chunk(parsed, at);
	return end ? end : find_target_end_behind(parsed, at);
}

/* The request line: method, target, version. */
GLOBAL_FUNCTION int parse_request_line(struct parsed_head *parsed)
{
	__u64 first;
	__u32 at;

	if (!parsed)
		return UP_LENGTH;
	first = word_at(parsed->head);
	if ((first & 0xffffffffULL) == LETTERS('G', 'E', 'T', ' ')) {
		parsed->method = REQUEST_GET;
		at = 4;
	} else if ((first & 0xffffffffffULL) == WORD('H', 'E', 'A', 'D', ' ', 0, 0, 0)) {
		parsed->method = REQUEST_HEAD;
		at = 5;
	} else if ((first & 0xffffffffffffffULL) == WORD('D', 'E', 'L', 'E', 'T', 'E', ' ', 0)) {
		parsed->method = REQUEST_DELETE;
		at = 7;
	} else if (first == WORD('O', 'P', 'T', 'I', 'O', 'N', 'S', ' ')) {
		parsed->method = REQUEST_OPTIONS;
		at = 8;
	} else {
		return UP_METHOD;
	}
	if (*head_at(parsed, at) != '/')
		return UP_TARGET;
	parsed->path_at = at;
	at = find_target_end(parsed, at);
	if (at == NO_TARGET)
		return UP_TARGET;
	parsed->target_end = at;
	if (word_at(head_at(parsed, at + 1)) != WORD('H', 'T', 'T', 'P', '/', '1', '.', '1') ||
	    pair_at(head_at(parsed, at + 9)) != CRLF)
		return UP_VERSION;
	parsed->at = at + 11;
	return 0;
}

/* Letters, digits and hyphens. */
static __always_inline __u64 name_bytes(__u64 word)
{
	/* Into letters it turns nothing but letters. */
	return between(word | SMALL, 'a', 'z') | between(word, '0', '9') | equal(word, '-');
}

/* How many bytes of a field's name there are before its colon; 0 if it is no name. */
GLOBAL_FUNCTION __u32 measure_name(const struct parsed_head *parsed, __u32 at)
{
	__u32 bytes = 0, i;

	if (!parsed)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < NAME_WORDS; i++) {
		__u64 raw = word_at(head_at(parsed, at + bytes)), word = raw & ~HIGH_BITS;
		__u64 colon = equal(word, ':') & ~raw;

		if (those_before(~name_bytes(word) & HIGH_BITS, colon) | those_before(raw & HIGH_BITS, colon))
			return 0;
		if (colon)
			return bytes + before_first(colon);
		bytes += 8;
	}
	return 0;
}

/* Where a value ends, if it does in this chunk of the head: at its CR, or at the end of a cookie. What is no text ends it, too, and is
 * seen there. */
static __always_inline __u32 find_value_end_in_chunk(const struct parsed_head *parsed, __u32 at, __u64 separator)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_CHUNK_WORDS; i++) {
		__u64 raw = word_at(head_at(parsed, at)), word = raw & ~HIGH_BITS;
		/* Below a space, or 0x7f, to which one is added. */
		__u64 stop = ((~(word + EACH(0x60)) | (word + EACH(1)) | equal(word, separator)) & HIGH_BITS) & ~raw;

		if (stop)
			return at + before_first(stop);
		at += 8;
	}
	return 0;
}

/* The same, of a chunk that is not the first. */
GLOBAL_FUNCTION __u32 find_value_end_in_another(const struct parsed_head *parsed, __u32 at, __u64 separator)
{
	return parsed ? find_value_end_in_chunk(parsed, at, separator) : 0;
}

/* Where it ends behind the first chunk; 0 if it never does. */
GLOBAL_FUNCTION __u32 find_value_end_behind(const struct parsed_head *parsed, __u32 at, __u64 separator)
{
	__u32 end = 0, i;

	if (!parsed)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 1; i < HEAD_CHUNKS_MAX && !end; i++) {
		at += HEAD_CHUNK_BYTES;
		end = find_value_end_in_another(parsed, at, separator);
	}
	return end;
}

/* Where a value ends; 0 if it never does. */
GLOBAL_FUNCTION __u32 find_value_end(const struct parsed_head *parsed, __u32 at, __u64 separator)
{
	__u32 end;

	if (!parsed)
		return 0;
	end = find_value_end_in_chunk(parsed, at, separator);
	return end ? end : find_value_end_behind(parsed, at, separator);
}

/* `Connection: keep-alive` says what is so anyway. */
static __always_inline int says_keep_alive(const struct parsed_head *parsed, __u32 at, __u32 end)
{
	return end - at == 10 && (pair_at(head_at(parsed, at - 4)) | 0x2020) == ('o' | 'n' << 8) &&
	       (word_at(head_at(parsed, at)) | SMALL) == WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i') &&
	       (pair_at(head_at(parsed, at + 8)) | 0x2020) == ('v' | 'e' << 8);
}

/* NTLM and Negotiate authenticate the connection, not the request: the process has to know which. Other schemes with this letter are
 * rare. */
static __always_inline int may_authenticate_connection(const struct parsed_head *parsed, __u32 at)
{
	return (*head_at(parsed, at) | 0x20) == 'n';
}

/* A port is a number from 1 to 65535 without zeros in front. */
static __always_inline int is_port(const struct parsed_head *parsed, __u32 at, __u32 end)
{
	__u32 port = 0, i;

	if (end - at < 1 || end - at > 5 || *head_at(parsed, at) == '0')
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < 5 && at < end; i++, at++) {
		__u32 digit = *head_at(parsed, at) - '0';

		if (digit > 9)
			return 0;
		port = port * 10 + digit;
	}
	return port <= 65535;
}

/* `Host`: a name or an IPv4 address, with or without port. */
GLOBAL_FUNCTION int parse_host(struct parsed_head *parsed, __u32 value_at, __u32 value_end)
{
	__u32 at = value_at, i;
	__u64 stop = 0;

	if (!parsed || parsed->host_end)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < HOST_WORDS; i++) {
		__u64 raw = word_at(head_at(parsed, at)), word = raw & ~HIGH_BITS;
		__u64 good = name_bytes(word) | equal(word, '.') | equal(word, '_');

		stop = (equal(word, ':') | equal(word, '\r')) & ~raw;
		if (those_before((~good | raw) & HIGH_BITS, stop))
			return 0;
		if (stop) {
			at += before_first(stop);
			break;
		}
		at += 8;
	}
	/* A final dot is no part of the name, and rare. */
	if (!stop || at == value_at || *head_at(parsed, at - 1) == '.')
		return 0;
	parsed->host_at = value_at;
	parsed->host_end = at;
	parsed->host_value_end = value_end;
	return at == value_end || is_port(parsed, at + 1, value_end);
}

/* What the field's name, in small letters, and its value mean for a proxy. The names need not be compared to their ends where a
 * longer one that nobody uses is up to the process, too. */
static __always_inline int parse_field(struct parsed_head *parsed, const struct request_table *table, __u64 name,
						     __u32 name_bytes, __u32 at, __u32 end)
{
	switch (name) {
	case WORD('h', 'o', 's', 't', 0, 0, 0, 0):
		return parse_host(parsed, at, end) ? 0 : UP_HOST;
	case WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i'):
		if (name_bytes != 10 || parsed->connection_at || !says_keep_alive(parsed, at, end))
			return UP_MEANING;
		parsed->connection_at = at - name_bytes - 2;
		return 0;
	case WORD('a', 'u', 't', 'h', 'o', 'r', 'i', 'z'):
		return may_authenticate_connection(parsed, at) ? UP_MEANING : 0;
	case WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-'):
		/* Content-Length; others are harmless. */
		return name_bytes == 14 ? UP_MEANING : 0;
	case WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', 0):
	case WORD('t', 'e', 0, 0, 0, 0, 0, 0):
	case WORD('t', 'r', 'a', 'i', 'l', 'e', 'r', 0):
	case WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'):
	case WORD('e', 'x', 'p', 'e', 'c', 't', 0, 0):
	case WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i'):
	case WORD('p', 'r', 'o', 'x', 'y', 0, 0, 0):
	case WORD('p', 'r', 'o', 'x', 'y', '-', 'c', 'o'):
	case WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u'):
	case WORD('m', 'a', 'x', '-', 'f', 'o', 'r', 'w'):
	/* Whether it was here before. */
	case WORD('v', 'i', 'a', 0, 0, 0, 0, 0):
	case WORD('c', 'd', 'n', '-', 'l', 'o', 'o', 'p'):
		return UP_MEANING;
	/* What tells of the client: as `tells_of_client` of carrick-logic has it, and a few others that begin alike. */
	case WORD('a', 'l', 'i', '-', 'c', 'd', 'n', '-'):
	case WORD('c', 'f', '-', 'c', 'o', 'n', 'n', 'e'):
	case WORD('c', 'l', 'i', 'e', 'n', 't', '-', 'c'):
	case WORD('c', 'l', 'i', 'e', 'n', 't', '-', 'i'):
	case WORD('f', 'a', 's', 't', 'l', 'y', '-', 'c'):
	case WORD('f', 'l', 'y', '-', 'c', 'l', 'i', 'e'):
	case WORD('f', 'o', 'r', 'w', 'a', 'r', 'd', 'e'):
	case WORD('f', 'r', 'o', 'n', 't', '-', 'e', 'n'):
	case WORD('p', 'r', 'o', 'x', 'y', '-', 'c', 'l'):
	case WORD('s', 's', 'l', '-', 'c', 'l', 'i', 'e'):
	case WORD('t', 'r', 'u', 'e', '-', 'c', 'l', 'i'):
	case WORD('w', 'l', '-', 'p', 'r', 'o', 'x', 'y'):
	case WORD('x', '-', 'a', 'm', 'z', 'n', '-', 'm'):
	case WORD('x', '-', 'a', 'p', 'p', 'e', 'n', 'g'):
	case WORD('x', '-', 'a', 'r', 'r', '-', 'c', 'l'):
	case WORD('x', '-', 'a', 'z', 'u', 'r', 'e', '-'):
	case WORD('x', '-', 'c', 'l', 'i', 'e', 'n', 't'):
	case WORD('x', '-', 'c', 'l', 'u', 's', 't', 'e'):
	case WORD('x', '-', 'e', 'n', 'v', 'o', 'y', '-'):
	case WORD('x', '-', 'f', 'o', 'r', 'w', 'a', 'r'):
	case WORD('x', '-', 'h', 'o', 's', 't', 0, 0):
	case WORD('x', '-', 'o', 'r', 'i', 'g', 'i', 'n'):
	case WORD('x', '-', 'p', 'r', 'o', 'x', 'y', 'u'):
	case WORD('x', '-', 'r', 'e', 'a', 'l', '-', 'i'):
	case WORD('x', '-', 'r', 'e', 'a', 'l', '-', 'p'):
	case WORD('x', '-', 'r', 'e', 'm', 'o', 't', 'e'):
	case WORD('x', '-', 's', 'c', 'h', 'e', 'm', 'e'):
	case WORD('x', '-', 's', 's', 'l', '-', 'c', 'l'):
	case WORD('x', '-', 'u', 'r', 'l', '-', 's', 'c'):
	case WORD('x', '-', 'v', 'e', 'r', 'c', 'e', 'l'):
		return table->passes_forwarded ? 0 : UP_MEANING;
	default:
		return 0;
	}
}

/* Whether the cookie at a place has one of the names that matter. */
GLOBAL_FUNCTION int match_cookie(struct parsed_head *parsed, const struct request_table *table, __u32 at)
{
	__u32 i, j;

	if (!parsed || !table)
		return UP_COOKIE;
	/* One space was skipped. */
	if (*head_at(parsed, at) == ' ')
		return UP_COOKIE;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_COOKIES_MAX && i < table->cookies_count; i++) {
		const struct request_cookie *cookie = &table->cookies[i];
		__u64 other = 0;
		__u8 next;

#pragma clang loop unroll(full)
		for (j = 0; j < REQUEST_COOKIE_WORDS; j++)
			other |= (word_at(head_at(parsed, at + 8 * j)) ^ cookie->words[j]) & cookie->masks[j];
		if (other)
			continue;
		next = *head_at(parsed, at + cookie->bytes);
		if (next == ' ')
			return UP_COOKIE;
		if (next == '=')
			parsed->cookies |= 1U << i;
	}
	return 0;
}

/* A cookie, where cookies matter. */
static __always_inline int step_over_cookie(struct parsed_head *parsed, const struct request_table *table)
{
	__u32 at = parsed->at, end;
	int up = match_cookie(parsed, table, at);

	if (up)
		return up;
	end = find_value_end(parsed, at, ';');
	if (!end)
		return UP_FIELD;
	if (*head_at(parsed, end) == ';') {
		parsed->at = end + 1 + (*head_at(parsed, end + 1) == ' ');
		return 0;
	}
	if (pair_at(head_at(parsed, end)) != CRLF || *head_at(parsed, end - 1) == ' ')
		return UP_FIELD;
	parsed->is_in_cookies = 0;
	parsed->at = end + 2;
	return 0;
}

/* A step through the fields: over a line, or a cookie. */
GLOBAL_FUNCTION int parse_step(struct parsed_head *parsed, const struct request_table *table)
{
	__u32 at, name_bytes, end;
	__u64 name;

	if (!parsed || !table)
		return UP_FIELD;
	if (parsed->is_in_cookies)
		return step_over_cookie(parsed, table);
	at = parsed->at;
	if (pair_at(head_at(parsed, at)) == CRLF) {
		parsed->is_whole = 1;
		/* Behind it there may be a second request, or a body that was not announced. */
		return at + 2 == parsed->end ? 0 : UP_PART;
	}
	parsed->fields += 1;
	if (parsed->fields > table->fields_max)
		return UP_FIELDS;
	name_bytes = measure_name(parsed, at);
	if (!name_bytes || pair_at(head_at(parsed, at + name_bytes)) != (':' | ' ' << 8))
		return UP_FIELD;
	/* In a name, nothing but letters is changed by it. */
	name = word_at(head_at(parsed, at)) | SMALL;
	if (name_bytes < 8)
		name &= (1ULL << (8 * name_bytes)) - 1;
	at += name_bytes + 2;
	if (*head_at(parsed, at) == ' ')
		return UP_FIELD;
	if (name == WORD('c', 'o', 'o', 'k', 'i', 'e', 0, 0) && table->cookies_count) {
		parsed->is_in_cookies = 1;
		parsed->at = at;
		return 0;
	}
	end = find_value_end(parsed, at, '\r');
	if (end <= at || pair_at(head_at(parsed, end)) != CRLF || *head_at(parsed, end - 1) == ' ')
		return UP_FIELD;
	parsed->at = end + 2;
	return parse_field(parsed, table, name, name_bytes, at, end);
}

#endif
