/* Judges requests: whether a packet is exactly one plain request without a body, and which route takes it.
 *
 * It must never decide otherwise than the process would (http1 and route of carrick-logic); so whatever is unusual is up to the
 * process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_CLASSIFIER_H
#define CARRICK_CLASSIFIER_H

#include "../common/bounds.h"
#include "head.h"
#include "routes.h"

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

/* Takes the payload out of the packet. */
JUDGE_FUNCTION int load_head(struct __sk_buff *skb, struct judgement *judged, __u32 at, __u32 bytes)
{
	if (!judged)
		return UP_LENGTH;
	if (!IS_WITHIN(bytes, HEAD_MIN, REQUEST_HEAD_MAX) || bpf_skb_load_bytes(skb, at, judged->head, bytes))
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

#include "response.h"

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

/* What is known of the splice that forwards a request. See `struct request_event`. */
struct telling {
	__u64 sent_bytes;
	__u64 told_end;
	__u64 told_as;
	__u32 place;
	__u32 told_status;
};

/* Tells the process of the request that was judged last on this CPU and is forwarded: for the access log. Nobody is woken before the
 * room is half full; the process looks by itself now and then. False: it is not told of this one. */
static __always_inline int tell_request(const struct telling *telling)
{
	struct judgement *judged = judgement();
	struct request_event *event;
	struct request_counts *counts;
	__u32 zero = 0, i;
	__u64 flags;

	counts = bpf_map_lookup_elem(&request_counters, &zero);
	if (!judged || !counts || !judged->sample_every)
		return 0;
	counts->sampled += 1;
	if (counts->sampled < judged->sample_every)
		return 0;
	counts->sampled = 0;
	event = bpf_ringbuf_reserve(&request_events, sizeof(*event), 0);
	if (!event) {
		counts->events_lost += 1;
		return 0;
	}
	counts->events += 1;
	event->time_ns = bpf_ktime_get_ns();
	event->sent_bytes = telling->sent_bytes;
	event->told_end = telling->told_end;
	event->told_as = telling->told_as;
	event->place = telling->place;
	event->told_status = telling->told_status;
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
	return 1;
}

#endif
