package udp

// largestSend is the largest packet that this system sends: the default of net.inet.udp.maxdgram on macOS.
const largestSend = 9216
