package udp

// largestSend is the largest packet that this system sends: net.inet.udp.maxdgram, as macOS sets it out of the box.
const largestSend = 9216
