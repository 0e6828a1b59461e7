package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/dissect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// fanfare.lua is up to date with the table of fields.
func TestFresh(t *testing.T) {
	b, err := os.ReadFile("fanfare.lua")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, generate()) {
		t.Error("fanfare.lua is out of date: run go generate ./contrib/wireshark")
	}
}

type vector struct {
	Name, Hex      string
	Header, Fields map[string]any
}

func vectors(t *testing.T) []vector {
	t.Helper()
	var raw json.RawMessage
	testenv.Vectors(t, "packets.json", &raw)
	var f struct{ Packets []vector }
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f.Packets
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flat has the values of each Wireshark field, in order.
type flat map[string][]string

// expect adds the fields of a vector under the names that the dissector uses.
func (m flat) expect(t *testing.T, p *dissect.Part, values map[string]any) {
	t.Helper()
	prefix := "fanfare." + p.Name + "."
	if p == dissect.Header {
		prefix = "fanfare."
	}
	for _, f := range p.Fields {
		id, v := prefix+f.Name, values[f.Name]
		if v == nil || f.Implied {
			continue
		}
		delete(values, f.Name)
		switch f.Kind {
		case dissect.Flag:
			m[id] = append(m[id], map[bool]string{false: "0", true: "1"}[v.(bool)])
		case dissect.Uints, dissect.Chunks:
			for _, x := range v.([]any) {
				m[id] = append(m[id], fmt.Sprint(x))
			}
		case dissect.Ranges:
			for _, x := range v.([]any) {
				m[id+".first"] = append(m[id+".first"], fmt.Sprint(x.([]any)[0]))
				m[id+".count"] = append(m[id+".count"], fmt.Sprint(x.([]any)[1]))
			}
		case dissect.Parts:
			for _, x := range v.([]any) {
				m.expect(t, f.Part, x.(map[string]any))
			}
		case dissect.One:
			m.expect(t, f.Part, v.(map[string]any))
		default:
			if x := fmt.Sprint(v); x != "" {
				if f.Kind == dissect.Text {
					b, _ := hex.DecodeString(x)
					x = wire.CleanName(b)
				}
				m[id] = append(m[id], x)
			}
			m.expectBits(t, id, &f, v)
		}
	}
	for name := range values {
		if name != "type_name" {
			t.Errorf("the table has no field %s of %s", name, p.Name)
		}
	}
}

// expectBits adds the bits of a number: those that a packet of the type has, named as fanfare tap names them.
func (m flat) expectBits(t *testing.T, id string, f *dissect.Field, v any) {
	t.Helper()
	if f.Bits == nil {
		return
	}
	x, err := strconv.ParseUint(fmt.Sprint(v), 0, 64)
	if err != nil {
		t.Fatalf("field %s is no number: %v", id, err)
	}
	for _, c := range f.Bits {
		if c.In == 0 || fmt.Sprint(uint8(c.In)) == m["fanfare.type"][0] {
			m[id+"."+c.Name] = append(m[id+"."+c.Name], map[bool]string{false: "0", true: "1"}[x&c.Value != 0])
		}
	}
}

// found adds the values that tshark printed.
func (m flat) found(name string, v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, y := range x {
			m.found(k, y)
		}
	case []any:
		for _, y := range x {
			m.found(name, y)
		}
	case string:
		m[name] = append(m[name], x)
	}
}

// normal returns values in a form independent of tshark's formatting.
func normal(f *dissect.Field, list []string) (out []string) {
	for _, x := range list {
		if n, err := strconv.ParseUint(x, 0, 64); err == nil && (f == nil || f.Kind == dissect.Uint || f.Kind == dissect.Uints || f.Kind == dissect.Ranges) {
			x = strconv.FormatUint(n, 10)
		}
		if f != nil && (f.Kind == dissect.Bytes || f.Kind == dissect.Chunks) {
			x = strings.ReplaceAll(x, ":", "")
		}
		switch x {
		case "True":
			x = "1"
		case "False":
			x = "0"
		}
		out = append(out, x)
	}
	return out
}

// fields returns the fields of the table by the names that the dissector uses.
func fields() map[string]*dissect.Field {
	all := make(map[string]*dissect.Field)
	var add func(prefix string, p *dissect.Part)
	add = func(prefix string, p *dissect.Part) {
		for i := range p.Fields {
			f := &p.Fields[i]
			all[prefix+f.Name] = f
			if f.Kind == dissect.Ranges {
				all[prefix+f.Name+".first"], all[prefix+f.Name+".count"] = f, f
			}
			for _, c := range f.Bits {
				all[prefix+f.Name+"."+c.Name] = &dissect.Field{Name: c.Name, Kind: dissect.Flag}
			}
			if f.Part != nil {
				add("fanfare."+f.Part.Name+".", f.Part)
			}
		}
	}
	add("fanfare.", dissect.Header)
	for typ := wire.TypeData; typ <= wire.LastType; typ++ {
		if part := dissect.Body(typ); part != nil {
			add("fanfare."+part.Name+".", part)
		}
	}
	return all
}

// tshark dissects a capture and returns the fields of each packet.
func tshark(t *testing.T, capture []byte, args ...string) (packets []flat) {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Skip(t, "tshark is not installed: %v", err)
	}
	version, err := exec.Command(path, "--version").Output()
	if err != nil || !strings.Contains(strings.ToLower(string(version)), "with lua") {
		t.Fatalf("tshark was built without Lua: %v\n%s", err, version)
	}
	file := filepath.Join(t.TempDir(), "packets.pcap")
	if err := os.WriteFile(file, capture, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"-X", "lua_script:fanfare.lua", "-r", file, "-T", "json", "--no-duplicate-keys"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // without the user's preferences
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(strings.ToLower(stderr.String()), "lua") {
		t.Fatalf("tshark failed or reports a Lua error: %v\n%s", err, stderr.String())
	}
	var list []struct {
		Source struct{ Layers map[string]any } `json:"_source"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("tshark writes no JSON: %v: %.2000s", err, out)
	}
	for _, p := range list {
		m := make(flat)
		m.found("", p.Source.Layers["fanfare"])
		packets = append(packets, m)
	}
	return packets
}

// capture returns a pcap file with the frames.
func capture(link uint32, frames [][]byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(le.AppendUint16(b, 2), 4)
	b = le.AppendUint32(le.AppendUint32(append(b, make([]byte, 8)...), 65535), link)
	for _, f := range frames {
		b = le.AppendUint32(append(b, make([]byte, 8)...), uint32(len(f)))
		b = append(le.AppendUint32(b, uint32(len(f))), f...)
	}
	return b
}

// udp returns an IPv4 packet to group 0.
func udp(port uint16, payload []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint16([]byte{0x45, 0}, uint16(28+len(payload)))
	b = append(b, 0, 0, 0x40, 0, 1, 17, 0, 0, 10, 0, 0, 7, 239, 20, 0, 0)
	b = be.AppendUint16(be.AppendUint16(b, 49152), port)
	return append(append(be.AppendUint16(b, uint16(8+len(payload))), 0, 0), payload...)
}

// ud returns an RDMA datagram (UD) from the BTH to the ICRC. docs/protocol §17.1.
func ud(payload []byte) []byte {
	pad := -len(payload) & 3
	b := []byte{0x64, byte(pad) << 4, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x01, 0x23, 0x45, 0x67, 0, 0, 0, 0x11}
	return append(append(append(b, payload...), make([]byte, pad)...), 0, 0, 0, 0)
}

// infiniband returns a frame with LRH and GRH to the group of 239.20.0.0, as ibdump records it:
// after an ERF header of type 21.
func infiniband(bth []byte) []byte {
	erf := make([]byte, 16)
	erf[8], erf[9] = 21, 4
	binary.BigEndian.PutUint16(erf[10:], uint16(16+48+len(bth)+2))
	binary.BigEndian.PutUint16(erf[14:], uint16(48+len(bth)+2))
	b := make([]byte, 48)
	b[1] = 3
	binary.BigEndian.PutUint16(b[2:], 0xc001)
	binary.BigEndian.PutUint16(b[4:], uint16(48+len(bth))/4)
	binary.BigEndian.PutUint16(b[6:], 1)
	b[8] = 0x60
	binary.BigEndian.PutUint16(b[12:], uint16(len(bth)))
	b[14] = 0x1b
	copy(b[16:], []byte{0xfe, 0x80})
	copy(b[32:], []byte{0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 0x14, 0, 0})
	return append(append(append(erf, b...), bth...), 0, 0)
}

// tshark shows every field of every vector with the same name and value, over UDP, RoCEv2 and
// InfiniBand. docs/protocol §2, §21.1.
func TestTshark(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	all := vectors(t)
	known := fields()
	for _, c := range []struct {
		name string
		link uint32
		pack func([]byte) []byte
		args []string
	}{
		{"UDP", 101, func(b []byte) []byte { return udp(7400, b) }, nil},
		{"RoCEv2", 101, func(b []byte) []byte { return udp(4791, ud(b)) }, nil},
		{"InfiniBand", 197, func(b []byte) []byte { return infiniband(ud(b)) }, nil},
		{"Decode As", 101, func(b []byte) []byte { return udp(53, b) }, []string{"-d", "udp.port==53,fanfare"}},
	} {
		var frames [][]byte
		for _, v := range all {
			frames = append(frames, c.pack(unhex(t, v.Hex)))
		}
		got := tshark(t, capture(c.link, frames), c.args...)
		if len(got) != len(all) {
			t.Errorf("%s: tshark shows %d packets, want %d", c.name, len(got), len(all))
			continue
		}
		for i, v := range vectors(t) {
			want := make(flat)
			want.expect(t, dissect.Header, v.Header)
			want.expect(t, dissect.Body(dissect.Read(unhex(t, v.Hex)).Type), v.Fields)
			compare(t, c.name+", "+v.Name, want, got[i], known)
		}
	}
}

func compare(t *testing.T, name string, want, got flat, known map[string]*dissect.Field) {
	t.Helper()
	var ids []string
	for id := range want {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		if g, w := normal(known[id], got[id]), normal(known[id], want[id]); !slices.Equal(g, w) {
			t.Errorf("%s: %s is %q, want %q", name, id, g, w)
		}
	}
	for id := range got {
		if f := known[id]; f != nil && !f.Implied && want[id] == nil && f.Kind != dissect.Parts && f.Kind != dissect.One && f.Kind != dissect.Ranges {
			t.Errorf("%s: %s is %q, but the vector lacks the field", name, id, got[id])
		}
	}
	if strings.Contains(fmt.Sprint(got), "malformed") {
		t.Errorf("%s is reported as malformed", name)
	}
}

// The filters in README.md use existing fields.
func TestReadmeFilters(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	filters := regexp.MustCompile("`(fanfare\\.[^`]+)`").FindAllStringSubmatch(string(text), -1)
	if len(filters) < 5 {
		t.Fatalf("found only %d filters, want 5 or more: has the format of README.md changed?", len(filters))
	}
	for _, m := range filters {
		if m[1] == "fanfare.lua" {
			continue
		}
		tshark(t, capture(101, [][]byte{udp(7400, unhex(t, vectors(t)[0].Hex))}), "-Y", m[1]) // fails for an unknown field
	}
}

// A packet truncated at any byte is reported as malformed, without a Lua error.
func TestTsharkDamaged(t *testing.T) {
	testenv.Slow(t)
	var frames [][]byte
	var cut []bool
	for _, v := range vectors(t)[:10] {
		b := unhex(t, v.Hex)
		for n := wire.HeaderLen; n <= len(b); n++ {
			frames, cut = append(frames, udp(7400, b[:n])), append(cut, dissect.Read(b[:n]).Err != nil)
		}
	}
	for i, m := range tshark(t, capture(101, frames)) {
		_, malformed := m["fanfare.malformed"]
		if len(m["fanfare.publisher"]) != 1 || malformed != cut[i] {
			t.Errorf("frame %d: reported as malformed: %v, want %v", i+1, malformed, cut[i])
		}
	}
}

// tshark shows the header of a sealed packet, and that the packet is sealed. docs/protocol §27.2.
func TestTsharkSealed(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	var v struct {
		Good []struct {
			Key, Time, Counter                uint32
			Salt, Mark, Train, Sealed, Packet string
		}
	}
	testenv.Vectors(t, "sealed.json", &v)
	var frames [][]byte
	for _, x := range v.Good {
		frames = append(frames, udp(7400, unhex(t, x.Sealed)))
	}
	all := tshark(t, capture(101, frames))
	if len(all) != len(v.Good) {
		t.Fatalf("tshark shows %d packets, want %d", len(all), len(v.Good))
	}
	for i, x := range v.Good {
		for field, want := range map[string]string{
			"version": "1", "key": fmt.Sprintf("0x%08x", x.Key), "counter": fmt.Sprint(x.Counter),
			"salt": colons(x.Salt), "mark": colons(x.Mark), "train": colons(x.Train), "tag": colons(x.Sealed[len(x.Sealed)-32:]),
		} {
			if got := all[i]["fanfare.sealed."+field]; len(got) != 1 || got[0] != want {
				t.Errorf("packet %d: %s is %q, want %s", i, field, got, want)
			}
		}
		if got := all[i]["fanfare.sealed.time"]; len(got) != 1 || got[0] == "" {
			t.Errorf("packet %d: time %q, want one", i, got)
		}
		if all[i]["fanfare.type"] != nil {
			t.Errorf("packet %d: encrypted fields are shown: %v", i, all[i])
		}
	}
}

// tshark shows the signature header of a signed packet, and then the packet. docs/protocol §29.2.
func TestTsharkSigned(t *testing.T) {
	var v struct {
		Good []struct {
			Key, Time       uint32
			Counter         uint64
			Salt            string
			Packets, Signed []string
		}
	}
	testenv.Vectors(t, "signed.json", &v)
	var frames [][]byte
	var want []map[string]string
	for _, x := range v.Good {
		for i, b := range x.Signed {
			p := unhex(t, b)
			frames = append(frames, udp(7400, p))
			head := len(p) - len(x.Packets[i])/2
			path := ""
			if head > 88 {
				path = fmt.Sprintf("%x", p[88:head])
			}
			want = append(want, map[string]string{
				"fanfare.signed.version": "1", "fanfare.signed.node": fmt.Sprint(p[3]), "fanfare.signed.counter": fmt.Sprint(x.Counter), "fanfare.signed.salt": colons(x.Salt),
				"fanfare.signed.signature": colons(fmt.Sprintf("%x", p[24:88])), "fanfare.signed.path": colons(path), "fanfare.publisher": fmt.Sprintf("0x%016x", binary.LittleEndian.Uint64(p[head+16:])),
			})
		}
	}
	all := tshark(t, capture(101, frames))
	if len(all) != len(frames) {
		t.Fatalf("tshark shows %d packets, want %d", len(all), len(frames))
	}
	for i, fields := range want {
		for field, value := range fields {
			if got := all[i][field]; value == "" && len(got) > 0 && got[0] != "" || value != "" && (len(got) != 1 || got[0] != value) {
				t.Errorf("packet %d: %s is %q, want %s", i, field, got, value)
			}
		}
	}
}

// colons formats hexadecimal digits like tshark.
func colons(s string) string {
	var parts []string
	for i := 0; i < len(s); i += 2 {
		parts = append(parts, s[i:i+2])
	}
	return strings.Join(parts, ":")
}

// A train that was captured on the sending host as one datagram is shown packet by packet.
func TestTsharkTrain(t *testing.T) {
	packet := func(seq uint64, text string) []byte {
		b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+len(text))
		wire.PutDataHeader(b, wire.Header{GroupTag: 3, Publisher: 0x77, Epoch: 5}, 1472)
		wire.SetSeq(b, seq)
		wire.PutRun(b[wire.DataHeaderLen:], 9, []byte(text))
		return b
	}
	train := slices.Concat(packet(5, "first one"), packet(6, "secondone"), packet(7, "last"))
	single := packet(8, string(packet(8, "")[16:32])+" repeats what packets of its stream begin with")
	got := tshark(t, capture(101, [][]byte{udp(7400, train), udp(7400, single)}))
	if len(got) != 2 || !slices.Equal(got[0]["fanfare.data.sequence"], []string{"5", "6", "7"}) || !slices.Equal(got[1]["fanfare.data.sequence"], []string{"8"}) {
		t.Errorf("packets %v, want sequence numbers 5, 6 and 7 in the first and 8 in the second", got)
	}
	if text := fmt.Sprint(got); strings.Contains(text, "malformed") {
		t.Errorf("a packet is shown as malformed: %s", text)
	}
}
