/* Acknowledgements for a local socket, taken from forwarded packets: of its own data, and for connection tracking.
 * Included by tc.bpf.c. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_BESIDE_H
#define CARRICK_TC_BESIDE_H

/* Sends the local socket a copy of the packet, which acknowledges what it has sent. `strip_payload` removes the
 * payload when the copy arrives. */
static __always_inline int copy_to_local(struct __sk_buff *skb, struct packet *packet, struct packet_leg *leg,
					 const struct plan *plan)
{
	struct rewriting rewriting = {
		.ack = plan->local_ack - packet->headers->ack,
		.tsecr = -leg->ts_offset,
		.window = packet->window,
	};
	__u8 sack_blocks = packet->sack_blocks;
	struct local *local = look_for(skb, leg);

	// A jumbo packet (RFC 2675): the copy would have its option, and not its length.
	if (packet->is_ipv6 && packet->tcp_at != ETH_HLEN + sizeof(struct ipv6hdr))
		return 1;

	// A socket that has sent its FIN still waits for acknowledgements.
	if (!local || !local->is_whole)
		return 1;
	rewriting.seq = local->rcv_nxt - packet->seq;
	// Connection tracking takes the same acknowledgement for a retransmission, and soon forgets connections with
	// several (nf_conntrack_tcp_max_retrans).
	if (leg->is_varied && packet->window)
		rewriting.window -= 1;
	leg->is_varied ^= 1;
	// SACK blocks are translated for the other peer only.
	packet->sack_blocks = 0;
	rewrite_tcp(packet, &rewriting);
	packet->sack_blocks = sack_blocks;
	packet->headers->new[13] &= ~(FLAG_FIN | FLAG_PSH | FLAG_URG);
	if (!write_tcp(skb, packet))
		return 0;
	skb->mark = COPY_MARK;
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	skb->mark = 0;
	// The forwarded packet starts from the one that arrived, since the checksum in both headers is that
	// packet's.
	packet->headers->new[13] = packet->flags;
	return 1;
}

#endif
