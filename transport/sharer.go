package transport

// Sharer is a Transport with receivers that read packets in the sender's memory without copying, if it
// is from AllocBlocks.
type Sharer interface {
	Transport
	// AllocBlocks is Alloc of that many blocks of that many bytes. The data of a Send is in one block,
	// and does not change before the block is renewed.
	AllocBlocks(blocks, bytes int) ([]byte, error)
	// Renew returns the memory to which a block moves when the sender needs its packets no more: the same, or other memory
	// if a reader may still be in it. It returns nil if there is no memory. Any goroutine may call it. Free takes memory
	// of AllocBlocks, and must be called for it after the transport has ended.
	Renew(block []byte) []byte
}
