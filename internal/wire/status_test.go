package wire

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// statusDesc is a status as comparable values.
type statusDesc struct {
	Status // without topics
	Topics []uint64
}

func (d *statusDesc) append(b []byte, h Header) []byte {
	return AppendStatus(b, h, &d.Status, d.Topics)
}

func (d *statusDesc) equal(e *statusDesc) bool {
	return d.Receiver == e.Receiver && d.Next == e.Next && d.Limit == e.Limit && d.Echo == e.Echo &&
		d.EchoDelay == e.EchoDelay && d.Lost == e.Lost && d.Unread == e.Unread && d.Since == e.Since && d.Question == e.Question && string(d.Name) == string(e.Name) && string(d.Tag) == string(e.Tag) && slices.Equal(d.Topics, e.Topics)
}

// describeStatus parses b and iterates over its topics.
func describeStatus(b []byte) (statusDesc, error) {
	s, err := ParseStatus(b)
	if err != nil {
		return statusDesc{}, err
	}
	d := statusDesc{Status: s}
	d.Status.topics = nil
	for i := range s.Topics() {
		d.Topics = append(d.Topics, s.Topic(i))
	}
	return d, nil
}

// docs/protocol §2.16.
func TestStatusGolden(t *testing.T) {
	got, err := describeStatus(goldenStatus)
	if err != nil {
		t.Fatal(err)
	}
	if !got.equal(&goldenStatusValue) {
		t.Errorf("got %+v, want %+v", got, goldenStatusValue)
	}
	h := goldenHeaderOf(TypeNAK, FlagLeaving|FlagWantTopics) // the type of the argument is ignored
	testAppend(t, goldenStatus, func(b []byte) []byte { return goldenStatusValue.append(b, h) })
}

// docs/protocol §13.3.
func TestStatusErrors(t *testing.T) {
	g := goldenStatus
	testErrors(t, parse, []errorCase{
		{"nothing yet", change64(change64(g, 40, 0), 48, 0), nil},
		{"next and limit MaxSeq", change64(change64(g, 40, MaxSeq), 48, MaxSeq), nil},
		{"next above MaxSeq", change64(change64(g, 40, MaxSeq+1), 48, MaxSeq), ErrMalformed},
		{"largest next", change64(g, 40, math.MaxUint64), ErrMalformed},
		{"limit above MaxSeq", change64(g, 48, MaxSeq+1), ErrMalformed},
		{"largest limit", change64(g, 48, math.MaxUint64), ErrMalformed},
		{"next and limit above MaxSeq", change64(change64(g, 40, MaxSeq+1), 48, MaxSeq+1), ErrMalformed},
		{"no room", change64(g, 48, 0x0142434445464748), nil},
		{"receiver id 0", change64(g, 32, 0), ErrMalformed},
		{"limit below next", change64(g, 48, 0x0142434445464747), ErrMalformed},
		{"limit 0", change64(g, 48, 0), ErrMalformed},
		{"since 0", change64(g, 80, 0), nil},
		{"since MaxSeq", change64(g, 80, MaxSeq), nil},
		{"since above MaxSeq", change64(g, 80, MaxSeq+1), ErrMalformed},
		{"largest since", change64(g, 80, math.MaxUint64), ErrMalformed},
		{"question 0", change32(g, 88, 0), nil},
		{"largest question", change32(g, 88, math.MaxUint32), nil},
		{"reserved bytes", change(g, 92, 1, 2, 3, 4), nil},
		{"no topics", change16(g, 68, 0), nil},
		{"one topic less", change16(g, 68, 1), nil},
		{"one topic more than there are", change16(g, 68, 3), ErrShort},
		{"most topics, absent", change16(g, 68, MaxStatusTopics), ErrShort},
		{"too many topics", change16(g, 68, MaxStatusTopics+1), ErrMalformed},
		{"largest topic count", change16(g, 68, math.MaxUint16), ErrMalformed},
		{"too many topics, present", append(change16(g, 68, MaxStatusTopics+1), make([]byte, 500)...), ErrMalformed},
		{"no name", change16(g, 70, 0), nil},
		{"a truncated name", change16(g, 70, 4), ErrShort},
		{"longest name", append(change16(g, 70, MaxName), make([]byte, MaxName)...), nil},
		{"too long a name, present", append(change16(g, 70, MaxName+1), make([]byte, MaxName)...), ErrMalformed},
	})
}

// With FlagTagged a tag follows the name, and there is room for fewer topics, so that a status with the longest name
// and tag fits the smallest packet. docs/protocol §2.20.
func TestStatusTag(t *testing.T) {
	all := make([]uint64, MaxStatusTopics)
	s := goldenStatusValue.Status
	for _, tag := range []string{"", "a", "book", strings.Repeat("t", MaxTag), strings.Repeat("t", MaxTag+1)} {
		s.Tag = []byte(tag)
		s.Name = bytes.Repeat([]byte("n"), MaxName)
		b := AppendStatus(nil, goldenHeaderOf(0, 0), &s, all)
		want := statusDesc{Status: s, Topics: all[:MaxTaggedTopics]}
		want.Tag = want.Tag[:min(len(tag), MaxTag)]
		if tag == "" {
			want.Topics = all
		}
		got, err := describeStatus(b)
		if err != nil || !got.equal(&want) || len(b) > MinPacket {
			t.Errorf("tag %q: %d bytes, got %+v, %v, want %+v", tag, len(b), got, err, want)
		}
		if h, err := ParseHeader(b); err != nil || (h.Flags&FlagTagged != 0) != (tag != "") || (h.Flags&FlagMoreTopics != 0) != (tag != "") {
			t.Errorf("tag %q: flags %#x, error %v, want FlagTagged and FlagMoreTopics if there is a tag", tag, h.Flags, err)
		}
		for n := range len(b) {
			if _, err := ParseStatus(b[:n:n]); !errors.Is(err, ErrShort) {
				t.Fatalf("tag %q: the first %d bytes of %d: error %v, want %v", tag, n, len(b), err, ErrShort)
			}
		}
	}
	tagged := func(behind ...byte) []byte {
		b := append(bytes.Clone(goldenStatus), behind...)
		b[4] |= byte(FlagTagged)
		return b
	}
	testErrors(t, parse, []errorCase{
		{"no length", tagged(), ErrShort},
		{"a length of 0", tagged(0, 'a'), ErrMalformed},
		{"a missing tag", tagged(1), ErrShort},
		{"a tag of one byte", tagged(1, 'a'), nil},
		{"bytes after it", tagged(1, 'a', 'b'), nil},
		{"longest tag", tagged(append([]byte{MaxTag}, make([]byte, MaxTag)...)...), nil},
		{"too long a tag, present", tagged(append([]byte{MaxTag + 1}, make([]byte, MaxTag+1)...)...), ErrMalformed},
		{"too many topics with a tag", append(change16(tagged(), 68, MaxTaggedTopics+1), make([]byte, 500)...), ErrMalformed},
	})
}

// A list of topics that is too long is truncated, with FlagMoreTopics. docs/protocol §2.16.
func TestStatusTopics(t *testing.T) {
	all := make([]uint64, MaxStatusTopics+20)
	for i := range all {
		all[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	for n := range all {
		b := AppendStatus(nil, goldenHeaderOf(0, FlagWantTopics), &goldenStatusValue.Status, all[:n])
		want := goldenStatusValue
		want.Topics = all[:min(n, MaxStatusTopics)]
		got, err := describeStatus(b)
		if err != nil || !got.equal(&want) {
			t.Errorf("%d topics: got %+v, %v, want %+v", n, got, err, want)
		}
		if size := StatusHeaderLen + 8*min(n, MaxStatusTopics) + 3; len(b) != size {
			t.Errorf("%d topics: %d bytes, want %d", n, len(b), size)
		}
		flags := FlagWantTopics
		if n > MaxStatusTopics {
			flags |= FlagMoreTopics
		}
		if h, err := ParseHeader(b); err != nil || h != goldenHeaderOf(TypeStatus, flags) {
			t.Errorf("%d topics: header %+v, %v, want flags %#x", n, h, err, flags)
		}
	}
}

func TestStatusEchoDelay(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		math.MinInt64:      0,
		-1:                 0,
		0:                  0,
		1:                  1,
		math.MaxUint32:     math.MaxUint32,
		math.MaxUint32 + 1: math.MaxUint32,
		math.MaxInt64:      math.MaxUint32,
	} {
		s, err := ParseStatus(AppendStatus(nil, goldenHeader, &Status{Receiver: 1, EchoDelay: in}, nil))
		if err != nil || s.EchoDelay != want {
			t.Errorf("%v: got %v, %v, want %v", in, s.EchoDelay, err, want)
		}
	}
}
