package tap

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// build serializes the headers of a packet.
func build(list ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, list...); err != nil {
		panic(err)
	}
	return slices.Clone(b.Bytes())
}

// inGRE is a packet in GRE, over Ethernet.
func inGRE(proto layers.EthernetType, b []byte) []byte {
	return ethernet(0x0800, build(outer(layers.IPProtocolGRE), &layers.GRE{Protocol: proto, SeqPresent: proto == layers.EthernetTypeERSPAN}, gopacket.Payload(b)))
}

func outer(proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 9, Protocol: proto, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2}}
}

// framed is a frame of a link type.
type framed struct {
	link  linkType
	frame []byte
}

// tunnels are frames that contain a packet from 10.0.0.7:40000, or over IPv6 from [fe80::1]:5.
func tunnels(want []byte) map[string]framed {
	inner := udp4("10.0.0.7:40000", group0, want)
	inner6 := udp6("[fe80::1]:5", "[ff15::20:1]:7400", want)
	udp := func(to layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: 5555, DstPort: to} }
	frame := ethernet(0x0800, inner)
	hop := append(slices.Clone(inner6[:40]), append([]byte{17, 0, 5, 2, 0, 0, 1, 0}, inner6[40:]...)...)
	hop[6] = 0 // hop-by-hop options: router alert
	binary.BigEndian.PutUint16(hop[4:], binary.BigEndian.Uint16(hop[4:])+8)
	sll := append([]byte{13: 8, 14: 0x81, 15: 0}, append([]byte{0, 5, 8, 0}, inner...)...)
	return map[string]framed{
		"QinQ 0x9100":        {linkEthernet, ethernet(0x9100, append([]byte{0, 5, 0x81, 0, 0, 7, 8, 0}, inner...))},
		"tagged SLL":         {linkSLL, sll},
		"GRE":                {linkEthernet, inGRE(layers.EthernetTypeIPv4, inner)},
		"GRE with Ethernet":  {linkEthernet, inGRE(layers.EthernetTypeTransparentEthernetBridging, frame)},
		"ERSPAN":             {linkEthernet, inGRE(layers.EthernetTypeERSPAN, build(&layers.ERSPANII{Version: 1}, gopacket.Payload(frame)))},
		"QinQ 0x88a8":        {linkEthernet, ethernet(0x88a8, append([]byte{0, 5, 0x81, 0, 0, 7, 8, 0}, inner...))},
		"VLAN":               {linkEthernet, ethernet(0x8100, append([]byte{0, 5, 8, 0}, inner...))},
		"UDP":                {linkEthernet, frame},
		"IPv6 in IPv4":       {linkEthernet, ethernet(0x0800, build(outer(layers.IPProtocolIPv6), gopacket.Payload(inner6)))},
		"MPLS 0x8848":        {linkEthernet, ethernet(0x8848, build(&layers.MPLS{Label: 17, StackBottom: true, TTL: 9}, gopacket.Payload(inner)))},
		"IP in IP":           {linkEthernet, ethernet(0x0800, build(outer(layers.IPProtocolIPv4), gopacket.Payload(inner)))},
		"VXLAN":              {linkEthernet, ethernet(0x0800, build(outer(layers.IPProtocolUDP), udp(4789), &layers.VXLAN{ValidIDFlag: true, VNI: 7}, gopacket.Payload(frame)))},
		"MPLS":               {linkEthernet, ethernet(0x8847, build(&layers.MPLS{Label: 16, TTL: 9}, &layers.MPLS{Label: 17, StackBottom: true, TTL: 9}, gopacket.Payload(inner)))},
		"PPPoE":              {linkEthernet, ethernet(0x8864, build(&layers.PPPoE{Version: 1, Type: 1, SessionId: 3}, &layers.PPP{PPPType: layers.PPPTypeIPv4}, gopacket.Payload(inner)))},
		"IPv6 extension":     {linkEthernet, ethernet(0x86dd, hop)},
		"ERF of Ethernet":    {linkERF, append([]byte{8: 2, 17: 0}, frame...)},
		"ERF with extension": {linkERF, append([]byte{8: 2 | 0x80, 16: 0x80, 24: 0, 33: 0}, frame...)},
		"raw IP with GRE":    {linkRaw, inGRE(layers.EthernetTypeIPv4, inner)[14:]},
	}
}

// Packets in tunnels and after additional headers of networks are found; unsupported frames are counted by reason.
func TestTunnels(t *testing.T) {
	want := dataPacket(1, 0)
	inner := udp4("10.0.0.7:40000", group0, want)
	for name, c := range tunnels(want) {
		got, src, err := readAll(t, pcap(t, c.link, c.frame))
		if err != nil || len(got) != 1 || len(src.Skipped()) != 0 {
			t.Errorf("%s: %d packets, skipped %v, error %v, want 1 and none skipped", name, len(got), src.Skipped(), err)
			continue
		}
		from := "10.0.0.7:40000"
		if strings.HasPrefix(name, "IPv6") {
			from = "[fe80::1]:5"
		}
		if p := got[0]; !bytes.Equal(p.Data, want) || p.From != from {
			t.Errorf("%s: %v > %v, %d bytes of %d", name, p.From, p.To, len(p.Data), len(want))
		}
	}

	for wantText, b := range map[string][]byte{
		"protocol over Ethernet 0x1234, not supported": inGRE(0x1234, inner),
		"protocol over Ethernet 0x88f7, not supported": ethernet(0x88f7, inner),
		errFragment.Error(): func() []byte {
			f := slices.Clone(inGRE(layers.EthernetTypeIPv4, inner))
			f[14+20+4+6] = 0x20 // more fragments, of the inner packet
			return f
		}(),
	} {
		if got, src, err := readAll(t, pcap(t, linkEthernet, b)); err != nil || len(got) != 0 || src.Skipped()[wantText] != 1 {
			t.Errorf("%d packets, skipped %v, want %q: %v", len(got), src.Skipped(), wantText, err)
		}
	}
	if _, src, err := readAll(t, pcap(t, linkERF, []byte{8: 1, 20: 0})); err != nil || len(src.Skipped()) != 1 {
		t.Errorf("ERF of HDLC: skipped %v, error %v, want one reason", src.Skipped(), err)
	}
	tcp := inGRE(layers.EthernetTypeIPv4, inner)
	tcp[14+20+4+9] = 6
	if _, src, err := readAll(t, pcap(t, linkEthernet, tcp)); err != nil || len(src.Skipped()) != 0 {
		t.Errorf("TCP in a tunnel: skipped %v, error %v, want none", src.Skipped(), err)
	}
}
