package pubsub

import "testing"

// BenchmarkPublish1KiB2048 is messages of 1 KiB in datagrams of 2048 bytes over
// loopback: RoCEv2 in user space beside plain UDP, in one run.
func BenchmarkPublish1KiB2048(b *testing.B) {
	for _, c := range []struct{ name, url string }{
		{"udp", "udp://239.20.0.0/16?iface=lo&port=17401&size=2048"},
		{"roce", "roce://lo?size=2048"},
		{"roce check=udp", "roce://lo?size=2048&check=udp"},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPublish(b, c.url, 1024) })
	}
}
