package cli

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// captureFile writes a pcap file of UDP datagrams from 10.0.0.7:40000 to group 0.
func captureFile(t *testing.T, payloads ...[]byte) string {
	t.Helper()
	le, be := binary.LittleEndian, binary.BigEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(le.AppendUint16(b, 2), 4)
	b = le.AppendUint32(le.AppendUint32(append(b, make([]byte, 8)...), 65535), 101)
	for i, p := range payloads {
		ip := append([]byte{0x45, 0}, be.AppendUint16(nil, uint16(28+len(p)))...)
		ip = append(ip, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 7, 239, 20, 0, 0)
		ip = be.AppendUint16(be.AppendUint16(ip, 40000), 7400)
		ip = append(be.AppendUint16(ip, uint16(8+len(p))), 0, 0)
		ip = append(ip, p...)
		b = le.AppendUint32(le.AppendUint32(b, uint32(1000+i)), 0)
		b = append(le.AppendUint32(le.AppendUint32(b, uint32(len(ip))), uint32(len(ip))), ip...)
	}
	file := filepath.Join(t.TempDir(), "capture.pcap")
	writeFile(t, file, b)
	return file
}

// incident is a stream that names its topic, loses packet 2, repairs it and has an index round, and foreign traffic.
func incident(t *testing.T) string {
	t.Helper()
	h := wire.Header{GroupTag: wire.GroupTag("239.20.0.0:7400"), Publisher: 0x77, Epoch: 3}
	data := func(seq uint64, topic string, f wire.Flags) []byte {
		b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+2)
		h.Flags = f
		wire.PutDataHeader(b, h, 1472)
		wire.SetSeq(b, seq)
		wire.PutRun(b[wire.DataHeaderLen:], wire.TopicID(topic), []byte("hi"))
		return b
	}
	name := make([]byte, wire.RunHeaderLen+len("a.b"))
	wire.PutTopicRun(name, wire.TopicID("a.b"), "a.b")
	first := append(data(0, "a.b", 0), name...)
	round := append(data(4, "", 0)[:wire.DataHeaderLen], slices.Concat(wiretest.Index(wire.IndexBegins, 2, 0xab00, 5), name, wiretest.Index(wire.IndexEnds, 2))...)
	return captureFile(t,
		wire.AppendHeartbeat(nil, h, &wire.Heartbeat{PacketSize: 1472, Name: []byte("feed\x1b[31m")}),
		first, data(1, "c.d", 0), data(3, "a.b", 0), data(2, "a.b", wire.FlagRepair), round, []byte("GET / HTTP/1.1"), data(5, "a.b", 0)[:44])
}

// The text for a capture: each packet, the findings and the summary.
func TestTapText(t *testing.T) {
	r := runWith(t.Context(), "", "tap", "-r", incident(t))
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	for i, want := range []string{
		`stream: group 0 (239.20.0.0:7400): publisher 0000000000000077 ("feed\x1b[31m"): first packet from 10.0.0.7:40000, with epoch 0000000000000003`,
		`10.0.0.7:40000 > 239.20.0.0:7400 group=0 version=1 type=heartbeat flags=0 `, `sequence=0`, `topic_id=`,
		`gap: group 0 (239.20.0.0:7400): publisher 0000000000000077 ("feed\x1b[31m"): packet 2 is missing`,
		`sequence=3 packet_size=1472 runs=[{kind=messages run_flags=0 topic_id=` + fmt.Sprintf("%016x", wire.TopicID("a.b")) + ` topic="a.b" number=0 messages=1 (2 bytes)}]`,
		`packet 2 is repaired after 1s`, `flags=repair`,
		`sequence=4 packet_size=1472 runs=[{kind=index run_flags=0 topic_id=0000000000000000 number=2 index={marks=begins answers=[{receiver_id=000000000000ab00 question=5}]}} {kind=topic `,
		`** `, `bytes=14 refused="wire: not a Fanfare packet"`,
		`** `, `bytes=44 refused="wire: packet is truncated" version=1 type=data`,
		`-- 8 packets, `, `-- publisher 0000000000000077 ("feed\x1b[31m"), epoch 0000000000000003, group 0 (239.20.0.0:7400)`,
		`     6 packets, 1 a second`, `     1 missing: 1 repaired, 0 late, 0 gone, 0 open; 1 repair, 0 of them for others; 0 duplicates`,
		`     0 receivers`, `-- malformed: 1: wire: packet is truncated`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d lacks %q", i, want)
		}
	}
	if r.code != 0 || r.stderr != "" || len(lines) != 19 || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("exit code %d, standard error %q, %d lines, want 0, nothing and 19\n%s", r.code, r.stderr, len(lines), r.stdout)
	}
}

// With -json packets, findings and the summary are objects, and packets have the fields of docs/vectors.
func TestTapJSON(t *testing.T) {
	var raw struct{ Packets []struct{ Name, Hex string } }
	testenv.Vectors(t, "packets.json", &raw)
	var payloads [][]byte
	want := map[string]int{"summary": 1, "packet": len(raw.Packets)}
	for _, p := range raw.Packets {
		b, err := hex.DecodeString(p.Hex)
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, b)
		want[wire.Type(b[3]).String()]++
	}
	r := runWith(t.Context(), "", "tap", "-json", "-r", captureFile(t, payloads...))
	types := make(map[string]int)
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.UseNumber()
	for d.More() {
		var x map[string]any
		if err := d.Decode(&x); err != nil {
			t.Fatal(err)
		}
		types[x["type"].(string)]++
		if header, ok := x["header"].(map[string]any); ok {
			types[header["type_name"].(string)]++
			if x["fields"] == nil || x["from"] != "10.0.0.7:40000" || x["to"] != "239.20.0.0:7400" || x["error"] != nil {
				t.Errorf("packet %v, want its fields, from 10.0.0.7:40000 to 239.20.0.0:7400, no error", x)
			}
		}
	}
	if want["finding"] = types["finding"]; r.code != 0 || types["finding"] == 0 || !maps.Equal(types, want) {
		t.Errorf("exit code %d, objects %v, want 0, findings and %v: %s", r.code, types, want, r.stderr)
	}
}

// -type and -topic select what is written; -group and -publisher select what is counted.
func TestTapFilters(t *testing.T) {
	file := incident(t)
	for _, c := range []struct {
		args            string
		packets, counts int
	}{
		{"", 8, 8},
		{"-type data", 5, 8},
		{"-type heartbeat,hello", 1, 8},
		{"-topic a.b", 4, 8},
		{"-topic a.b -type data", 4, 8},
		{"-topic c.d", 1, 8},
		{"-topic no.such", 0, 8},
		{"-group 0", 8, 8},
		{"-group 1-3", 0, 0},
		{"-publisher 0000000000000077", 7, 7},
		{"-publisher feed", 0, 0},
		{"-n 2", 2, 2},
		{"-t udp://239.20.0.0/16?port=7400", 8, 8},
		{"-t udp://239.20.1.0/24", 0, 0},
		{"-summary", 0, 8},
	} {
		r := runWith(t.Context(), "", append([]string{"tap", "-json", "-r", file}, strings.Fields(c.args)...)...)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		var sum tapSummary
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(r.stdout, `{"type":"packet"`); r.code != 0 || n != c.packets || sum.Packets != uint64(c.counts) || sum.Written != uint64(n) {
			t.Errorf("%s: exit code %d, %d packets written, %d counted; want %d and %d", c.args, r.code, n, sum.Packets, c.packets, c.counts)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := runWith(t.Context(), string(b), "tap", "-r", "-", "-summary"); r.code != 0 || !strings.Contains(r.stdout, "-- 8 packets") {
		t.Errorf("tap of standard input ended with %+v, want exit code 0 and 8 packets", r)
	}
	if r := runWith(t.Context(), string(b[:len(b)-1]), "tap", "-r", "-", "-summary"); r.code != exitIncomplete || !strings.Contains(r.stderr, "is truncated after 7 complete frames") || !strings.Contains(r.stdout, "-- 7 packets") {
		t.Errorf("tap of a truncated file ended with %+v, want exit code %d and 7 packets", r, exitIncomplete)
	}
}

// tap listens on a fabric until -until or -n ends it; publishers do not know of it.
func TestTapFabric(t *testing.T) {
	url := memURL(t)
	bus, err := pubsub.Config{Name: "feed", Linger: -1}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("a.b")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				pub.Publish(t.Context(), []byte("hello"))
			}
		}
	}()
	r := runWith(t.Context(), "", "tap", "-t", url, "-topic", "a.b", "-type", "data", "-n", "5")
	if r.code != 0 || strings.Count(r.stdout, "type=data") != 5 || !strings.Contains(r.stdout, `topic="a.b"`) {
		t.Errorf("tap ended with %+v, want exit code 0 and 5 data packets of a.b", r)
	}
	for until := 50 * time.Millisecond; ; until *= 2 { // until the name has arrived, too
		r := runWith(t.Context(), "", "tap", "-t", url, "-until", until.String(), "-summary")
		if r.code == 0 && strings.Contains(r.stdout, "(feed)") {
			break
		}
		if r.code != 0 || until > time.Minute {
			t.Fatalf(`tap ended with %+v, want exit code 0 and the name "feed" within a minute`, r)
		}
	}
	close(stop)
	<-stopped
	if st := bus.Stats(); st.Transport.PacketsReceived != 0 {
		t.Errorf("the publisher received %d packets, want none", st.Transport.PacketsReceived)
	}
}

func TestParseGroups(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "0,3,8-11": {0, 3, 8, 9, 10, 11}, "5,4-6": {4, 5, 6}, "2-1": nil, "x": nil, "65536": nil, "1,": nil, "-1": nil} {
		got, err := parseGroups(list)
		if !slices.Equal(got, want) || (err != nil) != (want == nil && list != "") {
			t.Errorf("groups %q are %v, error %v, want %v", list, got, err, want)
		}
	}
}

// Lines are flushed soon, even without further ones.
func TestTapWriter(t *testing.T) {
	written := make(chan []byte, 10)
	w := newTapWriter(writerFunc(func(p []byte) (int, error) { written <- bytes.Clone(p); return len(p), nil }))
	w.write([]byte("a line\n"))
	if got := <-written; string(got) != "a line\n" {
		t.Errorf("written %q, want %q", got, "a line\n")
	}
	w.close()
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// keepPublishing publishes on a.b every millisecond until stop is called.
func keepPublishing(t *testing.T, url string) (stop func()) {
	t.Helper()
	bus, err := pubsub.Config{Name: "feed", Linger: -1}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := bus.Publisher("a.b")
	if err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				pub.Publish(t.Context(), []byte("hello"))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		bus.Close()
	}
}

// Sealed packets are shown with their content if the key is given by -keys or in the URL; otherwise
// as sealed, with the id of the key.
func TestTapSealed(t *testing.T) {
	ring := filepath.Join(t.TempDir(), "keys")
	if r := runWith(t.Context(), "", "key", "new", ring); r.code != 0 {
		t.Fatalf("key new failed: %s", r.stderr)
	}
	list, err := keyring.Read(ring)
	if err != nil {
		t.Fatal(err)
	}
	key := list[0].ID.String()
	url := memURL(t)
	stop := keepPublishing(t, url+"?keys="+ring)
	for _, args := range [][]string{{"-t", url, "-keys", ring}, {"-t", url + "?keys=" + ring}} {
		r := runWith(t.Context(), "", append([]string{"tap", "-topic", "a.b", "-type", "data", "-n", "5"}, args...)...)
		if r.code != 0 || strings.Count(r.stdout, "sealed="+key+" version=1 type=data") != 5 || !strings.Contains(r.stdout, `topic="a.b"`) || strings.Contains(r.stdout, "refused") {
			t.Errorf("tap %v ended with %+v, want exit code 0 and 5 data packets of a.b sealed with key %s", args, r, key)
		}
		r = runWith(t.Context(), "", append([]string{"tap", "-json", "-type", "data", "-n", "5"}, args...)...)
		if r.code != 0 || strings.Count(r.stdout, `"sealed":{"key":"`+key+`"`) != 5 || !strings.Contains(r.stdout, `"type_name":"data"`) {
			t.Errorf("tap -json %v ended with %+v, want exit code 0 and 5 data packets sealed with key %s", args, r, key)
		}
	}
	r := runWith(t.Context(), "", "tap", "-t", url, "-n", "40")
	for _, wantText := range []string{" sealed=" + key + " sender=", `unopened="no key"`, "are sealed with key " + key, "(the 32nd) ", "40 sealed, 40 of them not opened"} {
		if r.code != 0 || !strings.Contains(r.stdout, wantText) {
			t.Errorf("without a key: no %q: %+v", wantText, r)
		}
	}
	r = runWith(t.Context(), "", "tap", "-t", url, "-json", "-n", "3")
	if objects := objects(t, r.stdout); r.code != 0 || len(objects) == 0 || strings.Count(r.stdout, `"unopened":"no key"`) != 3 {
		t.Errorf("tap without keys ended with %+v, want exit code 0 and 3 packets unopened for lack of a key", r)
	}
	stop()
	if r := runWith(t.Context(), "", "tap", "-t", url+"?keys="+ring, "-keys", ring); r.code != exitUsage || !strings.Contains(r.stderr, "use one of the two") {
		t.Errorf("tap with two keyrings ended with %+v, want exit code %d", r, exitUsage)
	}
	if r := runWith(t.Context(), "", "tap", "-t", url, "-keys", ring+"x"); r.code == 0 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf(`tap with a missing keyring ended with %+v, want a failure and "no such file"`, r)
	}
}

// Signed packets are shown with their content and key id.
func TestTapSigned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	key, err := signed.CreateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	id := signed.IDOf(key.Public().(ed25519.PublicKey)).String()
	url := memURL(t)
	defer keepPublishing(t, url+"?sign="+file)()
	r := runWith(t.Context(), "", "tap", "-t", url, "-topic", "a.b", "-type", "data", "-n", "5")
	if r.code != 0 || strings.Count(r.stdout, " signed="+id+" train=") != 5 || !strings.Contains(r.stdout, `topic="a.b"`) || strings.Contains(r.stdout, "refused") || !strings.Contains(r.stdout, " signed") {
		t.Errorf("tap ended with %+v, want exit code 0 and 5 data packets of a.b signed with key %s", r, id)
	}
	r = runWith(t.Context(), "", "tap", "-json", "-t", url, "-type", "data", "-n", "5")
	if r.code != 0 || strings.Count(r.stdout, `"signed":{"key":"`+id+`"`) != 5 || !strings.Contains(r.stdout, `"type_name":"data"`) {
		t.Errorf("tap -json ended with %+v, want exit code 0 and 5 data packets signed with key %s", r, id)
	}
}
