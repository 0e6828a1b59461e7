package train

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

func TestNext(t *testing.T) {
	const maxPacket, maxPackets, maxBytes = 200, 4, 500
	for _, c := range []struct {
		name   string
		stride int
		lens   []uint16
		want   []Run
		err    error // after the runs in want
	}{
		{"one", 100, []uint16{60}, []Run{{1, 60, 60}}, nil},
		{"equal", 100, []uint16{100, 100, 100}, []Run{{3, 100, 300}}, nil},
		{"shorter last packet", 100, []uint16{100, 100, 7}, []Run{{3, 100, 207}}, nil},
		{"a shorter packet ends the run", 100, []uint16{100, 7, 100}, []Run{{2, 100, 107}, {1, 100, 100}}, nil},
		{"a longer packet starts a run", 100, []uint16{50, 100}, []Run{{1, 50, 50}, {1, 100, 100}}, nil},
		{"limit of packets", 10, []uint16{10, 10, 10, 10, 10, 10}, []Run{{4, 10, 40}, {2, 10, 20}}, nil},
		{"limit of bytes", 200, []uint16{200, 200, 200}, []Run{{2, 200, 400}, {1, 200, 200}}, nil},
		{"equal, shorter than the stride", 100, []uint16{30, 30, 30}, []Run{{3, 30, 90}}, nil},
		{"too large", 300, []uint16{100, 100, 201, 100}, []Run{{2, 100, 200}}, transport.ErrPacketTooLarge},
		{"empty", 100, []uint16{100, 0}, []Run{{1, 100, 100}}, ErrEmptyPacket},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := &transport.Outbound{Data: make([]byte, c.stride*len(c.lens)), Stride: c.stride, Count: len(c.lens), Lens: c.lens}
			for i := range out.Data {
				out.Data[i] = byte(i)
			}
			if err := Check(out); err != nil {
				t.Fatal(err)
			}
			at := 0
			for _, want := range c.want {
				run, err := Next(out, at, maxPacket, maxPackets, maxBytes)
				if err != nil || run != want {
					t.Fatalf("Next(%d) = %+v, %v; want %+v", at, run, err, want)
				}
				var flat []byte
				for i := at; i < at+run.Count; i++ {
					flat = append(flat, out.Data[i*c.stride:][:c.lens[i]]...)
				}
				got := make([]byte, run.Bytes)
				run.Copy(got, out, at)
				if !bytes.Equal(got, flat) {
					t.Fatalf("Copy of run %+v at %d = %x, want %x", run, at, got, flat)
				}
				at += run.Count
			}
			if at == len(c.lens) {
				if c.err != nil {
					t.Fatalf("all packets were returned, want error %v", c.err)
				}
				return
			}
			if _, err := Next(out, at, maxPacket, maxPackets, maxBytes); !errors.Is(err, c.err) || err == nil {
				t.Fatalf("Next(%d): error %v, want %v", at, err, c.err)
			}
		})
	}
}

func TestCheckRejectsInvalidTrains(t *testing.T) {
	for _, out := range []transport.Outbound{
		{Count: -1},
		{Data: make([]byte, 10), Stride: 10, Count: 1},
		{Data: make([]byte, 10), Stride: 10, Count: 2, Lens: []uint16{10, 1}},
		{Data: make([]byte, 10), Stride: 0, Count: 2, Lens: []uint16{1, 1}},
		{Data: make([]byte, 10), Stride: -5, Count: 2, Lens: []uint16{1, 1}},
		{Data: make([]byte, 10), Stride: 10, Count: 1, Lens: []uint16{11}},
	} {
		if Check(&out) == nil {
			t.Errorf("Check(%+v) found nothing", out)
		}
	}
	// A packet in the middle may be longer than the stride without exceeding the data: Next rejects it.
	out := transport.Outbound{Data: make([]byte, 30), Stride: 10, Count: 3, Lens: []uint16{10, 15, 10}}
	if err := Check(&out); err != nil {
		t.Fatal(err)
	}
	if run, err := Next(&out, 0, 100, 10, 1000); err != nil || run.Count != 1 {
		t.Fatalf("Next: %+v, error %v, want a run of 1 packet", run, err)
	}
	if _, err := Next(&out, 1, 100, 10, 1000); err == nil {
		t.Error("a packet longer than the stride was accepted")
	}
}
