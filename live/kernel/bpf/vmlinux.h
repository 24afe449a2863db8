/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The kernel's types, as far as the programs use them. The loader finds where each member lies in the
 * kernel that runs (CO-RE), so that order and gaps here mean nothing; only names and types count.
 */
#ifndef WATERMASTER_VMLINUX_H
#define WATERMASTER_VMLINUX_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

/* Numbers of the system call's interface: they never change. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6,
       BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_SK_STORAGE = 24, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_ANY = 0 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
       BPF_SOCK_OPS_RTO_CB = 8, BPF_SOCK_OPS_STATE_CB = 10, BPF_SOCK_OPS_RTT_CB = 12 };
enum { BPF_SOCK_OPS_RTO_CB_FLAG = 1, BPF_SOCK_OPS_STATE_CB_FLAG = 4, BPF_SOCK_OPS_RTT_CB_FLAG = 8 };
enum { TCP_BPF_SOCK_OPS_CB_FLAGS = 1008 };
enum { SOL_SOCKET = 1, SOL_TCP = 6, SO_MAX_PACING_RATE = 47 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_SYN_RECV = 3, TCP_FIN_WAIT1 = 4,
       TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 };
enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd, IPPROTO_TCP = 6 };
enum { CLOCK_MONOTONIC = 1 };
enum { TC_ACT_UNSPEC = -1 };
enum { TCP_CA_Open = 0, TCP_CA_Recovery = 3 };

/* Opaque to the programs and touched by the kernel alone. */
struct bpf_timer {
	__u64 __opaque[2];
} __attribute__((aligned(8)));
struct bpf_spin_lock {
	__u32 val;
};

/* Contexts: their layout is part of the system call's interface, and ends here where the use ends. */
struct bpf_sock;
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
};
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};
struct sock_common {
	union {
		struct {
			__be32 skc_daddr;
			__be32 skc_rcv_saddr;
		};
	};
	union {
		struct {
			__be16 skc_dport;
			__u16 skc_num;
		};
	};
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
struct inode {
	unsigned long i_ino;
};
struct socket {
	int state;
};
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};
struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};
struct sock_cgroup_data {
	struct cgroup *cgroup;
};
struct sock {
	struct sock_common __sk_common;
	unsigned long sk_max_pacing_rate;
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
};
struct inet_sock {
	struct sock sk;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u16 icsk_ext_hdr_len;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};
struct tcp_options_received {
	__u16 wscale_ok : 1;
	__u16 rcv_wscale : 4;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u16 tcp_header_len;
	__u32 copied_seq;
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 srtt_us;
	struct tcp_options_received rx_opt;
	__u64 bytes_received;
	__u64 bytes_acked;
	__u32 data_segs_out;
	__u32 total_retrans;
	__u32 snd_ssthresh;
	__u32 delivered;
	__u32 delivered_ce;
	__u8 ecn_flags;
};

struct seq_file;
struct bpf_map;
struct bpf_iter_meta {
	union {
		struct seq_file *seq;
	};
};
struct bpf_iter__tcp {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct sock_common *sk_common;
	};
};
#pragma clang attribute pop

/* Its numbers are the kernel's own affair: asked for at loading. */
enum tcp_ca_event {
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

/* Filled in by name; what isn't here stays as the kernel has it. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
	__u32 flags;
};
#endif
