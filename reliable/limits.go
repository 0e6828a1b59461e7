package reliable

import "time"

// Limits and time constants of the protocol, each with its reason. Times that depend on the round trip are derived from
// the measured one; these constants bound them.
const (
	// startRTT is assumed before the first measurement: typical of a LAN.
	startRTT = 200 * time.Microsecond
	// minRTT bounds a measured round trip from below: shorter ones are clock noise, and timers cannot follow them.
	minRTT = 5 * time.Microsecond
	// minRetry is the shortest time before a NAK is repeated. Process scheduling on a busy host determines it, not the
	// network.
	minRetry = 100 * time.Microsecond
	// maxRetry bounds the doubling of a NAK's repetition interval, so that many attempts fit the recovery deadline even at
	// heavy loss, unless the round trip itself is longer. farRTT is the longest plausible round trip.
	maxRetry = 20 * time.Millisecond
	farRTT   = 500 * time.Millisecond

	// maxDefer is how long NCFs may delay a request for a packet, since its last request or since it was found missing: a
	// replayed NCF must not silence a receiver.
	maxDefer = 100 * time.Millisecond

	// tailDelay is how long after the last packet the first heartbeat follows.
	tailDelay = 100 * time.Microsecond
	// activeHeartbeat is the interval of heartbeats while data flows: they carry the round trip and the advertised timers.
	activeHeartbeat = 10 * time.Millisecond
	// slowHeartbeat bounds the ladder while a member misses packets or there is no member, quietHeartbeat while all
	// members have everything.
	slowHeartbeat  = 100 * time.Millisecond
	quietHeartbeat = time.Second
	// lostHeartbeats is after how many advertised heartbeat intervals of silence a publisher counts as lost. lostFloor is
	// the minimum: a process on a busy host may pause that long.
	lostHeartbeats = 4
	lostFloor      = 2 * time.Second
	// maxHeartbeat bounds the advertised heartbeat interval: correct publishers advertise quietHeartbeat at most.
	maxHeartbeat = 2 * quietHeartbeat
	// LongestSilence is the longest that a running publisher may be silent.
	LongestSilence = lostHeartbeats*maxHeartbeat + slowHeartbeat

	// statusShare is the share of the packet rate that the periodic statuses of all members together may take.
	statusShare    = 0.01
	minStatusEvery = 5 * time.Millisecond
	maxStatusEvery = time.Second

	// joinStatuses is how many statuses a receiver sends early, the second after 2*joinEvery, each next one after twice
	// the time. Until one arrives, the publisher does not know the receiver and does not wait for it.
	joinStatuses = 4
	joinEvery    = 10 * time.Millisecond

	// farewellsKept is how many departed receivers a publisher remembers.
	farewellsKept = 256

	// formerKept is how many silent members that were released a publisher remembers, formerNamed how long heartbeats name
	// them.
	formerKept  = 256
	formerNamed = time.Minute

	// solicitations is how often, and silenceRTTs for how many round trips, a silent member is asked before it is removed
	// (see SenderConfig.Silence).
	solicitations = 10
	silenceRTTs   = 30

	// repairBurst is the bytes of repairs in the first round trip (about ten packets, RFC 6928). joinersBurst is how much
	// of it receivers that fetch history get at once, which delays new data. repairBusy is the least length of a repair
	// round while data is sent.
	repairBurst  = 16 << 10
	repairBusy   = 2 * time.Millisecond
	joinersBurst = 8 << 10
	// strangersRate is the repair rate that an idle publisher grants receivers that are not members, in bytes a second,
	// and the burst in bytes. Other publishers grant strangersPart of the data rate. It serves receivers with a lost first
	// status; members do not need it.
	strangersRate = 16 << 10
	strangersPart = 16

	// stateFloor is the least budget of state, in bytes a second, of a publisher without a rate limit.
	stateFloor = 8 << 20

	// stateBurst is how much of the budget of state may be sent at once, as a time: new data waits for it.
	stateBurst = time.Millisecond

	// overtakes is how many newer packets may arrive before a repair without the repair counting as lost: trains of
	// repairs and of data may be reordered within a host.
	overtakes = 64

	// maxBackoff bounds the advertised back-off window in round trips, and maxBackoffTime in time.
	maxBackoff     = 32
	maxBackoffTime = 10 * time.Millisecond

	// minWindow is the smallest useful receive window, in packets.
	minWindow = 8

	// farewells is how many leaving statuses a receiver sends to a publisher, farewellEvery the interval.
	farewells     = 3
	farewellEvery = 2 * time.Millisecond

	// tombstonesKept is how many ended and evicted streams of a group are remembered, tombstonesEach how many per
	// publisher id.
	tombstonesKept = 256
	tombstonesEach = 64
	// endedKeep is how long a receiver still answers the publisher of an ended stream.
	endedKeep = 2 * time.Second
)
