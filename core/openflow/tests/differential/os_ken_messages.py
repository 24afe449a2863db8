"""Builds the messages of differential/main.rs with os-ken, from keywords, and prints name and bytes."""

from os_ken.ofproto import ofproto_protocol, ofproto_v1_3, ofproto_v1_3_parser as p

dp = ofproto_protocol.ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
o = ofproto_v1_3

match = p.OFPMatch(
    in_port=3, eth_type=0x0800, eth_src=("02:00:00:00:00:00", "ff:00:00:00:00:00"),
    vlan_vid=0x1005, ip_dscp=46, ip_proto=6, ipv4_src="10.1.2.3",
    ipv4_dst=("10.9.0.0", "255.255.0.0"), tcp_src=1234, tcp_dst=80, metadata=(5, 15),
    tcp_flags=(2, 18))
v6 = p.OFPMatch(eth_type=0x86DD, ipv6_src="2001:db8::1", ipv6_dst=("2001:db8::", "ffff:ffff::"),
                ipv6_flabel=0x12345, ip_proto=17, udp_dst=53)
actions = [
    p.OFPActionPushVlan(0x88A8), p.OFPActionSetField(vlan_vid=0x1007), p.OFPActionPopVlan(),
    p.OFPActionSetField(eth_dst="02:00:00:00:00:0b"), p.OFPActionSetField(ipv4_dst="10.0.0.2"),
    p.OFPActionSetNwTtl(9), p.OFPActionDecNwTtl(), p.OFPActionSetMplsTtl(8),
    p.OFPActionDecMplsTtl(), p.OFPActionPushMpls(0x8847), p.OFPActionPopMpls(0x0800),
    p.OFPActionCopyTtlOut(), p.OFPActionCopyTtlIn(), p.OFPActionSetQueue(6),
    p.OFPActionGroup(4), p.OFPActionPushPbb(0x88E7), p.OFPActionPopPbb(),
    p.OFPActionOutput(2, 128)]
instructions = [
    p.OFPInstructionMeter(5),
    p.OFPInstructionActions(o.OFPIT_APPLY_ACTIONS, actions),
    p.OFPInstructionActions(o.OFPIT_CLEAR_ACTIONS, []),
    p.OFPInstructionActions(o.OFPIT_WRITE_ACTIONS, [p.OFPActionOutput(7, 0)]),
    p.OFPInstructionWriteMetadata(0x11, 0xFF),
    p.OFPInstructionGotoTable(9)]
flow = dict(cookie=0x0102030405060708, cookie_mask=0x1112131415161718, table_id=3, idle_timeout=21,
            hard_timeout=22, priority=23, buffer_id=24, out_port=25, out_group=26, flags=27)
bands = [p.OFPMeterBandDrop(rate=1000, burst_size=100),
         p.OFPMeterBandDscpRemark(rate=2000, burst_size=200, prec_level=2)]
buckets = [p.OFPBucket(weight=2, watch_port=3, watch_group=4, actions=[p.OFPActionOutput(1, 0)]),
           p.OFPBucket(weight=5, watch_port=6, watch_group=7, actions=[])]
select = (0, 2, 11, 12, 0x13, 0x14, p.OFPMatch(in_port=1))

messages = dict(
    error=p.OFPErrorMsg(dp, type_=5, code=3, data=b"\x04\x0e\x00\x08\x00\x00\x00\x01"),
    echo_request=p.OFPEchoRequest(dp, b"abc"),
    echo_reply=p.OFPEchoReply(dp, b"abcd"),
    experimenter=p.OFPExperimenter(dp, experimenter=0x11223344, exp_type=0x55667788, data=b"xyz"),
    features_request=p.OFPFeaturesRequest(dp),
    get_config=p.OFPGetConfigRequest(dp),
    set_config=p.OFPSetConfig(dp, 1, 513),
    packet_out=p.OFPPacketOut(dp, o.OFP_NO_BUFFER, 5, [p.OFPActionOutput(2, 0)], b"\x01\x02\x03"),
    flow_add=p.OFPFlowMod(dp, command=o.OFPFC_ADD, match=match, instructions=instructions, **flow),
    flow_delete=p.OFPFlowMod(dp, command=o.OFPFC_DELETE_STRICT, match=v6, instructions=[], **flow),
    group_mod=p.OFPGroupMod(dp, o.OFPGC_MODIFY, o.OFPGT_SELECT, 77, buckets),
    port_mod=p.OFPPortMod(dp, 3, "02:00:00:00:00:01", 1, 2, 4),
    table_mod=p.OFPTableMod(dp, 6, 3),
    meter_mod=p.OFPMeterMod(dp, o.OFPMC_MODIFY, o.OFPMF_KBPS | o.OFPMF_BURST, 9, bands),
    desc=p.OFPDescStatsRequest(dp, 0),
    flows=p.OFPFlowStatsRequest(dp, *select),
    aggregate=p.OFPAggregateStatsRequest(dp, *select),
    tables=p.OFPTableStatsRequest(dp, 0),
    port_stats=p.OFPPortStatsRequest(dp, 0, 8),
    queue_stats=p.OFPQueueStatsRequest(dp, 0, 8, 9),
    group_stats=p.OFPGroupStatsRequest(dp, 0, 8),
    group_desc=p.OFPGroupDescStatsRequest(dp, 0),
    group_features=p.OFPGroupFeaturesStatsRequest(dp, 0),
    meter_stats=p.OFPMeterStatsRequest(dp, 0, 8),
    meter_config=p.OFPMeterConfigStatsRequest(dp, 0, 8),
    meter_features=p.OFPMeterFeaturesStatsRequest(dp, 0),
    table_features=p.OFPTableFeaturesStatsRequest(dp, 0),
    port_desc=p.OFPPortDescStatsRequest(dp, 0),
    barrier=p.OFPBarrierRequest(dp),
    queue_config=p.OFPQueueGetConfigRequest(dp, 8),
    role=p.OFPRoleRequest(dp, o.OFPCR_ROLE_SLAVE, 0x123456789ABCDEF0),
    get_async=p.OFPGetAsyncRequest(dp),
    set_async=p.OFPSetAsync(dp, (1, 2), (3, 4), (5, 6)),
)
for name, message in messages.items():
    message.set_xid(0x01020304)
    message.serialize()
    print(name, bytes(message.buf).hex())
