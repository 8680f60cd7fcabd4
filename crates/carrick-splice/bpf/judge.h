/* Judges requests: whether a packet is exactly one plain request without a body, and which route takes it.
 *
 * It must never decide otherwise than the process would (http1 and route of carrick-logic); so whatever is unusual is up to the
 * process. What is needed of a head is found in one pass, eight bytes at a time. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_JUDGE_H
#define CARRICK_JUDGE_H

#include "requests.h"
#include "words.h"

/* The head's room: an index that is cut to HEAD_INDEX, and the longest text behind it, are inside, which is all that the verifier
 * wants to know. What is behind the head is of some earlier one, and never matters: each search ends at the head's end. */
#define HEAD_INDEX 2047
#define HEAD_ROOM (2048 + 256)
#define HEAD_WORDS_MAX (REQUEST_HEAD_MAX / 8 + 1)

#define CRLF 0x0a0d

/* The shortest one: `GET / HTTP/1.1`, and a host of one letter. */
#define HEAD_MIN 27

/* Field lines, cookies and the end, as steps of one loop. */
#define STEPS_MAX 96

/* A name of a field has at most so many bytes, its colon included; a host likewise, up to its end or colon. */
#define NAME_WORDS 4
#define HOST_WORDS 8

/* A request that is judged, and what was found in it. Places are counted from the head's first byte. It stands in a map, so
 * that the verifier need not follow what is in it. */
struct judgement {
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
	__u32 fields;
	__u32 is_whole;
	__u32 is_in_cookies;
	__u32 cookies; /* bits of those that are there */
	__u32 met[REQUEST_TEXT_KINDS]; /* the routes that are content with a path, extension, host */
	__u32 route;
	__u32 upstream; /* of that route */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct judgement);
} judgements SEC(".maps");

/* A table; it is never changed, but another one takes its place. This one is of nobody's. */
struct request_table_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_table);
} no_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, REQUEST_TABLES_MAX);
	__type(key, __u32);
	__array(values, struct request_table_map);
} request_tables SEC(".maps") = {
	.values = {&no_requests},
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_counts);
} request_counters SEC(".maps");

/* Requests that were forwarded unseen. The process sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} request_events SEC(".maps");

/* Has clang describe the whole of them (BTF). */
struct request_table *request_table_type __attribute__((unused));
struct request_event *request_event_type __attribute__((unused));

/* Functions with a loop are functions for the verifier, too: it looks at each by itself, once, whatever it is called with. So none may
 * have an argument that is null, though it never is. Their stacks are kept small, since they add up with the caller's. */
#define JUDGE_FUNCTION __attribute__((noinline))

/* Makes the compiler forget what it knows of a number, where the verifier does not know it: a bound would be left out. */
#define FORGET(number) asm volatile("" : "+r"(number))

static __always_inline const __u8 *head_at(const struct judgement *judged, __u32 at)
{
	return judged->head + (at & HEAD_INDEX);
}

/* Where the target ends, and in it the path; 0 if a byte is in it that does not belong there. */
JUDGE_FUNCTION __u32 find_target_end(struct judgement *judged, __u32 at)
{
	__u32 i;

	if (!judged)
		return 0;
	judged->path_end = 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		__u64 word = word_at(head_at(judged, at)), stop, question;

		/* Bytes behind the target may be looked at, too: those of the version, which are below 0x80. */
		if (word & HIGH_BITS)
			return 0;
		stop = below(word, '!') | equal(word, 0x7f) | equal(word, '#');
		question = those_before(equal(word, '?'), stop);
		if (question && !judged->path_end)
			judged->path_end = at + before_first(question);
		if (!stop) {
			at += 8;
			continue;
		}
		at += before_first(stop);
		if (!judged->path_end)
			judged->path_end = at;
		return *head_at(judged, at) == ' ' ? at : 0;
	}
	return 0;
}

/* The request line: method, target, version. */
JUDGE_FUNCTION int judge_request_line(struct judgement *judged)
{
	__u64 first;
	__u32 at;

	if (!judged)
		return UP_LENGTH;
	first = word_at(judged->head);
	if ((first & 0xffffffffULL) == LETTERS('G', 'E', 'T', ' ')) {
		judged->method = REQUEST_GET;
		at = 4;
	} else if ((first & 0xffffffffffULL) == WORD('H', 'E', 'A', 'D', ' ', 0, 0, 0)) {
		judged->method = REQUEST_HEAD;
		at = 5;
	} else if ((first & 0xffffffffffffffULL) == WORD('D', 'E', 'L', 'E', 'T', 'E', ' ', 0)) {
		judged->method = REQUEST_DELETE;
		at = 7;
	} else if (first == WORD('O', 'P', 'T', 'I', 'O', 'N', 'S', ' ')) {
		judged->method = REQUEST_OPTIONS;
		at = 8;
	} else {
		return UP_METHOD;
	}
	if (*head_at(judged, at) != '/')
		return UP_TARGET;
	judged->path_at = at;
	at = find_target_end(judged, at);
	if (!at)
		return UP_TARGET;
	judged->target_end = at;
	if (word_at(head_at(judged, at + 1)) != WORD('H', 'T', 'T', 'P', '/', '1', '.', '1') ||
	    pair_at(head_at(judged, at + 9)) != CRLF)
		return UP_VERSION;
	judged->at = at + 11;
	return 0;
}

/* Letters, digits and hyphens. */
static __always_inline __u64 name_bytes(__u64 word)
{
	/* Into letters it turns nothing but letters. */
	return between(word | SMALL, 'a', 'z') | between(word, '0', '9') | equal(word, '-');
}

/* How many bytes of a field's name there are before its colon; 0 if it is no name. */
JUDGE_FUNCTION __u32 measure_name(const struct judgement *judged, __u32 at)
{
	__u32 bytes = 0, i;

	if (!judged)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < NAME_WORDS; i++) {
		__u64 raw = word_at(head_at(judged, at + bytes)), word = raw & ~HIGH_BITS;
		__u64 colon = equal(word, ':') & ~raw;

		if (those_before(~name_bytes(word) & HIGH_BITS, colon) | those_before(raw & HIGH_BITS, colon))
			return 0;
		if (colon)
			return bytes + before_first(colon);
		bytes += 8;
	}
	return 0;
}

/* Where a value ends: at its CR, or at the end of a cookie. What is no text ends it, too, and is seen there. */
JUDGE_FUNCTION __u32 find_value_end(const struct judgement *judged, __u32 at, __u64 separator)
{
	__u32 i;

	if (!judged)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < HEAD_WORDS_MAX; i++) {
		__u64 raw = word_at(head_at(judged, at)), word = raw & ~HIGH_BITS;
		/* Below a space, or 0x7f, to which one is added. */
		__u64 stop = ((~(word + EACH(0x60)) | (word + EACH(1)) | equal(word, separator)) & HIGH_BITS) & ~raw;

		if (stop)
			return at + before_first(stop);
		at += 8;
	}
	return 0;
}

/* `Connection: keep-alive` says what is so anyway. */
static __always_inline int says_keep_alive(const struct judgement *judged, __u32 at, __u32 end)
{
	return end - at == 10 &&
	       (word_at(head_at(judged, at)) | SMALL) == WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i') &&
	       (pair_at(head_at(judged, at + 8)) | 0x2020) == ('v' | 'e' << 8);
}

/* A port is a number from 1 to 65535 without zeros in front. */
static __always_inline int is_port(const struct judgement *judged, __u32 at, __u32 end)
{
	__u32 port = 0, i;

	if (end - at < 1 || end - at > 5 || *head_at(judged, at) == '0')
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < 5 && at < end; i++, at++) {
		__u32 digit = *head_at(judged, at) - '0';

		if (digit > 9)
			return 0;
		port = port * 10 + digit;
	}
	return port <= 65535;
}

/* `Host`: a name or an IPv4 address, with or without port. */
JUDGE_FUNCTION int judge_host(struct judgement *judged, __u32 value_at, __u32 value_end)
{
	__u32 at = value_at, i;
	__u64 stop = 0;

	if (!judged || judged->host_end)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < HOST_WORDS; i++) {
		__u64 raw = word_at(head_at(judged, at)), word = raw & ~HIGH_BITS;
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
	if (!stop || at == value_at || *head_at(judged, at - 1) == '.')
		return 0;
	judged->host_at = value_at;
	judged->host_end = at;
	return at == value_end || is_port(judged, at + 1, value_end);
}

/* What the field's name, in small letters, and its value mean for a proxy. The names need not be compared to their ends where a
 * longer one that nobody uses is up to the process, too. */
static __always_inline int judge_meaning(struct judgement *judged, const struct request_table *table, __u64 name,
						     __u32 name_bytes, __u32 at, __u32 end)
{
	switch (name) {
	case WORD('h', 'o', 's', 't', 0, 0, 0, 0):
		return judge_host(judged, at, end) ? 0 : UP_HOST;
	case WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i'):
		return says_keep_alive(judged, at, end) ? 0 : UP_MEANING;
	case WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-'):
		/* Content-Length; others are harmless. */
		return name_bytes == 14 ? UP_MEANING : 0;
	case WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', 0):
	case WORD('t', 'e', 0, 0, 0, 0, 0, 0):
	case WORD('t', 'r', 'a', 'i', 'l', 'e', 'r', 0):
	case WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'):
	case WORD('e', 'x', 'p', 'e', 'c', 't', 0, 0):
	case WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i'):
	case WORD('p', 'r', 'o', 'x', 'y', '-', 'c', 'o'):
	case WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u'):
	case WORD('m', 'a', 'x', '-', 'f', 'o', 'r', 'w'):
		return UP_MEANING;
	case WORD('f', 'o', 'r', 'w', 'a', 'r', 'd', 'e'):
	case WORD('x', '-', 'f', 'o', 'r', 'w', 'a', 'r'):
		return table->passes_forwarded ? 0 : UP_MEANING;
	default:
		return 0;
	}
}

/* Whether the cookie at a place has one of the names that matter. */
JUDGE_FUNCTION int judge_cookie(struct judgement *judged, const struct request_table *table, __u32 at)
{
	__u32 i, j;

	if (!judged || !table)
		return UP_COOKIE;
	/* One space was skipped. */
	if (*head_at(judged, at) == ' ')
		return UP_COOKIE;
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_COOKIES_MAX && i < table->cookies_count; i++) {
		const struct request_cookie *cookie = &table->cookies[i];
		__u64 other = 0;
		__u8 next;

#pragma clang loop unroll(full)
		for (j = 0; j < REQUEST_COOKIE_WORDS; j++)
			other |= (word_at(head_at(judged, at + 8 * j)) ^ cookie->words[j]) & cookie->masks[j];
		if (other)
			continue;
		next = *head_at(judged, at + cookie->bytes);
		if (next == ' ')
			return UP_COOKIE;
		if (next == '=')
			judged->cookies |= 1U << i;
	}
	return 0;
}

/* A cookie, where cookies matter. */
static __always_inline int step_over_cookie(struct judgement *judged, const struct request_table *table)
{
	__u32 at = judged->at, end;
	int up = judge_cookie(judged, table, at);

	if (up)
		return up;
	end = find_value_end(judged, at, ';');
	if (!end)
		return UP_FIELD;
	if (*head_at(judged, end) == ';') {
		judged->at = end + 1 + (*head_at(judged, end + 1) == ' ');
		return 0;
	}
	if (pair_at(head_at(judged, end)) != CRLF || *head_at(judged, end - 1) == ' ')
		return UP_FIELD;
	judged->is_in_cookies = 0;
	judged->at = end + 2;
	return 0;
}

/* A step through the fields: over a line, or a cookie. */
JUDGE_FUNCTION int judge_step(struct judgement *judged, const struct request_table *table)
{
	__u32 at, name_bytes, end;
	__u64 name;

	if (!judged || !table)
		return UP_FIELD;
	if (judged->is_in_cookies)
		return step_over_cookie(judged, table);
	at = judged->at;
	if (pair_at(head_at(judged, at)) == CRLF) {
		judged->is_whole = 1;
		/* Behind it there may be a second request, or a body that was not announced. */
		return at + 2 == judged->end ? 0 : UP_PART;
	}
	judged->fields += 1;
	if (judged->fields > table->fields_max)
		return UP_FIELDS;
	name_bytes = measure_name(judged, at);
	if (!name_bytes || pair_at(head_at(judged, at + name_bytes)) != (':' | ' ' << 8))
		return UP_FIELD;
	/* In a name, nothing but letters is changed by it. */
	name = word_at(head_at(judged, at)) | SMALL;
	if (name_bytes < 8)
		name &= (1ULL << (8 * name_bytes)) - 1;
	at += name_bytes + 2;
	if (*head_at(judged, at) == ' ')
		return UP_FIELD;
	if (name == WORD('c', 'o', 'o', 'k', 'i', 'e', 0, 0) && table->cookies_count) {
		judged->is_in_cookies = 1;
		judged->at = at;
		return 0;
	}
	end = find_value_end(judged, at, '\r');
	if (end <= at || pair_at(head_at(judged, end)) != CRLF || *head_at(judged, end - 1) == ' ')
		return UP_FIELD;
	judged->at = end + 2;
	return judge_meaning(judged, table, name, name_bytes, at, end);
}

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

/* Takes the payload out of the packet. */
JUDGE_FUNCTION int load_head(struct __sk_buff *skb, struct judgement *judged, __u32 at, __u32 bytes)
{
	if (!judged)
		return UP_LENGTH;
	FORGET(bytes);
	if (bytes < HEAD_MIN || bytes > REQUEST_HEAD_MAX || bpf_skb_load_bytes(skb, at, judged->head, bytes))
		return UP_LENGTH;
	judged->end = bytes;
	judged->host_end = 0;
	judged->fields = 0;
	judged->is_whole = 0;
	judged->is_in_cookies = 0;
	judged->cookies = 0;
	/* So each search through lines ends in the head. */
	return pair_at(head_at(judged, bytes - 4)) == CRLF && pair_at(head_at(judged, bytes - 2)) == CRLF ? 0 : UP_PART;
}

static __always_inline int judge_head(struct judgement *judged, const struct request_table *table)
{
	__u32 i;
	int up;

	if (table->generation != judged->generation)
		return UP_TABLE;
	if (judged->end > table->head_bytes_max)
		return UP_LENGTH;
	up = judge_request_line(judged);
	if (up)
		return up;
#pragma clang loop unroll(disable)
	for (i = 0; i < STEPS_MAX && !judged->is_whole; i++) {
		up = judge_step(judged, table);
		if (up)
			return up;
	}
	if (!judged->is_whole)
		return UP_FIELDS;
	if (!judged->host_end)
		return UP_HOST;
	return choose_route(judged, table);
}

/* What was found in the request that was judged last on this CPU; 0 never comes, but the verifier wants it to be asked for. */
static __always_inline struct judgement *judgement(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&judgements, &zero);
}

/* The number of the route of this table that takes the request in a packet; or less than 0, a negative `enum request_up`: the
 * request is up to the process. `judgement` tells more. `generation` is that of the table when whoever asks became what it is.
 *
 * A function of its own for the verifier, too, which looks at it once wherever it is called from. It must not be called with a
 * lock, nor for what lies behind another judgement that is still of use. */
JUDGE_FUNCTION int judge_request(struct __sk_buff *skb, __u32 payload_at, __u32 payload_bytes, __u32 number, __u32 generation)
{
	struct judgement *judged = judgement();
	struct request_table *table = 0;
	struct request_counts *counts;
	__u32 zero = 0;
	int up;

	if (!judged)
		return -UP_TABLE;
	judged->table = number;
	judged->generation = generation;
	up = load_head(skb, judged, payload_at, payload_bytes);
	if (!up) {
		table = bpf_map_lookup_elem(&request_tables, &judged->table);
		if (table)
			table = bpf_map_lookup_elem(table, &zero);
		up = table ? judge_head(judged, table) : UP_TABLE;
	}
	counts = bpf_map_lookup_elem(&request_counters, &zero);
	if (!counts)
		return -UP_TABLE;
	FORGET(up);
	if (up || !table) {
		counts->up[up & (UP_REASONS - 1)] += 1;
		return -up;
	}
	counts->judged += 1;
	judged->sample_every = table->sample_every;
	return judged->route;
}

/* Tells the process of the request that was judged last on this CPU and is forwarded by the splice at `place`: for the access
 * log. Nobody is woken before the room is half full; the process looks by itself now and then. */
static __always_inline void tell_request(__u32 place)
{
	struct judgement *judged = judgement();
	struct request_event *event;
	struct request_counts *counts;
	__u32 zero = 0, i;
	__u64 flags;

	counts = bpf_map_lookup_elem(&request_counters, &zero);
	if (!judged || !counts || !judged->sample_every)
		return;
	counts->sampled += 1;
	if (counts->sampled < judged->sample_every)
		return;
	counts->sampled = 0;
	event = bpf_ringbuf_reserve(&request_events, sizeof(*event), 0);
	if (!event) {
		counts->events_lost += 1;
		return;
	}
	counts->events += 1;
	event->time_ns = bpf_ktime_get_ns();
	event->place = place;
	event->table = judged->table;
	event->generation = judged->generation;
	event->sample_every = judged->sample_every;
	event->head_bytes = judged->end;
	event->path_bytes = judged->target_end - judged->path_at;
	event->host_bytes = judged->host_end - judged->host_at;
	event->route = judged->route;
	event->method = judged->method;
	/* What is copied behind their ends is the rest of the head. */
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_EVENT_PATH_MAX; i += 8)
		*(__u64 *)(event->path + i) = *(const __u64 *)head_at(judged, judged->path_at + i);
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_EVENT_HOST_MAX; i += 8)
		*(__u64 *)(event->host + i) = *(const __u64 *)head_at(judged, judged->host_at + i);
	flags = bpf_ringbuf_query(&request_events, BPF_RB_AVAIL_DATA) >
				bpf_ringbuf_query(&request_events, BPF_RB_RING_SIZE) / 2
			? BPF_RB_FORCE_WAKEUP
			: BPF_RB_NO_WAKEUP;
	bpf_ringbuf_submit(event, flags);
}

#endif
