package reliable

import "time"

// Limits and time constants of the protocol, with the reason for each. Times
// that the fabric's round trip can give are derived from it; these bound them.
const (
	// startRTT is assumed until a round trip was measured: a LAN's.
	startRTT = 200 * time.Microsecond
	// minRTT bounds a measured round trip from below: shorter ones are noise of the clock, and timers cannot follow them.
	minRTT = 5 * time.Microsecond
	// minRetry is the least time before a NAK is repeated: the scheduling of
	// two processes on a busy host, not the wire, sets it.
	minRetry = 100 * time.Microsecond
	// maxRetry bounds the doubling of a NAK's repetition, so that many tries fit the recovery deadline even at heavy loss,
	// unless the round trip itself is longer; farRTT is the longest that is plausible.
	maxRetry = 20 * time.Millisecond
	farRTT   = 500 * time.Millisecond

	// maxDefer is how long NCFs may put off that a packet is asked for, since it was
	// asked for last or found missing: one that is replayed shall not silence us.
	maxDefer = 100 * time.Millisecond

	// tailDelay is how long after the last packet the first heartbeat follows.
	tailDelay = 100 * time.Microsecond
	// activeHeartbeat is the time between heartbeats while data flows: they carry
	// the round trip and the advertised timers.
	activeHeartbeat = 10 * time.Millisecond
	// slowHeartbeat caps the ladder while a subscriber has not everything, or
	// there is none; quietHeartbeat when all have everything.
	slowHeartbeat  = 100 * time.Millisecond
	quietHeartbeat = time.Second
	// lostHeartbeats is how many advertised heartbeat intervals of silence mean that a publisher is gone, and lostFloor
	// the least time: a process on a busy host may stand still that long.
	lostHeartbeats = 4
	lostFloor      = 2 * time.Second
	// maxHeartbeat bounds the advertised heartbeat interval that is plausible: honest
	// publishers advertise quietHeartbeat at most.
	maxHeartbeat = 2 * quietHeartbeat
	// LongestSilence is for how long a publisher that is there may be silent, at most.
	LongestSilence = lostHeartbeats*maxHeartbeat + slowHeartbeat

	// statusShare is the share of the packet rate that all subscribers' periodic statuses together may take.
	statusShare    = 0.01
	minStatusEvery = 5 * time.Millisecond
	maxStatusEvery = time.Second

	// joinStatuses is how many statuses are sent early, the first again after joinEvery and the others after twice the
	// time each: until one has come through, the publisher does not know that we are there, nor waits for us.
	joinStatuses = 4
	joinEvery    = 10 * time.Millisecond

	// farewellsKept is how many subscribers that have left are remembered.
	farewellsKept = 256

	// formerKept is how many subscribers are remembered that were released and then fell
	// silent, and formerNamed how long heartbeats name them.
	formerKept  = 256
	formerNamed = time.Minute

	// solicitations is how often a silent subscriber is asked before it is released (with SenderConfig.Silence).
	solicitations = 10
	silenceRTTs   = 30

	// repairBurst is what a round trip's repairs may take at first (about ten packets, RFC 6928), joinersBurst of it what
	// those get at once that fetch what was sent before they came: new data waits for it. repairBusy is the least time in
	// which that is given again while data goes out: it waits for it.
	repairBurst  = 16 << 10
	repairBusy   = 2 * time.Millisecond
	joinersBurst = 8 << 10
	// strangersRate is the repair rate that receivers that are not members get from an idle publisher, in bytes a
	// second, and the burst; from others they get strangersPart of the data rate. It is for receivers that lost their
	// first status: members are served without it.
	strangersRate = 16 << 10
	strangersPart = 16

	// announceEvery is the time between bursts of announces while subscribers
	// wait for them; announceBurst the packets of one.
	announceEvery = 500 * time.Microsecond
	announceBurst = 16
	// announceRate is what tellings of all topics take on average, in bytes a second;
	// announceAgain how many more one status draws, in case of loss, before the next.
	announceRate  = 2 << 20
	announceAgain = 1

	// stateCollect is how long a publisher waits for others that ask for state, too.
	stateCollect = 20 * time.Millisecond
	// stateGrace is how long a receiver waits for a publisher to say that it keeps state: it may just be about to.
	stateGrace = 200 * time.Millisecond
	// statePauses is how many recovery deadlines state may pause, and stateTries how many
	// rounds may be of no use to a receiver.
	statePauses = 5
	stateTries  = 5
	// stateFloor is the budget of state, in bytes a second, of a publisher that has sent next
	// to nothing and has no rate limit.
	stateFloor = 8 << 20

	// stateBurst is what of the budget of state may go at once: new data waits for it.
	stateBurst = time.Millisecond

	// nameRetry is how often a publisher is asked again for names while a packet waits for them.
	nameRetry = 20 * time.Millisecond

	// overtakes is how many new packets sent after a repair may arrive before it: trains of repairs and of data change
	// places on a host. A repair that more have overtaken is lost.
	overtakes = 64

	// maxBackoff bounds the advertised back-off window in round trips, and maxBackoffTime in time.
	maxBackoff     = 32
	maxBackoffTime = 10 * time.Millisecond

	// minWindow is the least receive window that is worth having, in packets.
	minWindow = 8

	// farewells is how often a receiver reports that it no longer wants a stream, and farewellEvery the time between.
	farewells     = 3
	farewellEvery = 2 * time.Millisecond

	// tombstonesKept is how many ended and evicted streams of a group are remembered,
	// tombstonesEach how many of one publisher id.
	tombstonesKept = 256
	tombstonesEach = 64
	// endedKeep is how long an ended stream still answers its publisher.
	endedKeep = 2 * time.Second
)
