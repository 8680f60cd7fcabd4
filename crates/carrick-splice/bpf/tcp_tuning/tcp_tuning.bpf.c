// Gives the process that loaded it socket options that the kernel offers to BPF programs only, and sets
// handshake parameters of its sockets. Other processes are not affected.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tcp_tuning.h"

// Some helpers require a GPL license.
char _license[] SEC("license") = "GPL";

#define GO_ON 1
#define FAIL 0

// netinet/in.h, which is not for BPF programs.
#define PROTOCOL_TCP 6

#define EINVAL 22
#define ENOMEM 12

// The fields of kernel structures that are read, relocated by name at load time (CO-RE).
struct sock_common {
	struct sock *skc_listener;
	struct {
		__s64 counter;
	} skc_cookie;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct bpf_sock_ops_kern {
	struct sock *sk;
	__u8 is_fullsock;
} __attribute__((preserve_access_index));

// Linux 6.2 and later.
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

// The process's secret, which authenticates requests. The process sets it before it loads the program.
const volatile struct tcp_request secret;

// Handshake parameters of a socket, or of connections that a listener accepts.
struct handshake {
	__u32 timeout_ticks;
	__u32 window_segments;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct handshake);
} connecting SEC(".maps");

// Keyed by the listener's cookie: in a handshake, a program can read the listener's memory, but not its
// storage.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LEG_LISTENERS);
	__type(key, __u64);
	__type(value, struct handshake);
} listeners SEC(".maps");

static __always_inline int remember(struct bpf_sock *socket, const struct tcp_request *request)
{
	struct handshake told = { request->value, request->segments };
	struct handshake *handshake;
	__u64 cookie = request->cookie;

	if (cookie)
		return bpf_map_update_elem(&listeners, &cookie, &told, BPF_ANY);
	handshake = bpf_sk_storage_get(&connecting, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!handshake)
		return -ENOMEM;
	*handshake = told;
	return 0;
}

// Declared as in the kernel: bpf_helpers.h declares `int`, which loses the upper half.
static long (*const set_result)(long error) = (void *)BPF_FUNC_set_retval;

static __always_inline long set(struct bpf_sock *socket, int option, __u32 value)
{
	return bpf_setsockopt(socket, PROTOCOL_TCP, option, &value, sizeof(value));
}

static __always_inline long obey(struct bpf_sock *socket, const struct tcp_request *request)
{
	char name[LEG_NAME_BYTES];

	switch (request->ask) {
	case LEG_INITIAL_WINDOW:
		return set(socket, TCP_BPF_IW, request->value);
	case LEG_RTO_MIN:
		return set(socket, TCP_BPF_RTO_MIN, request->value);
	case LEG_DELACK_MAX:
		return set(socket, TCP_BPF_DELACK_MAX, request->value);
	case LEG_CONGESTION:
		__builtin_memcpy(name, request->name, sizeof(name));
		return bpf_setsockopt(socket, PROTOCOL_TCP, TCP_CONGESTION, name, sizeof(name));
	case LEG_HANDSHAKE:
		return remember(socket, request);
	default:
		return -EINVAL;
	}
}

static __always_inline int is_own(struct bpf_sockopt *context)
{
	struct tcp_request *request = context->optval;

	return context->level == LEG_LEVEL && context->optname == LEG_OPTION &&
	       (void *)(request + 1) <= context->optval_end && request->key[0] == secret.key[0] &&
	       request->key[1] == secret.key[1];
}

SEC("cgroup/setsockopt")
int carrick_tcp_option(struct bpf_sockopt *context)
{
	struct tcp_request *request = context->optval;
	struct bpf_sock *socket = context->sk;
	long error;

	if (!is_own(context) || (void *)(request + 1) > context->optval_end || !socket) {
		// A value longer than a page is not here as a whole, and the kernel fails the call unless the program
		// declares it untouched.
		if (context->optlen > (long)(context->optval_end - context->optval))
			context->optlen = 0;
		return GO_ON;
	}
	error = obey(socket, request);
	if (error) {
		// Linux 7.3 and later require an errno here.
		if (error < -4095 || error > 0)
			error = -EINVAL;
		asm volatile("" : "+r"(error));
		set_result(error);
		return FAIL;
	}
	// Done: the kernel is not to handle the option.
	context->optlen = -1;
	return GO_ON;
}

// The parameters of the listener to which a handshake belongs.
static __always_inline struct handshake *of_listener(struct bpf_sock_ops *context)
{
	struct bpf_sock_ops_kern *inner;
	struct sock *listener;
	__u64 cookie;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx))
		return 0;
	inner = bpf_cast_to_kern_ctx(context);
	if (inner->is_fullsock || !inner->sk)
		return 0;
	// The handshake holds a reference to its listener.
	listener = inner->sk->__sk_common.skc_listener;
	if (!listener || bpf_core_read(&cookie, sizeof(cookie), &listener->__sk_common.skc_cookie.counter))
		return 0;
	return bpf_map_lookup_elem(&listeners, &cookie);
}

SEC("sockops")
int carrick_tcp_handshake(struct bpf_sock_ops *context)
{
	struct bpf_sock *socket;
	struct handshake *handshake;
	__u32 reply;

	if (context->op != BPF_SOCK_OPS_TIMEOUT_INIT && context->op != BPF_SOCK_OPS_RWND_INIT)
		return GO_ON;
	socket = context->sk;
	handshake = socket ? bpf_sk_storage_get(&connecting, socket, 0, 0) : of_listener(context);
	if (!handshake)
		return GO_ON;
	reply = context->op == BPF_SOCK_OPS_TIMEOUT_INIT ? handshake->timeout_ticks : handshake->window_segments;
	// Keeps another program's reply if there is none to give.
	if (reply)
		context->reply = reply;
	return GO_ON;
}
