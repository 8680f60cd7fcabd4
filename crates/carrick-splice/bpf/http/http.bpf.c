// The classifier of requests by itself, for tests and measurements: run by BPF_PROG_TEST_RUN.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "classifier.h"

char _license[] SEC("license") = "GPL";

struct classify_order *classify_order_type __attribute__((unused));
struct classify_answer *classify_answer_type __attribute__((unused));

// Classifies the request behind a `struct classify_order`, and returns what `classify_request` does. If requested, a `struct classify_answer`
// takes the order's place.
SEC("tc")
int carrick_classify(struct __sk_buff *skb)
{
	struct classify_answer answer = {};
	struct parsed_head *parsed;
	struct classify_order order;
	int verdict;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &order, sizeof(order)))
		return -UP_LENGTH;
	verdict = classify_request(skb, ETH_HLEN + sizeof(order), skb->len - ETH_HLEN - sizeof(order), order.table,
				   order.generation);
	parsed = parsed_head();
	if (verdict < 0 || !parsed)
		return verdict;
	if (order.wants & CLASSIFY_TELL) {
		struct telling telling = { .time_ns = bpf_ktime_get_ns(), .place = order.place };

		tell_request(&telling);
	}
	if (order.wants & CLASSIFY_ANSWER) {
		answer.upstream = parsed->upstream;
		answer.method = parsed->method;
		answer.path_bytes = parsed->path_end - parsed->path_at;
		answer.host_bytes = parsed->host_end - parsed->host_at;
		bpf_skb_store_bytes(skb, ETH_HLEN, &answer, sizeof(answer), 0);
	}
	return verdict;
}
