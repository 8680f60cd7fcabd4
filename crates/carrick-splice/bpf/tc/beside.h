/* What a local socket is given beside what is forwarded: an acknowledgement of what it has sent. Included by tc.bpf.c. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_BESIDE_H
#define CARRICK_TC_BESIDE_H

/* Gives the local socket an acknowledgement for what it has sent, and nothing else: `strip_payload` takes off whatever else the packet
 * carries, as soon as the copy comes in. */
static __always_inline int copy_to_local(struct __sk_buff *skb, struct packet *packet, const struct packet_leg *leg,
					 const struct plan *plan)
{
	struct rewriting rewriting = {
		.ack = plan->local_ack - packet->ack,
		.tsecr = -leg->ts_offset,
		.window = packet->window,
	};
	__u8 sack_blocks = packet->sack_blocks;
	struct local *local = look_for(skb, leg);

	// One that has ended its stream still waits.
	if (!local || !local->is_whole)
		return 1;
	rewriting.seq = local->rcv_nxt - packet->seq;
	// Of no use here: they are translated for the other peer.
	packet->sack_blocks = 0;
	rewrite_tcp(packet, &rewriting);
	packet->sack_blocks = sack_blocks;
	packet->headers->new[13] &= ~(FLAG_FIN | FLAG_PSH | FLAG_URG);
	if (!write_tcp(skb, packet))
		return 0;
	skb->mark = COPY_MARK;
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	skb->mark = 0;
	// The one that goes on is made from the one that came: the checksum in both headers is the one that it came with.
	packet->headers->new[13] = packet->flags;
	return 1;
}

#endif
