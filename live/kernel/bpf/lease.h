/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Until when holds what was granted. Entries name the epoch of the controller that granted them; all of
 * an epoch end together, so that a renewal is one write, however many there are.
 */
#ifndef WATERMASTER_LEASE_H
#define WATERMASTER_LEASE_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WM_LEASES);
	__type(key, __u32);
	__type(value, struct wm_lease);
} leases SEC(".maps");

static __always_inline bool holds(__u64 epoch)
{
	__u32 place = epoch % WM_LEASES;
	struct wm_lease *lease = bpf_map_lookup_elem(&leases, &place);
	return lease && lease->epoch == epoch && bpf_ktime_get_ns() < lease->expires;
}

#endif
