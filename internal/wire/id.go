package wire

// TopicID returns the id of a topic name: FNV-1a, 64 bits, with a final mix so that its low bits can select a group. It
// is the same on every host and in every version. docs/protocol §3.8.
func TopicID(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h ^= uint64(name[i])
		h *= 1099511628211
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return h
}

// GroupTag returns the tag of a group: a hash of its address. docs/protocol §3.11.
func GroupTag(address string) uint32 { return uint32(TopicID(address) >> 16) }
