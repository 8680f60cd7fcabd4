// The control block of pacing, which the engines' programs get from the process; and what they make of it, for tests.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "pacing.h"

char _license[] SEC("license") = "GPL";

// So that the generated types have these, too: their numbers stand in pacing.h only.
const volatile enum pace_yield yield_numbers = PACE_IMMEDIATE;

#define ETHERNET_BYTES 14

/* What `pace_asked` is asked, behind an Ethernet header. */
struct pace_question {
	__u64 handle;
	__u64 now;
	__u64 bytes; /* to be taken; 0: only looked at */
	__u64 left;  /* the answer */
};

// So that the generated types have it.
struct pace_question question_type;

SEC("tc")
int pace_asked(struct __sk_buff *skb)
{
	struct pace_question question;
	struct pace_block *block;

	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &question, sizeof(question)))
		return TC_ACT_SHOT;
	block = pace_find(question.handle);
	question.left = pace_left_of(block, question.handle, question.now);
	if (question.bytes)
		pace_take(block, question.handle, question.bytes, question.now);
	return bpf_skb_store_bytes(skb, ETHERNET_BYTES, &question, sizeof(question), 0) ? TC_ACT_SHOT : TC_ACT_OK;
}
