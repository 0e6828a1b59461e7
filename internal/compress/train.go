package compress

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Train makes a dictionary of at most size bytes from samples: runs of packets, as they are
// compressed. It holds a choice of them, taken at even distances from the first to the last,
// and where it can the tables with which Zstandard begins.
func Train(samples [][]byte, size int) (*Dictionary, error) {
	if size < MinDictionary || size > MaxDictionary {
		return nil, fmt.Errorf("a dictionary of %d bytes is not within %d..%d", size, MinDictionary, MaxDictionary)
	}
	content := choose(samples, size-min(tableRoom, size/2))
	if len(content) < MinDictionary {
		return nil, errors.New("there is too little to make a dictionary of")
	}
	b := content
	if x, err := format(samples, content); err == nil {
		b = x
	}
	return NewDictionary(b)
}

// tableRoom is the maximum size of a dictionary's tables, in bytes.
const tableRoom = 1024

// sampleBytes is how many bytes of a sample are taken at a time.
const sampleBytes = 1024

// choose takes size bytes of samples, in pieces at even distances.
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

// mostSamples bounds the bytes that the tables are made from: they say how often what occurs.
const mostSamples = 8 << 20

// format makes a dictionary of Zstandard's format with this content.
func format(samples [][]byte, content []byte) (b []byte, err error) {
	defer func() {
		if x := recover(); x != nil { // of samples that it cannot make tables of
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

// formatID is the number that the format of Zstandard wants: what names a dictionary is its hash.
const formatID = 32768
