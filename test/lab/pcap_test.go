package lab

import (
	"os"
	"testing"
)

// Captures of rdma-core's mckey in two VMs, from 10.99.0.2 to 10.99.0.1: as full member and send-only.
func TestCaptures(t *testing.T) {
	for file, reports := range map[string]bool{"mckey-full.pcap": true, "mckey-send-only.pcap": false} {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		packets, err := parseCapture(b)
		if err != nil {
			t.Fatal(err)
		}
		list := Datagrams(packets, Addr(2), Group)
		if len(list) != 10 {
			t.Errorf("%s has %d datagrams, want 10", file, len(list))
		}
		for i, d := range list {
			if d.Opcode != 0x65 || d.DestQPN != 0xffffff || d.QKey != 0x01234567 || d.Imm != d.SrcQPN || len(d.Data) == 0 || !d.ICRC {
				t.Errorf("%s: datagram %d is %+v, want a send with immediate data to the multicast QPN with the usual Q_Key", file, i, d)
			}
		}
		if n := len(Datagrams(packets, Addr(1), Group)); n != 0 {
			t.Errorf("%s: %d datagrams of the receiver, want none", file, n)
		}
		if n := IGMPReports(packets, Addr(1), Group); n == 0 {
			t.Errorf("%s: no report of the receiver", file)
		}
		if n := IGMPReports(packets, Addr(2), Group); n > 0 != reports {
			t.Errorf("%s: %d reports of the sender, want some: %v", file, n, reports)
		}
		if n := IGMPReports(packets, Addr(1), "239.9.9.9"); n != 0 {
			t.Errorf("%s: %d reports of another group, want none", file, n)
		}
		// One byte is covered by the ICRC, another one is not.
		for i := range packets {
			if packets[i].Protocol != protoUDP {
				continue
			}
			packets[i].Header[1] ^= 0x10 // TOS
			if !rightICRC(&packets[i]) {
				t.Errorf("%s: the ICRC covers the TOS, which it must not", file)
			}
			packets[i].Payload[len(packets[i].Payload)-5] ^= 1
			if rightICRC(&packets[i]) {
				t.Errorf("%s: the ICRC does not cover the data", file)
			}
		}
		// Truncated captures cause no panic.
		for n := range b {
			_, _ = parseCapture(b[:n])
		}
	}
	if _, err := parseCapture([]byte("this is no capture file, whatever its name may be")); err == nil {
		t.Error("parseCapture accepts text")
	}
}
