//go:build !darwin

package udp

// largestSend is the largest packet that this system sends.
const largestSend = maxPacket
