package pubsub

import (
	"fmt"
	"strings"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Compression is how a bus compresses what it publishes (Config.Compress).
type Compression string

const (
	// CompressNone is the default.
	CompressNone Compression = "none"
	// CompressS2 is S2, an extension of Snappy, in its block format: it takes the least processor time. Its levels are
	// "s2:default" and "s2:better", which cannot use a dictionary.
	CompressS2 Compression = "s2"
	// CompressZstd is Zstandard (RFC 8878): it saves most bytes, and takes about 0.8 µs of processor time for a message
	// of 40 bytes. Its levels are "zstd:fastest", the default, "zstd:default", "zstd:better" and "zstd:best": each takes
	// longer and saves a few bytes more.
	CompressZstd Compression = "zstd"
)

// DictionaryName is the name of a dictionary in packets: the first 4 bytes of its SHA-256 in hexadecimal. It returns
// an error if the bytes are not a valid dictionary (Config.Dictionaries).
func DictionaryName(dictionary []byte) (string, error) {
	d, err := compress.NewDictionary(dictionary)
	if err != nil {
		return "", err
	}
	return d.Name(), nil
}

// packs holds Config.Compress and Config.Dictionaries, parsed.
type packs struct {
	spec  compress.Spec
	dicts []*compress.Dictionary
}

// checkPacks parses the fields that packs holds. It returns a *ConfigError.
func (c *Config) checkPacks() error {
	spec, err := compress.Parse(string(c.Compress))
	if err != nil {
		return &ConfigError{Field: "Compress", Value: fmt.Sprint(c.Compress), Must: "one of " + strings.Join(compress.Names(), ", ")}
	}
	c.packs = packs{spec: spec}
	for i, b := range c.Dictionaries {
		d, err := compress.NewDictionary(b)
		if err != nil {
			return &ConfigError{Field: "Dictionaries", Value: fmt.Sprintf("item %d of %d bytes", i, len(b)), Must: fmt.Sprintf("a dictionary: %v", err)}
		}
		c.packs.dicts = append(c.packs.dicts, d)
	}
	if len(c.packs.dicts) > 0 && !spec.TakesDictionary() {
		return &ConfigError{Field: "Compress", Value: string(c.Compress), Must: "s2 or zstd with Dictionaries: this level cannot use one"}
	}
	return nil
}

// open returns the compressor, if the bus compresses, and the decompressor.
func (x *packs) open() (c topics.Compression, err error) {
	if x.spec.Codec != wire.CodecNone {
		var dict *compress.Dictionary
		if len(x.dicts) > 0 {
			dict = x.dicts[0]
		}
		c.Packer, err = compress.New(x.spec, dict)
	}
	c.Unpacker = compress.NewUnpacker(x.dicts)
	return c, err
}
