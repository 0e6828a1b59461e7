package sim

import (
	"encoding/binary"
	"sync"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Publishers that compress. All runs share the packers and dictionaries: their results do not depend on earlier calls.

// compression lets some publishers compress, and some subscribers lack the dictionary.
func (d drawer) compression(o *Options) {
	if !d.chance(30) {
		return
	}
	for i := range o.Publishers {
		if d.chance(70) {
			o.Publishers[i].Compress = pick(d, "s2", "s2", "s2:better", "zstd:fastest")
			o.Publishers[i].Dictionary = d.chance(50) && o.Publishers[i].Compress != "s2:better"
		}
	}
	for i := range o.Subscribers {
		o.Subscribers[i].NoDictionary = d.chance(5)
	}
}

// testDictionary is the dictionary of all runs: text as in the messages.
var testDictionary = sync.OnceValue(func() *compress.Dictionary {
	var b []byte
	for _, name := range topicNames {
		b = append(b, name...)
	}
	for key := range uint64(64) {
		b = binary.LittleEndian.AppendUint16(b, 64)
		b = append(b, make([]byte, 64)...)
		fill(b[len(b)-64:], key)
	}
	d, err := compress.NewDictionary(b)
	if err != nil {
		panic(err)
	}
	return d
})

// packers are created on first use.
var packers sync.Map // map of packing to topics.Packer

// packing is a way to compress packets.
type packing struct {
	Compression
	dict *compress.Dictionary
}

func (o *Compression) packer(c *Content) topics.Packer {
	if o.Compress == "" {
		return nil
	}
	of := packing{Compression: *o}
	if o.Dictionary {
		of.dict = c.dictionary()
	}
	if p, ok := packers.Load(of); ok {
		return p.(topics.Packer)
	}
	spec, err := compress.Parse(o.Compress)
	if err != nil {
		panic(err)
	}
	p, err := compress.New(spec, of.dict)
	if err != nil {
		panic(err)
	}
	packers.Store(of, p)
	return p
}

var (
	unpackAll = sync.OnceValue(func() wire.Unpacker {
		return compress.NewUnpacker([]*compress.Dictionary{testDictionary()})
	})
	unpackPlain = sync.OnceValue(func() wire.Unpacker { return compress.NewUnpacker(nil) })
)

func (s *subscriber) unpacker() wire.Unpacker {
	if s.o.NoDictionary {
		return unpackPlain()
	}
	return s.sim.unpacker
}
