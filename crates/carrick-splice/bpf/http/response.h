/* Where a response ends, by its head: behind it, and not before, the next request may be judged. Included by classifier.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_RESPONSE_H
#define CARRICK_HTTP_RESPONSE_H

#include "status.h"

/* No content is longer, in digits. */
#define LENGTH_DIGITS_MAX 12

/* What `Content-Length` says, between these places. False: nothing that is understood. */
JUDGE_FUNCTION int measure_content(struct judgement *judged, __u32 at, __u32 end)
{
	__u64 bytes = 0;
	__u32 i;

	if (!judged || judged->response_bytes != RESPONSE_UNKNOWN)
		return 0;
	if (*head_at(judged, at) == ' ')
		at += 1;
	if (at >= end || end - at > LENGTH_DIGITS_MAX)
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < LENGTH_DIGITS_MAX && at < end; i++, at++) {
		__u32 digit = *head_at(judged, at) - '0';

		if (digit > 9)
			return 0;
		bytes = bytes * 10 + digit;
	}
	judged->response_bytes = bytes;
	return 1;
}

/* A step through the lines of a response's head. False: one is cut off or unusual, or the content has no length (RFC 9112 section 6.3). */
JUDGE_FUNCTION int measure_line(struct judgement *judged)
{
	__u32 at, end;
	__u64 first, second;

	if (!judged)
		return 0;
	at = judged->at;
	if (at + 2 <= judged->end && pair_at(head_at(judged, at)) == CRLF) {
		judged->is_whole = 1;
		judged->at = at + 2;
		return 1;
	}
	end = find_value_end(judged, at, '\r');
	/* Behind the bytes that have come there are some of an earlier head. */
	if (end <= at || end + 4 > judged->end || pair_at(head_at(judged, end)) != CRLF || *head_at(judged, at) == ' ')
		return 0;
	judged->at = end + 2;
	first = word_at(head_at(judged, at)) | SMALL;
	second = (word_at(head_at(judged, at + 8)) | SMALL) & 0xffffffffffffULL;
	if (first == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'))
		return 0;
	if (first != WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') || second != WORD('l', 'e', 'n', 'g', 't', 'h', 0, 0))
		return 1;
	return *head_at(judged, at + 14) == ':' && measure_content(judged, at + 15, end);
}

/* Whether it is known how long the response is that begins with this packet, to a request by this `enum request_method`: then
 * `judgement()->response_bytes` says it, head included. Its head has to be whole and usual; otherwise the next request is the process's. Of an interim head
 * `interim_bytes` says how long that is; of anything else it is 0. */
JUDGE_FUNCTION int measure_response(struct __sk_buff *skb, __u32 at, __u32 bytes, __u32 method)
{
	struct judgement *judged = judgement();
	__u32 status, i;

	if (!judged)
		return 0;
	judged->interim_bytes = 0;
	if (bytes > REQUEST_HEAD_MAX)
		bytes = REQUEST_HEAD_MAX;
	if (!IS_WITHIN(bytes, HEAD_MIN / 2, REQUEST_HEAD_MAX) || bpf_skb_load_bytes(skb, at, judged->head, bytes))
		return 0;
	judged->end = bytes;
	judged->at = 0;
	judged->is_whole = 0;
	judged->response_bytes = RESPONSE_UNKNOWN;
	if (word_at(judged->head) != WORD('H', 'T', 'T', 'P', '/', '1', '.', '1') || judged->head[8] != ' ')
		return 0;
	for (i = STATUS_AT; i < STATUS_END; i++) {
		if ((__u8)(judged->head[i] - '0') > 9)
			return 0;
	}
	status = status_of(judged->head);
#pragma clang loop unroll(disable)
	for (i = 0; i < STEPS_MAX && !judged->is_whole; i++) {
		if (!measure_line(judged))
			return 0;
	}
	if (!judged->is_whole)
		return 0;
	if (status >= 100 && is_interim(status))
		judged->interim_bytes = judged->at;
	if (status < 200)
		return 0;
	if (method == REQUEST_HEAD || status == 204 || status == 304)
		judged->response_bytes = 0;
	if (judged->response_bytes == RESPONSE_UNKNOWN)
		return 0;
	judged->response_bytes += judged->at;
	return 1;
}

#endif
