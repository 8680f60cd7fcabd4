// Programs for the tests of the hooks: they count IPv4 UDP packets and do nothing else.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum place { INGRESS, EGRESS, FOREIGN, PLACES };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline void count(struct __sk_buff *skb, __u32 place)
{
	__u8 protocol = 0;
	__u64 *packets;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return;
	bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, 1);
	packets = bpf_map_lookup_elem(&seen, &place);
	if (protocol == IPPROTO_UDP && packets)
		__sync_fetch_and_add(packets, 1);
}

// TC_ACT_UNSPEC, TCX_NEXT in tcx: later programs see the packet.
#define NEXT -1
// TC_ACT_OK, TCX_PASS in tcx: later programs do not see the packet.
#define OK 0

SEC("tc")
int carrick_in(struct __sk_buff *skb)
{
	count(skb, INGRESS);
	return NEXT;
}

SEC("tc")
int carrick_out(struct __sk_buff *skb)
{
	count(skb, EGRESS);
	return NEXT;
}

SEC("tc")
int foreign_next(struct __sk_buff *skb)
{
	count(skb, FOREIGN);
	return NEXT;
}

SEC("tc")
int foreign_ok(struct __sk_buff *skb)
{
	count(skb, FOREIGN);
	return OK;
}

SEC("xdp")
int foreign_xdp(struct xdp_md *frame)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
