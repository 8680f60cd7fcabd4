/* Where a response ends, by its head: behind it, and not before, the next request may be classified. Included by classifier.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_RESPONSE_H
#define CARRICK_HTTP_RESPONSE_H

#include "status.h"

/* No content is longer, in digits. */
#define LENGTH_DIGITS_MAX 12

/* What `Content-Length` says, between these places. False: nothing that is understood. */
GLOBAL_FUNCTION int measure_content(struct parsed_head *parsed, __u32 at, __u32 end)
{
	__u64 bytes = 0;
	__u32 i;

	if (!parsed || parsed->response_bytes != RESPONSE_UNKNOWN)
		return 0;
	if (*head_at(parsed, at) == ' ')
		at += 1;
	if (at >= end || end - at > LENGTH_DIGITS_MAX)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < LENGTH_DIGITS_MAX && at < end; i++, at++) {
		__u32 digit = *head_at(parsed, at) - '0';

		if (digit > 9)
			return 0;
		bytes = bytes * 10 + digit;
	}
	parsed->response_bytes = bytes;
	return 1;
}

/* A step through the lines of a response's head. False: one is cut off or unusual, or the content has no length (RFC 9112 section 6.3). */
GLOBAL_FUNCTION int measure_line(struct parsed_head *parsed)
{
	__u32 at, end;
	__u64 first, second;

	if (!parsed)
		return 0;
	at = parsed->at;
	if (at + 2 <= parsed->end && pair_at(head_at(parsed, at)) == CRLF) {
		parsed->is_whole = 1;
		parsed->at = at + 2;
		return 1;
	}
	end = find_value_end(parsed, at, '\r');
	/* Behind the bytes that have come there are some of an earlier head. */
	if (end <= at || end + 4 > parsed->end || pair_at(head_at(parsed, end)) != CRLF || *head_at(parsed, at) == ' ')
		return 0;
	parsed->at = end + 2;
	first = word_at(head_at(parsed, at)) | SMALL;
	second = (word_at(head_at(parsed, at + 8)) | SMALL) & 0xffffffffffffULL;
	if (first == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'))
		return 0;
	if (first != WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') || second != WORD('l', 'e', 'n', 'g', 't', 'h', 0, 0))
		return 1;
	return *head_at(parsed, at + 14) == ':' && measure_content(parsed, at + 15, end);
}

/* Whether it is known how long the response is that begins with this packet, to a request by this `enum request_method`: then
 * `parsed_head()->response_bytes` says it, head included. Its head has to be whole and usual; otherwise the next request is the process's. Of an interim head
 * `interim_bytes` says how long that is; of anything else it is 0. */
GLOBAL_FUNCTION int measure_response(struct __sk_buff *skb, __u32 at, __u32 bytes, __u32 method)
{
	struct parsed_head *parsed = parsed_head();
	__u32 status, i;

	if (!parsed)
		return 0;
	parsed->interim_bytes = 0;
	if (bytes > REQUEST_HEAD_MAX)
		bytes = REQUEST_HEAD_MAX;
	if (!IS_WITHIN(bytes, HEAD_MIN / 2, REQUEST_HEAD_MAX) || bpf_skb_load_bytes(skb, at, parsed->head, bytes))
		return 0;
	parsed->end = bytes;
	parsed->at = 0;
	parsed->is_whole = 0;
	parsed->response_bytes = RESPONSE_UNKNOWN;
	if (word_at(parsed->head) != WORD('H', 'T', 'T', 'P', '/', '1', '.', '1') || parsed->head[8] != ' ')
		return 0;
	for (i = STATUS_AT; i < STATUS_END; i++) {
		if ((__u8)(parsed->head[i] - '0') > 9)
			return 0;
	}
	status = status_of(parsed->head);
#pragma clang loop unroll(disable)
	for (i = 0; i < STEPS_MAX && !parsed->is_whole; i++) {
		if (!measure_line(parsed))
			return 0;
	}
	if (!parsed->is_whole)
		return 0;
	if (status >= 100 && is_interim(status))
		parsed->interim_bytes = parsed->at;
	if (status < 200)
		return 0;
	if (method == REQUEST_HEAD || status == 204 || status == 304)
		parsed->response_bytes = 0;
	if (parsed->response_bytes == RESPONSE_UNKNOWN)
		return 0;
	parsed->response_bytes += parsed->at;
	return 1;
}

#endif
