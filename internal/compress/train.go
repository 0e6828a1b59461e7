package compress

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Train makes a dictionary of at most size bytes from samples, which are uncompressed runs of packets. It contains
// parts of them, at even distances from the first to the last, and if possible initial tables of Zstandard.
func Train(samples [][]byte, size int) (*Dictionary, error) {
	if size < MinDictionary || size > MaxDictionary {
		return nil, fmt.Errorf("a dictionary of %d bytes is not within %d..%d", size, MinDictionary, MaxDictionary)
	}
	content := choose(samples, size-min(tableRoom, size/2))
	if len(content) < MinDictionary {
		return nil, errors.New("the samples are too short for a dictionary")
	}
	b := content
	if x, err := format(samples, content); err == nil {
		b = x
	}
	return NewDictionary(b)
}

// tableRoom is the maximum size of a dictionary's tables, in bytes.
const tableRoom = 1024

// sampleBytes is the length of a part of a sample in bytes.
const sampleBytes = 1024

// choose returns size bytes of samples, in parts at even distances.
func choose(samples [][]byte, size int) (content []byte) {
	total := 0
	for _, s := range samples {
		total += len(s)
	}
	if total <= size {
		for _, s := range samples {
			content = append(content, s...)
		}
		return content
	}
	pieces := max(1, size/sampleBytes)
	at, next := 0, 0
	for _, s := range samples {
		for ; len(content) < size && next < pieces && next*(total/pieces) < at+len(s); next++ {
			from := min(max(0, next*(total/pieces)-at), max(0, len(s)-sampleBytes))
			content = append(content, s[from:min(len(s), from+sampleBytes, from+size-len(content))]...)
		}
		at += len(s)
	}
	return content
}

// mostSamples bounds the bytes of samples for the tables, which contain frequencies.
const mostSamples = 8 << 20

// format makes a dictionary in the format of Zstandard with this content.
func format(samples [][]byte, content []byte) (b []byte, err error) {
	defer func() {
		if x := recover(); x != nil { // the library panics if it cannot make tables from the samples
			err = fmt.Errorf("no tables: %v", x)
		}
	}()
	n := 0
	for bytes := 0; n < len(samples) && bytes < mostSamples; n++ {
		bytes += len(samples[n])
	}
	return zstd.BuildDict(zstd.BuildDictOptions{ID: formatID, Contents: samples[:n], History: content,
		Offsets: [3]int{1, 4, 8}, Level: zstd.SpeedBetterCompression})
}

// formatID is the dictionary ID that the format of Zstandard requires. Dictionaries are identified by their hash
// instead.
const formatID = 32768
