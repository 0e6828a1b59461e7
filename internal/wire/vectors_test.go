package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write fields and bytes of docs/vectors/packets.json again")

const vectorsFile = "../../docs/vectors/packets.json"

// vectorFile is docs/vectors/packets.json: packets of every type with their fields.
type vectorFile struct {
	Read    []string  `json:"read"`
	Packets []*vector `json:"packets"`
}

// vector is one packet. To add one, write name and layout, run the tests with -update, which add the rest, and check
// the result by hand.
type vector struct {
	Name   string       `json:"name"`
	Layout []string     `json:"layout,omitempty"` // bytes with comments
	Hex    string       `json:"hex"`
	Header vectorHeader `json:"header"`
	Fields any          `json:"fields"`

	raw json.RawMessage // Fields, as read
}

func (v *vector) UnmarshalJSON(b []byte) error {
	type plain vector
	x := struct {
		*plain
		Fields json.RawMessage `json:"fields"`
	}{plain: (*plain)(v)}
	err := json.Unmarshal(b, &x)
	v.raw = x.Fields
	return err
}

type vectorHeader struct {
	Version   uint8  `json:"version"`
	Type      uint8  `json:"type"`
	TypeName  string `json:"type_name"`
	Flags     uint8  `json:"flags"`
	GroupTag  uint32 `json:"group_tag"`
	Checksum  uint32 `json:"checksum"`
	Publisher uint64 `json:"publisher"`
	Epoch     uint64 `json:"epoch"`
}

// vectors is read once; a test that changes a packet works on a copy.
var vectors = readVectors()

func readVectors() *vectorFile {
	b, err := os.ReadFile(vectorsFile)
	if err != nil {
		panic(err)
	}
	f := new(vectorFile)
	if err := json.Unmarshal(b, f); err != nil {
		panic(fmt.Sprintf("%s: %v", vectorsFile, err))
	}
	return f
}

// find returns the vector of that name.
func (f *vectorFile) find(name string) *vector {
	for _, v := range f.Packets {
		if v.Name == name {
			return v
		}
	}
	panic(vectorsFile + " has no packet " + name)
}

// packet returns the bytes of the vector, from its layout if it has one.
func (v *vector) packet() []byte {
	if len(v.Layout) > 0 {
		return unhex(strings.Join(v.Layout, "\n"))
	}
	return unhex(v.Hex)
}

// The vectors that other tests change, truncate and build: bytes and values.
var (
	goldenData, goldenDataValue           = vectorOf("data", (*dataFields).desc)
	goldenFragment, goldenFragmentValue   = vectorOf("data fragment", (*dataFields).desc)
	goldenEmptyData, goldenEmptyDataValue = vectorOf("data without runs", (*dataFields).desc)
	goldenHeartbeat, goldenHeartbeatValue = vectorOf("heartbeat", (*heartbeatFields).value)
	goldenNAK, goldenNAKValue             = vectorOf("nak", (*rangesFields).desc)
	goldenNCF, goldenNCFValue             = vectorOf("ncf", (*rangesFields).desc)
	goldenGone, goldenGoneValue           = vectorOf("gone", (*rangesFields).desc)
	goldenStatus, goldenStatusValue       = vectorOf("status", (*statusFields).desc)
	goldenHello, goldenHelloValue         = vectorOf("hello", (*helloFields).value)
)

// vectorOf returns the vector with that name, and its fields as values of the tests.
func vectorOf[F, V any](name string, value func(*F) V) ([]byte, V) {
	v := vectors.find(name)
	return v.packet(), value(fieldsFrom[F](v.raw))
}

// The packets of docs/vectors are parsed into their fields and built from them. docs/protocol §21.1.
func TestVectors(t *testing.T) {
	if *update {
		updateVectors(t)
	}
	seen := make(map[Type]bool)
	for _, v := range vectors.Packets {
		b := v.packet()
		if got := hex.EncodeToString(b); got != v.Hex {
			t.Errorf("%s: the layout is %s, hex is %s", v.Name, got, v.Hex)
		}
		if err := Verify(b, false); err != nil {
			t.Errorf("%s: Verify: %v", v.Name, err)
		}
		head, fields, err := fieldsOf(t, b)
		if err != nil {
			t.Errorf("%s: fields of the packet: %v", v.Name, err)
			continue
		}
		if head != v.Header {
			t.Errorf("%s: header %+v, want %+v", v.Name, head, v.Header)
		}
		want := reflect.New(reflect.TypeOf(fields).Elem()).Interface()
		if err := json.Unmarshal(v.raw, want); err != nil {
			t.Errorf("%s: decoding the fields: %v", v.Name, err)
		}
		if !reflect.DeepEqual(fields, want) {
			t.Errorf("%s: fields %+v, want %+v", v.Name, fields, want)
		}
		if got := build(t, v.Header, v.raw); !bytes.Equal(got, b) {
			t.Errorf("%s is built as\n%swant\n%s", v.Name, hex.Dump(got), hex.Dump(b))
		}
		seen[Type(v.Header.Type)] = true
	}
	for typ := TypeData; typ <= LastType; typ++ {
		if typ.Known() && !seen[typ] {
			t.Errorf("%s has no %v", vectorsFile, typ)
		}
	}
}

// updateVectors writes the parts that follow from the layout.
func updateVectors(t *testing.T) {
	for _, v := range vectors.Packets {
		b := v.packet()
		head, fields, err := fieldsOf(t, b)
		if err != nil {
			t.Fatalf("%s: fields of the packet: %v", v.Name, err)
		}
		v.Hex, v.Header, v.Fields = hex.EncodeToString(b), head, fields
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(vectors); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorsFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	vectors = readVectors()
}
