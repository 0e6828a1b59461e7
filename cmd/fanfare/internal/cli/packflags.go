package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type packFlags struct {
	compress pubsub.Compression
	dicts    []string
}

// maxDictionary is the largest dictionary, in bytes.
const maxDictionary = 1 << 20

func compressVar(fs *flagSet, val *pubsub.Compression, usage string) {
	choiceVar(fs, val, "compress", usage,
		word{string(pubsub.CompressNone), "not at all"},
		word{string(pubsub.CompressS2), "S2, which costs least: some 0.1 µs for a small message"},
		word{"s2:better", "S2 that takes longer, without -dict"},
		word{string(pubsub.CompressZstd), "Zstandard, which saves most, for some 0.8 µs: zstd:fastest"},
		word{"zstd:LEVEL", "fastest, default, better or best: better takes three times as long as fastest, for 2 to 5 % fewer bytes"})
}

func dictVar(fs *flagSet, val *[]string, usage string) {
	urlsVar(fs, val, "dict", nil, "the dictionary in `FILE`, as fanfare dict makes it. "+usage)
}

func readDictionaries(files []string) (all [][]byte, err error) {
	for _, name := range files {
		b, err := readDictionary(name)
		if err != nil {
			return nil, usagef("-dict: %v", err)
		}
		all = append(all, b)
	}
	return all, nil
}

func readDictionary(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, pathError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDictionary+1))
	if err != nil {
		return nil, pathError(err)
	}
	if len(b) > maxDictionary {
		return nil, fmt.Errorf("%s has more than %d bytes, which is the most for a dictionary: fanfare dict makes one", name, maxDictionary)
	}
	if _, err := pubsub.DictionaryName(b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// tapDictionaries are the dictionaries of -dict as tap.Observer wants them.
func tapDictionaries(names []string) (dicts []*compress.Dictionary, err error) {
	files, err := readDictionaries(names)
	if err != nil {
		return nil, err
	}
	for _, b := range files {
		d, err := compress.NewDictionary(b)
		if err != nil {
			return nil, err
		}
		dicts = append(dicts, d)
	}
	return dicts, nil
}

// compressedTo says what is left of the bytes; nothing where nothing is compressed.
func compressedTo(wire, raw uint64) string {
	if raw == 0 {
		return ""
	}
	return fmt.Sprintf("compressed to %.2f", float64(wire)/float64(raw))
}

// dictionaryMissing reports a publisher whose dictionary is not here: gaps follow.
func (s *sub) dictionaryMissing(e *pubsub.PublisherEvent, err *events.DictionaryError) error {
	if s.quiet { // else the log has said it
		s.e.console.line("%v", err)
	}
	return s.emit(jsonNotice{
		Type: "dictionary_missing", Publisher: err.Publisher.String(), Epoch: err.Epoch, Group: e.Group, Codec: err.Codec, Dictionary: err.Dictionary,
	})
}
