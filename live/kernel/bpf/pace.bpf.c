// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
// Pacing and statistics of connections, at the host that holds their sockets.
//
// A connection looks up its limit whenever it has measured a round trip. So a new rate is obeyed with
// the next acknowledgement, and so a limit whose lease has run out is lifted although nobody is left
// to lift it.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "watermaster.h"
#include "lease.h"

#define CALLBACKS (BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG)
#define UNLIMITED 0xffffffffu // SO_MAX_PACING_RATE reads it as no limit

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct wm_connection);
	__type(value, struct wm_limit);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wm_socket);
} sockets SEC(".maps");

// The control group whose connections are governed, by its inode; 0: all are.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} group SEC(".maps");

// How many open connections have a limit applied.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} held SEC(".maps");

// Whether the agent has stopped and there was no other: nobody brings back what stood before something lower.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} alone SEC(".maps");

// Connections that have ended, until they are asked for; as large as the agent says.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ended SEC(".maps");

// How many found no room there.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

// Control groups within each other that are looked at; nobody has so many.
#define DEPTH 64

static __always_inline void map4(__u8 *to, __be32 address)
{
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &address, 4);
}

static __always_inline void name_of(struct sock_common *sk, struct wm_connection *name)
{
	if (sk->skc_family == AF_INET) {
		map4(name->source, sk->skc_rcv_saddr);
		map4(name->destination, sk->skc_daddr);
	} else {
		for (int i = 0; i < 4; i++) {
			__be32 from = sk->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			__be32 to = sk->skc_v6_daddr.in6_u.u6_addr32[i];
			__builtin_memcpy(name->source + 4 * i, &from, 4);
			__builtin_memcpy(name->destination + 4 * i, &to, 4);
		}
	}
	name->source_port = sk->skc_num;
	name->destination_port = bpf_ntohs(sk->skc_dport);
}

static __always_inline bool is_mapped(const struct wm_connection *name)
{
	const __u8 *to = name->destination;
	__u8 other = 0;
	for (int i = 0; i < 10; i++)
		other |= to[i];
	return !other && to[10] == 0xff && to[11] == 0xff;
}

// The payload per second at which full segments fill `rate` octets of frames per second.
static __always_inline __u64 payload(struct tcp_sock *tp, const struct wm_connection *name, __u64 rate)
{
	__u64 segment = tp->mss_cache;
	__u64 headers = (is_mapped(name) ? 20 : 40) + tp->inet_conn.icsk_ext_hdr_len + tp->tcp_header_len;
	if (!segment)
		return rate;
	rate = rate * segment / (segment + headers);
	// Never slower than a segment a second: what waits for its turn is not reached by a lease's end.
	if (rate < segment)
		rate = segment;
	return rate < UNLIMITED - 1 ? rate : UNLIMITED - 1;
}

static __always_inline bool is_alone(void)
{
	__u32 only = 0;
	__u64 *value = bpf_map_lookup_elem(&alone, &only);
	return value && *value;
}

// What SO_MAX_PACING_RATE must become; 0: it may stay.
static __always_inline __u32 decide(struct tcp_sock *tp, struct wm_socket *own, bool governed)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct wm_connection name;
	name_of(&sk->__sk_common, &name);

	__u64 current = sk->sk_max_pacing_rate;
	if (own->applied && current != own->applied) {
		// Somebody has set its own since: the application or, as it may be where it is less, the program of
		// another agent, which brings ours back when it is done. Then what stood before ours must be known.
		if (current < own->applied && !own->under) {
			own->under = own->applied;
			own->under_before = own->before;
		}
		own->applied = 0;
	}
	if (own->under && !own->applied && current >= own->under) {
		if (current == own->under) {
			own->applied = own->under;
			own->before = own->under_before;
		}
		own->under = 0;
	}
	// Then what is lower is the application's own.
	if (own->under && is_alone())
		own->under = 0;
	struct wm_limit *limit = governed ? bpf_map_lookup_elem(&limits, &name) : 0;
	if (limit && holds(limit->epoch)) {
		if (!own->applied)
			own->before = current < UNLIMITED ? current : UNLIMITED;
		__u64 wanted = payload(tp, &name, limit->rate);
		if (wanted > own->before)
			wanted = own->before;
		if (wanted == current)
			return 0;
		own->applied = wanted;
		return wanted;
	}
	if (!own->applied)
		return 0;
	own->applied = 0;
	return own->before;
}

// Whether a connection has a limit of ours, or gets it back when somebody who set less is done.
static __always_inline bool is_held(const struct wm_socket *own)
{
	return own->applied || own->under;
}

// Counts a connection that is held from now on, or no more.
static __always_inline void count(bool was, bool is)
{
	__u32 only = 0;
	__u64 *counter = bpf_map_lookup_elem(&held, &only);
	if (counter && was != is)
		__sync_fetch_and_add(counter, is ? 1 : -1);
}

// Tells of a connection that ends, if it has sent anything. Nobody is woken: it is asked for with each sample.
static __always_inline void tell_end(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	if (!tp->data_segs_out)
		return;
	struct wm_ended *record = bpf_ringbuf_reserve(&ended, sizeof(*record), 0);
	if (!record) {
		__u32 only = 0;
		__u64 *counter = bpf_map_lookup_elem(&lost, &only);
		if (counter)
			__sync_fetch_and_add(counter, 1);
		return;
	}
	name_of(&sk->__sk_common, &record->connection);
	record->namespace = sk->__sk_common.skc_net.net->ns.inum;
	record->sent = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	record->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("sockops")
int govern(struct bpf_sock_ops *ops)
{
	__u32 op = ops->op;
	bool fresh = op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
	if (!fresh && op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_RTO_CB && op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	struct bpf_sock *sk = ops->sk;
	if (!sk)
		return 1;
	struct wm_socket *own = bpf_sk_storage_get(&sockets, sk, 0, fresh ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!own)
		return 1;
	if (op == BPF_SOCK_OPS_RTO_CB) {
		own->timeouts++;
		return 1;
	}
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	if (op == BPF_SOCK_OPS_STATE_CB) {
		if (ops->args[1] != TCP_CLOSE || ops->args[0] == TCP_CLOSE)
			return 1;
		// What was applied stays with the socket, which may connect again.
		count(is_held(own), false);
		tell_end(tp);
		return 1;
	}
	if (fresh)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | CALLBACKS);
	bool was = is_held(own) && !fresh;
	__u32 rate = decide(tp, own, true);
	count(was, is_held(own));
	if (rate)
		bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	return 1;
}

// Whether the program above is asked for this socket's sake: whether the group that it was made in is the
// governed one, or below it.
static __always_inline bool is_governed(struct sock *sk)
{
	__u32 only = 0;
	__u64 *wanted = bpf_map_lookup_elem(&group, &only);
	if (!wanted || !*wanted)
		return true;
	struct cgroup *own = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	// Before Linux 6.1 there are none, nor could anything be adopted.
	if (!own || !bpf_core_field_exists(own->ancestors))
		return false;
	int level = BPF_CORE_READ(own, level);
	for (int i = 0; i < DEPTH && i <= level; i++)
		if (BPF_CORE_READ(own, ancestors[i], kn, id) == *wanted)
			return true;
	return false;
}

// Reaches connections that were there before the program above: from then on they too ask for their
// limit. Where that can't be had, they aren't touched, because nothing would lift their limit. Those of
// other groups aren't either, but for what an agent of another group left: that is undone.
// Writes an octet for each connection that it holds.
SEC("iter/tcp")
int adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	if (!common)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	__u8 state = common->skc_state;
	if (state != TCP_ESTABLISHED && state != TCP_FIN_WAIT1 && state != TCP_CLOSE_WAIT &&
	    state != TCP_LAST_ACK && state != TCP_CLOSING)
		return 0;
	bool governed = is_governed(&tp->inet_conn.icsk_inet.sk);
	if (governed) {
		int flags = 0;
		if (bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
			return 0;
		flags |= CALLBACKS;
		if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
			return 0;
	}
	struct wm_socket *own =
		bpf_sk_storage_get(&sockets, tp, 0, governed ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!own)
		return 0;
	bool was = is_held(own);
	__u32 rate = decide(tp, own, governed);
	count(was, governed && is_held(own));
	if (rate)
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	if (!governed) {
		bpf_sk_storage_delete(&sockets, tp);
		return 0;
	}
	__u8 one = 1;
	bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

// Writes a record for each connection that the programs above know, of one namespace. An iterator over the map of
// sockets would reach all namespaces at once, but there are kernels that refuse it.
SEC("iter/tcp")
int report(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	if (!common)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	struct wm_socket *own = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (!own)
		return 0;
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct wm_statistics line = {};
	name_of(&sk->__sk_common, &line.connection);
	line.namespace = sk->__sk_common.skc_net.net->ns.inum;
	line.delivered = tp->bytes_acked;
	line.received = tp->bytes_received;
	line.pacing = own->applied;
	struct socket *socket = sk->sk_socket;
	if (socket)
		line.inode = BPF_CORE_READ((struct socket_alloc *)socket, vfs_inode.i_ino);
	line.cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	line.unsent = tp->write_seq - tp->snd_nxt;
	line.in_flight = tp->snd_nxt - tp->snd_una;
	line.unread = tp->rcv_nxt - tp->copied_seq;
	line.srtt_us = tp->srtt_us >> 3;
	line.retransmissions = tp->total_retrans;
	line.timeouts = own->timeouts;
	line.window = tp->snd_cwnd;
	line.segment = tp->mss_cache;
	line.scale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale);
	line.state = sk->__sk_common.skc_state;
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
