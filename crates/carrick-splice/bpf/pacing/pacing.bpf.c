// The control block of pacing, which the process passes to the engines' programs; and a program that tests
// its functions.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "pacing.h"

char _license[] SEC("license") = "GPL";

// Puts this enum into the generated types: its values are in pacing.h only.
const volatile enum pace_yield yield_numbers = PACE_IMMEDIATE;

#define ETHERNET_BYTES 14

/* Input and output of `pace_asked`, behind an Ethernet header. */
struct pace_question {
	__u64 handle;
	__u64 now;
	__u64 bytes; /* to take; 0: only query */
	__u64 left;  /* result: bytes left */
};

// Puts this type into the generated types.
struct pace_question question_type;

SEC("tc")
int pace_asked(struct __sk_buff *skb)
{
	struct pace_question question;
	struct pace_block *block;

	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &question, sizeof(question)))
		return TC_ACT_SHOT;
	block = pace_find(question.handle);
	question.left = pace_left_of(block, question.handle, question.now, 0);
	if (question.bytes)
		pace_take(block, question.handle, question.bytes, 0, question.now);
	return bpf_skb_store_bytes(skb, ETHERNET_BYTES, &question, sizeof(question), 0) ? TC_ACT_SHOT : TC_ACT_OK;
}
