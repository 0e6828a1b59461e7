package wire

import (
	"bytes"
	"reflect"
	"testing"
	"unsafe"
)

// The parsers run on whole packets without ParseHeader, so that only their own checks protect them from the fuzzer's
// input.

func addGolden(f *testing.F) {
	f.Helper()
	for _, g := range golden {
		f.Add(g.packet)
	}
	f.Add([]byte(nil))
}

// exact returns b without spare capacity: a read beyond it panics.
func exact(b []byte) []byte { return bytes.Clone(b)[:len(b):len(b)] }

// within reports whether part points into whole.
func within(part, whole []byte) bool {
	if len(part) == 0 {
		return true
	}
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole))
}

// checkAgain checks a packet that was appended again: it has the header, and without its last byte it is short.
func checkAgain(t *testing.T, b []byte, typ Type, flags ...Flags) {
	t.Helper()
	if h, err := ParseHeader(b); err != nil || h != goldenHeaderOf(typ, append(flags, FlagSolicit)[0]) {
		t.Errorf("written again: header %+v, error %v, want it with type %v", h, err, typ)
	}
	if typ == TypeData {
		return
	}
	if err := parse(b[: len(b)-1 : len(b)-1]); err != ErrShort {
		t.Errorf("written again, without the last byte: error %v, want %v", err, ErrShort)
	}
}

func FuzzParseHeader(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		p := make([]byte, HeaderLen)
		h.Put(p)
		got, err := ParseHeader(p)
		if err != nil || got != h {
			t.Errorf("header %+v, error %v, want %+v", got, err, h)
		}
		// Put writes the parsed header, except for checksum, codec and reserved byte.
		if want := change(change(change32(b[:HeaderLen], 12, 0), 5, 0), 7, 0); !bytes.Equal(p, want) {
			t.Errorf("header bytes %x, want %x", p, want)
		}
		if err := parseBody(h.Type, b); err != nil && err != ErrShort && err != ErrMalformed && err != ErrUnsupported {
			t.Errorf("parser of %v: %v, want none or an error of this package", h.Type, err)
		}
	})
}

func FuzzParseData(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		want, err := describeData(t, b)
		if err != nil {
			return
		}
		if want.Seq >= MaxSeq || want.PacketSize < MinPacket || want.PacketSize > MaxPacket || len(b) > want.PacketSize {
			t.Errorf("data packet %+v of %d bytes accepted, want an error", want, len(b))
		}
		for _, r := range want.Runs {
			if r.Number >= MaxSeq || r.Malformed != "" {
				t.Errorf("ParseData accepted the run %+v, want an error", r)
			}
		}
		if d, _ := ParseData(b); !within(d.Runs, b) {
			t.Error("runs are not in the packet")
		}
		again := want.append(nil, goldenHeaderOf(0, FlagSolicit), 0)
		if len(again) > len(b) {
			t.Errorf("%d bytes written again, want at most the original %d", len(again), len(b))
		}
		checkAgain(t, again, TypeData)
		got, err := describeData(t, again)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("data %+v, error %v, want %+v", got, err, want)
		}
		// Truncated anywhere, it is refused or has the same runs except the last ones.
		for n := DataHeaderLen; n < min(len(again), 600); n++ {
			got, err := describeData(t, exact(again[:n]))
			if err != nil {
				continue
			}
			k := len(got.Runs)
			if k >= len(want.Runs) || k > 0 && !reflect.DeepEqual(got.Runs, want.Runs[:k]) {
				t.Errorf("truncated to %d of %d bytes: %+v, want some of %+v", n, len(again), got, want)
			}
		}
	})
}

// FuzzNextRun iterates over unchecked runs.
func FuzzNextRun(f *testing.F) {
	for _, g := range golden {
		f.Add(g.packet[HeaderLen:])
		if g.typ == TypeData {
			f.Add(g.packet[DataHeaderLen:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		at := 0
		for r, rest, ok := NextRun(b); ok; r, rest, ok = NextRun(rest) {
			one, more, _ := NextMessage(r.Body)
			single := r.Kind == RunMessages && r.Flags == 0 && one != nil && len(more) == 0
			if topic, number, msg, ok := PeekMessage(b[at:]); ok != single || ok && (topic != r.Topic || number != r.Number || !bytes.Equal(msg, one)) {
				t.Fatalf("PeekMessage: %v, topic %x, number %d, message %x, want %v and the run %+v", ok, topic, number, msg, single, r)
			}
			if !within(r.Body, b) || !within(rest, b) {
				t.Fatal("run is not in the packet")
			}
			at += RunHeaderLen + len(r.Body)
			if at+len(rest) != len(b) {
				t.Fatalf("%d bytes read and %d left, want %d together", at, len(rest), len(b))
			}
		}
	})
}

// FuzzNextMessage iterates over the unchecked body of a message run. If nothing is left ParseData accepts it, and with
// a step all messages have the same length.
func FuzzNextMessage(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(goldenData[68:80])
	f.Add(goldenData[68:79])
	f.Add(goldenData[120:123])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		var again []byte
		step, steps := Step(b), 0
		msg, rest, ok := NextMessage(b)
		for ok {
			if steps++; step > 0 && len(msg) != step-MessageHeaderLen {
				t.Fatalf("message of %d bytes, want the step %d less the header", len(msg), step)
			}
			if !within(msg, b) || !within(rest, b) {
				t.Fatal("message is not in the run")
			}
			again = append(again, byte(len(msg)), byte(len(msg)>>8))
			again = append(again, msg...)
			msg, rest, ok = NextMessage(rest)
		}
		checked, accepted := checkMessages(b)
		if whole := len(rest) == 0; accepted != whole || checked != step || step > 0 && (!whole || steps*step != len(b)) {
			t.Errorf("%d bytes are left, accepted is %v, step %d and %d of %d bytes", len(rest), accepted, checked, step, len(b))
		}
		if again = append(again, rest...); !bytes.Equal(again, b) {
			t.Errorf("bytes written again %x, want %x", again, b)
		}
	})
}

func FuzzParseFragment(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(goldenFragment[DataHeaderLen+RunHeaderLen:])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		want, err := ParseFragment(b)
		if err != nil {
			return
		}
		if want.Offset < 0 || len(want.Bytes) == 0 || want.Total > MaxMessage || len(want.Bytes) > want.Total-want.Offset {
			t.Errorf("fragment of %d bytes at %d of %d accepted, want an error", len(want.Bytes), want.Offset, want.Total)
		}
		if !within(want.Bytes, b) {
			t.Error("fragment is not in the run")
		}
		again := make([]byte, FragmentHeaderLen)
		PutFragmentHeader(again, want.Total, want.Offset)
		if again = append(again, want.Bytes...); !bytes.Equal(again, b) {
			t.Errorf("fragment written again %x, want %x", again, b)
		}
	})
}

func FuzzParseHeartbeat(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := ParseHeartbeat(exact(b))
		if err != nil {
			return
		}
		if want.Lead > MaxSeq || want.Trail > want.Lead || want.PacketSize < MinPacket || want.PacketSize > MaxPacket ||
			want.Backoff < 0 || want.StatusInterval < 0 || want.Interval < 0 || want.RTT < 0 {
			t.Errorf("ParseHeartbeat accepted %+v, want an error", want)
		}
		again := AppendHeartbeat(nil, goldenHeaderOf(0, FlagSolicit), &want)
		checkAgain(t, again, TypeHeartbeat)
		got, err := ParseHeartbeat(again)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("heartbeat %+v, error %v, want %+v", got, err, want)
		}
	})
}

// FuzzParseIndex parses the body of an index run that ParseData accepts.
func FuzzParseIndex(f *testing.F) {
	f.Add(goldenIndexBody)
	f.Add(goldenIndexBody[:IndexHeaderLen])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		packet := dirty("", MaxPacket)[:DataHeaderLen+RunHeaderLen]
		PutDataHeader(packet, goldenHeader, MaxPacket)
		if len(body) > MaxPacket-len(packet) {
			return
		}
		PutRunHeader(packet[DataHeaderLen:], RunIndex, len(body), 0, 7)
		packet = append(packet, body...)
		_, err := ParseData(packet)
		if whole := len(body) >= IndexHeaderLen && (len(body)-IndexHeaderLen)%IndexEntryLen == 0; (err == nil) != whole {
			t.Fatalf("index run with a body of %d bytes: error %v, want one if the body does not end after an answer", len(body), err)
		}
		if err != nil {
			return
		}
		want := describeIndex(t, exact(body))
		again := want.append(make([]byte, RunHeaderLen), 0, 7)
		if got := again[RunHeaderLen:]; !bytes.Equal(got, change(body, 1, 0, 0, 0)) {
			t.Errorf("index run written again %x, want %x", got, body)
		}
	})
}

func FuzzParseRanges(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := describeRanges(t, exact(b))
		if err != nil {
			return
		}
		for _, typ := range []Type{TypeNAK, TypeNCF, TypeGone} {
			again := want.append(t, nil, goldenHeaderOf(typ, FlagSolicit))
			if len(again) > len(b) {
				t.Errorf("%d bytes written again, want at most the original %d", len(again), len(b))
			}
			checkAgain(t, again, typ)
			got, err := describeRanges(t, again)
			if err != nil || !got.equal(&want) {
				t.Errorf("ranges %+v, error %v, want %+v", got, err, want)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := describeStatus(exact(b))
		if err != nil {
			return
		}
		if want.Next > MaxSeq || want.Limit > MaxSeq || want.Since > MaxSeq || want.Next > want.Limit || want.EchoDelay < 0 || len(want.Topics) > MaxStatusTopics || len(want.Name) > MaxName || len(want.Tag) > MaxTag {
			t.Errorf("status %+v accepted, want an error", want)
		}
		again := want.append(nil, goldenHeaderOf(0, FlagSolicit))
		flags := FlagSolicit
		if len(want.Tag) > 0 {
			flags |= FlagTagged
		}
		checkAgain(t, again, TypeStatus, flags)
		got, err := describeStatus(again)
		if err != nil || !got.equal(&want) {
			t.Errorf("status %+v, error %v, want %+v", got, err, want)
		}
	})
}

func FuzzChecksum(f *testing.F) {
	for i, g := range golden {
		f.Add(g.packet, byte(1<<i))
	}
	f.Fuzz(func(t *testing.T, b []byte, flags byte) {
		if len(b) < HeaderLen || len(b) > 600 {
			return // Verify needs a packet with a valid header
		}
		b = exact(b)
		SetChecksum(b)
		if err := Verify(b, true); err != nil {
			t.Fatalf("with checksum: %v", err)
		}
		SetFlags(b, Flags(flags))
		if err := Verify(b, true); err != nil {
			t.Fatalf("with checksum, flags %#x: %v", flags, err)
		}
		if got, want := Flags(b[4]), Flags(flags)|FlagChecksum; got != want {
			t.Fatalf("flags %#x, want %#x", got, want)
		}
		testFlips(t, b)
	})
}
