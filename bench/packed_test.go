package bench

import (
	"bytes"
	"strings"
	"testing"
)

// What is compressed is measured beside the same that is not: with its bytes on the wire,
// of which it takes fewer, and the time of both sides.
func TestCompressed(t *testing.T) {
	for name, dict := range map[string][]byte{"": nil, "with dictionary": bytes.Repeat([]byte("what packets have in common"), 10)} {
		b := newBench(t, "mem")
		b.Size, b.Seconds, b.CheckAll = 1000, 0.05, true
		b.Compress, b.Dictionary = "s2", dict
		if err := b.Settings.Check("throughput", b.Contenders); err != nil {
			t.Fatal(err)
		}
		result, err := b.Run(t.Context(), "throughput")
		if err != nil {
			t.Fatal(err)
		}
		m := decoded(t, result)
		for _, who := range []string{keyOurs, keyCompressed} {
			positive(t, m, who, "wire_bytes_per_msg", "median")
			positive(t, m, who, "cpu_s_per_mmsg", "median")
		}
		positive(t, m, "ratio_"+keyCompressed)
		p := result.Contest()
		if ours, less := p.Value(keyOurs, "wire_bytes_per_msg"), p.Value(keyCompressed, "wire_bytes_per_msg"); less >= ours {
			t.Errorf("%s: %.1f bytes a message on the wire, %.1f uncompressed", name, less, ours)
		}
		var text strings.Builder
		if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "compressed: s2 "+name) && dict != nil || !strings.Contains(text.String(), "wire bytes/msg") {
			t.Errorf("%s: %v in %s", name, err, text.String())
		}
	}
}

func TestPackingSettings(t *testing.T) {
	for want, set := range map[string]func(*Settings){
		"":                    func(s *Settings) { s.Compress, s.Dictionary = "zstd", bytes.Repeat([]byte("x"), 100) },
		"goes with -compress": func(s *Settings) { s.Dictionary = bytes.Repeat([]byte("x"), 100) },
		"lz4":                 func(s *Settings) { s.Compress = "lz4" },
		"not within":          func(s *Settings) { s.Compress, s.Dictionary = "s2", []byte("x") },
		"without a dictionary": func(s *Settings) {
			s.Compress, s.Dictionary = "s2:better", bytes.Repeat([]byte("x"), 100)
		},
		"give one": func(s *Settings) { s.Compress, s.Subs, s.Stopped = "s2", 2, 1 },
	} {
		s := Defaults("udp")
		set(&s)
		err := s.checkPacking()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
