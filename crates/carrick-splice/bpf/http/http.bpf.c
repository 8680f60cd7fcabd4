// The judge of requests by itself, for tests, measurements, and those who want to know what it would say: run by BPF_PROG_TEST_RUN.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "classifier.h"

char _license[] SEC("license") = "GPL";

struct judge_order *judge_order_type __attribute__((unused));
struct judge_answer *judge_answer_type __attribute__((unused));

// Judges the request behind a `struct judge_order`, and returns what `judge_request` does. If it is wanted, a `struct judge_answer`
// takes the order's place.
SEC("tc")
int carrick_judge(struct __sk_buff *skb)
{
	struct judge_answer answer = {};
	struct judgement *judged;
	struct judge_order order;
	int verdict;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &order, sizeof(order)))
		return -UP_LENGTH;
	verdict = judge_request(skb, ETH_HLEN + sizeof(order), skb->len - ETH_HLEN - sizeof(order), order.table,
				order.generation);
	judged = judgement();
	if (verdict < 0 || !judged)
		return verdict;
	if (order.wants & JUDGE_TELL) {
		struct telling telling = { .place = order.place };

		tell_request(&telling);
	}
	if (order.wants & JUDGE_ANSWER) {
		answer.upstream = judged->upstream;
		answer.method = judged->method;
		answer.path_bytes = judged->path_end - judged->path_at;
		answer.host_bytes = judged->host_end - judged->host_at;
		bpf_skb_store_bytes(skb, ETH_HLEN, &answer, sizeof(answer), 0);
	}
	return verdict;
}
